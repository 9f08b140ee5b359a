"""Patterns of a trajectory, and the detectors that find them event by event."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from toolcrib.caches import BoundedMap
from toolcrib.guidance.actions import REWORDED, ToolCall, normal_error, repeats, topics
from toolcrib.records import TrajectoryPattern
from toolcrib.text import likeness

__all__ = [
    "DETECTORS",
    "ContextDegradation",
    "ContextDegradationDetector",
    "DoomLoop",
    "DoomLoopDetector",
    "PatternDetector",
    "PatternType",
    "ProgressStall",
    "ProgressStallDetector",
    "PromptExecuted",
    "RepeatedError",
    "RepeatedErrorDetector",
    "SearchAsked",
    "SearchLoop",
    "SearchLoopDetector",
    "ToolAvoidance",
    "ToolAvoidanceDetector",
]


class PatternType(StrEnum):
    """Types of the patterns of this module; other detectors may add types."""

    DOOM_LOOP = "doom_loop"
    REPEATED_ERROR = "repeated_error"
    PROGRESS_STALL = "progress_stall"
    TOOL_AVOIDANCE = "tool_avoidance"
    CONTEXT_DEGRADATION = "context_degradation"
    SEARCH_LOOP = "search_loop"


@dataclass(frozen=True, slots=True)
class PromptExecuted:
    """Message to the model; `is_new`: a request, and no question about its state."""

    text: str
    at: float
    number: int
    is_new: bool
    alarms: Mapping[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SearchAsked:
    """Search for tools; `found` are the names of the found tools, if known."""

    text: str
    at: float
    number: int
    found: tuple[str, ...]
    topics: frozenset[str]
    alarms: Mapping[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)


Event: TypeAlias = ToolCall | PromptExecuted | SearchAsked


class PatternDetector(Protocol):
    """Detector of one pattern, in one trajectory."""

    def observe(self, event: Event, calls: Sequence[ToolCall], /) -> TrajectoryPattern | None:
        """Take an event, and return the current pattern, if any.

        `calls` are the window's, with the event, oldest first.
        """
        ...


# -- doom loop -----------------------------------------------------------------------------------

REPETITIONS, CYCLE, LONGEST = 3, 1, 8
"""Repetitions of a loop, and its lowest and highest number of calls."""

PATIENCE = 20
"""Repetitions after which waiting counts as a loop too."""


@dataclass(frozen=True, slots=True)
class DoomLoop(TrajectoryPattern):
    """Repeated calls with the same outcomes; `cycle` has their tools in order."""

    cycle: tuple[str, ...] = ()


def find_loop(
    calls: Sequence[ToolCall], repetitions: int = REPETITIONS, steps: int = CYCLE
) -> DoomLoop | None:
    """Find the loop at the end of the calls, if any.

    Each call must repeat the call one cycle before. The last counted call must show that the loop
    leads nowhere: by a failure, or an answer longer than `done`. Repetition that a user asked for
    does not count. A single successful call needs one repetition more, as does a cycle with a new
    effect each time.
    """
    for length in range(max(1, steps), min(LONGEST, len(calls)) + 1):
        found, new = _alone(calls) if length == 1 else _repeated(calls, length)
        if found < repetitions + new + (length == 1 and calls[-1].success):
            continue
        cycle = calls[-length:]
        if found >= PATIENCE or not _is_polling(cycle):
            names = tuple(call.name for call in cycle)
            said = f"{' → '.join(names)} came {found} times with the same outcome"
            first = calls[max(0, len(calls) - length * found)].at
            sure = certainty(found, repetitions)
            return DoomLoop(PatternType.DOOM_LOOP, sure, said, first, found, names)
    return None


def certainty(count: int, least: int) -> float:
    """Certainty of a count: 0.5 at its least value, 1 at twice that value."""
    return min(1.0, count / (2 * least))


def _alone(calls: Sequence[ToolCall]) -> tuple[int, bool]:
    """Repetitions of the last call, without another outcome or another call between."""
    last, came = calls[-1], 0
    if not _is_evidence(last, alone=True):
        return 0, False
    for each in reversed(calls):
        if each.name != last.name or each.outcome != last.outcome:
            break
        came += each.kind == last.kind and (not each.is_reply or each.number == last.kind)
    return came, False


def _repeated(calls: Sequence[ToolCall], length: int) -> tuple[int, bool]:
    """Repetitions of a cycle, and True if its last repetitions did something new."""
    run = _run(calls, length)
    cycle = calls[-length:]
    if run < length or _run(cycle, 1) == length - 1:
        return 0, False
    told = (at for at in range(length) if _is_evidence(cycle[-1 - at], alone=False))
    found = (run - next(told, run)) // length + 1
    again = calls[-length * (found - 1) :] if found > 1 else ()
    found -= sum(call.is_reply for call in again)
    return found, any(call.changes for call in again)


def _run(calls: Sequence[ToolCall], length: int) -> int:
    """Number of last calls that each repeat the call `length` before.

    For a call that fails each time, looks and repeated acts in between do not matter.
    """
    end = len(calls)
    for at in range(end - 1, length - 1, -1):
        call, earlier = calls[at], calls[at - length]
        if call.kind != earlier.kind and not (
            _both_work(call, earlier) and any(each.is_red for each in calls[end - length :])
        ):
            return end - 1 - at
    return max(0, end - length)


def _both_work(call: ToolCall, other: ToolCall) -> bool:
    """True if two calls of a tool succeeded with the same outcome."""
    if call.name != other.name or call.is_red or other.is_red or not call.success:
        return False
    if call.effect == other.effect == "looks":
        return True
    return call.outcome == other.outcome and _alike(call, other)


def _alike(call: ToolCall, other: ToolCall) -> bool:
    """True if two calls have similar parameters; other numbers make no difference."""
    one, two = ({word for word in each.words if word.isalpha()} for each in (call, other))
    return likeness(one, two) >= REWORDED


def _is_polling(cycle: Sequence[ToolCall]) -> bool:
    """True if a cycle waits, and otherwise has no effect.

    A single call that advances each time, such as scrolling, counts as waiting.
    """
    idle = all(call.waits or call.effect == "looks" or not call.success for call in cycle)
    waits = any(call.success and call.waits for call in cycle)
    return (idle and waits) or (len(cycle) == 1 and cycle[0].is_one_of("steps"))


def _is_evidence(call: ToolCall, *, alone: bool) -> bool:
    """True if a repeated call shows that nothing changes."""
    is_done = call.says_little and (alone or call.effect == "acts")
    return not (call.success and (is_done or call.waits))


class DoomLoopDetector:
    """Detector of cycles of calls with similar arguments and equal outcomes."""

    def __init__(self, repetitions: int = REPETITIONS, steps: int = CYCLE) -> None:
        self._repetitions, self._steps = repetitions, steps

    def observe(self, _event: Event, calls: Sequence[ToolCall], /) -> DoomLoop | None:
        """Look for a loop at the end of the calls."""
        return find_loop(calls, self._repetitions, self._steps)


# -- errors --------------------------------------------------------------------------------------

_MAX_KEPT_ERRORS = 50


@dataclass(frozen=True, slots=True)
class RepeatedError(TrajectoryPattern):
    """Repeated error; `message` is normalised, `tools` have met the error."""

    message: str = ""
    tools: tuple[str, ...] = ()


class RepeatedErrorDetector:
    """Detector of an error that returns while no tool that met it succeeds."""

    def __init__(self, occurrences: int = 3) -> None:
        self._least = occurrences
        self._seen: BoundedMap[str, deque[tuple[str, float]]] = BoundedMap(_MAX_KEPT_ERRORS)
        self._last = ""

    def observe(self, event: Event, _calls: Sequence[ToolCall], /) -> RepeatedError | None:
        """Count the error, or drop the errors of a tool that succeeds."""
        if isinstance(event, PromptExecuted) and event.is_new:
            self._seen.clear()
        elif isinstance(event, ToolCall) and event.success:
            for message, met in self._seen.items():
                rest = (each for each in met if each[0] != event.name)
                self._seen[message] = deque(rest, _MAX_KEPT_ERRORS)
        elif isinstance(event, ToolCall):
            self._last = normal_error(event.error or event.result)
            met = self._seen.get_or_make(self._last, lambda: deque(maxlen=_MAX_KEPT_ERRORS))
            met.append((event.name, event.at))
        message, met = self._last, self._seen.get(self._last) or deque[tuple[str, float]]()
        if len(met) < self._least:
            return None
        said, tools = f"{len(met)} times: {message[:200]}", dict.fromkeys(name for name, _ in met)
        kind, sure = PatternType.REPEATED_ERROR, certainty(len(met), self._least)
        return RepeatedError(kind, sure, said, met[0][1], len(met), message, tuple(tools))


# -- progress ------------------------------------------------------------------------------------

_STALL_WINDOW_CALLS = 10
"""Calls whose outcomes a stall counts."""

MAX_SEARCHES = 20


@dataclass(frozen=True, slots=True)
class ProgressStall(TrajectoryPattern):
    """Lack of progress: `calls` without an act; `failures` and `known` of the last ten."""

    calls: int = 0
    failures: int = 0
    known: int = 0


def told_something(call: ToolCall) -> bool:
    """Default indicator of progress: True for a call with news."""
    return call.is_news


class ProgressStallDetector:
    """Detector of a lack of progress, by the weighted signals of a stall.

    `calls` consecutive calls without progress are a stall too. `indicator` defines progress, and
    a custom indicator overrides the signals.
    """

    def __init__(
        self, calls: int | None = None, *, indicator: Callable[[ToolCall], bool] = told_something
    ) -> None:
        self._least, self._idle, self._since = calls or math.inf, 0, 0
        self.indicator = indicator

    def observe(self, event: Event, calls: Sequence[ToolCall], /) -> ProgressStall | None:
        """Count the call, or restart the count."""
        if isinstance(event, PromptExecuted) and event.is_new:
            self._idle, self._since = 0, event.number
        elif isinstance(event, ToolCall):
            self._idle = 0 if self.indicator(event) else self._idle + 1
            self._since = event.number if event.changes else self._since
        sure = event.alarms.get("stall", 0.5 if self._idle >= self._least else 0.0)
        if not self._idle and self.indicator is not told_something:
            return None
        since = [each for each in calls if each.number >= self._since]
        if not sure or not since:
            return None
        recent = since[-_STALL_WINDOW_CALLS:]
        failed, known = sum(not e.success for e in recent), sum(not e.is_news for e in recent)
        counts = len(since), failed, known
        said = "{} calls without an act; lately {} failed, {} told what was known".format(*counts)
        kind = PatternType.PROGRESS_STALL
        return ProgressStall(kind, sure, said, since[0].at, len(since), *counts)


def unmoved(calls: Sequence[ToolCall]) -> int:
    """Repetitions of the last call with the same answer, each after another act."""
    last, count, acted = calls[-1], 1, False
    if not last.is_open_check or last.is_under_way:
        return 0
    tried: list[ToolCall] = []
    for call in reversed(calls[:-1]):
        if call.kind == last.kind:
            count, acted = count + acted, False
        elif call.name == last.name and call.asked == last.asked:
            break
        if call.does and call.name != last.name and call.kind == call.number:
            acted = acted or all(e.name != call.name or e.asked != call.asked for e in tried)
            tried.append(call)
    return count


# -- search loop ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchLoop(TrajectoryPattern):
    """Repeated search in other words; `queries` in order, `found` are the nearest tools."""

    queries: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


class SearchLoopDetector:
    """Detector of searches, by any tool, that find nothing new while their results go unused.

    The signals are weighted; `searches` is a further minimum of searches since the last act.
    """

    def __init__(self, searches: int = 1) -> None:
        self._least = max(1, searches)
        self._asked: deque[tuple[str, float, tuple[str, ...]]] = deque(maxlen=MAX_SEARCHES)

    def observe(self, event: Event, _calls: Sequence[ToolCall], /) -> SearchLoop | None:
        """Take a search, or restart after an act or a new request."""
        if isinstance(event, SearchAsked):
            self._asked.append((event.text, event.at, event.found))
        elif isinstance(event, ToolCall) and event.is_search:
            text = " ".join(map(str, event.parameters.values()))
            self._asked.append((text, event.at, ()))
        elif event.changes if isinstance(event, ToolCall) else event.is_new:
            self._asked.clear()
        asked, sure = self._asked, event.alarms.get("search_loop", 0.0)
        if not sure or len(asked) < self._least:
            return None
        found = Counter(name for _, _, names in asked for name in names).most_common(3)
        return SearchLoop(
            PatternType.SEARCH_LOOP,
            sure,
            f"{len(asked)} searches for the same, and nothing that they found was of use",
            asked[0][1],
            len(asked),
            tuple(text for text, _, _ in asked),
            tuple(name for name, _ in found),
        )


# -- the rest ------------------------------------------------------------------------------------

UNUSED_CALLS = 4
MAX_PROMPTS = 20
DEGRADED = 3
FORGOTTEN = 5


@dataclass(frozen=True, slots=True)
class ToolAvoidance(TrajectoryPattern):
    """Suggested tools that were not called; `suggested` are their names."""

    suggested: tuple[str, ...] = ()


class ToolAvoidanceDetector:
    """Detector of found tools that stay unused over a number of other calls."""

    def __init__(self, calls: int = UNUSED_CALLS) -> None:
        self._calls = calls
        self._asked: SearchAsked | None = None
        self._others = 0

    def observe(self, event: Event, _calls: Sequence[ToolCall], /) -> ToolAvoidance | None:
        """Count the calls since tools were suggested."""
        if isinstance(event, SearchAsked):
            self._asked, self._others = (event if event.found else None), 0
        elif isinstance(event, ToolCall) and self._asked is not None:
            self._others += 1
            if event.name in self._asked.found:
                self._asked = None
        if self._asked is None or self._others < self._calls:
            return None
        said = f"{self._others} calls, none of a tool that was suggested"
        kind, sure = PatternType.TOOL_AVOIDANCE, certainty(self._others, self._calls)
        asked = self._asked
        return ToolAvoidance(kind, sure, said, asked.at, self._others, asked.found)


@dataclass(frozen=True, slots=True)
class ContextDegradation(TrajectoryPattern):
    """Signs of a lost context: repeated questions, undone acts, repeated look-ups."""

    asks_again: int = 0
    contradicts: int = 0
    forgets: int = 0


class ContextDegradationDetector:
    """Detector of a lost context, by signs in the window."""

    def __init__(self, signs: int = DEGRADED) -> None:
        self._least = signs
        self._said: deque[frozenset[str]] = deque(maxlen=MAX_PROMPTS)
        self._signs: deque[tuple[str, float, int]] = deque(maxlen=MAX_PROMPTS)

    def observe(self, event: Event, calls: Sequence[ToolCall], /) -> ContextDegradation | None:
        """Look for a sign in the event."""
        sign = ""
        if isinstance(event, PromptExecuted):
            about = topics(event.text)
            sign = "asks_again" if about and about in self._said else ""
            self._said.append(about)
        elif isinstance(event, ToolCall):
            sign = _lost(event, calls)
        if sign:
            self._signs.append((sign, event.at, event.number))
        while self._signs and self._signs[0][2] < event.number - 50:
            self._signs.popleft()
        if len(self._signs) < self._least:
            return None
        names = [name for name, _, _ in self._signs]
        counts = [names.count(each) for each in ("asks_again", "contradicts", "forgets")]
        said = "asked again {} times, undid {}, looked up again {}".format(*counts)
        kind, sure = PatternType.CONTEXT_DEGRADATION, certainty(len(names), self._least)
        return ContextDegradation(kind, sure, said, self._signs[0][1], len(names), *counts)


def _lost(call: ToolCall, calls: Sequence[ToolCall]) -> str:
    """Sign in a call: an act done, undone and done again, or a look at known content."""
    same = [each for each in calls[:-1] if each.name == call.name]
    if not same or not call.success or call.waits:
        return ""
    if call.effect != "acts":
        is_late = call.number - same[-1].number >= FORGOTTEN
        return "forgets" if is_late and not call.is_news and repeats(call, same[-1]) else ""
    undone = len(same) > 1 and same[-1].asked != call.asked == same[-2].asked
    return "contradicts" if undone and not call.changes else ""


DETECTORS: tuple[Callable[[], PatternDetector], ...] = (
    DoomLoopDetector,
    SearchLoopDetector,
    RepeatedErrorDetector,
    ProgressStallDetector,
    ToolAvoidanceDetector,
    ContextDegradationDetector,
)
"""Default detectors of a trajectory."""
