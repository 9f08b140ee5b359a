"""Alarms: four plain rules over an agent's last calls, each with the numbers behind it.

A failure streak: three of the last ten calls failed, in a row, with one tool, or with one error. A
loop: one call got the same answer three times. A search loop: three searches with one tool returned
nothing new. A stall: five calls in a row failed or returned nothing new; healthy agents stall too,
so it gives no hint by default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from toolcrib.guidance.calls import ToolCall, ToolSearch, fails_alike, is_near_request, repeats
from toolcrib.guidance.results import is_empty, truncation
from toolcrib.records import TrajectoryPattern

__all__ = ["DoomLoop", "ErrorStreak", "PatternType", "ProgressStall", "SearchLoop"]

MIN_REPETITIONS, MIN_FAILURES, MIN_SEARCHES, MIN_STALLED_CALLS = 3, 3, 3, 5
"""Minimum number of calls for each alarm."""

RECENT_CALLS, LOOP_CALLS = 10, 20
"""Last calls in which failures and searches, and repetitions, are counted."""

MIN_TOPIC_OVERLAP = 0.5
"""Share of the shorter query's words from which two searches for tools count as equal."""


class PatternType(StrEnum):
    """Types of patterns, one for each alarm."""

    DOOM_LOOP = "doom_loop"
    ERROR_STREAK = "error_streak"
    PROGRESS_STALL = "progress_stall"
    SEARCH_LOOP = "search_loop"


@dataclass(frozen=True, slots=True)
class DoomLoop(TrajectoryPattern):
    """Call repeated with the same answer; `cycle_actions`: the tools of a round in order.

    `part`: the part of the answer that was returned, if the answer says that it was cut.
    """

    cycle_actions: tuple[str, ...] = ()
    part: str = ""

    @property
    def repetitions(self) -> int:
        """Number of rounds."""
        return self.occurrences


@dataclass(frozen=True, slots=True)
class ErrorStreak(TrajectoryPattern):
    """Failures of the last calls; `tools` failed, with the same error if `is_one_error`."""

    tools: tuple[str, ...] = ()
    is_one_error: bool = False


