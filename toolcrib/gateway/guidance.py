"""Guidance of the gateway: each conversation's trajectory, and a hint behind a result, once."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.types import CallToolResult, TextContent

from toolcrib.caches import BoundedMap
from toolcrib.gateway.downstream import MAX_CONVERSATIONS, SHARED
from toolcrib.guidance import GuidanceSession, TrajectoryBuilder

__all__ = ["GatewayGuidance"]

logger = logging.getLogger(__name__)

MARK = "[Hint of the toolcrib gateway, not of the tool]"
MAX_CHARS = 20_000
"""Of a result so much is looked at."""

FindNames = Callable[[str, str], Awaitable[Sequence[str]]]
"""Gives the names of the tools to use in place of one, in the conversation of a key."""


class GatewayGuidance:
    """Watches conversations, and appends a hint to a result where the agent is stuck.

    Never an error, and nothing where it is not `enabled`. Clients that cannot be told from one
    another are watched only where there `is_shared` but one.
    """

    def __init__(self, find_names: FindNames, *, enabled: bool, is_shared: bool) -> None:
        self._find_names, self._enabled, self._is_shared = find_names, enabled, is_shared
        self._of: BoundedMap[str, GuidanceSession] = BoundedMap(MAX_CONVERSATIONS)

    async def after_call(
        self, key: str, name: str, arguments: Mapping[str, Any], result: ToolResult
    ) -> ToolResult:
        """The result of a call, with a hint where there is one to give."""
        if isinstance(result, InputRequiredToolResult):
            return result
        said = _text(result)
        return await self._after(
            key,
            result,
            lambda trajectory: trajectory.tool_invoked(
                name=name,
                parameters=arguments,
                success=not result.is_error,
                error=said if result.is_error else None,
                result=said,
            ),
        )

    async def after_search(
        self, key: str, asked: str, found: Sequence[str], result: ToolResult
    ) -> ToolResult:
        """The answer to a search, with a hint where there is one to give."""
        return await self._after(
            key, result, lambda trajectory: trajectory.search_asked(asked, found=found)
        )

    def leave(self, key: str) -> None:
        """A conversation is over."""
        self._of.pop(key, None)

    async def _after(
        self, key: str, result: ToolResult, record: Callable[[TrajectoryBuilder], object]
    ) -> ToolResult:
        if not self._enabled or (key == SHARED and not self._is_shared):
            return result
        try:
            session = self._of.get_or_make(key, GuidanceSession)
            record(session.trajectory)
            return await self._with_hint(key, session, result)
        except Exception:
            logger.warning("guidance failed", exc_info=True)
            return result

    async def _with_hint(
        self, key: str, session: GuidanceSession, result: ToolResult
    ) -> ToolResult:
        stuck = session.stuck()
        names = () if stuck is None else await self._find_names(stuck.name, key)
        hint = session.hint(lambda _tool, _text: names)
        if hint is None:
            return result
        return _with_more(result, [TextContent(type="text", text=f"{MARK} {hint.content}")])


def _with_more(result: ToolResult, more: Sequence[TextContent]) -> ToolResult:
    """The result with something behind it; one of a server is kept as that server wrote it."""
    update = {"content": [*result.content, *more]}
    written = result.to_mcp_result()
    if isinstance(written, CallToolResult):
        return ToolResult.from_mcp_result(written.model_copy(update=update))
    return result.model_copy(update=update)


def _text(result: ToolResult) -> str:
    """The text of a result, as much of it as is looked at."""
    parts = (part.text[:MAX_CHARS] for part in result.content if isinstance(part, TextContent))
    return "\n".join(parts)[:MAX_CHARS]
