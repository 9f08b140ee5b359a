"""Patterns of a trajectory, and the detectors that find them as it goes on."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from toolcrib.guidance.actions import MANNERS, ToolCall, are_alike, normal_error, topics, word_set
from toolcrib.records import TrajectoryPattern

__all__ = [
    "CYCLE",
    "DETECTORS",
    "REPETITIONS",
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
    "find_loop",
    "repeats",
    "told_something",
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
    """Somebody said something; `is_new` unless it was the same as the last time, or nothing."""

    text: str
    at: float
    number: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class SearchAsked:
    """Tools were searched for; `found` are the names of those that came, where that is known."""

    text: str
    at: float
    number: int
    found: tuple[str, ...]
    topics: frozenset[str]


Event: TypeAlias = ToolCall | PromptExecuted | SearchAsked


class PatternDetector(Protocol):
    """Finds one pattern; made anew for each trajectory."""

    def observe(self, event: Event, calls: Sequence[ToolCall], /) -> TrajectoryPattern | None:
        """Take one more event, and say what stands now, if anything.

        `calls` are those since somebody said something new, the event among them, oldest first,
        at most as many as the window holds.
        """
        ...


# -- doom loop -----------------------------------------------------------------------------------

REPETITIONS, CYCLE = 3, 1
"""How often calls must come, and how many they are at least, to be a loop."""

LONGEST = 8
"""Calls that a cycle has at most."""

PATIENCE = 15
"""Repetitions after which also waiting for something is a loop."""

ACKNOWLEDGED = 5
"""An act that is done and done again may be meant: five times more than one that fails."""

TRIES = 4
"""Repetitions from which on a cycle is a loop also where something new was tried each time."""


@dataclass(frozen=True, slots=True)
class DoomLoop(TrajectoryPattern):
    """The same calls again and again with the same outcomes; `cycle` has their tools in order."""

    cycle: tuple[str, ...] = ()


def repeats(call: ToolCall, other: ToolCall) -> bool:
    """Whether a call is another one again: it asks the same, and the same came of it."""
    return call.name == other.name and call.outcome == other.outcome and are_alike(call, other)


def find_loop(
    calls: Sequence[ToolCall], repetitions: int = REPETITIONS, steps: int = CYCLE
) -> tuple[int, int] | None:
    """The length of the cycle that the calls end in, and how often it stands there; None for none.

    One call alone has no other to say that it leads nowhere: where it succeeds it must stand
    there once more, and more often where its result is unknown, or but says that it was done.
    Cycles have at least `steps` calls; one call again and again has one.
    """
    alone = _run(calls, 1)
    if alone and steps <= 1 and alone + 1 >= _needed_alone(calls, alone + 1, repetitions):
        return 1, alone + 1
    for length in range(max(2, steps), min(LONGEST, len(calls) // max(1, repetitions)) + 1):
        if alone >= length - 1:
            continue
        found = _run(calls, length) // length + 1
        if found < max(2, repetitions):
            continue
        waits = found < PATIENCE and _is_polling(calls[-length:])
        if not waits and _leads_nowhere(calls, length, found):
            return length, found
    return None


def _is_polling(cycle: Sequence[ToolCall]) -> bool:
    """Whether a cycle waits for something, and does nothing else."""
    waits = any(call.waits_itself for call in cycle)
    looks = (
        call.effect == "looks" or (waits and (call.waits_itself or not call.success))
        for call in cycle
    )
    return any(call.waits or call.paused for call in cycle) and all(looks)


def _run(calls: Sequence[ToolCall], length: int) -> int:
    """How many calls at the end are each that of `length` before it again."""
    run = 0
    for at in range(len(calls) - 1, length - 1, -1):
        call, earlier = calls[at], calls[at - length]
        if not (repeats(call, earlier) or (length > 1 and _resembles(call, earlier))):
            break
        run += 1
    return run


def _resembles(call: ToolCall, earlier: ToolCall) -> bool:
    """Whether a call is another try at the same thing, with the same outcome."""
    same = call.success and call.is_told and call.outcome == earlier.outcome
    return same and _same_target(call, earlier, partly=True)


def _leads_nowhere(calls: Sequence[ToolCall], length: int, repetitions: int) -> bool:
    """Whether each repetition has a call by which nothing changes: the same again, or a failure.

    A cycle whose calls all ask for others than before goes through a list.
    """
    cycle = range(len(calls) - length, len(calls))
    changed = [at for at in cycle if not repeats(calls[at], calls[at - length])]
    tried = False
    for at in changed:
        # What is always done otherwise may yet help; to and fro does not.
        is_new = at < 2 * length or not repeats(calls[at], calls[at - 2 * length])
        tried = tried or calls[at].effect == "acts"
        if calls[at].effect == "acts" and is_new and repetitions < TRIES:
            return False
    ends = range(len(calls), len(calls) - length * (repetitions - 1), -length)
    return all(
        any(_is_evidence(calls[at], calls[at - length], tried) for at in range(end - length, end))
        for end in ends
    )


def _is_evidence(call: ToolCall, earlier: ToolCall, tried: bool) -> bool:  # noqa: FBT001
    """Whether a call says that nothing changes; where something new was `tried`, in words."""
    if not call.success:
        return True
    same = call.words == earlier.words and not call.is_step
    return same and (call.says_no or not tried)


def _needed_alone(calls: Sequence[ToolCall], found: int, repetitions: int) -> int:
    """How often the last call must stand there to be a loop."""
    last = calls[-1]
    if not last.success:
        return repetitions
    if last.waits or last.is_step:
        return PATIENCE
    if all(call.paused for call in calls[-found + 1 :]):
        return len(calls) + 1
    if last.effect == "acts" and last.is_told and last.says_little:
        return repetitions + ACKNOWLEDGED
    return repetitions + (1 if last.is_told else 2)


class DoomLoopDetector:
    """Finds cycles of calls whose arguments are alike and whose outcomes are the same."""

    def __init__(self, repetitions: int = REPETITIONS, steps: int = CYCLE) -> None:
        self._repetitions, self._steps = repetitions, steps

    def observe(self, _event: Event, calls: Sequence[ToolCall], /) -> DoomLoop | None:
        """Look at how the calls end."""
        found = find_loop(calls, self._repetitions, self._steps)
        if found is None:
            return None
        length, count = found
        cycle = tuple(call.name for call in calls[-length:])
        return DoomLoop(
            PatternType.DOOM_LOOP,
            min(1.0, count / (2 * self._repetitions)),
            f"{' → '.join(cycle)}, {count} times with the same outcome",
            calls[-length * count].at,
            count,
            cycle,
        )


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
        self._occurrences = occurrences
        self._seen: OrderedDict[str, list[tuple[str, float]]] = OrderedDict()
        self._last = ""

    def observe(self, event: Event, _calls: Sequence[ToolCall], /) -> RepeatedError | None:
        """Count the error, or forget those of a tool that works."""
        if isinstance(event, PromptExecuted) and event.is_new:
            self._seen.clear()
        elif isinstance(event, ToolCall) and event.success:
            for met in self._seen.values():
                met[:] = [each for each in met if each[0] != event.name]
        elif isinstance(event, ToolCall):
            self._last = normal_error(event.error or event.result)
            met = self._seen.setdefault(self._last, [])
            met.append((event.name, event.at))
            del met[:-MAX_ERRORS]
            while len(self._seen) > MAX_ERRORS:
                self._seen.popitem(last=False)
        message, met = self._last, self._seen.get(self._last, [])
        if len(met) < self._occurrences:
            return None
        return RepeatedError(
            PatternType.REPEATED_ERROR,
            min(1.0, len(met) / (2 * self._occurrences)),
            f"{len(met)} times: {message[:200]}",
            met[0][1],
            len(met),
            message,
            tuple(dict.fromkeys(name for name, _ in met)),
        )


# -- progress ------------------------------------------------------------------------------------

LOOKS = 6
REVISITS = 2.5
NEAR = 0.5
"""What coming back to the same thing, and seeing something else, counts beside seeing the same."""

LAST_LOOKS = 12

PAGES = word_set(
    "after before continuation cursor next offset page page_number page_token skip token"
)
RANGES = word_set("end end_line from line lines start start_line to until view_range")
AMOUNTS = word_set("count depth k limit max max_results n per_page size top")
"""Parameters that ask for more of a list, for a part of a whole, and for how much."""

HOW = PAGES | RANGES | AMOUNTS | MANNERS


@dataclass(frozen=True, slots=True)
class ProgressStall(TrajectoryPattern):
    """Calls that lead nowhere: `calls` without news, `failures` among them, `revisits`."""

    calls: int = 0
    failures: int = 0
    revisits: int = 0


def told_something(call: ToolCall) -> bool:
    """The progress indicator by default: a call that succeeded, and not with what was known."""
    return call.success and call.is_news and not (call.is_thought or call.found_nothing)


class ProgressStallDetector:
    """Finds calls in a row that fail or tell nothing new, and looking around without an act.

    Looking around is coming back to what was looked at, `revisits` times in at least `looks`
    looks, and doing nothing with it. `indicator` says what progress is.
    """

    def __init__(
        self,
        calls: int = 5,
        *,
        looks: int = LOOKS,
        revisits: float = REVISITS,
        indicator: Callable[[ToolCall], bool] = told_something,
    ) -> None:
        self._calls, self._least_looks, self._least_revisits = calls, looks, revisits
        self.indicator = indicator
        self._stands: ProgressStall | None = None
        self._idle: list[ToolCall] = []
        self._looks: deque[ToolCall] = deque(maxlen=LAST_LOOKS)
        self._seen = 0
        self._since = 0.0
        self._back: deque[tuple[int, float]] = deque(maxlen=LAST_LOOKS)

    def observe(self, event: Event, calls: Sequence[ToolCall], /) -> ProgressStall | None:
        """Count the call, or begin anew."""
        if isinstance(event, PromptExecuted) and event.is_new:
            self._begin()
        if not isinstance(event, ToolCall):
            return self._stands
        self._stands = self._after(event, calls)
        return self._stands

    def _after(self, event: ToolCall, calls: Sequence[ToolCall]) -> ProgressStall | None:
        before = calls[-2] if len(calls) > 1 else None
        if _watches(event, before) or (event.success and (event.waits or event.is_step)):
            return None
        self._count(event, before)
        if len(self._idle) >= self._calls:
            return self._stall(self._idle, len(self._idle), self._idle[0].at)
        recent = sum(how for at, how in self._back if at > self._seen - LAST_LOOKS)
        if self._seen >= self._least_looks and recent >= self._least_revisits:
            return self._stall(self._looks, self._seen, self._since)
        return None

    def _begin(self) -> None:
        self._idle.clear()
        self._looks.clear()
        self._back.clear()
        self._seen, self._stands = 0, None

    def _count(self, call: ToolCall, before: ToolCall | None) -> None:
        is_progress = self.indicator(call)
        if is_progress and call.effect == "acts":
            self._begin()
            return
        if is_progress:
            self._idle.clear()
        else:
            self._idle.append(call)
            del self._idle[:-100]
        if call.success and not (call.is_thought or (call.effect == "acts" and call.says_little)):
            if not call.is_news:
                self._back.append((self._seen, 1.0))
            elif self._comes_back(call, before):
                self._back.append((self._seen, NEAR))
            self._since = self._since if self._seen else call.at
            self._seen += 1
            self._looks.append(call)

    def _comes_back(self, call: ToolCall, before: ToolCall | None) -> bool:
        """Whether a call looks again at what another did, after something else."""
        if before is not None and _same_target(call, before, partly=True):
            return False
        # Asked the same way and answered otherwise, something has changed.
        return any(
            _same_target(call, each) and call.parameters != each.parameters for each in self._looks
        )

    def _stall(self, calls: Iterable[ToolCall], count: int, since: float) -> ProgressStall:
        failures = sum(1 for call in calls if not call.success)
        back = len(self._back)
        said = f"{count} calls, {failures} failed, {back} looked at what was known"
        known = count, failures, back
        return ProgressStall(PatternType.PROGRESS_STALL, 0.8, said, since, count, *known)


def _watches(call: ToolCall, before: ToolCall | None) -> bool:
    """Whether it looks again after a while, or after a call that but waited."""
    return call.paused or (before is not None and before.waits_itself)


def _same_target(call: ToolCall, other: ToolCall, *, partly: bool = False) -> bool:
    """Whether two calls are about the same thing, by their first text.

    What pages on is about more; a part of what was seen whole is not, nor, `partly`, any part.
    """
    if call.name != other.name:
        return False
    given, before = call.parameters, other.parameters
    differing = {key for key in given.keys() | before.keys() if given.get(key) != before.get(key)}
    apart = differing & PAGES or differing & RANGES & before.keys()
    if apart and not partly:
        return False
    if call.effect != "acts" and (differing & given.keys() & before.keys()) - HOW:
        return False
    texts = [key for key, value in given.items() if isinstance(value, str)]
    return texts[0] not in differing if texts else differing <= AMOUNTS


# -- search loop ---------------------------------------------------------------------------------

SEARCHES = 3
UNLINKED = 5
"""Searches in a row after which they need not have a word in common."""

MAX_SEARCHES = 20


@dataclass(frozen=True, slots=True)
class SearchLoop(TrajectoryPattern):
    """The same is searched for in other words; `queries` in order, `found` the nearest tools."""

    queries: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


class SearchLoopDetector:
    """Finds searches for the same thing with no use of what they found between them."""

    def __init__(self, searches: int = SEARCHES) -> None:
        self._least = searches
        self._asked: list[SearchAsked] = []
        self._links = 0
        self._stands = False

    def observe(self, event: Event, _calls: Sequence[ToolCall], /) -> SearchLoop | None:
        """Join a search to those before it, or begin anew where one was of use."""
        if isinstance(event, SearchAsked):
            is_linked = any(_linked(event, each) for each in self._asked)
            self._links += is_linked
            self._asked.append(event)
            del self._asked[:-MAX_SEARCHES]
            count = len(self._asked)
            self._stands = count >= self._least and (
                is_linked or (self._links > 0 and count > self._least) or count >= UNLINKED
            )
        elif event.is_new if isinstance(event, PromptExecuted) else self._is_use(event):
            self._asked.clear()
            self._links, self._stands = 0, False
        return self._loop() if self._stands else None

    def _is_use(self, call: ToolCall) -> bool:
        if not call.success or not self._asked or call.is_thought or call.is_word:
            return False
        if call.effect == "acts" or any(call.name in each.found for each in self._asked):
            return True
        return bool(topics(call.name) & self._asked[-1].topics)

    def _loop(self) -> SearchLoop:
        asked = self._asked
        found = Counter(name for each in asked for name in each.found).most_common(3)
        return SearchLoop(
            PatternType.SEARCH_LOOP,
            min(1.0, len(asked) / (2 * self._least)),
            f"{len(asked)} searches for the same, and nothing that they found was of use",
            asked[0].at,
            len(asked),
            tuple(each.text for each in asked),
            tuple(name for name, _ in found),
        )


def _linked(one: SearchAsked, other: SearchAsked) -> bool:
    """Whether two searches are for the same: by what they found, else by their words."""
    if one.found and other.found:
        both = len(set(one.found) & set(other.found))
        return 2 * both >= min(len(one.found), len(other.found))
    return bool(one.topics & other.topics)


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
        confidence = min(1.0, self._others / (2 * self._calls))
        type_, found = PatternType.TOOL_AVOIDANCE, self._asked.found
        return ToolAvoidance(type_, confidence, said, self._asked.at, self._others, found)


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
        confidence, first = min(1.0, len(names) / (2 * self._least)), self._signs[0][1]
        type_ = PatternType.CONTEXT_DEGRADATION
        return ContextDegradation(type_, confidence, said, first, len(names), *counts)


def _lost(call: ToolCall, calls: Sequence[ToolCall]) -> str:
    """The sign of a call: an act done, undone and done again; or a look at what was known."""
    same = [each for each in calls[:-1] if each.name == call.name]
    if not call.success or call.waits or call.is_step or not same:
        return ""
    if call.effect == "looks":
        last = same[-1]
        is_late = call.number - last.number >= FORGOTTEN
        return "forgets" if is_late and repeats(call, last) else ""
    target = [each for each in same if _same_target(call, each)]
    undone = len(target) > 1 and target[-1].words != call.words == target[-2].words
    return "contradicts" if undone else ""


DETECTORS: tuple[Callable[[], PatternDetector], ...] = (
    DoomLoopDetector,
    SearchLoopDetector,
    RepeatedErrorDetector,
    ProgressStallDetector,
    ToolAvoidanceDetector,
    ContextDegradationDetector,
)
"""What a trajectory is looked at with unless it is told otherwise."""
