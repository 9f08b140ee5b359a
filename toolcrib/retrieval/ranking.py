"""The order of candidates: what is called by name first, then by score, level ones by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from toolcrib.retrieval.fusion import LegScores

__all__ = ["Found", "Place", "contributions", "rank"]


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


@dataclass(frozen=True, slots=True)
class Found:
    """What the legs and fusion made of a query: the ranking, and what each leg said."""

    ranking: list[Place]
    candidates: Mapping[int, LegScores]


def rank(fused: Mapping[int, float], named: set[int]) -> list[Place]:
    """The candidates, best first; `named` are points that the query calls by name."""
    return sorted(Place(point not in named, -score, point) for point, score in fused.items())


def contributions(found: Found, place: Place) -> dict[str, float]:
    """What each leg said of a candidate, for `explain`."""
    scores = found.candidates[place.point]
    legs = {"dense": scores.dense, "lexical": scores.lexical}
    if scores.clauses is not None:
        legs["clauses"] = scores.clauses
    if scores.examples is not None:
        legs["examples"] = scores.examples
    if scores.anti_patterns is not None:
        legs["anti_patterns"] = scores.anti_patterns
    if scores.head is not None:
        legs["head"] = scores.head
    return legs if place.unnamed else legs | {"exact_name": 1.0}
