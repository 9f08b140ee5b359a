"""Guidance of the gateway: each conversation's trajectory, and a hint behind a result, once."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.types import CallToolResult, TextContent

from toolcrib.gateway.downstream import SHARED
from toolcrib.guidance import (
    ClassifierCooldownTracker,
    GuidanceContext,
    GuidanceInjection,
    GuidanceProviderConfig,
    TrajectoryBuilder,
    collect_guidance,
    default_providers,
)
from toolcrib.guidance.providers import is_due, stuck_tool

__all__ = ["GatewayGuidance"]

logger = logging.getLogger(__name__)

MARK = "[Hint of the toolcrib gateway, not of the tool]"
MAX_CONVERSATIONS = 10_000
MAX_CHARS = 20_000
"""Of a result so much is looked at."""

QUIET = 10
"""Calls and searches after a hint in which no other one comes."""

AGAIN = 30
"""Those after which the same one may come again."""

MAX_HINTS = 3
"""How often each may come in a conversation."""

FindNames = Callable[[str, str], Awaitable[Sequence[str]]]
"""Gives the names of the tools to use in place of one, in the conversation of a key."""


@dataclass(slots=True)
class _Conversation:
    """What one agent did, and what it was told."""

    trajectory: TrajectoryBuilder = field(default_factory=TrajectoryBuilder)
    tracker: ClassifierCooldownTracker = field(default_factory=ClassifierCooldownTracker)
    events: int = 0
    last_hint: int | None = None


class GatewayGuidance:
    """Watches conversations, and appends a hint to a result where the agent is stuck.

    Never an error, and nothing where it is not `enabled`. Clients that cannot be told from one
    another are watched only where there `is_shared` but one.
    """

    def __init__(self, find_names: FindNames, *, enabled: bool, is_shared: bool) -> None:
        self._find_names, self._enabled, self._is_shared = find_names, enabled, is_shared
        self._of: OrderedDict[str, _Conversation] = OrderedDict()

    async def after_call(
        self, key: str, name: str, arguments: Mapping[str, Any], result: ToolResult
    ) -> ToolResult:
        """The result of a call, with a hint where there is one to give."""
        if isinstance(result, InputRequiredToolResult) or not self._watches(key):
            return result
        try:
            said = _text(result)
            conversation = self._conversation(key)
            conversation.trajectory.tool_invoked(
                name=name,
                parameters=arguments,
                success=not result.is_error,
                error=said if result.is_error else None,
                result=said,
            )
            return await self._with_hint(key, conversation, result)
        except Exception:
            logger.warning("guidance of a call failed", exc_info=True)
            return result

    async def after_search(
        self, key: str, asked: str, found: Sequence[str], result: ToolResult
    ) -> ToolResult:
        """The answer to a search, with a hint where there is one to give."""
        if not self._watches(key):
            return result
        try:
            conversation = self._conversation(key)
            conversation.trajectory.search_asked(asked, found=found)
            return await self._with_hint(key, conversation, result)
        except Exception:
            logger.warning("guidance of a search failed", exc_info=True)
            return result

    def leave(self, key: str) -> None:
        """A conversation is over."""
        self._of.pop(key, None)

    def _watches(self, key: str) -> bool:
        return self._enabled and (key != SHARED or self._is_shared)

    def _conversation(self, key: str) -> _Conversation:
        found = self._of.setdefault(key, _Conversation())
        self._of.move_to_end(key)
        if len(self._of) > MAX_CONVERSATIONS:
            self._of.popitem(last=False)
        found.events += 1
        return found

    async def _with_hint(
        self, key: str, conversation: _Conversation, result: ToolResult
    ) -> ToolResult:
        hints = await self._hints(key, conversation)
        if not hints:
            return result
        conversation.last_hint = conversation.events
        told = [TextContent(type="text", text=f"{MARK} {hint.content}") for hint in hints]
        return _with_more(result, told)

    async def _hints(self, key: str, conversation: _Conversation) -> tuple[GuidanceInjection, ...]:
        last, now = conversation.last_hint, conversation.events
        if last is not None and now - last < QUIET:
            return ()
        context = GuidanceContext(conversation.trajectory.build(), turn=now)
        tracker = conversation.tracker
        names: Sequence[str] = ()
        configs = _providers(lambda _tool, _text: names)
        if not any(is_due(each, context, tracker) for each in configs):
            return ()
        if (stuck := stuck_tool(context.trajectory)) is not None:
            names = await self._find_names(stuck.name, key)
        return collect_guidance(configs, context, tracker=tracker, max_injections=1)


def _providers(find: Callable[[str, str], Sequence[str]]) -> list[GuidanceProviderConfig]:
    return [
        GuidanceProviderConfig(each.provider, cooldown_turns=AGAIN, max_fires_per_session=MAX_HINTS)
        for each in default_providers(find)
    ]


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
