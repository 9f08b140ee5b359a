"""Patterns of a trajectory, and the detectors that find them as it goes on."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from toolcrib.caches import BoundedMap
from toolcrib.guidance.actions import (
    REWORDED,
    ToolCall,
    likeness,
    normal_error,
    repeats,
    topics,
)
from toolcrib.records import TrajectoryPattern

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
    """The types of the patterns that are known here; a detector may give another."""

    DOOM_LOOP = "doom_loop"
    REPEATED_ERROR = "repeated_error"
    PROGRESS_STALL = "progress_stall"
    TOOL_AVOIDANCE = "tool_avoidance"
    CONTEXT_DEGRADATION = "context_degradation"
    SEARCH_LOOP = "search_loop"


@dataclass(frozen=True, slots=True)
class PromptExecuted:
    """Somebody said something; `is_new`: they asked for something, and not just how it goes."""

    text: str
    at: float
    number: int
    is_new: bool
    alarms: Mapping[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SearchAsked:
    """Tools were searched for; `found` are the names of those that came, where that is known."""

    text: str
    at: float
    number: int
    found: tuple[str, ...]
    topics: frozenset[str]
    alarms: Mapping[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)


Event: TypeAlias = ToolCall | PromptExecuted | SearchAsked


class PatternDetector(Protocol):
    """Finds one pattern; made anew for each trajectory."""

    def observe(self, event: Event, calls: Sequence[ToolCall], /) -> TrajectoryPattern | None:
        """Take one more event, and say what stands now, if anything.

        `calls` are those of the window, the event among them, oldest first.
        """
        ...


# -- doom loop -----------------------------------------------------------------------------------

REPETITIONS, CYCLE, LONGEST = 3, 1, 8
"""How often calls must come, and how many they are at least and at most, to be a loop."""

PATIENCE = 20
"""Repetitions after which also waiting for something is a loop."""


@dataclass(frozen=True, slots=True)
class DoomLoop(TrajectoryPattern):
    """The same calls again and again with the same outcomes; `cycle` has their tools in order."""

    cycle: tuple[str, ...] = ()


def find_loop(
    calls: Sequence[ToolCall], repetitions: int = REPETITIONS, steps: int = CYCLE
) -> DoomLoop | None:
    """The loop that the calls end in, if any.

    Each call must repeat the one a cycle before, and what is counted ends with a call that says
    that it leads nowhere: that fails, or is answered with more than `done`. A repetition that
    somebody asked for does not count. One call alone that succeeds must come once more, and so
    must a cycle that does something new each time.
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
    """How sure a count of at least so many makes: half at the least, and full at twice that."""
    return min(1.0, count / (2 * least))


def _alone(calls: Sequence[ToolCall]) -> tuple[int, bool]:
    """How often the last call came while its tool had no other outcome, and nothing else came."""
    last, came = calls[-1], 0
    if not _is_evidence(last, alone=True):
        return 0, False
    for each in reversed(calls):
        if each.name != last.name or each.outcome != last.outcome:
            break
        came += each.kind == last.kind and (not each.is_reply or each.number == last.kind)
    return came, False


