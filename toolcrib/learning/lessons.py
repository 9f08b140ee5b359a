"""Lessons: a tool's examples, chosen from its observations, and their measured effect.

Each session and key has a quota of examples and of their strength, so that no frequent or
dishonest caller decides for all. The effect is measured on past requests, which are ranked again
with the examples of other sessions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

import numpy as np

from toolcrib.clock import DAY_S
from toolcrib.encoders.base import FloatArray
from toolcrib.learning.observations import Observation
from toolcrib.numerics import Floats
from toolcrib.records.reports import ServerReplay
from toolcrib.retrieval.learned import LearnedTools, is_copy, keep_nearest, mix_shares

MAX_EXAMPLES = 20
MAX_EXAMPLES_A_SESSION = MAX_EXAMPLES // 5
MAX_EXAMPLES_A_KEY = MAX_EXAMPLES // 2

HALF_LIFE_DAYS = 90.0
MIN_EXAMPLE_WEIGHT = 1 / 16
"""Lowest weight of an example: reached in a year, sooner if the tool changed."""

CHANGED_TOOL_WEIGHT = 0.5
"""Factor on an observation's weight after the tool's description changed."""

FULL_SUPPORT_OBSERVATIONS = 5.0
"""Fresh observations, each of another session, that reach the full strength."""

MAX_CANDIDATE_OBSERVATIONS = 400
"""Newest observations of a tool, among which its examples are chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Examples of a tool with their weights in (0, 1]."""

    tool: str
    examples: tuple[Observation, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def support(self) -> float:
        """Strength of all examples together, 0 to 1."""
        return _support(zip(self.examples, self.weights, strict=True))

    def support_without(self, session: str | None = None, key: str | None = None) -> float:
        """Strength without a session's and a key's examples; 0 if too few sessions remain."""
        weighted = zip(self.examples, self.weights, strict=True)
        left = {e: weight for e, weight in weighted if e.session != session and e.by != key}
        return _support(left.items()) if _is_live([*left]) else 0.0

    @property
    def is_live(self) -> bool:
        """True after two sessions, or one session without a key."""
        return _is_live(self.examples)

    @property
    def vectors(self) -> dict[str, FloatArray]:
        """Vectors of the examples, float32 [d], by decision."""
        return {each.decision: each.vector for each in self.examples}


def _is_live(examples: Sequence[Observation]) -> bool:
    sessions = {(each.by, each.session) for each in examples}
    return len(sessions) > 1 or any(not key for key, _ in sessions)


def _support(examples: Iterable[tuple[Observation, float]]) -> float:
    """Sum of the weights: one session gives at most a fifth, one key at most half."""
    sessions: defaultdict[tuple[str, str], float] = defaultdict(float)
    for each, weight in examples:
        sessions[each.by, each.session] += weight / FULL_SUPPORT_OBSERVATIONS
    keys: defaultdict[str, float] = defaultdict(float)
    for (by, _), given in sessions.items():
        keys[by] += min(given, 1 / 5)
    return min(1.0, math.fsum(min(given, 1 / 2 if by else 1.0) for by, given in keys.items()))


def make_lessons(
    observations: Iterable[Observation], digests: Mapping[str, str], encoder: str, now: float
) -> list[Lesson]:
    """Lessons of the tools in `digests`, which are those that exist, by id.

    Observations by another encoder, or of too little weight, are no examples.
    """
    by_tool: defaultdict[str, list[Observation]] = defaultdict(list)
    for each in observations:
        if each.tool in digests and each.encoder == encoder:
            by_tool[each.tool].append(each)
    made = (_lesson(t, seen, digests[t], now) for t, seen in sorted(by_tool.items()))
    return [lesson for lesson in made if lesson.examples]


def age_weight(days: float, *, changed: bool) -> float:
    """Weight of an observation by age, 1 when fresh; less if the tool changed."""
    return 0.5 ** (max(0.0, days) / HALF_LIFE_DAYS) * (CHANGED_TOOL_WEIGHT if changed else 1.0)


# -- companions ------------------------------------------------------------------------------------

MAX_LEARNED_COMPANIONS = 4
MIN_COMPANION_SHARE = 0.3
"""Least share of a tool's decisions that also called the companion."""

