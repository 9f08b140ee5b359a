"""A question in, ranked passages out: the dense and the lexical leg, fused, fetched together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from toolcrib.records import Passage
from toolcrib.retrieval.fusion import LegScores, by_score
from toolcrib.retrieval.legs import EncodedQuery, Legs
from toolcrib.store.base import Store
from toolcrib.store.filters import Filter
from toolcrib.store.payload import read_passage

MIN_LEG_PASSAGES = 50
"""Candidates a leg: whole collections are judged by them, not only what is shown."""


@dataclass(frozen=True, slots=True)
class PassageWeights:
    """How a passage's legs are combined; see docs/explanation/knowledge.md for the fit.

    `lexical` is the share of the lexical leg, the rest is the dense one's. `term_scale` is the
    BM25 score a term of the question at which that leg is worth its whole share.
    """

    lexical: Annotated[float, Field(ge=0, le=1)] = 0.2
    term_scale: Annotated[float, Field(gt=0)] = 8.0


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A passage, its fused score in [0, 1], and what its legs said."""

    passage: Passage
    score: float
    legs: LegScores

    @property
    def id(self) -> str:
        """The passage's id."""
        return self.passage.id


class PassageRetriever:
    """Finds passages in a store of them."""

    def __init__(self, store: Store, weights: PassageWeights) -> None:
        self._store = store
        self._weights = weights

    def find(self, query: EncodedQuery, k: int, where: Filter | None = None) -> list[RankedPassage]:
        """The `k` passages that fit best, best first; ties are broken by id.

        Raises:
            StoreError: the store does not answer.
        """
        # A clause of a question is not what a passage answers: whole questions only.
        whole = replace(query, clauses=None)
        legs = Legs(self._store, whole, where, where, max(MIN_LEG_PASSAGES, k), hints=False)
        candidates = legs.candidates(set())
        terms = max(1, query.lexical.indices.size)
        fused = {point: self._fused(scores, terms) for point, scores in candidates.items()}
        # Whatever ties with the last is fetched too: among equals the id decides, not the point.
        least = min(sorted(fused.values(), reverse=True)[:k], default=0.0)
        wanted = [point for point, score in fused.items() if score >= least]
        found = [
            RankedPassage(read_passage(record.payload), fused[record.id], candidates[record.id])
            for record in self._store.retrieve(wanted)
        ]
        return by_score(found)[:k]

    def _fused(self, scores: LegScores, terms: int) -> float:
        """Convex; the lexical part is the square of the mean BM25 a term, at most 1.

        Squared, because a passage that shares a few words of a question is hardly better than
        one that shares none: with the tools' bound (`1 - exp(-bm25 / scale)`) the fusion fell
        below the dense leg on one of two development sets.
        """
        weights = self._weights
        words = min(1.0, scores.lexical / (terms * weights.term_scale)) ** 2
        score = (1 - weights.lexical) * scores.dense + weights.lexical * words
        return min(1.0, max(0.0, score))
