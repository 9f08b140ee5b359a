"""Small points to write and questions to ask, and what the answers must be, in plain numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toolcrib.encoders.base import FloatArray, SparseVector
from toolcrib.store.base import Layout, LegQuery, Point, ScoredPoint, point_id

WIDTH = 8
LAYOUT = Layout(dense={"description": WIDTH}, multi={"examples": WIDTH}, sparse=("lexical",))

TOLERANCE = 1e-4
"""Scores are cosines of float32 vectors; int8 storage must not show, since hits are rescored."""

HALF_TOLERANCE = 5e-4
"""Of a cosine with a multivector, which an engine may keep in float16 (11 significant bits)."""


def unit(*numbers: float) -> FloatArray:
    """The direction of these numbers, filled up with zeros: float32 [WIDTH]."""
    row = np.zeros(WIDTH, dtype=np.float32)
    row[: len(numbers)] = numbers
    return row / np.float32(np.linalg.norm(row))


def random_units(count: int, seed: int = 7, width: int = WIDTH) -> FloatArray:
    """Random directions: float32 [count, width], rows of unit length."""
    rows = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sparse(weights: Mapping[int, float]) -> SparseVector:
    ordered = sorted(weights.items())
    return SparseVector(
        indices=np.array([index for index, _ in ordered], dtype=np.uint32),
        values=np.array([value for _, value in ordered], dtype=np.float32),
    )


def point(
    name: str,
    *,
    dense: FloatArray | None = None,
    multi: FloatArray | None = None,
    terms: Mapping[int, float] | None = None,
    **payload: Any,
) -> Point:
    """A point of the sample layout, with only the vectors given."""
    return Point(
        id=point_id(name),
        payload={"name": name, **payload},
        dense={} if dense is None else {"description": dense},
        multi={} if multi is None else {"examples": multi},
        sparse={} if terms is None else {"lexical": sparse(terms)},
    )


def a_full_point(name: str = "full", **payload: Any) -> Point:
    return point(
        name,
        dense=unit(1),
        multi=np.stack([unit(1), unit(0, 1)]),
        terms={1: 1.0, 2: 0.5},
        **payload,
    )


def dense_leg(vector: FloatArray, limit: int = 10, **more: Any) -> LegQuery:
    return LegQuery("description", vector, limit, **more)


def multi_leg(vector: FloatArray, limit: int = 10, **more: Any) -> LegQuery:
    return LegQuery("examples", vector, limit, **more)


def sparse_leg(terms: Mapping[int, float], limit: int = 10, **more: Any) -> LegQuery:
    return LegQuery("lexical", sparse(terms), limit, **more)


def sparse_scores(
    query: Mapping[int, float], documents: Mapping[str, Mapping[int, float]]
) -> dict[str, float]:
    """Sum of query weight, document weight and ln(1 + (N - n + 0.5) / (n + 0.5)), by name."""
    total = len(documents)

    def idf(term: int) -> float:
        having = sum(term in terms for terms in documents.values())
        return math.log(1 + (total - having + 0.5) / (having + 0.5))

    return {
        name: sum(query[term] * terms[term] * idf(term) for term in query if term in terms)
        for name, terms in documents.items()
        if query.keys() & terms.keys()
    }


def by_id(scores: Mapping[str, float]) -> dict[str, float]:
    return {point_id(name): score for name, score in scores.items()}


def as_dict(hits: Sequence[ScoredPoint]) -> dict[str, float]:
    return {hit.id: hit.score for hit in hits}
