"""Fusion of the legs' scores into one score for each candidate, and the order of ties.

A convex combination of normalised scores, unless the weights set reciprocal rank fusion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field

from toolcrib.errors import SettingsError
from toolcrib.records.codec import settings_section


class LegScores(NamedTuple):
    """Scores of one candidate by leg; a tuple for speed, as a query makes a hundred.

    `dense`, `clauses`, `examples` and `anti_patterns` are cosines in [-1, 1]. `clauses`: of the
    query's best clause, None for a query of one clause; `by_clause`: of each. `examples` and
    `anti_patterns` are None for a tool without them. `lexical`: BM25, >= 0. `head`:
    log-probability among the candidates, <= 0; `odds`: score of a head over examples. Both are None
    without a head.
    """

    dense: float
    lexical: float = 0.0
    examples: float | None = None
    anti_patterns: float | None = None
    head: float | None = None
    clauses: float | None = None
    odds: float | None = None
    by_clause: tuple[float, ...] = ()


CLAUSE_GAIN, MAX_CLAUSE_PICKS = 0.5, 9
"""Score gain for each unit of cosine to a clause above the tools before; number of tools picked
after the best one."""


@settings_section
class FusionWeights:
    """Weights of the legs; defaults fitted on development splits (docs/explanation/models.md).

    `dense` and `lexical`: convex weights, both >= 0. `bm25_scale`: BM25 score at which the lexical
    leg has 63 % of its weight. `clauses`: share of the way from the cosine of the whole query to
    that of its best clause. `examples`: share of the way from the tool's cosine to that of its best
    example. `anti_patterns`: weight by which a query that is closest to an anti-pattern lowers the
    tool. `head`: weight of a log-probability relative to a cosine. `prerequisites`: share of a
    tool's score for the tool that it needs first; `companions`: for tools that it goes with; 0 adds
    no such tool. `rrf_k`: constant of reciprocal rank fusion.
    """

    method: Literal["convex", "rrf"] = "convex"
    dense: Annotated[float, Field(ge=0)] = 0.5
    lexical: Annotated[float, Field(ge=0)] = 0.5
    bm25_scale: Annotated[float, Field(gt=0)] = 100.0
    clauses: Annotated[float, Field(ge=0, le=1)] = 0.5
    examples: Annotated[float, Field(ge=0, le=1)] = 0.5
    anti_patterns: Annotated[float, Field(ge=0)] = 1.0
    head: Annotated[float, Field(ge=0)] = 0.1
    prerequisites: Annotated[float, Field(ge=0, le=1)] = 0.85
    companions: Annotated[float, Field(ge=0, le=1)] = 0.8
    rrf_k: Annotated[int, Field(ge=1)] = 60

    def __post_init__(self) -> None:
        if self.dense + self.lexical <= 0:
            raise SettingsError("fusion.dense and fusion.lexical are both 0; one must be above")


@settings_section
class PassageWeights:
    """Weights of a passage's legs, fitted as docs/explanation/knowledge.md describes.

    `lexical`: share of the lexical leg; the rest is the dense leg's. `term_scale`: BM25 score for
    each of the question's first six terms at which the lexical leg has its full share.
    """

    lexical: Annotated[float, Field(ge=0, le=1)] = 0.2
    term_scale: Annotated[float, Field(gt=0)] = 8.0


_Key = TypeVar("_Key", bound=Hashable)


def fuse(candidates: Mapping[_Key, LegScores], weights: FusionWeights) -> dict[_Key, float]:
    """Fused score of every candidate, in [0, 1] for `convex`; higher is better."""
    method = reciprocal_rank if weights.method == "rrf" else convex
    return method(candidates, weights)


def convex(candidates: Mapping[_Key, LegScores], weights: FusionWeights) -> dict[_Key, float]:
    """Weighted sum of normalised leg scores (Bruch, Gai and Ingber 2023, section 4).

    The dense score is its cosine. The lexical score is `1 - exp(-bm25 / bm25_scale)`: it does not
    depend on the other candidates, so that a weak best match stays weak. Division by the query's
    best BM25 loses 2.8 points of nDCG@10 (benchmarks/fusion.py).
    """
    scale = weights.bm25_scale
    total = weights.dense + weights.lexical
    dense, lexical = weights.dense / total, weights.lexical / total
    fused: dict[_Key, float] = {}
    for key, scores in candidates.items():
        words = 1 - math.exp(-scores.lexical / scale)
        score = dense * semantic_score(scores, weights) + lexical * words
        fused[key] = min(1.0, max(0.0, score))
    return fused


def semantic_score(scores: LegScores, weights: FusionWeights) -> float:
    """Cosine of a tool, moved by the best clause, a closer example and a closer anti-pattern.

    With a head of `calibrate` a closer example has full weight; a head over examples contains the
    examples already.
    """
    lifted = scores.dense
    if scores.clauses is not None:
        lifted += weights.clauses * (scores.clauses - scores.dense)
    best = lifted
    if scores.examples is not None and scores.examples > best:
        best, own = scores.examples, best
        share = 1.0 if scores.head is not None and scores.odds is None else weights.examples
        lifted += share * (best - own)
    if scores.head is not None:
        lifted += weights.head * scores.head
    if scores.anti_patterns is not None and scores.anti_patterns > best:
        lifted -= weights.anti_patterns * (scores.anti_patterns - best)
    return lifted


def clause_gains(
    fused: Mapping[int, float], candidates: Mapping[int, LegScores], named: AbstractSet[int]
) -> dict[int, float]:
    """Score gains of tools that fit a clause better than all tools before them.

    Tools are picked in turn by score and gain (greedy facility location), after the named tools or
    the best one. No gain takes a tool past the best score or the tool that was picked before.
    """
    # The settings import this module, and must not load numpy.
    import numpy as np

    # Sorted, so that the choice among equal tools does not depend on the order of indexing.
    points = sorted(point for point in fused if candidates[point].by_clause)
    if not points:
        return {}
    cosines = np.array([candidates[point].by_clause for point in points])
    scores = np.array([fused[point] for point in points])
    first = [place for place, point in enumerate(points) if point in named] or [scores.argmax()]
    fitted, bound = cosines[first].max(axis=0), float(scores.max())
    scores[first] = -np.inf
    gains: dict[int, float] = {}
    for _ in range(min(MAX_CLAUSE_PICKS, len(points) - len(first))):
        raised = scores + CLAUSE_GAIN * np.maximum(0, cosines - fitted).sum(axis=1)
        place = int(raised.argmax())
        bound = max(float(scores[place]), min(float(raised[place]), math.nextafter(bound, 0)))
        if bound > scores[place]:
            gains[points[place]] = bound - float(scores[place])
        fitted, scores[place] = np.maximum(fitted, cosines[place]), -np.inf
    return gains


def reciprocal_rank(
    candidates: Mapping[_Key, LegScores], weights: FusionWeights
) -> dict[_Key, float]:
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): sum of `1 / (k + rank)`.

    The lexical leg ranks candidates that share a word with the query; the dense leg ranks all,
    after examples and anti-patterns. Ties within a leg share the better rank.
    """
    meaning = {key: semantic_score(scores, weights) for key, scores in candidates.items()}
    words = {key: scores.lexical for key, scores in candidates.items() if scores.lexical > 0}
    fused = dict.fromkeys(candidates, 0.0)
    for leg in (meaning, words):
        for key, rank in _ranks(leg).items():
            fused[key] += 1 / (weights.rrf_k + rank)
    return fused


