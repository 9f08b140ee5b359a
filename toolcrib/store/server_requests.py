"""Our requests in a Qdrant server's words: pure translation, nothing is sent from here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Any

from qdrant_client import models

from toolcrib.encoders.base import FloatArray, SparseVector
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

__all__ = [
    "batches",
    "condition",
    "dense_vectors",
    "layout_faults",
    "layout_of",
    "payload_indexes",
    "points",
    "query",
    "sparse_updates",
    "sparse_vectors",
    "well_formed",
]

MAX_BATCH_POINTS = 256
MAX_BATCH_BYTES = 4 * 2**20
"""A server refuses bodies above 32 MB by default, and proxies before it often above 8."""

_BYTES_A_NUMBER = 22
"""A float32 as JSON, written as the double that it equals, with its comma."""

_OVERSAMPLING = 2.0


def dense_vectors(layout: Layout) -> dict[str, models.VectorParams]:
    """The dense vectors (int8 in memory, originals for the scores) and the multivectors."""
    int8 = models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True),
    )
    max_sim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    cosine = models.Distance.COSINE
    dense = {
        name: models.VectorParams(size=width, distance=cosine, quantization_config=int8)
        for name, width in layout.dense.items()
    }
    multi = {
        name: models.VectorParams(size=width, distance=cosine, multivector_config=max_sim)
        for name, width in layout.multi.items()
    }
    return dense | multi


def sparse_vectors(layout: Layout) -> dict[str, models.SparseVectorParams]:
    """The sparse vectors; the server multiplies with the inverse document frequencies."""
    idf = models.SparseVectorParams(modifier=models.Modifier.IDF)
    return dict.fromkeys(layout.sparse, idf)


def payload_indexes() -> dict[str, models.PayloadSchemaType | models.KeywordIndexParams]:
    """Every field that is filtered by, with the kind of its index."""
    keyword, number = models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.FLOAT
    # A server keeps what belongs to one tenant together on disk.
    tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    return {
        **dict.fromkeys(sorted(KEYWORD_FIELDS), keyword),
        **dict.fromkeys(sorted(NUMBER_FIELDS), number),
        TENANT_FIELD: tenant,
    }


def layout_of(found: models.CollectionParams) -> Layout:
    """The layout that a collection was made with."""
    vectors = found.vectors if isinstance(found.vectors, dict) else {}
    return Layout(
        dense={n: v.size for n, v in vectors.items() if v.multivector_config is None},
        multi={n: v.size for n, v in vectors.items() if v.multivector_config is not None},
        sparse=tuple(found.sparse_vectors or {}),
    )


def layout_faults(layout: Layout, found: models.CollectionParams) -> list[str]:
    """What a collection has that `layout` does not, and the reverse, in words; empty when equal."""
    vectors = found.vectors if isinstance(found.vectors, dict) else {}
    there = {name: _describe(params) for name, params in vectors.items()}
    there |= {
        name: "sparse with IDF" if params.modifier == models.Modifier.IDF else "sparse without IDF"
        for name, params in (found.sparse_vectors or {}).items()
    }
    wanted = {name: _describe(params) for name, params in dense_vectors(layout).items()}
    wanted |= dict.fromkeys(layout.sparse, "sparse with IDF")
    return [
        f"vector {name!r} is {there.get(name, 'missing')}, wanted {wanted.get(name, 'none')}"
        for name in sorted(there.keys() | wanted.keys())
        if there.get(name) != wanted.get(name)
    ]


def _describe(params: models.VectorParams) -> str:
    kind = "dense" if params.multivector_config is None else "multi"
    return f"{kind} of width {params.size} ({params.distance.value})"


def points(batch: Iterable[Point]) -> list[models.PointStruct]:
    """Points as the server takes them; they must have passed `check_point`."""
    return [
        models.PointStruct(id=point.id, vector=_vectors(point), payload=dict(point.payload))
        for point in batch
    ]


def _vectors(point: Point) -> dict[str, Any]:
    named: dict[str, Any] = {name: row.tolist() for name, row in point.dense.items()}
    named |= {name: rows.tolist() for name, rows in point.multi.items()}
    # A stored vector without entries counts as a document in an IDF corpus, and not otherwise:
    # left out, it counts in neither.
    named |= {name: _sparse(vector) for name, vector in point.sparse.items() if vector.indices.size}
    return named


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.indices.tolist(), values=vector.values.tolist())


def sparse_updates(
    using: str,
    vectors: Mapping[int, SparseVector],
) -> list[models.PointVectors]:
    """One sparse vector of each point, by point id."""
    return [
        models.PointVectors(id=owner, vector={using: _sparse(vector)})
        for owner, vector in vectors.items()
    ]


def batches(written: Sequence[Point]) -> Iterator[list[Point]]:
    """Cut an upsert into requests of bounded size, in order; one huge point goes alone."""
    batch: list[Point] = []
    size = 0
    for point in written:
        weight = _weight(point)
        if batch and (len(batch) == MAX_BATCH_POINTS or size + weight > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(point)
        size += weight
    if batch:
        yield batch


def _weight(point: Point) -> int:
    numbers = sum(vector.size for vector in (*point.dense.values(), *point.multi.values()))
    numbers += sum(2 * vector.indices.size for vector in point.sparse.values())
    return numbers * _BYTES_A_NUMBER + len(json.dumps(dict(point.payload)))


def query(leg: LegQuery, layout: Layout) -> models.QueryRequest:
    """One leg's question; ids and scores only, since payloads cost more than the search."""
    return models.QueryRequest(
        query=_query_vector(leg, layout),
        using=leg.using,
        filter=condition(leg.where),
        params=_search_params(leg, layout),
        limit=leg.limit,
        with_payload=False,
        with_vector=False,
    )


