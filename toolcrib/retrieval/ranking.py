"""Ranking: the order of candidates, and what breaks a tie; every ranking is made here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from toolcrib.retrieval.fusion import LegScores

__all__ = ["Candidates", "Place", "by_place", "by_score", "names_by_score", "rank"]


class Named(Protocol):
    """What has an id, which parts it from what is ranked level with it."""

    @property
    def id(self) -> str:
        """What tells it from all others."""
        ...


class Scored(Named, Protocol):
    """What is ranked by its score, ties by its id."""

    @property
    def score(self) -> float:
        """Higher is better."""
        ...


S = TypeVar("S", bound=Scored)
Spec = TypeVar("Spec", bound=Named)


def by_score(found: Iterable[S]) -> list[S]:
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


def by_place(found: Iterable[tuple[Place, Spec]]) -> list[tuple[Place, Spec]]:
    """What was fetched of candidates, in the order of the ranking: level ones by id."""
    return sorted(found, key=lambda pair: (pair[0].level, pair[1].id))


def rank(fused: Mapping[int, float], named: set[int]) -> list[Place]:
    """The candidates, best first; `named` are points that the query calls by name."""
    return sorted(Place(point not in named, -score, point) for point, score in fused.items())


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the legs and fusion made of a query: the ranking, and what each leg said."""

    ranking: list[Place]
    scores: Mapping[int, LegScores]

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
        return said if place.unnamed else said | {"exact_name": 1.0}