MAX_DECISION_TOOLS = 20
"""Tools of one decision that are paired."""

KeyWeights: TypeAlias = defaultdict[str, float]
"""Weights of observations or runs by the caller's key."""


def learned_companions(observations: Iterable[Observation], now: float) -> dict[str, list[str]]:
    """Companions of tools by id: called with success in the same decisions, most often first.

    A pair needs two sessions, or two decisions without a key. Decisions decay like observations;
    a key changes a pair's share by at most its own share of all decisions.
    """
    decisions: defaultdict[str, list[Observation]] = defaultdict(list)
    for each in observations:
        if age_weight((now - each.at) / DAY_S, changed=False) >= MIN_EXAMPLE_WEIGHT:
            decisions[each.decision].append(each)
    by_key: KeyWeights = defaultdict(float)
    called: defaultdict[str, float] = defaultdict(float)
    pairs: defaultdict[tuple[str, str], KeyWeights] = defaultdict(lambda: defaultdict(float))
    seen: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for decision, calls in decisions.items():
        by, weight = calls[0].by, age_weight((now - calls[0].at) / DAY_S, changed=False)
        by_key[by] += weight
        for each in calls:
            called[each.tool] += weight
        for pair in permutations([each.tool for each in calls[:MAX_DECISION_TOOLS]], 2):
            pairs[pair][by] += weight
            seen[pair].add((by, calls[0].session) if by else ("", decision))
    whole = math.fsum(by_key.values())
    shares = {key: weight / whole for key, weight in by_key.items() if key}
    found: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for (tool, other), counts in pairs.items():
        share = bounded_share(counts, called[tool], shares)
        if share >= MIN_COMPANION_SHARE and len(seen[tool, other]) > 1:
            found[tool].append((-share, other))
    most = {tool: sorted(pairs)[:MAX_LEARNED_COMPANIONS] for tool, pairs in found.items()}
    return {tool: [other for _, other in pairs] for tool, pairs in most.items()}


def bounded_share(counts: Mapping[str, float], whole: float, shares: Mapping[str, float]) -> float:
    """Sum of the keys' counts as a share of `whole`; each key adds at most its own share."""
    total = sum(counts.values())
    bounds = ((total - counts[key]) / whole + shares[key] for key in counts.keys() & shares.keys())
    return min(total / whole, *bounds, 1.0)


# -- choice of examples ----------------------------------------------------------------------------


def _lesson(tool: str, seen: Sequence[Observation], digest: str, now: float) -> Lesson:
    ordered = sorted(seen, key=lambda each: (-each.at, each.decision))
    newest = ordered[:MAX_CANDIDATE_OBSERVATIONS]
    aged = (age_weight((now - e.at) / DAY_S, changed=e.digest != digest) for e in newest)
    weights = np.fromiter(aged, float)
    chosen = _farthest_first(newest, weights)
    examples = tuple(newest[place] for place in chosen)
    return Lesson(tool, examples, tuple(weights[chosen].tolist()))


def _farthest_first(seen: Sequence[Observation], weights: Floats) -> list[int]:
    """Indexes of the examples: the newest, then always the one least like the chosen ones."""
    if not seen:
        return []
    vectors = np.stack([each.vector for each in seen])
    nearest = np.full(len(seen), -np.inf)
    nearest[weights < MIN_EXAMPLE_WEIGHT] = np.inf
    sessions: Counter[tuple[str, str]] = Counter()
    keys: Counter[str] = Counter()
    chosen: list[int] = []
    while len(chosen) < MAX_EXAMPLES and nearest.min() < np.inf:
        place = int(nearest.argmin())
        each = seen[place]
        session, key = (each.by, each.session), each.by
        nearest[place] = np.inf
        is_key_open = not key or keys[key] < MAX_EXAMPLES_A_KEY
        if sessions[session] < MAX_EXAMPLES_A_SESSION and is_key_open:
            chosen.append(place)
            sessions[session] += 1
            keys[key] += 1
            nearest = np.maximum(nearest, vectors @ each.vector)
    return chosen