def _ranks(scores: Mapping[_Key, float]) -> dict[_Key, int]:
    ordered: Sequence[float] = sorted(scores.values(), reverse=True)
    first: dict[float, int] = {}
    for position, score in enumerate(ordered, start=1):
        first.setdefault(score, position)
    return {key: first[score] for key, score in scores.items()}


class _Ranked(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def score(self) -> float: ...


_R = TypeVar("_R", bound=_Ranked)


def by_score(found: Iterable[_R]) -> list[_R]:
    """Sort by score, the highest first, ties by id."""
    return sorted(found, key=lambda each: (-each.score, each.id))


def names_by_score(scores: Mapping[str, float]) -> list[str]:
    """Sort names by score, the highest first, ties by name."""
    return sorted(scores, key=lambda name: (-scores[name], name))


class Place(NamedTuple):
    """Place of a candidate; sorts by its fields, candidates called by name first."""

    is_unnamed: bool
    deficit: float
    point: int

    @property
    def level(self) -> tuple[bool, float]:
        """Group of places that tie, as a sort key."""
        return self.is_unnamed, self.deficit

    def order(self, tool_id: str) -> tuple[bool, float, str]:
        """Sort key of the tool in this place: ids break ties."""
        return *self.level, tool_id

    @property
    def score(self) -> float:
        """Fused score in [0, 1]; 1 for a candidate called by name."""
        return -self.deficit if self.is_unnamed else 1.0


def rank(fused: Mapping[int, float], named: set[int]) -> list[Place]:
    """Rank candidates, best first; `named` are points that the query calls by name."""
    return sorted(Place(point not in named, -score, point) for point, score in fused.items())


CONFIDENCE_SHARES = {"learned": 0.5}
"""Shares of score gains that count in the confidence; other gains change the order alone."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates of a query of `terms` words: the ranking, and its scores.

    `trust` maps odds and log-probability of the best tool of a head over examples to the
    probability that the tool is right; None without a head. `gains`: score gains by cause, such as
    learned examples.
    """

    ranking: list[Place]
    scores: Mapping[int, LegScores]
    terms: int
    trust: Callable[[float, float], float] | None = None
    gains: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])

    def probabilities(self, points: Sequence[int]) -> list[float]:
        """Probability of each hit by the head over examples, falling with the rank.

        The best odds of all candidates give the first probability; each further hit gets its share.
        """
        assert self.trust is not None, "only a head over examples has odds"
        best = max(self.scores.values(), key=lambda scores: scores.odds or -math.inf)
        sure = self.trust(best.odds or -math.inf, best.head or 0.0)
        heads = [self.scores[point].head or 0.0 for point in points]
        shares = accumulate((each - heads[0] for each in heads), min)
        return [sure * math.exp(share) for share in shares]

    def gain_beside_confidence(self, point: int) -> float:
        """Score gain of a candidate that does not count in the confidence."""
        gain = 0.0
        for cause, each in self.gains.items():
            gain += (1 - CONFIDENCE_SHARES.get(cause, 0.0)) * each.get(point, 0.0)
        return gain

    def first(self, count: int) -> list[Place]:
        """First places, and all that tie with the last of these."""
        ranking = self.ranking
        while count < len(ranking) and ranking[count].level == ranking[count - 1].level:
            count += 1
        return ranking[:count]

    def explain(self, place: Place) -> dict[str, float]:
        """Score of a candidate by leg."""
        scores = self.scores[place.point]._asdict()
        legs = ("dense", "lexical", "clauses", "examples", "anti_patterns", "head")
        given = {leg: scores[leg] for leg in legs if scores[leg] is not None}
        given |= {
            cause: each[place.point] for cause, each in self.gains.items() if place.point in each
        }
        return given if place.is_unnamed else given | {"exact_name": 1.0}
