"""Guidance session: trajectory and hints of one conversation; clients' messages and hooks.

Nothing here needs a provider's package: messages, items and hooks are dictionaries.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.caches import BoundedMap
from toolcrib.guidance.classifiers import GuidanceContext
from toolcrib.guidance.providers import (
    FindAlternates,
    StuckTool,
    collect_guidance,
    default_providers,
    stuck_tool,
)
from toolcrib.guidance.results import mappings_of, text_of
from toolcrib.guidance.trajectory import TrajectoryBuilder
from toolcrib.records import GuidanceInjection, TrajectoryEvent
from toolcrib.records.codec import object_of
from toolcrib.records.turns import call_arguments

__all__ = ["GuidanceHooks", "GuidanceSession", "events_of", "with_guidance"]

logger = logging.getLogger(__name__)

HINT_COOLDOWN_CALLS = 5
"""Minimum number of calls and searches between two hints."""


class GuidanceSession:
    """Guidance of one conversation: add events to `trajectory`, then get a hint.

    One hint at a time, and none soon after another. Not thread-safe.
    """

    def __init__(self) -> None:
        self.trajectory = TrajectoryBuilder()
        self._last: int | None = None

    def stuck(self) -> StuckTool | None:
        """Tool that the agent is stuck with, if a hint on it is due."""
        context = self._context()
        return stuck_tool(context.trajectory) if self._may_hint(context.turn) else None

    def hint(self, find_alternates: FindAlternates | None = None) -> GuidanceInjection | None:
        """Current hint, mostly none; call once after each event."""
        context = self._context()
        if not self._may_hint(context.turn):
            return None
        made = collect_guidance(default_providers(find_alternates), context, max_injections=1)
        if not made:
            return None
        self._last = context.turn
        return made[0]

    def _context(self) -> GuidanceContext:
        found = self.trajectory.build()
        return GuidanceContext(found, turn=found.tool_call_count + found.search_count)

    def _may_hint(self, now: int) -> bool:
        return self._last is None or now - self._last > HINT_COOLDOWN_CALLS


# -- messages ------------------------------------------------------------------------------------

MAX_SESSIONS = 1_000
_HINT_PREFIX = "Hint, for this turn only: "

_ARGUMENTS = ("arguments", "input", "action", "operation")

Item = Mapping[str, Any]


def events_of(messages: Iterable[Item]) -> tuple[TrajectoryEvent, ...]:
    """Read the trajectory of a conversation, oldest first.

    Reads messages of OpenAI's Chat Completions, items of its Responses, and messages of Anthropic
    with their blocks. Calls without a result are omitted. An unmarked result is an error if its
    text states one. A warning is logged if nothing was found in the messages, or results alone.
    """
    calls: dict[str, tuple[str, Any]] = {}
    found: list[TrajectoryEvent] = []
    unmatched = 0
    given = list(messages)
    for message in mappings_of(given):
        for kind, part in _parts(message):
            if kind == "call":
                calls[str(part[0])] = part[1], part[2]
            elif kind == "said":
                found.append(TrajectoryEvent(type="prompt", text=part))
            elif (call := calls.pop(str(part[0]), None)) is not None:
                found.append(_event(*call, part[1], is_error=part[2]))
            else:
                unmatched += 1
    if unmatched and all(event.type == "prompt" for event in found):
        logger.warning(
            "no call in %d messages, but %d results: another format", len(given), unmatched
        )
    elif given and not found:
        logger.warning("no call, and nothing that a user said, in %d messages", len(given))
    return tuple(found)


def _parts(message: Item) -> Iterator[tuple[str, Any]]:
    """Parse calls (id, name, arguments), results (call's id, result, is error), and text."""
    role, content = message.get("role"), message.get("content")
    yield from _item(message, str(message.get("type")))
    if role in {"tool", "function"}:
        yield "result", (message.get("tool_call_id"), content, False)
    elif role == "user" and isinstance(content, str):
        yield "said", content
    for call in mappings_of(message.get("tool_calls")):
        made = call_arguments(call.get("function") or call.get("custom"))
        yield "call", (call.get("id"), made.get("name"), _arguments(made))
    for made in mappings_of([message.get("function_call")]):
        yield "call", (None, made.get("name"), _arguments(made))
    for block in mappings_of(content) if role in {"user", "assistant"} else ():
        yield from _blocks(block, str(role))


def _item(item: Item, kind: str) -> Iterator[tuple[str, Any]]:
    """Parse an item of OpenAI's Responses, as `_parts`; a call that OpenAI made has its result."""
    call_id, error = item.get("call_id") or item.get("id"), item.get("error")
    if kind.endswith("_call"):
        yield "call", (call_id, item.get("name") or kind.removesuffix("_call"), _arguments(item))
    if kind.endswith("_call_output") or (kind.endswith("_call") and (error or item.get("output"))):
        failed = bool(error) or item.get("status") == "failed"
        yield "result", (call_id, error or item.get("output"), failed)


def _arguments(call: Item) -> Any:
    """Arguments of a call, by the name that its kind has for them."""
    return next((call[key] for key in _ARGUMENTS if key in call), None)


def _blocks(block: Item, role: str) -> Iterator[tuple[str, Any]]:
    """Parse one block of a message's content, as `_parts`; calls of servers have longer types."""
    kind, content = str(block.get("type")), block.get("content")
    if kind.endswith("tool_use"):
        yield "call", (block.get("id"), block.get("name"), block.get("input"))
    elif kind.endswith("tool_result"):
        failed = block.get("is_error") or str(object_of(content).get("type")).endswith("_error")
        yield "result", (block.get("tool_use_id"), content, bool(failed))
    elif role == "user" and kind in {"text", "input_text"}:
        yield "said", str(block.get("text", ""))


def _event(name: Any, arguments: Any, result: Any, *, is_error: bool) -> TrajectoryEvent:
    text = text_of(result)
    return TrajectoryEvent(
        type="tool",
        name=str(name or "?"),
        parameters=call_arguments(arguments),
        success=False if is_error else None,
        error=text if is_error else None,
        result=text,
    )


def with_guidance(
    messages: Sequence[Item], injections: Sequence[GuidanceInjection], *, role: str = "system"
) -> list[Item]:
    """Copy messages with the hints at the end, to send now; do not store the hints.

    The given messages stay unchanged. `role` is `developer` for models that need that role, and
    `user` for Anthropic's models, most of which take no `system` message there.
    """
    if not injections:
        return list(messages)
    text = "\n".join(_HINT_PREFIX + each.content for each in injections)
    return [*messages, {"role": role, "content": text}]


class GuidanceHooks:
    """Hooks of Anthropic's agents, which answer events with `additionalContext`.

    One object serves all sessions. Register it for `UserPromptSubmit`, `PostToolUse` and
    `PostToolUseFailure`; other events have no answer. Never raises or blocks a call. With
    `find_alternates` hints name other tools.
    """

    def __init__(self, find_alternates: FindAlternates | None = None) -> None:
        self._find = find_alternates
        self._sessions: BoundedMap[str, GuidanceSession] = BoundedMap(MAX_SESSIONS)

    async def __call__(
        self, given: Item, _tool_use_id: str | None = None, _context: object = None, /
    ) -> dict[str, Any]:
        """Hook as the SDK calls it."""
        return self.answer(given)

    def answer(self, given: Item) -> dict[str, Any]:
        """Answer to a hook: empty, or with the context to add."""
        try:
            return self._answer(given)
        except Exception:
            logger.warning("guidance of a hook failed", exc_info=True)
            return {}

    def _answer(self, given: Item) -> dict[str, Any]:
        event = given.get("hook_event_name")
        session = self._sessions.get_or_make(str(given.get("session_id", "")), GuidanceSession)
        if event == "UserPromptSubmit":
            session.trajectory.prompt_executed(str(given.get("prompt", "")))
        if event not in {"PostToolUse", "PostToolUseFailure"}:
            return {}
        failed = event == "PostToolUseFailure"
        result = given.get("error" if failed else "tool_response")
        name, arguments = given.get("tool_name"), given.get("tool_input")
        session.trajectory.on_event(_event(name, arguments, result, is_error=failed))
        hint = session.hint(self._find)
        if hint is None:
            return {}
        added = {"hookEventName": event, "additionalContext": _HINT_PREFIX + hint.content}
        return {"hookSpecificOutput": added}