# -- replay ----------------------------------------------------------------------------------------

MAX_REPLAYED = 1_000
"""Newest requests that are replayed."""

MAX_JUDGED_KEYS = 20
"""Keys, those with the most requests, that are checked for contradictions."""

NDCG_CUT = 10

MAX_PRIOR_REQUESTS = 100
"""Highest weight of the effect over all servers as a prior, in requests; it never counts more
requests than it was measured on."""

KEY_ERRORS = 2.0
"""A key is left out if its effect is this many standard errors below the median key's."""


@dataclass(frozen=True, slots=True)
class _Change:
    """nDCG@10 of one request, without and with lessons."""

    by: str
    session: str
    before: float
    after: float


_ChangesByKind: TypeAlias = tuple[dict[int, _Change], dict[int, _Change]]
"""Changes by the number of the request: by similar requests, and by copies of it."""


@dataclass(frozen=True, slots=True)
class _Effect:
    """Mean change of nDCG@10, the variance of one request's change, and the number of requests."""

    mean: float
    variance: float
    requests: float

    @property
    def squared_error(self) -> float:
        """Squared standard error of the mean; infinite for one request."""
        return self.variance / (self.requests - 1) if self.requests > 1 else math.inf


def replay(
    observations: Sequence[Observation], lessons: Sequence[Lesson], servers: Mapping[str, str]
) -> list[ServerReplay]:
    """Effect of each server's lessons on the requests that they re-order, beside all lessons.

    `servers` are the tools' servers. A request is ranked without its own session's examples; all
    tools called for it are right. Keys weigh alike, and so do the sessions of a key. All
    observations are of one choice. Copies of a request are judged apart from similar requests, and
    count once among those: that the same words need the same tool proves nothing for other words.
    """
    live = sorted({servers[lesson.tool] for lesson in lessons if lesson.is_live})
    by_server: defaultdict[str, _ChangesByKind] = defaultdict(lambda: ({}, {}))
    texts: set[tuple[str, bytes]] = set()
    for number, request in enumerate(_requests(observations, lessons)):
        for of_copies in (True,) if request.text in texts else (False, True):
            shares = request.shares(of_copies=of_copies)
            for server in {servers[tool] for tool, share in shares.items() if share > 0}:
                others = {tool: share for tool, share in shares.items() if servers[tool] != server}
                by_server[server][of_copies][number] = request.change(others, shares)
        texts.add(request.text)
    priors = [
        _effect([change for changes in by_kind for change in changes.values()])
        for by_kind in zip(*by_server.values(), strict=True)
    ]
    return [_server_replay(server, by_server[server], priors) for server in live]


