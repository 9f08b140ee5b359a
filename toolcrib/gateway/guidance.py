"""Guidance of the gateway: records trajectories of conversations, adds hints to results."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.types import CallToolResult, ContentBlock, TextContent

from toolcrib.caches import BoundedMap
from toolcrib.gateway.downstream import MAX_CONVERSATIONS, SHARED_KEY
from toolcrib.guidance import GuidanceSession, TrajectoryBuilder
from toolcrib.guidance.results import has_failed
from toolcrib.records import Outcome

logger = logging.getLogger(__name__)

GATEWAY_HINT_PREFIX = "[Hint of the toolcrib gateway, not of the tool]"
MAX_RESULT_CHARS = 20_000
"""Length of a result's text in a trajectory."""

FindNames = Callable[[str, str, str], Awaitable[Sequence[str]]]
"""Function that finds tools to use instead of a named tool, for a goal, in a key's conversation."""


class GatewayGuidance:
    """Recorder of conversations that adds a hint to a result if the agent is stuck.

    Raises no error. Clients that share a key are recorded only if `is_shared` says that all
    requests come from one client.
    """

    def __init__(self, find_names: FindNames, *, enabled: bool, is_shared: bool) -> None:
        self._find_names, self._enabled, self._is_shared = find_names, enabled, is_shared
        self._sessions: BoundedMap[str, GuidanceSession] = BoundedMap(MAX_CONVERSATIONS)

    async def after_call(
        self, key: str, name: str, arguments: Mapping[str, Any], result: ToolResult
    ) -> ToolResult:
        """Record a call; return its result, with a hint if the agent is stuck."""
        if isinstance(result, InputRequiredToolResult):
            return result
        text = text_of_content(result.content)
        flags = {"success": False, "error": text} if result.is_error else {}
        record = partial(
            TrajectoryBuilder.tool_invoked, name=name, parameters=arguments, result=text, **flags
        )
        return await self._after(key, result, record)

    async def after_search(
        self, key: str, query: str, names: Sequence[str], result: ToolResult
    ) -> ToolResult:
        """Record a search; return its answer, with a hint if the agent is stuck."""
        record = partial(TrajectoryBuilder.search_asked, text=query, found=names)
        return await self._after(key, result, record)

    def leave(self, key: str) -> None:
        """Forget an ended conversation."""
        self._sessions.pop(key, None)

    async def _after(
        self, key: str, result: ToolResult, record: Callable[[TrajectoryBuilder], object]
    ) -> ToolResult:
        if not self._enabled or (key == SHARED_KEY and not self._is_shared):
            return result
        try:
            session = self._sessions.get_or_make(key, GuidanceSession)
            record(session.trajectory)
            stuck = session.stuck()
            names = () if stuck is None else await self._find_names(stuck.name, stuck.goal, key)
            if (hint := session.hint(lambda _tool, _goal: names)) is None:
                return result
            return with_text(result, f"{GATEWAY_HINT_PREFIX} {hint.content}")
        except Exception:
            logger.warning("guidance failed", exc_info=True)
            return result


def with_text(result: ToolResult, text: str) -> ToolResult:
    """Copy of a result with a text at its end; the server's content is unchanged."""
    update = {"content": [*result.content, TextContent(type="text", text=text)]}
    written = result.to_mcp_result()
    if isinstance(written, CallToolResult):
        return ToolResult.from_mcp_result(written.model_copy(update=update))
    return result.model_copy(update=update)


def text_of_content(content: Sequence[ContentBlock]) -> str:
    """Text of a result's content, cut for the trajectory."""
    parts = (part.text[:MAX_RESULT_CHARS] for part in content if isinstance(part, TextContent))
    return "\n".join(parts)[:MAX_RESULT_CHARS]


def outcome_of(result: ToolResult | CallToolResult) -> Outcome:
    """Outcome of a call, by the flag or the text of its result."""
    success, text = False if result.is_error else None, text_of_content(result.content)
    return "failure" if has_failed(text, success=success, error=None) else "success"
