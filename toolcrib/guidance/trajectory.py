"""Trajectory: the only reader of an agent's events, and a snapshot of the findings."""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from toolcrib.clock import Clock, SystemClock
from toolcrib.guidance.alarms import find_error_streak, find_loop, find_search_loop, find_stall
from toolcrib.guidance.calls import Moment, ToolCall, ToolSearch, make_call
from toolcrib.records import TrajectoryEvent, TrajectoryPattern
from toolcrib.text import tokenise

__all__ = ["TrajectoryAnalysis", "TrajectoryBuilder", "analyse"]

logger = logging.getLogger(__name__)

DEFAULT_WINDOW_CALLS = 30
_MAX_COUNTED_TOOLS = 1_000
"""Tools with a count of their own; calls of further tools are in the total alone."""

MAX_KEPT_TEXT_CHARS, MAX_FOUND_NAMES = 1_000, 100
"""Characters stored of a message or query, and names stored of a search's result."""

_TOOL_WORDS = frozenset({"api", "function", "mcp", "tool"})
"""Words of every search for tools, which set no search apart."""

PAUSE_S = 60.0
"""Seconds between two events after which the world may have changed."""


@dataclass(frozen=True, slots=True)
class TrajectoryAnalysis:
    """Snapshot of a trajectory; counts cover all events, calls the window.

    `duration`: seconds from the first event to the last. `calls`: oldest first; `failed_tools`: all
    tools that failed. `found`: active alarms.
    """

    turn_count: int = 0
    tool_call_count: int = 0
    error_count: int = 0
    consecutive_errors: int = 0
    calls_without_progress: int = 0
    unique_tools_used: int = 0
    search_count: int = 0
    duration: float = 0.0
    calls: tuple[ToolCall, ...] = ()
    failed_tools: frozenset[str] = frozenset()
    found: Mapping[str, TrajectoryPattern] = field(default_factory=dict[str, TrajectoryPattern])

    def recent_tool_calls(self, n: int) -> tuple[ToolCall, ...]:
        """Last `n` calls, oldest first; none for `n` of 0 or less."""
        return self.calls[-n:] if n > 0 else ()

    def recent_errors(self, n: int) -> tuple[ToolCall, ...]:
        """Last `n` failed calls, oldest first; none for `n` of 0 or less."""
        return tuple(call for call in self.calls if not call.success)[-n:] if n > 0 else ()

    def patterns(self) -> Mapping[str, TrajectoryPattern]:
        """Active alarms by type."""
        return self.found


