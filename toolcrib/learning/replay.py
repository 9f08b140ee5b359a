"""Replay: past requests asked again with what other sessions taught, to see whether it helps."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolcrib.learning.lessons import Lesson
from toolcrib.learning.observations import Observation
from toolcrib.records.learning import ServerReplay
from toolcrib.retrieval.calibration import Floats
from toolcrib.retrieval.learned import LearnedTools

__all__ = ["MAX_REPLAYED", "replay"]

MAX_REPLAYED = 2_000
"""The newest observations that are asked again."""

CUT = 10


@dataclass(frozen=True, slots=True)
class _Change:
    """nDCG@10 of one request, without and with a server's lessons."""

    session: tuple[str, str]
    before: float
    after: float


def replay(
    observations: Sequence[Observation], lessons: Sequence[Lesson], servers: Mapping[str, str]
) -> list[ServerReplay]:
    """What each server's lessons alone do to the requests that they could move, by server.

    Each request is asked without what its own session taught. `servers` are those of the tools.
    A session counts once, and no key for more than half. Lessons that make the ranking worse
    in the mean are to stay in shadow.
    """
    by_server: defaultdict[str, dict[str, Lesson]] = defaultdict(dict)
    for lesson in (each for each in lessons if each.is_live):
        by_server[servers[lesson.tool]][lesson.tool] = lesson
    newest = sorted(observations, key=lambda each: each.at)[-MAX_REPLAYED:]
    asked = [each for each in newest if each.tool in servers]
    return [_replayed(server, asked, taught) for server, taught in sorted(by_server.items())]


def _replayed(
    server: str, asked: Sequence[Observation], taught: Mapping[str, Lesson]
) -> ServerReplay:
    changes = [change for each in asked if (change := _change(each, taught)) is not None]
    if not changes:
        return ServerReplay(server, 0, 0, 0.0, 0.0, 1.0, "shadow")
    sessions, weights = _by_session(changes)
    before, after = weights @ sessions
    moved = weights * (sessions[:, 1] - sessions[:, 0])
    return ServerReplay(
        server,
        requests=len(changes),
        sessions=len(sessions),
        before=float(before),
        after=float(after),
        p=_p_value(moved),
        verdict="live" if after >= before else "shadow",
    )


def _change(asked: Observation, taught: Mapping[str, Lesson]) -> _Change | None:
    """What the lessons do to a request; None where none of them is of a tool that it found."""
    known = {
        tool: lesson
        for tool, _ in asked.ranking
        if (found := taught.get(tool)) is not None
        and (lesson := found.without(asked.session)) is not None
    }
    if not known:
        return None
    names = {number: tool for number, (tool, _) in enumerate(asked.ranking)}
    learned = LearnedTools.of(
        {
            number: (known[tool].support, known[tool].vectors)
            for number, tool in names.items()
            if tool in known
        }
    )
    scores = {number: score for number, (_, score) in enumerate(asked.ranking)}
    lifts = learned.lifts(scores, asked.vector)
    after = {number: score + lifts.get(number, 0.0) for number, score in scores.items()}
    wanted = [number for number, tool in names.items() if tool == asked.tool]
    return _Change((asked.by, asked.session), _ndcg(scores, wanted), _ndcg(after, wanted))


def _ndcg(scores: Mapping[int, float], wanted: Sequence[int]) -> float:
    """nDCG@10 of a ranking in which one tool at most is right."""
    order = sorted(scores, key=lambda number: (-scores[number], number))[:CUT]
    return sum(1 / math.log2(order.index(number) + 2) for number in wanted if number in order)


def _by_session(changes: Sequence[_Change]) -> tuple[Floats, Floats]:
    """Means of each session, float [sessions, 2], and what each counts; together 1."""
    grouped: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for change in changes:
        grouped[change.session].append((change.before, change.after))
    means = np.array([np.mean(each, axis=0) for each in grouped.values()])
    keys = [by for by, _ in grouped]
    weights = np.ones(len(keys))
    for key in {key for key in keys if key}:
        own = np.array([by == key for by in keys])
        others = float((~own).sum())
        if others and own.sum() > others:
            weights[own] = others / own.sum()
    return means, weights / weights.sum()


def _p_value(moved: Floats) -> float:
    """Two-sided p of the paired randomisation test of a mean, by its normal limit.

    Under the null hypothesis either sign of a difference is as likely (Fisher 1935).
    """
    spread = math.sqrt(float(np.square(moved).sum()))
    return math.erfc(abs(float(moved.sum())) / spread / math.sqrt(2)) if spread else 1.0
