"""Fusion: one score a candidate out of the scores of the legs, and the one rule of order and ties.

A convex combination of normalised scores unless the weights ask for reciprocal ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field

from toolcrib.errors import SettingsError


class LegScores(NamedTuple):
    """One candidate's evidence, as the legs gave it (a tuple: a query makes a hundred of them).

    `dense`, `clauses`, `examples` and `anti_patterns` are cosines in [-1, 1]; `clauses` is that
    of the query's best clause, None where it has one only, and `examples` and `anti_patterns`
    are None for a tool that has none. `lexical` is BM25, >= 0. `head` is a
    log-probability, <= 0, and `odds` what a head over examples says before it is made one among
    the candidates; both are None without a head.
    """

    dense: float
    lexical: float = 0.0
    examples: float | None = None
    anti_patterns: float | None = None
    head: float | None = None
    clauses: float | None = None
    odds: float | None = None


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """How legs are combined; defaults fitted on development splits (docs/explanation/models.md).

    `dense` and `lexical` are the convex weights, both >= 0. `bm25_scale` is the BM25 score at
    which the lexical leg is worth 63 % of its weight. `clauses` is the share of the
    way from the whole query's cosine to its best clause's. `examples` is the share of the way from
    a tool's own cosine to its best example's that it is lifted. `anti_patterns` is how strongly
    a query closer to an anti-pattern than to anything good about the tool lowers it. `head`
    is what one unit of log-probability of a head counts beside a cosine. `prerequisites` is the
    share of its score that a tool lends to the one it needs first; 0 brings none.
    `rrf_k` is the constant of rank fusion, named because engines' defaults differ.
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
    rrf_k: Annotated[int, Field(ge=1)] = 60

    def __post_init__(self) -> None:
        if self.dense + self.lexical <= 0:
            raise SettingsError("fusion.dense and fusion.lexical are both 0; one must be above")


_Key = TypeVar("_Key", bound=Hashable)


def fuse(candidates: Mapping[_Key, LegScores], weights: FusionWeights) -> dict[_Key, float]:
    """The fused score of every candidate: in [0, 1] for `convex`, higher is better."""
    method = reciprocal_rank if weights.method == "rrf" else convex
    return method(candidates, weights)


def convex(candidates: Mapping[_Key, LegScores], weights: FusionWeights) -> dict[_Key, float]:
    """Weighted sum of normalised leg scores (Bruch, Gai and Ingber 2023, section 4).

    The dense leg is its cosine. The lexical one is `1 - exp(-bm25 / bm25_scale)`: a bound that
    does not depend on the other candidates, so that a weak best match stays weak. Dividing by
    the query's best BM25 instead cost 0.8 points of nDCG@10 (benchmarks/fusion.py).
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
    """A tool's cosine, lifted by a closer example and lowered by a closer anti-pattern.

    First it is moved towards the cosine of the clause that the tool fits best.
    Where `calibrate` fitted a head there are examples enough to go by: a closer one counts in
    full. A head over examples has them in it.
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


def reciprocal_rank(
    candidates: Mapping[_Key, LegScores], weights: FusionWeights
) -> dict[_Key, float]:
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): sum of `1 / (k + rank)`.

    The legs are the lexical one, for candidates that share a word with the query, and the
    dense one after examples and anti-patterns; ties within a leg share the better rank.
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
    """In the order of a ranking: the highest score first, ties by id."""
    return sorted(found, key=lambda each: (-each.score, each.id))


def names_by_score(scores: Mapping[str, float]) -> list[str]:
    """Names in the order of a ranking: the highest score first, ties by name."""
    return sorted(scores, key=lambda name: (-scores[name], name))


class Place(NamedTuple):
    """A candidate in the ranking, in the order of its fields: called by name comes first."""

    unnamed: bool
    deficit: float
    point: int

    @property
    def level(self) -> tuple[bool, float]:
        """Equal for candidates that only their ids can part."""
        return self.unnamed, self.deficit

    @property
    def score(self) -> float:
        """In [0, 1]; 1 for one that was called by name."""
        return -self.deficit if self.unnamed else 1.0


def rank(fused: Mapping[int, float], named: set[int]) -> list[Place]:
    """The candidates, best first; `named` are points that the query calls by name."""
    return sorted(Place(point not in named, -score, point) for point, score in fused.items())


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the legs and fusion made of a query of so many `terms`: the ranking, and why.

    `trust`: from the odds of a head over examples to the probability that its tool is right;
    None without one. `lifts` are what use added to the scores of some.
    """

    ranking: list[Place]
    scores: Mapping[int, LegScores]
    terms: int
    trust: Callable[[float], float] | None = None
    lifts: Mapping[int, float] = field(default_factory=dict[int, float])

    def trusted(self, points: Sequence[int]) -> list[float]:
        """How likely each of the hits is right, by a head over examples; it never rises.

        The first one's is that of the best odds of all; the others have their share of it.
        """
        assert self.trust is not None, "only a head over examples has odds"
        sure = self.trust(max(scores.odds or -math.inf for scores in self.scores.values()))
        told = [self.scores[point].head or 0.0 for point in points]
        shares = accumulate((each - told[0] for each in told), min)
        return [sure * math.exp(share) for share in shares]

    def first(self, count: int) -> list[Place]:
        """The first places, and with them those level with the last: ids break the tie."""
        ranking = self.ranking
        while count < len(ranking) and ranking[count].level == ranking[count - 1].level:
            count += 1
        return ranking[:count]

    def explained(self, place: Place) -> dict[str, float]:
        """What each leg said of a candidate."""
        told = self.scores[place.point]._asdict()
        legs = ("dense", "lexical", "clauses", "examples", "anti_patterns", "head")
        said = {leg: told[leg] for leg in legs if told[leg] is not None}
        if place.point in self.lifts:
            said["learned"] = self.lifts[place.point]
        return said if place.unnamed else said | {"exact_name": 1.0}
