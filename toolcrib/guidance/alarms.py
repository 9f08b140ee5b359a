"""Alarms: four plain rules over an agent's last calls, each with the numbers that it rests on.

A failure streak: three of the last ten calls failed, in a row, with one tool, or with one error.
A loop: one call, answered alike, came three times. A search loop: three searches of one tool
brought nothing. A stall: five calls in a row did nothing; it disturbs healthy agents too, and
gives no hint unless asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from toolcrib.guidance.calls import (
    ToolCall,
    ToolSearch,
    fails_alike,
    repeats,
)
from toolcrib.guidance.results import is_acknowledgement, is_empty, truncation
from toolcrib.records import TrajectoryPattern

__all__ = [
    "DoomLoop",
    "ErrorStreak",
    "PatternType",
    "ProgressStall",
    "SearchLoop",
]

REPETITIONS, FAILURES, SEARCHES, STALLED_CALLS = 3, 3, 3, 5
"""Numbers of calls from which on each alarm stands."""

RECENT_CALLS, LOOP_CALLS = 10, 20
"""Last calls among which failures and searches, and repetitions, are counted."""

MIN_TOPIC_OVERLAP = 0.5
"""Share of the shorter query's words from which on two searches for tools are for the same."""


class PatternType(StrEnum):
    """Types of patterns, one for each alarm."""

    DOOM_LOOP = "doom_loop"
    ERROR_STREAK = "error_streak"
    PROGRESS_STALL = "progress_stall"
    SEARCH_LOOP = "search_loop"


@dataclass(frozen=True, slots=True)
class DoomLoop(TrajectoryPattern):
    """Call repeated with the same answer; `cycle_actions` has the tools of a round in order.

    `part` says how much of the answer came, if the answer says that it was cut.
    """

    cycle_actions: tuple[str, ...] = ()
    part: str = ""

    @property
    def repetitions(self) -> int:
        """Number of rounds."""
        return self.occurrences


@dataclass(frozen=True, slots=True)
class ErrorStreak(TrajectoryPattern):
    """Failures of the last calls; `tools` have failed, `is_one_error` if they failed alike."""

    tools: tuple[str, ...] = ()
    is_one_error: bool = False


@dataclass(frozen=True, slots=True)
class SearchLoop(TrajectoryPattern):
    """Searches without result; `tool_name` is empty for searches for tools.

    `found` are the nearest tools, best first.
    """

    tool_name: str = ""
    found: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgressStall(TrajectoryPattern):
    """Calls in a row that failed, or were answered in known words."""

    @property
    def actions_during_stall(self) -> int:
        """Number of calls without progress."""
        return self.occurrences


def certainty(count: int, least: int) -> float:
    """Certainty of a count: 0.5 at its least value, 1 at twice that value."""
    return min(1.0, count / (2 * least))


def find_loop(calls: Sequence[ToolCall], repetitions: int = REPETITIONS) -> DoomLoop | None:
    """Loop that the last call repeats, if any.

    Calls of other tools may stand between. Repetition after the user spoke or after a pause, and
    the status of work under way, do not count for calls that work.
    """
    if not calls or calls[-1].is_under_way:
        return None
    last, found = calls[-1], list[int]()
    for place, call in enumerate(calls[-LOOP_CALLS:]):
        moment = call.moment
        is_other = last.success and (
            moment.turn != last.moment.turn or moment.has_waited or last.moment.has_waited
        )
        if call is last or (not is_other and repeats(last, call)):
            found.append(place)
    if len(found) < max(2, repetitions):
        return None
    recent, count = calls[-LOOP_CALLS:], len(found)
    cycle = tuple(call.tool_name for call in recent[found[-2] + 1 :])
    part = truncation(last.message) if last.success else ""
    said = f"{last.tool_name} gave the same answer {count} times"
    first = recent[found[0]].moment.at
    kind, sure = PatternType.DOOM_LOOP, certainty(count, repetitions)
    return DoomLoop(kind, sure, said, first, count, cycle, part)


