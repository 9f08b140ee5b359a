"""Retrieval of passages: dense and lexical leg, fused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from toolcrib.records import Passage
from toolcrib.retrieval.fusion import LegScores, PassageWeights, by_score
from toolcrib.retrieval.legs import EncodedQuery, Legs
from toolcrib.store.base import Store
from toolcrib.store.filters import Filter
from toolcrib.store.payload import read_passage

MIN_LEG_PASSAGES = 50
"""Minimum depth of a leg: all candidates decide the collections, not only shown passages."""

MAX_SCALE_TERMS = 6
"""Maximum number of terms in a question's BM25 scale: no passage has most words of a report."""


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """Passage, its fused score in [0, 1], and its scores by leg."""

    passage: Passage
    score: float
    legs: LegScores

    @property
    def id(self) -> str:
        """Id of the passage."""
        return self.passage.id


class PassageRetriever:
    """Retriever over a store of passages."""

    def __init__(self, store: Store, weights: PassageWeights) -> None:
        self._store = store
        self._weights = weights

    def find(self, query: EncodedQuery, k: int, where: Filter | None = None) -> list[RankedPassage]:
        """Find the `k` passages that fit best, best first; ids break ties."""
        # A passage answers a whole question, not a clause. Words count once: logs repeat words.
        once = replace(query.lexical, values=np.minimum(query.lexical.values, 1))
        whole = replace(query, clauses=None, lexical=once)
        legs = Legs(self._store, whole, where, where, max(MIN_LEG_PASSAGES, k), hints=False)
        candidates = legs.candidates()
        scale = self._word_scale(query, candidates.values())
        fused = {point: self._fused_score(scores, scale) for point, scores in candidates.items()}
        # Passages that tie with the last are fetched too: the id breaks ties, not the point.
        least = min(sorted(fused.values(), reverse=True)[:k], default=0.0)
        wanted = [point for point, score in fused.items() if score >= least]
        found = [
            RankedPassage(read_passage(record.payload), fused[record.id], candidates[record.id])
            for record in self._store.retrieve(wanted)
        ]
        return by_score(found)[:k]

    def _word_scale(self, query: EncodedQuery, candidates: Iterable[LegScores]) -> float:
        """BM25 score with the full lexical share; at least that of every candidate."""
        terms = min(max(1, query.lexical.indices.size), MAX_SCALE_TERMS)
        return max(self._weights.term_scale * terms, *(each.lexical for each in candidates), 0.0)

    def _fused_score(self, scores: LegScores, word_scale: float) -> float:
        """Convex score; the lexical part is the square of BM25's share of its scale.

        The square lowers passages that share only a few words with a question. With the bound of
        tools (`1 - exp(-bm25 / scale)`) the fusion fell below the dense leg on one of two
        development sets.
        """
        share = self._weights.lexical
        score = (1 - share) * scores.dense + share * (scores.lexical / word_scale) ** 2
        return min(1.0, max(0.0, score))