def _query_vector(leg: LegQuery, layout: Layout) -> Any:
    if isinstance(leg.vector, SparseVector):
        return models.NearestQuery(nearest=_sparse(leg.vector))
    row: FloatArray = leg.vector
    if leg.using in layout.multi:
        return models.NearestQuery(nearest=[row.tolist()])
    return models.NearestQuery(nearest=row.tolist())


def _search_params(leg: LegQuery, layout: Layout) -> models.SearchParams | None:
    if leg.using in layout.dense:
        # A server does not rescore int8 unless asked, and then a score is only near the cosine.
        rescored = models.QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING)
        return models.SearchParams(quantization=rescored)
    if leg.using in layout.sparse and leg.idf_corpus is not None:
        corpus = models.Filter(must=[_condition(leg.idf_corpus)])
        return models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus))
    return None


def well_formed(ids: Iterable[int]) -> list[int]:
    """The ids that can be a point's; a server refuses a whole request for one that cannot."""
    return [point_id for point_id in ids if is_point_id(point_id)]


def condition(where: Filter | None) -> models.Filter | None:
    """The server's filter with the meaning of `filters.matches`; None for none."""
    return None if where is None else models.Filter(must=[_condition(where)])


@singledispatch
def _condition(where: Filter) -> models.Condition:
    raise TypeError(f"not a filter: {where!r}")


@_condition.register
def _(where: Equals) -> models.Condition:
    match = models.MatchValue(value=as_keyword(where.value))
    return models.FieldCondition(key=where.field, match=match)


@_condition.register
def _(where: AnyOf) -> models.Condition:
    if not where.values:
        return _nothing()
    match = models.MatchAny(any=[as_keyword(value) for value in where.values])
    return models.FieldCondition(key=where.field, match=match)


@_condition.register
def _(where: Range) -> models.Condition:
    given = {"gt": where.gt, "gte": where.gte, "lt": where.lt, "lte": where.lte}
    return models.FieldCondition(key=where.field, range=models.Range(**given))


@_condition.register
def _(where: HasId) -> models.Condition:
    return models.HasIdCondition(has_id=[*sorted(well_formed(where.ids))])


@_condition.register
def _(where: Not) -> models.Condition:
    return models.Filter(must_not=[_condition(where.part)])


@_condition.register
def _(where: And) -> models.Condition:
    return models.Filter(must=[_condition(part) for part in where.parts])


@_condition.register
def _(where: Or) -> models.Condition:
    # An empty `should` would match everything.
    if not where.parts:
        return _nothing()
    return models.Filter(should=[_condition(part) for part in where.parts])


def _nothing() -> models.Condition:
    return models.HasIdCondition(has_id=[])