def contradicting_keys(
    observations: Sequence[Observation], lessons: Sequence[Lesson]
) -> tuple[str, ...]:
    """Keys whose calls contradict the calls of other keys; always less than half of all keys.

    A key's effect has two parts: the effect of its examples on other keys' requests (the median
    over these keys), and the effect of other keys' examples on its own requests.
    """
    counts = Counter({each.decision: each.by for each in observations}.values())
    judged = [key for key, _ in counts.most_common(MAX_JUDGED_KEYS)]
    given: dict[str, list[_Change]] = {key: [] for key in judged}
    taken: dict[str, list[_Change]] = {key: [] for key in judged}
    for request in _requests(observations, lessons) if len(judged) > 1 else ():
        shares = request.shares()
        for key in judged:
            others = request.shares(without_key=key)
            if key == request.by:
                taken[key].append(request.change({}, others))
            elif others != shares:
                given[key].append(request.change(others, shares))
    effects = {key: _key_effect(given[key], taken[key]) for key in judged if given[key]}
    middle = min(0.0, float(np.median([effect for effect, _ in effects.values()] or [0.0])))
    below = {key: effect - middle + KEY_ERRORS * error for key, (effect, error) in effects.items()}
    worst = sorted(below, key=lambda key: below[key])[: (len(counts) - 1) // 2]
    return tuple(key for key in worst if below[key] < 0)


def _key_effect(given: Sequence[_Change], taken: Sequence[_Change]) -> tuple[float, float]:
    """Effect of a key, and its standard error."""
    by_judge: defaultdict[str, list[float]] = defaultdict(list)
    for change in given:
        by_judge[change.by].append(change.after - change.before)
    own, others = _effect(taken), _effect(given)
    # The median, so that one dishonest key does not condemn the honest ones.
    median = float(np.median([np.mean(changes) for changes in by_judge.values()]))
    return median + own.mean, math.sqrt(own.squared_error + others.squared_error)


def _server_replay(server: str, kinds: _ChangesByKind, priors: Sequence[_Effect]) -> ServerReplay:
    """Replay of a server, from its changes by similar requests and by copies."""
    both = [change for changes in kinds for change in changes.values()]
    if not both:
        return ServerReplay(server, 0, 0, 0.0, 0.0, 1.0, 0.0, 0.0, "shadow")
    means, weights = _by_session(both)
    before, after = weights @ means
    strength, copies = (
        _strength(_effect([*changes.values()]), prior)
        for changes, prior in zip(kinds, priors, strict=True)
    )
    p = _p_value(weights * (means[:, 1] - means[:, 0]))
    verdict = "live" if max(strength, copies) > 0 else "shadow"
    requests = len({number for changes in kinds for number in changes})
    ndcg = float(before), float(after)
    return ServerReplay(server, requests, len(means), *ndcg, p, strength, copies, verdict)


def _strength(own: _Effect, prior: _Effect) -> float:
    """Part of an effect beyond chance: 0 if the effect is within its standard error.

    The factor of the positive-part estimator of James and Stein (1961).
    """
    weight = min(MAX_PRIOR_REQUESTS, prior.requests)
    requests = own.requests + weight
    mean = (own.requests * own.mean + weight * prior.mean) / requests
    variance = (own.requests * own.variance + weight * prior.variance) / requests
    return max(0.0, 1 - variance / requests / mean**2) if mean > 0 else 0.0


class _LessonArrays:
    """Lessons as arrays, with the key and the session of each example's request."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        self._lessons = lessons
        self.places = {lesson.tool: place for place, lesson in enumerate(lessons)}
        self.tools = LearnedTools.of(
            {n: ((e.support, e.support), e.vectors) for n, e in enumerate(lessons)}
        )
        requests = {each.decision: each for lesson in lessons for each in lesson.examples}
        self.keys = np.array([each.by for each in requests.values()])
        self.sessions = np.array([each.session for each in requests.values()])
        self.of_session: defaultdict[str, dict[str, Lesson]] = defaultdict(dict)
        for lesson in lessons:
            for each in lesson.examples:
                self.of_session[each.session][lesson.tool] = lesson
        self._strengths: dict[str | None, Floats] = {}

    def strengths(self, without_key: str | None) -> Floats:
        """Strength of each lesson without a key's examples."""
        if without_key not in self._strengths:
            supports = [each.support_without(key=without_key) for each in self._lessons]
            self._strengths[without_key] = np.array(supports)
        return self._strengths[without_key]


class _PastRequest:
    """A past request, the tools that were called for it, and the lessons to rank it with."""

    def __init__(self, calls: Sequence[Observation], lessons: _LessonArrays) -> None:
        first = calls[0]
        self.text = first.by, first.vector.tobytes()
        self.by, self._session, self._ranking = first.by, first.session, first.ranking
        self._right = {call.tool for call in calls}
        self._is_choice = bool(first.choice)
        self._lessons, learned = lessons, lessons.tools
        self._own = lessons.of_session.get(first.session, {})
        self._tools = [tool for tool, _ in first.ranking if tool in lessons.places]
        self._rows = np.array([lessons.places[tool] for tool in self._tools], dtype=np.int64)
        self._kernels = learned.kernels(first.vector) * (lessons.sessions != first.session)

    def shares(
        self, *, without_key: str | None = None, of_copies: bool | None = None
    ) -> dict[str, float]:
        """Lift of each tool without the examples of the request's session, and of a key.

        `of_copies`: by copies of the request alone, or by all others.
        """
        kernels = self._kernels
        if of_copies is not None:
            kernels = kernels * (is_copy(kernels) == of_copies)
        if without_key is not None:
            kernels = kernels * (self._lessons.keys != without_key)
        if self._is_choice:
            kernels = keep_nearest(kernels)
        strengths = self._lessons.strengths(without_key)[self._rows]
        for place, tool in enumerate(self._tools):
            if tool in self._own:
                strengths[place] = self._own[tool].support_without(self._session, without_key)
        lifts = self._lessons.tools.lift_shares(self._rows, kernels, strengths[:, None])
        return dict(zip(self._tools, lifts.tolist(), strict=True))

    def _ndcg(self, shares: Mapping[str, float]) -> float:
        """nDCG@10 of the ranking with these lifts; the called tools are right."""
        scores = [score + (1 - score) * shares.get(tool, 0.0) for tool, score in self._ranking]
        if self._is_choice:
            scores = list(mix_shares(dict(self._ranking), shares).values())
        order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:NDCG_CUT]
        right = (self._ranking[place][0] in self._right for place in order)
        return _gain(right) / _gain([True] * min(len(self._right), NDCG_CUT))

    def change(self, before: Mapping[str, float], after: Mapping[str, float]) -> _Change:
        """Change of this request by other lifts."""
        return _Change(self.by, self._session, self._ndcg(before), self._ndcg(after))


