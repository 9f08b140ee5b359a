"""Edge query: leg queries, filters and points as the embedded engine's types.

`EdgeSearch` answers leg queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import qdrant_edge as engine

from toolcrib.caches import BoundedMap
from toolcrib.encoders.base import FloatArray, SparseVector
from toolcrib.store.base import (
    Layout,
    LegQuery,
    Point,
    Record,
    ScoredPoint,
    named_vectors,
    point_id,
    valid_ids,
)
from toolcrib.store.filters import (
    EMPTY_CORPUS,
    MAX_CACHED_BYTES,
    And,
    AnyOf,
    Equals,
    Filter,
    HasId,
    Not,
    Or,
    Range,
    all_of,
    as_keyword,
    bytes_of_filter,
)

SERVER_FIELD, SERVER_CODE_FIELD = "server", "server_code"
"""The server's name, and the same as a number. A filter by a thousand servers costs each leg a
millisecond by name, a tenth of a millisecond by number (benchmarks/scale.py)."""

CODES_FROM_NAMES = 17
"""From this many names on, a filter uses numbers, which are then faster."""

TERM_BYTES = 100
"""Memory that the frequency of one term takes."""

MAX_PAYLOAD_BYTES, PAYLOAD_FIELDS_BYTES = 16 * 2**20, 4 * 2**10
"""Size of the cache of payloads, and the bytes of a payload without its texts."""

ALL_POINTS = And()
"""Corpus of all live points. Without a corpus the engine also counts terms of overwritten and
removed points, until the shard is rewritten."""

ACORN_MAX_SHARE = 0.3
"""If a filter leaves more than this share of the points, a wider search of the graph finds as much
as ACORN in half the time, unless the graph is large: of a million points it misses a fifth."""

SMALL_GRAPH_MAX_POINTS = 200_000
"""Size of a graph above which every search keeps more candidates."""

FULL_SCAN_MAX_POINTS = 6_000
"""Up to this many points a full scan is as fast as ACORN."""

ACORN = engine.AcornSearchParams(enable=True, max_selectivity=1.0)
EF_WIDE, EF_ACORN, EF_ACORN_LARGE = 256, 64, 128
"""Candidates (ef) of a search of the graph; a small one without a filter keeps the engine's 100."""


# -- searches --------------------------------------------------------------------------------


class EdgeSearch:
    """Reads a shard until its next write, and caches facts about it until then.

    `points_written`: number of points ever written to the shard; None if unknown.
    """

    def __init__(self, shard: engine.EdgeShard, layout: Layout, points_written: int | None) -> None:
        self.shard = shard
        self._layout = layout
        self._points_written = points_written
        self._facts: dict[object, bool] = {}
        self._payloads: BoundedMap[int, Mapping[str, Any]] = BoundedMap(
            MAX_PAYLOAD_BYTES, _payload_bytes
        )
        self._idf: BoundedMap[tuple[str, Filter], dict[int, float]] = BoundedMap(
            MAX_CACHED_BYTES, _corpus_bytes
        )

    def answer(self, queries: Sequence[LegQuery]) -> list[list[ScoredPoint]]:
        """Answer each query, best first."""
        # Legs share a filter, whose points are counted once.
        estimate_points = cache(partial(count_points, self.shard, exact=False))
        answers: list[list[ScoredPoint]] = []
        # A batch of queries is no faster: 2.0 ms against 1.3 ms.
        for query in queries:
            hits: list[Any] = []
            if self._has_vectors(query.using):
                where = self.without_universal_flags(query.where)
                hits = self.shard.query(
                    to_query(self._with_idf_weights(query), where, estimate_points)
                )
            answers.append([ScoredPoint(hit.id, hit.score) for hit in hits])
        return answers

    def retrieve(self, ids: Sequence[int]) -> list[Record]:
        """Points with these ids, in the order of `ids`, without unknown ids."""
        found = {i: payload for i in ids if (payload := self._payloads.get(i)) is not None}
        unread: list[Any] = [i for i in valid_ids(ids) if i not in found]
        if unread:
            records: list[Any] = self.shard.retrieve(unread, with_payload=True, with_vector=False)
            read = {record.id: from_payload(record.payload) for record in records}
            self._payloads.update(read)
            found |= read
        return [Record(i, found[i]) for i in ids if i in found]

    def _has_vectors(self, using: str) -> bool:
        """True if any point has this vector: if not, a search would only cost time."""
        if using not in self._layout:
            return True  # the engine's own error names an unknown vector
        return self._cached_fact(using, lambda: count_vectors(self.shard, using) > 0)

    def _has_stale_points(self) -> bool:
        """True if the shard still holds overwritten or removed points."""
        return self._cached_fact(
            "dead", lambda: self.shard.info().points_count != self._points_written
        )

    def without_universal_flags(self, where: Filter | None) -> Filter | None:
        """Drop a condition that all points fulfil (`enabled`): it costs a third of a search."""
        if isinstance(where, And):
            return all_of(*map(self.without_universal_flags, where.parts))
        if isinstance(where, Equals) and isinstance(where.value, bool):
            unlike = Not(where)
            is_universal = self._cached_fact(where, lambda: count_points(self.shard, unlike) == 0)
            return None if is_universal else where
        return where

    def _cached_fact(self, key: object, find_out: Callable[[], bool]) -> bool:
        known = self._facts.get(key)
        if known is None:
            known = self._facts[key] = find_out()
        return known

    def _with_idf_weights(self, leg: LegQuery) -> LegQuery:
        """The query with the inverse document frequencies of its corpus in its weights.

        The engine would count the corpus for each query, which takes many times as long as the
        search (benchmarks/scale.py). Here a term is counted once. The query then names an empty
        corpus, in which all terms weigh alike.
        """
        if not isinstance(leg.vector, SparseVector):
            return leg
        corpus = leg.idf_corpus
        if corpus == EMPTY_CORPUS:
            return leg
        if corpus is None:
            if not self._has_stale_points():
                return leg
            corpus = ALL_POINTS
        key, terms = (leg.using, corpus), leg.vector.indices.tolist()
        factors = self._idf.get(key, {})
        if new := [term for term in terms if term not in factors]:
            factors = factors | _idf_factors(self.shard, leg.using, to_filter(corpus), new)
            self._idf[key] = factors
        weights = np.array([factors[term] for term in terms], dtype=np.float32)
        vector = SparseVector(leg.vector.indices, leg.vector.values * weights)
        return LegQuery(leg.using, vector, leg.limit, leg.where, EMPTY_CORPUS)