def _repeated(calls: Sequence[ToolCall], length: int) -> tuple[int, bool]:
    """How often a cycle came, and whether it did something new at its last comings."""
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
    """How many calls at the end are each that of `length` before it again.

    Where a call fails each time, it does not matter what was looked at in between, or done with
    the same outcome.
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
    """Whether two calls of a tool worked, and what they did had the same outcome."""
    if call.name != other.name or call.is_red or other.is_red or not call.success:
        return False
    if call.effect == other.effect == "looks":
        return True
    return call.outcome == other.outcome and _alike(call, other)


def _alike(call: ToolCall, other: ToolCall) -> bool:
    """Whether two calls ask for much the same; other numbers make no difference."""
    one, two = ({word for word in each.words if word.isalpha()} for each in (call, other))
    return likeness(one, two) >= REWORDED


def _is_polling(cycle: Sequence[ToolCall]) -> bool:
    """Whether a cycle waits for something, and does nothing else that works.

    One call that leads on each time, as scrolling does, is taken for such.
    """
    idle = all(call.waits or call.effect == "looks" or not call.success for call in cycle)
    waits = any(call.success and call.waits for call in cycle)
    return (idle and waits) or (len(cycle) == 1 and cycle[0].is_one_of("steps"))


def _is_evidence(call: ToolCall, *, alone: bool) -> bool:
    """Whether a call, the same again, says that nothing changes."""
    is_done = call.says_little and (alone or call.effect == "acts")
    return not (call.success and (is_done or call.waits))


class DoomLoopDetector:
    """Finds cycles of calls whose arguments are alike and whose outcomes are the same."""

    def __init__(self, repetitions: int = REPETITIONS, steps: int = CYCLE) -> None:
        self._repetitions, self._steps = repetitions, steps

    def observe(self, _event: Event, calls: Sequence[ToolCall], /) -> DoomLoop | None:
        """Look at how the calls end."""
        return find_loop(calls, self._repetitions, self._steps)


# -- errors --------------------------------------------------------------------------------------

MAX_ERRORS = 50


@dataclass(frozen=True, slots=True)
class RepeatedError(TrajectoryPattern):
    """The same error again and again; `message` without what differs, `tools` that met it."""

    message: str = ""
    tools: tuple[str, ...] = ()


class RepeatedErrorDetector:
    """Finds an error that comes back while no tool that met it succeeds."""

    def __init__(self, occurrences: int = 3) -> None:
        self._least = occurrences
        self._seen: BoundedMap[str, deque[tuple[str, float]]] = BoundedMap(MAX_ERRORS)
        self._last = ""

    def observe(self, event: Event, _calls: Sequence[ToolCall], /) -> RepeatedError | None:
        """Count the error, or forget those of a tool that works."""
        if isinstance(event, PromptExecuted) and event.is_new:
            self._seen.clear()
        elif isinstance(event, ToolCall) and event.success:
            for message, met in self._seen.items():
                rest = (each for each in met if each[0] != event.name)
                self._seen[message] = deque(rest, MAX_ERRORS)
        elif isinstance(event, ToolCall):
            self._last = normal_error(event.error or event.result)
            met = self._seen.get_or_make(self._last, lambda: deque(maxlen=MAX_ERRORS))
            met.append((event.name, event.at))
        message, met = self._last, self._seen.get(self._last) or deque[tuple[str, float]]()
        if len(met) < self._least:
            return None
        said, tools = f"{len(met)} times: {message[:200]}", dict.fromkeys(name for name, _ in met)
        kind, sure = PatternType.REPEATED_ERROR, certainty(len(met), self._least)
        return RepeatedError(kind, sure, said, met[0][1], len(met), message, tuple(tools))


# -- progress ------------------------------------------------------------------------------------

RECENT = 10
"""Calls of which a stall says what became of them."""

MAX_SEARCHES = 20


@dataclass(frozen=True, slots=True)
class ProgressStall(TrajectoryPattern):
    """Calls that lead nowhere: `calls` without an act; `failures` and `known` of the last ten."""

    calls: int = 0
    failures: int = 0
    known: int = 0


def told_something(call: ToolCall) -> bool:
    """The progress indicator by default: whether a call told or did what was not known."""
    return call.is_news


class ProgressStallDetector:
    """Finds that the work does not move: by the signals that are weighed for a stall.

    With `calls`, so many in a row without progress are one too; `indicator` says what progress is,
    and one of your own has the last word on a call.
    """

    def __init__(
        self, calls: int | None = None, *, indicator: Callable[[ToolCall], bool] = told_something
    ) -> None:
        self._least, self._idle, self._since = calls or math.inf, 0, 0
        self.indicator = indicator

    def observe(self, event: Event, calls: Sequence[ToolCall], /) -> ProgressStall | None:
        """Count the call, or begin anew."""
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
        recent = since[-RECENT:]
        failed, known = sum(not e.success for e in recent), sum(not e.is_news for e in recent)
        counts = len(since), failed, known
        said = "{} calls without an act; lately {} failed, {} told what was known".format(*counts)
        kind = PatternType.PROGRESS_STALL
        return ProgressStall(kind, sure, said, since[0].at, len(since), *counts)


def unmoved(calls: Sequence[ToolCall]) -> int:
    """How often the last call came with the same answer, each time after another act."""
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
    """The same is searched for in other words; `queries` in order, `found` the nearest tools."""

    queries: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


class SearchLoopDetector:
    """Finds searches for tools, and by any tool, that find nothing new, with no use of what was.

    The signals are weighed; with `searches`, so many there must be since the last act besides.
    """

    def __init__(self, searches: int = 1) -> None:
        self._least = max(1, searches)
        self._asked: deque[tuple[str, float, tuple[str, ...]]] = deque(maxlen=MAX_SEARCHES)

    def observe(self, event: Event, _calls: Sequence[ToolCall], /) -> SearchLoop | None:
        """Take a search, or begin anew after an act and with a new request."""
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
    """Tools were suggested and none of them was called; `suggested` are their names."""

    suggested: tuple[str, ...] = ()


class ToolAvoidanceDetector:
    """Finds that what a search found stays unused, over so many other calls."""

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
    """Signs that what was said is lost: it is asked again, done and undone, looked up again."""

    asks_again: int = 0
    contradicts: int = 0
    forgets: int = 0


class ContextDegradationDetector:
    """Counts signs that an agent lost its context, over the window."""

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
    """The sign of a call: an act done, undone and done again; or a look at what was known."""
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
"""What a trajectory is looked at with unless it is told otherwise."""