@dataclass(frozen=True, slots=True)
class SearchLoop(TrajectoryPattern):
    """Searches without result; `tool_name` is empty for searches for tools.

    `found`: the nearest tools, best first; `part`: as in `DoomLoop`.
    """

    tool_name: str = ""
    found: tuple[str, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class ProgressStall(TrajectoryPattern):
    """Consecutive calls that failed, or returned nothing new."""

    @property
    def actions_during_stall(self) -> int:
        """Number of calls without progress."""
        return self.occurrences


def certainty(count: int, least: int) -> float:
    """Certainty of a count: 0.5 at its minimum, 1 at twice the minimum."""
    return min(1.0, count / (2 * least))


def find_loop(calls: Sequence[ToolCall], repetitions: int = MIN_REPETITIONS) -> DoomLoop | None:
    """Loop that the last call repeats, if any.

    Calls of other tools may come between. Two exceptions for calls that work: repetition after a
    message of the user or a pause, and the status of running work.
    """
    if not calls or calls[-1].is_under_way:
        return None
    last, recent = calls[-1], calls[-LOOP_CALLS:]
    found = [at for at, call in enumerate(recent) if call is last or _is_again(last, call)]
    if len(found) < max(2, repetitions):
        return None
    count, first = len(found), recent[found[0]].moment.at
    cycle = tuple(call.tool_name for call in recent[found[-2] + 1 :])
    part = truncation(last.message) if last.success else ""
    did = "gave the same answer" if last.success else "failed with one error"
    said = f"{last.tool_name} {did} {count} times"
    kind, sure = PatternType.DOOM_LOOP, certainty(count, repetitions)
    return DoomLoop(kind, sure, said, first, count, cycle, part)


def _is_again(call: ToolCall, other: ToolCall) -> bool:
    one, two = call.moment, other.moment
    is_apart = one.turn != two.turn or one.has_waited or two.has_waited
    return not (call.success and is_apart) and repeats(call, other)


def find_error_streak(calls: Sequence[ToolCall]) -> ErrorStreak | None:
    """Failures among the last calls, if the last call failed.

    A success of the failing tool resets its count. For a tool that runs programs, only a success of
    nearly the same program resets the count of one error.
    """
    if not calls or calls[-1].success:
        return None
    last, backwards = calls[-1], list(reversed(calls[-RECENT_CALLS:]))
    in_a_row = list(takewhile(lambda call: not call.success, backwards))
    since = takewhile(
        lambda call: not (call.success and call.tool_name == last.tool_name), backwards
    )
    failed = [call for call in since if not call.success]
    of_one_tool = [call for call in failed if call.tool_name == last.tool_name]
    candidates = failed
    if last.is_program:
        near = (call for call in backwards if is_near_request(call, last))
        candidates = list(takewhile(lambda call: not call.success, near))
    alike = [call for call in candidates if fails_alike(call, last)]
    most = max((alike, of_one_tool, in_a_row), key=len)
    if len(most) < MIN_FAILURES:
        return None
    tools = tuple(dict.fromkeys(call.tool_name for call in reversed(most)))
    is_one_error = len(alike) == len(most)
    how = "with one error" if is_one_error else "in a row" if most is in_a_row else "with one tool"
    said = f"{len(most)} of the last {len(backwards)} calls failed {how} ({', '.join(tools[:5])})"
    kind, sure = PatternType.ERROR_STREAK, certainty(len(most), MIN_FAILURES)
    return ErrorStreak(kind, sure, said, most[-1].moment.at, len(most), tools, is_one_error)


def find_search_loop(
    calls: Sequence[ToolCall], searches: Sequence[ToolSearch]
) -> SearchLoop | None:
    """Searches without new results: with a tool, or for tools since the last successful call.

    Searches with a tool are equal if only their query differs.
    """
    if searches and (not calls or searches[-1].moment.number > calls[-1].moment.number):
        return _tool_searches(searches)
    if not calls or not calls[-1].is_vain_search:
        return None
    last, recent = calls[-1], calls[-RECENT_CALLS - 1 :]
    vain = [
        call
        for call in recent
        if call.is_vain_search
        and call.tool_name == last.tool_name
        and (call.places <= last.places or last.places <= call.places)
    ]
    if len(vain) < MIN_SEARCHES:
        return None
    how = "found nothing" if is_empty(last.message) else "returned nothing new"
    said = f"{len(vain)} of the last {len(recent)} calls searched with {last.tool_name} and {how}"
    kind, sure = PatternType.SEARCH_LOOP, certainty(len(vain), MIN_SEARCHES)
    first, part = vain[0].moment.at, truncation(last.message)
    return SearchLoop(kind, sure, said, first, len(vain), last.tool_name, part=part)


def _tool_searches(searches: Sequence[ToolSearch]) -> SearchLoop | None:
    last = searches[-1]
    same = [each for each in searches[-RECENT_CALLS:] if _overlap(each, last) >= MIN_TOPIC_OVERLAP]
    if len(same) < MIN_SEARCHES:
        return None
    found = Counter(name for each in same for name in each.found).most_common(3)
    names = tuple(name for name, _ in found)
    kind, sure = PatternType.SEARCH_LOOP, certainty(len(same), MIN_SEARCHES)
    said = f"{len(same)} searches for the same tool"
    return SearchLoop(kind, sure, said, same[0].moment.at, len(same), "", names)


def _overlap(search: ToolSearch, other: ToolSearch) -> float:
    shorter = min(len(search.topics), len(other.topics))
    return len(search.topics & other.topics) / shorter if shorter else 0.0


def find_stall(calls: Sequence[ToolCall]) -> ProgressStall | None:
    """Calls at the end without progress, if they are enough."""
    idle = list(takewhile(lambda call: call.is_idle, reversed(calls)))
    if len(idle) < MIN_STALLED_CALLS:
        return None
    said = f"{len(idle)} calls in a row failed, or returned nothing new"
    kind, sure = PatternType.PROGRESS_STALL, certainty(len(idle), MIN_STALLED_CALLS)
    return ProgressStall(kind, sure, said, idle[-1].moment.at, len(idle))