def _payload_bytes(_: int, payload: Mapping[str, Any]) -> int:
    return PAYLOAD_FIELDS_BYTES + len(payload.get("spec", "")) + len(payload.get("text", ""))


def _corpus_bytes(corpus: tuple[str, Filter], factors: dict[int, float]) -> int:
    return bytes_of_filter(corpus[1]) + TERM_BYTES * (1 + len(factors))


def _idf_factors(
    shard: engine.EdgeShard, using: str, corpus: engine.Filter | None, terms: list[int]
) -> dict[int, float]:
    """Weight of each term within a corpus, relative to its weight within an empty corpus."""
    alone = [SparseVector(np.array([term]), np.ones(1, dtype=np.float32)) for term in terms]

    def best(counted: engine.Filter | None, within: Sequence[engine.Filter | None]) -> list[Any]:
        params = engine.SearchParams(idf=engine.IdfParams(corpus=counted))
        requests = [
            _request(vector, using, 1, where, params)
            for vector, where in zip(alone, within, strict=True)
        ]
        found = shard.query_batch(engine.QueryBatchRequest(requests))
        return [hits[0] if hits else None for hits in found]

    nothing = to_filter(EMPTY_CORPUS)
    # Prefer a point of the corpus that has the term: the ratio of its scores is exact.
    inside, anywhere = (best(nothing, [where] * len(terms)) for where in (corpus, None))
    plain = [mine or other for mine, other in zip(inside, anywhere, strict=True)]
    # The same points in both batches: a batch of queries for single points counts the corpus once.
    places = [to_filter(HasId(frozenset({hit.id} if hit else ()))) for hit in plain]
    return {
        term: weighed.score / hit.score if weighed and hit and hit.score else 0.0
        for term, weighed, hit in zip(terms, best(corpus, places), plain, strict=True)
    }


# -- requests --------------------------------------------------------------------------------


def to_query(
    leg: LegQuery, where: Filter | None, estimate_points: Callable[[Filter | None], int]
) -> engine.QueryRequest:
    """The request of one leg within `where`: ids and scores only, as payloads cost more.

    `estimate_points` estimates how many points a filter leaves.
    """
    if not isinstance(leg.vector, SparseVector):
        params = _dense_params(where, estimate_points)
    elif leg.idf_corpus is None:
        params = engine.SearchParams()
    else:
        idf = engine.IdfParams(corpus=to_filter(leg.idf_corpus))
        params = engine.SearchParams(idf=idf)
    return _request(leg.vector, leg.using, leg.limit, to_filter(where), params)


