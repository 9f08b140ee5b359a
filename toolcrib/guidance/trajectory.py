"""Trajectory: an agent's events, and their analysis."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

from toolcrib.clock import Clock, SystemClock
from toolcrib.guidance.actions import (
    Memory,
    ToolCall,
    make_call,
    normal_error,
    topics,
)
from toolcrib.guidance.detectors import (
    DETECTORS,
    Event,
    PatternDetector,
    ProgressStallDetector,
    PromptExecuted,
    SearchAsked,
    told_something,
)
from toolcrib.guidance.signals import Signals
from toolcrib.records import TrajectoryEvent, TrajectoryPattern

__all__ = ["TrajectoryAnalysis", "TrajectoryBuilder", "analyse"]

logger = logging.getLogger(__name__)

WINDOW = 50
_MAX_COUNTED_NAMES = 1_000
"""Tools, and errors, that have a count of their own; further names are in the totals alone."""

MAX_TEXT_CHARS, MAX_FOUND = 1_000, 100
"""Characters kept of a message or query, and names kept of a search's result."""

NEW_WORDS = 3
"""New words since the last request that make a prompt a new request."""

NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TrajectoryAnalysis:
    """Snapshot of a trajectory; counts cover all events, calls the window.

    `duration` is in seconds, from the first event to the last. `calls` are oldest first. `alarms`
    are the active alarms by weighted `signals`, each with its certainty, 0.5 to 1.
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
    last_text: str = ""
    found: tuple[TrajectoryPattern, ...] = ()
    tools: Mapping[str, int] = field(default_factory=lambda: NONE)
    errors: Mapping[str, int] = field(default_factory=lambda: NONE)
    alarms: Mapping[str, float] = field(default_factory=lambda: NONE)
    signals: Mapping[str, float] = field(default_factory=lambda: NONE, repr=False, compare=False)

    def recent_tool_calls(self, n: int) -> tuple[ToolCall, ...]:
        """Last `n` calls, oldest first; none for `n` of 0 or less."""
        return self.calls[-n:] if n > 0 else ()

    def recent_errors(self, n: int) -> tuple[ToolCall, ...]:
        """Last `n` failed calls, oldest first; none for `n` of 0 or less."""
        return tuple(call for call in self.calls if not call.success)[-n:] if n > 0 else ()

    def tool_frequency(self) -> dict[str, int]:
        """Number of calls by tool."""
        return dict(self.tools)

    def error_frequency(self) -> dict[str, int]:
        """Number of errors by normalised message."""
        return dict(self.errors)

    def patterns(self) -> tuple[TrajectoryPattern, ...]:
        """Current patterns, in the order of the detectors."""
        return self.found

    def pattern(self, kind: str) -> TrajectoryPattern | None:
        """Current pattern of a type, if any."""
        return next((each for each in self.found if each.type == kind), None)

    def has_pattern(self, kind: str) -> bool:
        """True if a pattern of a type is current."""
        return self.pattern(kind) is not None


class TrajectoryBuilder:
    """Builder of a trajectory from single events; keeps `window` calls.

    An event without a time has `clock`'s. Not for several threads at once.
    """

    def __init__(
        self,
        window: int = WINDOW,
        *,
        detectors: Iterable[Callable[[], PatternDetector]] = DETECTORS,
        clock: Clock | None = None,
    ) -> None:
        if window < 1:
            raise ValueError(f"the window is {window}; it must hold at least one call")
        self._clock = clock or SystemClock()
        self._detectors = [make() for make in detectors]
        indicators = (
            each.indicator for each in self._detectors if isinstance(each, ProgressStallDetector)
        )
        self._is_progress = next(indicators, told_something)
        self._signals, self._alarms = Signals(), dict[str, float]()
        self._standing: list[TrajectoryPattern | None] = [None] * len(self._detectors)
        self._memory = Memory(window)
        self._calls = self._memory.calls
        self._tools: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._kinds: Counter[type] = Counter()
        self._started: float | None = None
        self._last = 0.0
        self._text = ""
        self._heard: frozenset[str] = frozenset()
        self._failed = self._in_a_row = self._idle = 0

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
        """Add a call with its result; without `success`, no error means success."""
        at, waited = self._time(at)
        call = make_call(
            name,
            parameters,
            success=success,
            error=error,
            result=result,
            at=at,
            number=self._kinds.total(),
        )
        call = self._memory.add(call, waited)
        self._count(call)
        return self._observed(call)

    def prompt_executed(self, text: str = "", *, at: float | None = None) -> Self:
        """Add a message to the model."""
        at, _ = self._time(at)
        text = text[:MAX_TEXT_CHARS]
        about = topics(text)
        is_new = len(about - self._heard) >= NEW_WORDS
        self._heard = about if is_new else self._heard | about
        self._text = text if is_new or not self._text else self._text
        if text.strip():
            self._memory.hear()
        return self._observed(PromptExecuted(text, at, self._kinds.total(), is_new))

    def search_asked(
        self, text: str, *, found: Sequence[str] = (), at: float | None = None
    ) -> Self:
        """Add a search for tools; `found` are the names of the found tools."""
        at, _ = self._time(at)
        text, names = text[:MAX_TEXT_CHARS], tuple(found[:MAX_FOUND])
        return self._observed(SearchAsked(text, at, self._kinds.total(), names, topics(text)))

    def add(self, event: TrajectoryEvent | Mapping[str, Any]) -> Self:
        """Add an event; without a time it has the last event's."""
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
        """Snapshot of the trajectory."""
        return TrajectoryAnalysis(
            turn_count=self._kinds[PromptExecuted],
            tool_call_count=self._kinds[ToolCall],
            error_count=self._failed,
            consecutive_errors=self._in_a_row,
            calls_without_progress=self._idle,
            unique_tools_used=len(self._tools),
            search_count=self._kinds[SearchAsked],
            duration=self._last - self._started if self._started is not None else 0.0,
            calls=tuple(self._calls),
            last_text=self._text,
            found=tuple(each for each in self._standing if each is not None),
            tools=MappingProxyType(dict(self._tools)),
            errors=MappingProxyType(dict(self._errors)),
            alarms=MappingProxyType(self._alarms),
            signals=MappingProxyType(self._signals.values),
        )

    def _time(self, at: float | None) -> tuple[float, float]:
        """Time of an event, and seconds since the last event; time never goes back."""
        now = self._clock() if at is None else at
        if not math.isfinite(now):
            return self._last, 0.0
        if self._started is None:
            self._started = self._last = now
        waited = max(0.0, now - self._last)
        self._last = max(self._last, now)
        return self._last, waited

    def _count(self, call: ToolCall) -> None:
        _add(self._tools, call.name)
        self._in_a_row = 0 if call.success else self._in_a_row + 1
        if not call.success:
            self._failed += 1
            _add(self._errors, normal_error(call.error or call.result))
        try:
            self._idle = 0 if self._is_progress(call) else self._idle + 1
        except Exception as error:  # noqa: BLE001
            logger.warning("the indicator of progress failed: %s", type(error).__name__)
            self._idle += 1

    def _observed(self, event: Event) -> Self:
        try:
            self._alarms = self._signals.observe(event, self._calls)
        except Exception as error:  # noqa: BLE001
            logger.warning("the signals failed: %s", type(error).__name__)
            self._alarms = {}
        if self._alarms:
            event = replace(event, alarms=self._alarms)
        for place, detector in enumerate(self._detectors):
            try:
                self._standing[place] = detector.observe(event, self._calls)
            except Exception as error:  # noqa: BLE001
                failed = type(detector).__name__, type(error).__name__
                logger.warning("detector %s failed: %s", *failed)
                self._standing[place] = None
        self._kinds[type(event)] += 1
        return self


def _add(counts: Counter[str], name: str) -> None:
    if name in counts or len(counts) < _MAX_COUNTED_NAMES:
        counts[name] += 1


def analyse(events: Iterable[TrajectoryEvent | Mapping[str, Any]]) -> TrajectoryAnalysis:
    """Analyse a whole trajectory."""
    builder = TrajectoryBuilder()
    for event in events:
        builder.add(event)
    return builder.build()