def _requests(
    observations: Sequence[Observation], lessons: Sequence[Lesson]
) -> Iterator[_PastRequest]:
    """The newest requests, to be ranked with the lessons."""
    if not lessons:
        return
    calls: defaultdict[str, list[Observation]] = defaultdict(list)
    for each in sorted(observations, key=lambda each: each.at):
        calls[each.decision].append(each)
    known = _LessonArrays(lessons)
    yield from (_PastRequest(request, known) for request in list(calls.values())[-MAX_REPLAYED:])


def _effect(changes: Sequence[_Change]) -> _Effect:
    """Effect over requests; 0 with no variance if there are no requests."""
    if not changes:
        return _Effect(0.0, 0.0, 1.0)
    means, weights = _by_session(changes)
    moved = means[:, 1] - means[:, 0]
    mean = float(weights @ moved)
    variance = float(weights @ np.square(moved - mean))
    return _Effect(mean, variance, 1 / float(np.square(weights).sum()))


def _by_session(changes: Sequence[_Change]) -> tuple[Floats, Floats]:
    """Means of each session, float [sessions, 2], and their weights, which sum to 1."""
    grouped: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for change in changes:
        grouped[change.by, change.session].append((change.before, change.after))
    means = np.array([np.mean(each, axis=0) for each in grouped.values()])
    keys = Counter(by for by, _ in grouped)
    weights = np.array([1 / keys[by] for by, _ in grouped])
    return means, weights / weights.sum()


def _gain(right: Iterable[bool]) -> float:
    return sum(is_right / math.log2(place) for place, is_right in enumerate(right, start=2))


def _p_value(moved: Floats) -> float:
    """Two-sided p of the paired randomisation test of a mean, by its normal limit.

    Under the null hypothesis either sign of a difference is as likely (Fisher 1935).
    """
    spread = math.sqrt(float(np.square(moved).sum()))
    return math.erfc(abs(float(moved.sum())) / spread / math.sqrt(2)) if spread else 1.0