class TrajectoryBuilder:
    """Builder of a trajectory from single events; stores `window` calls.

    `clock` dates events without a time. Not thread-safe.
    """

    def __init__(self, window: int = DEFAULT_WINDOW_CALLS, *, clock: Clock | None = None) -> None:
        if window < 1:
            raise ValueError(f"the window is {window}; it must hold at least one call")
        self._clock = clock or SystemClock()
        self._calls: deque[ToolCall] = deque(maxlen=window)
        self._searches: deque[ToolSearch] = deque(maxlen=window)
        self._known: Counter[str] = Counter()
        self._tools: Counter[str] = Counter()
        self._failed_tools: dict[str, None] = {}
        self._started_at: float | None = None
        self._last = 0.0
        self._goal = ""
        self._events = self._turns = self._tool_calls = self._search_count = 0
        self._failure_count = self._in_a_row = self._idle = 0

    def tool_invoked(
        self,
        *,
        name: str,
        parameters: Mapping[str, Any] | None = None,
        success: bool | None = None,
        error: Any = None,
        result: Any = None,
        at: float | None = None,
    ) -> Self:
        """Add a call with its result; without `success`, its error and its text decide."""
        moment = self._moment(at)
        call = make_call(
            name,
            parameters,
            success=success,
            error=error,
            result=result,
            known=self._known,
            moment=moment,
        )
        if len(self._calls) == self._calls.maxlen:
            self._forget(self._calls[0])
        self._known.update(call.answer)
        self._calls.append(call)
        self._count(call)
        return self

    def prompt_executed(self, text: str = "", *, at: float | None = None) -> Self:
        """Add a message to the model."""
        self._moment(at)
        self._turns, self._events = self._turns + 1, self._events + 1
        self._goal = text.strip()[:MAX_KEPT_TEXT_CHARS] or self._goal
        return self

    def search_asked(
        self, text: str, *, found: Sequence[str] = (), at: float | None = None
    ) -> Self:
        """Add a search for tools; `found`: names of the found tools."""
        text, names = text[:MAX_KEPT_TEXT_CHARS], tuple(found[:MAX_FOUND_NAMES])
        topics = frozenset(tokenise(text)) - _TOOL_WORDS
        self._searches.append(ToolSearch(names, topics, self._moment(at)))
        self._search_count, self._events = self._search_count + 1, self._events + 1
        self._goal = text.strip() or self._goal
        return self

    def on_event(self, event: TrajectoryEvent | Mapping[str, Any]) -> Self:
        """Add an event; without a time it gets the last event's time."""
        if not isinstance(event, TrajectoryEvent):
            event = TrajectoryEvent.model_validate(event)
        at = math.nan if event.at is None else event.at
        if event.type == "search":
            return self.search_asked(event.text, found=event.found, at=at)
        if event.type == "prompt":
            return self.prompt_executed(event.text, at=at)
        if event.type == "tool" and event.name:
            return self.tool_invoked(
                name=event.name,
                parameters=event.parameters,
                success=event.success,
                error=event.error,
                result=event.result,
                at=at,
            )
        return self

    def build(self) -> TrajectoryAnalysis:
        return TrajectoryAnalysis(
            turn_count=self._turns,
            tool_call_count=self._tool_calls,
            error_count=self._failure_count,
            consecutive_errors=self._in_a_row,
            calls_without_progress=self._idle,
            unique_tools_used=len(self._tools),
            search_count=self._search_count,
            duration=self._last - self._started_at if self._started_at is not None else 0.0,
            calls=tuple(self._calls),
            failed_tools=frozenset(self._failed_tools),
            found=self._patterns(),
        )

    def _patterns(self) -> dict[str, TrajectoryPattern]:
        """Alarms that are active after the last event; thoughts do not count."""
        calls = [call for call in self._calls if not call.is_thought]
        found = (
            find_loop(calls),
            find_search_loop(calls, tuple(self._searches)),
            find_error_streak(calls),
            find_stall(calls),
        )
        return {each.type: each for each in found if each is not None}

    def _moment(self, at: float | None) -> Moment:
        """Position of an event; its time is never before the last event's."""
        now, before = self._clock() if at is None else at, self._last
        if math.isfinite(now):
            if self._started_at is None:
                self._started_at = before = now
            self._last = max(before, now)
        has_waited = self._last - before >= PAUSE_S
        return Moment(self._last, self._events, self._turns, self._goal, has_waited)

    def _forget(self, call: ToolCall) -> None:
        """Remove the words of an answer that no other stored answer has."""
        for word in call.answer:
            self._known[word] -= 1
            if not self._known[word]:
                del self._known[word]

    def _count(self, call: ToolCall) -> None:
        self._events, self._tool_calls = self._events + 1, self._tool_calls + 1
        if call.tool_name in self._tools or len(self._tools) < _MAX_COUNTED_TOOLS:
            self._tools[call.tool_name] += 1
            if not call.success:
                self._failed_tools[call.tool_name] = None
        self._failure_count += not call.success
        if call.is_thought:
            return
        if call.success:
            self._searches.clear()
        self._in_a_row = 0 if call.success else self._in_a_row + 1
        self._idle = self._idle + 1 if call.is_idle else 0


def analyse(events: Iterable[TrajectoryEvent | Mapping[str, Any]]) -> TrajectoryAnalysis:
    """Analyse a whole trajectory."""
    builder = TrajectoryBuilder()
    for event in events:
        builder.on_event(event)
    return builder.build()
