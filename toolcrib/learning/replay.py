"""Replay: past requests ranked again with other sessions' examples, to measure their effect."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolcrib.learning.lessons import Lesson
from toolcrib.learning.observations import Observation
from toolcrib.numerics import Floats
from toolcrib.records.reports import ServerReplay
from toolcrib.retrieval.learned import LearnedTools

MAX_REPLAYED = 2_000
"""Newest observations that are replayed."""

NDCG_CUT = 10

PRIOR_REQUESTS = 20
"""Requests that the mean effect of all servers counts as, beside a server's own requests."""


@dataclass(frozen=True, slots=True)
class _Change:
    """nDCG@10 of one request, without and with a server's lessons."""

    by: str
    session: str
    before: float
    after: float


def replay(
    observations: Sequence[Observation], lessons: Sequence[Lesson], servers: Mapping[str, str]
) -> list[ServerReplay]:
    """Effect of each server's lessons on the requests that they could move, by server.

    Each request is ranked without its own session's examples. `servers` are the tools' servers.
    Every key counts once, and of a key every session. A server's lessons are live where the
    ranking does not fall in the mean, of its own requests and `PRIOR_REQUESTS` like those
    of all servers, because a few requests alone show little.
    """
    taught = {lesson.tool: lesson for lesson in lessons}
    live = {lesson.tool: lesson for lesson in lessons if lesson.is_live}
    by_server: defaultdict[str, list[_Change]] = defaultdict(list)
    newest = sorted(observations, key=lambda each: each.at)[-MAX_REPLAYED:]
    for asked in newest:
        if asked.tool in servers:
            for server, change in _changes(asked, taught, live, servers).items():
                by_server[server].append(change)
    every = [change for changes in by_server.values() for change in changes]
    prior = _mean(every) if every else (0.0, 0.0)
    return [
        _server_replay(server, by_server[server], prior[1] - prior[0])
        for server in sorted({servers[tool] for tool in live})
    ]


def _server_replay(server: str, changes: Sequence[_Change], prior: float) -> ServerReplay:
    if not changes:
        return ServerReplay(server, 0, 0, 0.0, 0.0, 1.0, "shadow")
    means, weights = _by_session(changes)
    before, after = weights @ means
    known = len(changes)
    expected = (known * (after - before) + PRIOR_REQUESTS * prior) / (known + PRIOR_REQUESTS)
    return ServerReplay(
        server,
        requests=known,
        sessions=len(means),
        before=float(before),
        after=float(after),
        p=_p_value(weights * (means[:, 1] - means[:, 0])),
        verdict="live" if expected >= 0 else "shadow",
    )


def _changes(
    asked: Observation,
    taught: Mapping[str, Lesson],
    live: Mapping[str, Lesson],
    servers: Mapping[str, str],
) -> dict[str, _Change]:
    """Effect of each server's live lessons on a request, by server; none if none applies."""
    known = {
        tool: lesson
        for tool, _ in asked.ranking
        if (found := taught.get(tool)) is not None
        and (lesson := found.without(asked.session)) is not None
    }
    if not known.keys() & live.keys():
        return {}
    places = {tool: place for place, (tool, _) in enumerate(asked.ranking)}
    learned = LearnedTools.of(
        {
            places[tool]: (lesson.support if tool in live else 0.0, lesson.vectors)
            for tool, lesson in known.items()
        }
    )
    scores = {place: score for place, (_, score) in enumerate(asked.ranking)}
    lifts = learned.lifts(scores, asked.vector)
    right = places.get(asked.tool)
    before = _gain(scores, right)
    made: dict[str, _Change] = {}
    for server in {servers[tool] for tool in known.keys() & live.keys()}:
        own = {places[tool] for tool in known if servers[tool] == server}
        after = {p: score + (lifts.get(p, 0.0) if p in own else 0.0) for p, score in scores.items()}
        made[server] = _Change(asked.by, asked.session, before, _gain(after, right))
    return made


def _gain(scores: Mapping[int, float], right: int | None) -> float:
    """nDCG@10 of a ranking with one right tool, given its place; None if it was not found."""
    if right is None:
        return 0.0
    order = sorted(scores, key=lambda place: (-scores[place], place))
    place = order.index(right)
    return 1 / math.log2(place + 2) if place < NDCG_CUT else 0.0


def _mean(changes: Sequence[_Change]) -> Floats:
    means, weights = _by_session(changes)
    return weights @ means


def _by_session(changes: Sequence[_Change]) -> tuple[Floats, Floats]:
    """Means of each session, float [sessions, 2], and their weights, which sum to 1."""
    grouped: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for change in changes:
        grouped[change.by, change.session].append((change.before, change.after))
    means = np.array([np.mean(each, axis=0) for each in grouped.values()])
    keys = Counter(by for by, _ in grouped)
    weights = np.array([1 / keys[by] for by, _ in grouped])
    return means, weights / weights.sum()


def _p_value(moved: Floats) -> float:
    """Two-sided p of the paired randomisation test of a mean, by its normal limit.

    Under the null hypothesis either sign of a difference is as likely (Fisher 1935).
    """
    spread = math.sqrt(float(np.square(moved).sum()))
    return math.erfc(abs(float(moved.sum())) / spread / math.sqrt(2)) if spread else 1.0