def find_error_streak(calls: Sequence[ToolCall]) -> ErrorStreak | None:
    """Failures among the last calls, if the last call is one of them.

    A success of the failing tool ends the count of its failures.
    """
    if not calls or calls[-1].success:
        return None
    last, backwards = calls[-1], list(reversed(calls[-RECENT_CALLS:]))
    in_a_row = list(takewhile(lambda call: not call.success, backwards))
    since = list(
        takewhile(lambda call: not call.success or call.tool_name != last.tool_name, backwards)
    )
    failed = [call for call in since if not call.success]
    of_one_tool = [call for call in failed if call.tool_name == last.tool_name]
    alike = [call for call in failed if fails_alike(call, last)]
    most = max((alike, of_one_tool, in_a_row), key=len)
    if len(most) < FAILURES:
        return None
    tools = tuple(dict.fromkeys(call.tool_name for call in reversed(most)))
    is_one_error = len(alike) == len(most)
    how = "with one error" if is_one_error else "in a row" if most is in_a_row else "of one tool"
    said = f"{len(most)} of the last {len(backwards)} calls failed {how} ({', '.join(tools[:5])})"
    kind, sure = PatternType.ERROR_STREAK, certainty(len(most), FAILURES)
    return ErrorStreak(kind, sure, said, most[-1].moment.at, len(most), tools, is_one_error)


def find_search_loop(
    calls: Sequence[ToolCall], searches: Sequence[ToolSearch]
) -> SearchLoop | None:
    """Searches that bring nothing: of a tool, or for tools since the last call that worked."""
    if searches and (not calls or searches[-1].moment.number > calls[-1].moment.number):
        return _tool_searches(searches)
    if not calls or not _is_vain_search(calls[-1]):
        return None
    last, recent = calls[-1], calls[-RECENT_CALLS - 1 :]
    vain = [call for call in recent if _is_vain_search(call) and _is_for_the_same(call, last)]
    if len(vain) < SEARCHES:
        return None
    how = "found nothing" if is_empty(last.message) else "brought nothing new"
    said = (
        f"{len(vain)} of the last {len(recent)} calls were searches of {last.tool_name} that {how}"
    )
    kind, sure = PatternType.SEARCH_LOOP, certainty(len(vain), SEARCHES)
    return SearchLoop(kind, sure, said, vain[0].moment.at, len(vain), last.tool_name)


def _is_vain_search(call: ToolCall) -> bool:
    return call.success and call.is_search and call.brings_nothing


def _is_for_the_same(call: ToolCall, other: ToolCall) -> bool:
    """True if two searches of a tool differ in their query alone."""
    is_other = call.places - other.places and other.places - call.places
    return call.tool_name == other.tool_name and not is_other


def _tool_searches(searches: Sequence[ToolSearch]) -> SearchLoop | None:
    last = searches[-1]
    same = [each for each in searches[-RECENT_CALLS:] if _overlap(each, last) >= MIN_TOPIC_OVERLAP]
    if len(same) < SEARCHES:
        return None
    found = Counter(name for each in same for name in each.found).most_common(3)
    said = f"{len(same)} searches for the same tool"
    kind, sure = PatternType.SEARCH_LOOP, certainty(len(same), SEARCHES)
    names = tuple(name for name, _ in found)
    return SearchLoop(kind, sure, said, same[0].moment.at, len(same), "", names)


def _overlap(search: ToolSearch, other: ToolSearch) -> float:
    shorter = min(len(search.topics), len(other.topics))
    return len(search.topics & other.topics) / shorter if shorter else 0.0


def find_stall(calls: Sequence[ToolCall], least: int = STALLED_CALLS) -> ProgressStall | None:
    """Calls at the end that did nothing, if they are enough."""
    idle = list(takewhile(is_idle, reversed(calls)))
    if len(idle) < least:
        return None
    said = f"{len(idle)} calls in a row failed, or brought nothing new"
    kind, sure = PatternType.PROGRESS_STALL, certainty(len(idle), least)
    return ProgressStall(kind, sure, said, idle[-1].moment.at, len(idle))


def is_idle(call: ToolCall) -> bool:
    """True for a call that failed, or was answered in known words."""
    return not call.success or (call.brings_nothing and not is_acknowledgement(call.message))
