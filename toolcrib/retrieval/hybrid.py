"""A query in, ranked tools out: encode once, ask the legs, fuse, rerank, fetch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from toolcrib.clock import Clock, SystemClock
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.protocols import DenseEncoder, Reranker
from toolcrib.errors import QueryError, ToolcribError
from toolcrib.records import FindResult, Scope, ToolHit, ToolSpec
from toolcrib.retrieval.fusion import FusionWeights, LegScores, fuse
from toolcrib.retrieval.legs import DEPTH, EncodedQuery, Legs
from toolcrib.retrieval.rerank import RerankSettings, rerank
from toolcrib.retrieval.timing import Stopwatch
from toolcrib.store.filters import Equals, Filter, all_of, from_scope, validate
from toolcrib.store.payload import read_tool
from toolcrib.store.protocol import Store

__all__ = ["MAX_QUERY_CHARS", "HybridRetriever"]

logger = logging.getLogger(__name__)

MAX_QUERY_CHARS = 8_000
"""Longer queries are cut here: no encoder reads further, and more terms only cost time."""

ENABLED = Equals("enabled", value=True)


class _Place(NamedTuple):
    """A candidate in the ranking, in the order of its fields: called by name comes first."""

    unnamed: bool
    deficit: float
    point: int

    @property
    def level(self) -> tuple[bool, float]:
        return self.unnamed, self.deficit

    @property
    def score(self) -> float:
        return -self.deficit if self.unnamed else 1.0


class HybridRetriever:
    """Finds tools by dense, lexical and example legs, fused, and reranked where one is given."""

    def __init__(
        self,
        store: Store,
        dense: DenseEncoder,
        lexical: LexicalEncoder,
        weights: FusionWeights,
        *,
        reranker: Reranker | None = None,
        rerank_settings: RerankSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._dense = dense
        self._lexical = lexical
        self._weights = weights
        self._reranker = reranker
        self._rerank_settings = rerank_settings or RerankSettings()
        self._clock = clock or SystemClock()

    def find(
        self,
        query: str,
        k: int = 5,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        explain: bool = False,
    ) -> FindResult:
        """Rank the tools that fit a query, best first; ties are broken by id.

        Raises:
            QueryError: `k` < 1, a query of white space only, or a filter on an unknown field.
            StoreError: the store does not answer.
        """
        _check(query, k, where)
        if not any(letter.isalnum() for letter in query):
            return FindResult(query, (), {"total": 0.0}, degraded=("no-words",))
        watch = Stopwatch(self._clock)
        encoded = self.encode(query)
        watch.lap("encode")
        allowed = from_scope(scope)
        depth = max(DEPTH, 2 * k)
        legs = Legs(self._store, encoded, all_of(ENABLED, allowed, where), allowed, depth)
        named = legs.named()
        candidates = legs.candidates(named)
        watch.lap("legs")
        ranking = _rank(fuse(candidates, self._weights), named)
        watch.lap("fusion")
        hits = self._fetch(ranking, k, candidates if explain else {})
        watch.lap("fetch")
        hits, lacking = self._rerank(encoded.text, hits, explain=explain)
        if self._reranker is not None:
            watch.lap("rerank")
        return FindResult(
            query=query,
            tools=tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits[:k], start=1)),
            took_ms=watch.result(),
            degraded=encoded.degraded + lacking,
            unmatched_terms=self._unmatched(encoded.text, legs) if explain else (),
        )

    def encode(self, query: str) -> EncodedQuery:
        """Encode a query for every leg; a failing dense encoder degrades, it does not raise."""
        text = query[:MAX_QUERY_CHARS]
        lexical = self._lexical.encode_query(text)
        degraded = ("query-cut",) if len(query) > MAX_QUERY_CHARS else ()
        try:
            return EncodedQuery(text, self._dense.encode_query(text), lexical, degraded)
        except ToolcribError:
            logger.warning("the dense encoder %s failed", self._dense.name, exc_info=True)
            return EncodedQuery(text, None, lexical, (*degraded, "dense"))

    def _fetch(
        self,
        ranking: list[_Place],
        k: int,
        explained: Mapping[int, LegScores],
    ) -> list[ToolHit]:
        wanted = max(k, self._rerank_settings.depth) if self._reranker else k
        # Those level with the last one come along, so that ids can break the tie.
        while wanted < len(ranking) and ranking[wanted].level == ranking[wanted - 1].level:
            wanted += 1
        places = {place.point: place for place in ranking[:wanted]}
        found: list[tuple[_Place, ToolSpec]] = [
            (places[record.id], read_tool(record.payload))
            for record in self._store.retrieve(list(places))
        ]
        found.sort(key=lambda pair: (pair[0].level, pair[1].id))
        return [
            ToolHit(
                rank=0,
                score=place.score,
                tool=spec,
                legs=_contributions(explained.get(place.point), named=not place.unnamed),
            )
            for place, spec in found
        ]

    def _rerank(
        self,
        query: str,
        hits: list[ToolHit],
        *,
        explain: bool,
    ) -> tuple[list[ToolHit], tuple[str, ...]]:
        if self._reranker is None or not hits:
            return hits, ()
        try:
            done = rerank(self._reranker, query, hits, self._rerank_settings, self._clock)
        except Exception:  # whatever a foreign model raises, the first stage still answers
            logger.warning("the reranker %s failed", self._reranker.name, exc_info=True)
            return hits, ("rerank",)
        ranked = done.hits if explain else [replace(hit, legs={}) for hit in done.hits]
        return ranked, ("rerank-late",) if done.late else ()

    def _unmatched(self, text: str, legs: Legs) -> tuple[str, ...]:
        """The query's words of which no tool in reach has any."""
        words = list(dict.fromkeys(self._lexical.terms(text)))
        matching = legs.matching([(word, self._lexical.encode_terms([word])) for word in words])
        return tuple(word for word in words if word not in matching)


def _check(query: str, k: int, where: Filter | None) -> None:
    if not query.strip():
        raise QueryError("the query is empty: say in a few words what the tool must do")
    if k < 1:
        raise QueryError(f"k is {k}; at least one tool must be asked for")
    if where is not None:
        validate(where)


def _rank(fused: Mapping[int, float], named: set[int]) -> list[_Place]:
    return sorted(_Place(point not in named, -score, point) for point, score in fused.items())


def _contributions(scores: LegScores | None, *, named: bool) -> dict[str, float]:
    if scores is None:
        return {}
    legs = {"dense": scores.dense, "lexical": scores.lexical}
    if scores.examples is not None:
        legs["examples"] = scores.examples
    if scores.anti_patterns is not None:
        legs["anti_patterns"] = scores.anti_patterns
    return legs | {"exact_name": 1.0} if named else legs
