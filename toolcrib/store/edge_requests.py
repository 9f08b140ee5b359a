"""Our requests in the embedded engine's words: pure translation, no state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, singledispatch
from typing import Any

import qdrant_edge as engine

from toolcrib.encoders.base import SparseVector
from toolcrib.store.filters import (
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    TENANT_FIELD,
    And,
    AnyOf,
    Equals,
    Filter,
    HasId,
    Not,
    Or,
    Range,
    as_keyword,
)
from toolcrib.store.base import Layout, LegQuery, Point, is_point_id

__all__ = ["condition", "config", "count_with", "payload_indexes", "query", "set_sparse", "upsert"]


def config(layout: Layout) -> engine.EdgeConfig:
    """The shard's configuration; the write-ahead log is named, never left to a default."""
    max_sim = engine.MultiVectorConfig(comparator=engine.MultiVectorComparator.MaxSim)
    vectors = {
        name: engine.EdgeVectorParams(
            size=width,
            distance=engine.Distance.Cosine,
            quantization_config=engine.ScalarQuantizationConfig(type=engine.ScalarType.Int8),
        )
        for name, width in layout.dense.items()
    }
    vectors |= {
        # An optimised segment keeps a placeholder for every point without such a vector: in
        # float16 it is half as large, and int8 copies would be a quarter more.
        name: engine.EdgeVectorParams(
            size=width,
            distance=engine.Distance.Cosine,
            multivector_config=max_sim,
            datatype=engine.VectorStorageDatatype.Float16,
        )
        for name, width in layout.multi.items()
    }
    return engine.EdgeConfig(
        vectors=vectors,
        sparse_vectors={
            name: engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)
            for name in layout.sparse
        },
        # A query is a millisecond's work: handing it to a thread pool costs a third more.
        max_search_threads=1,
        hnsw_config=engine.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=2000),
        # Nothing is too small to index: the store decides when it is worth it.
        optimizers=engine.EdgeOptimizersConfig(indexing_threshold=1),
        wal_enabled=True,
    )


def payload_indexes() -> list[engine.UpdateOperation]:
    """The operations that index every field that is filtered by."""
    keywords = sorted({*KEYWORD_FIELDS, TENANT_FIELD})
    kinds = [(name, engine.PayloadSchemaType.Keyword) for name in keywords]
    kinds += [(name, engine.PayloadSchemaType.Float) for name in sorted(NUMBER_FIELDS)]
    return [engine.UpdateOperation.create_field_index(name, kind) for name, kind in kinds]


def upsert(points: Sequence[Point]) -> engine.UpdateOperation:
    """The operation that writes points; they must have passed `check_point`."""
    return engine.UpdateOperation.upsert_points([_point(point) for point in points])


def _point(point: Point) -> engine.Point:
    vectors: dict[str, Any] = {name: row.tolist() for name, row in point.dense.items()}
    vectors |= {name: rows.tolist() for name, rows in point.multi.items()}
    # An empty sparse vector would count as a document in one IDF and not in the other.
    vectors |= {name: _sparse(v) for name, v in point.sparse.items() if v.indices.size}
    return engine.Point(id=point.id, vector=vectors, payload=dict(point.payload))


def set_sparse(using: str, vectors: Mapping[int, SparseVector]) -> engine.UpdateOperation:
    """The operation that replaces one sparse vector of each point."""
    return engine.UpdateOperation.update_vectors(
        [engine.PointVectors(id=i, vector={using: _sparse(v)}) for i, v in vectors.items()],
    )


def _sparse(vector: SparseVector) -> engine.SparseVector:
    return engine.SparseVector(indices=vector.indices.tolist(), values=vector.values.tolist())


def query(leg: LegQuery, where: Filter | None) -> engine.QueryRequest:
    """One leg's question within `where`: ids and scores only, as payloads cost more."""
    if isinstance(leg.vector, SparseVector):
        vector: Any = _sparse(leg.vector)
    else:
        vector = leg.vector.tolist()
    # Rescoring with the float vectors makes a score the exact cosine, whatever found the point.
    params = engine.SearchParams(quantization=engine.QuantizationSearchParams(rescore=True))
    if leg.idf_corpus is not None and isinstance(leg.vector, SparseVector):
        corpus = condition(leg.idf_corpus)
        params = engine.SearchParams(idf=engine.IdfParams(corpus=corpus))
    return engine.QueryRequest(
        limit=leg.limit,
        query=engine.Query.Nearest(vector, using=leg.using),
        filter=condition(where),
        params=params,
        with_payload=False,
        with_vector=False,
    )


def count_with(vector: str) -> engine.CountRequest:
    """How many points have this vector, exactly."""
    having = engine.Filter(must=[engine.HasVectorCondition(vector)])
    return engine.CountRequest(exact=True, filter=having)


def condition(where: Filter | None) -> engine.Filter | None:
    """The engine's filter; None for none."""
    if where is None:
        return None
    # Candidates are never the same twice: remembering them would only push out what is.
    return _filter(where) if isinstance(where, HasId) else _remembered_filter(where)


def _filter(where: Filter) -> engine.Filter:
    return engine.Filter(must=[_condition(where)])


# A wide scope takes a millisecond to translate, and every leg of every query has it.
_remembered_filter = lru_cache(maxsize=256)(_filter)


@singledispatch
def _condition(where: Filter) -> Any:
    raise TypeError(f"not a filter: {where!r}")


@_condition.register
def _(where: Equals) -> Any:
    match = engine.MatchValue(value=as_keyword(where.value))
    return engine.FieldCondition(key=where.field, match=match)


@_condition.register
def _(where: AnyOf) -> Any:
    match = engine.MatchAny(any=[as_keyword(value) for value in where.values])
    return engine.FieldCondition(key=where.field, match=match)


@_condition.register
def _(where: Range) -> Any:
    bounds = engine.RangeFloat(gt=where.gt, gte=where.gte, lt=where.lt, lte=where.lte)
    return engine.FieldCondition(key=where.field, range=bounds)


@_condition.register
def _(where: HasId) -> Any:
    return engine.HasIdCondition({i for i in where.ids if is_point_id(i)})


@_condition.register
def _(where: Not) -> Any:
    return engine.Filter(must_not=[_condition(where.part)])


@_condition.register
def _(where: And) -> Any:
    return engine.Filter(must=[_condition(part) for part in where.parts])


@_condition.register
def _(where: Or) -> Any:
    # An empty `should` would match everything; an empty set of ids matches nothing.
    if not where.parts:
        return engine.HasIdCondition(set())
    return engine.Filter(should=[_condition(part) for part in where.parts])