def _dense_params(
    where: Filter | None, estimate_points: Callable[[Filter | None], int]
) -> engine.SearchParams:
    """Parameters of a dense leg: a full scan of few points, else a search of the graph.

    If a filter leaves a tenth of the points, the graph misses a third of the hits unless the search
    passes through the other points too (ACORN, Patel et al. 2024). If a filter leaves half of
    not too many points, more candidates suffice (docs/explanation/scale.md).
    """
    # Rescoring with the float vectors makes every score the exact cosine.
    rescore = engine.QuantizationSearchParams(rescore=True)
    points = estimate_points(None)
    is_large = points > SMALL_GRAPH_MAX_POINTS
    if where is None:
        return engine.SearchParams(quantization=rescore, hnsw_ef=EF_WIDE if is_large else None)
    if isinstance(where, HasId) and len(where.ids) <= FULL_SCAN_MAX_POINTS:
        return engine.SearchParams(exact=True)
    left = estimate_points(where)
    if left > ACORN_MAX_SHARE * points and not is_large:
        return engine.SearchParams(quantization=rescore, hnsw_ef=EF_WIDE)
    if left <= FULL_SCAN_MAX_POINTS:
        return engine.SearchParams(exact=True)
    ef = EF_ACORN_LARGE if is_large else EF_ACORN
    return engine.SearchParams(quantization=rescore, hnsw_ef=ef, acorn=ACORN)


def _request(
    vector: FloatArray | SparseVector,
    using: str,
    limit: int,
    where: engine.Filter | None,
    params: engine.SearchParams,
) -> engine.QueryRequest:
    sent: Any = to_sparse(vector) if isinstance(vector, SparseVector) else vector.tolist()
    return engine.QueryRequest(
        limit=limit,
        query=engine.Query.Nearest(sent, using=using),
        filter=where,
        params=params,
        with_payload=False,
        with_vector=False,
    )


def count_points(shard: engine.EdgeShard, where: Filter | None, *, exact: bool = True) -> int:
    """Number of points that match a filter; an estimate unless `exact`."""
    return shard.count(engine.CountRequest(exact=exact, filter=to_filter(where)))


def count_vectors(shard: engine.EdgeShard, name: str) -> int:
    """Number of points that have this vector."""
    having = engine.Filter(must=[engine.HasVectorCondition(name)])
    return shard.count(engine.CountRequest(exact=True, filter=having))


# -- filters ---------------------------------------------------------------------------------


def to_filter(where: Filter | None) -> engine.Filter | None:
    """The engine's filter; None for none."""
    return None if where is None else engine.Filter(must=[_condition(where)])


def _condition(where: Filter) -> Any:  # noqa: PLR0911
    match where:
        case Equals(field=field, value=value):
            return engine.FieldCondition(key=field, match=engine.MatchValue(as_keyword(value)))
        case AnyOf():
            is_wide = len(where.values) >= CODES_FROM_NAMES
            make = partial(_any_of, where)
            return _CONDITIONS.get_or_make(where, make) if is_wide else make()
        case Range(field=field):
            return engine.FieldCondition(key=field, range=engine.RangeFloat(**where.bounds))
        case HasId(ids=ids):
            return engine.HasIdCondition({*valid_ids(ids)})
        case Not(part=part):
            return engine.Filter(must_not=[_condition(part)])
        case And(parts=parts):
            return engine.Filter(must=[_condition(part) for part in parts])
        case Or(parts=parts):
            # An empty `should` would match everything; an empty set of ids matches nothing.
            should = [_condition(part) for part in parts]
            return engine.Filter(should=should) if should else engine.HasIdCondition(set())


# A wide scope takes milliseconds to translate, and every leg of every query has it, among
# conditions that differ from query to query.
_CONDITIONS: BoundedMap[AnyOf, engine.FieldCondition] = BoundedMap(
    MAX_CACHED_BYTES, lambda where, _: bytes_of_filter(where)
)


def _any_of(where: AnyOf) -> engine.FieldCondition:
    words = [*map(as_keyword, where.values)]
    if where.field == SERVER_FIELD and len(words) >= CODES_FROM_NAMES:
        codes: list[Any] = [*map(point_id, words)]
        return engine.FieldCondition(key=SERVER_CODE_FIELD, match=engine.MatchAny(codes))
    return engine.FieldCondition(key=where.field, match=engine.MatchAny(words))


# -- points ----------------------------------------------------------------------------------


def to_point(point: Point) -> engine.Point:
    """A point in the engine's form."""
    vectors: dict[str, Any] = named_vectors(point, to_sparse)
    payload = dict(point.payload)
    if isinstance(server := payload.get(SERVER_FIELD), str):
        payload[SERVER_CODE_FIELD] = point_id(server)
    return engine.Point(id=point.id, vector=vectors, payload=payload)


def from_payload(found: dict[str, Any] | None) -> dict[str, Any]:
    """The payload of a point, as before `to_point`."""
    payload = found or {}
    payload.pop(SERVER_CODE_FIELD, None)
    return payload


def to_sparse(vector: SparseVector) -> engine.SparseVector:
    """A sparse vector in the engine's form."""
    return engine.SparseVector(indices=vector.indices.tolist(), values=vector.values.tolist())
