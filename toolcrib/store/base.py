"""Store protocol: points with named vectors and a payload, searched leg by leg."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from toolcrib.encoders.base import FloatArray, SparseVector
from toolcrib.errors import BadPointError
from toolcrib.store.filters import Filter

MAX_POINT_ID = 2**63 - 1
UNIT_TOLERANCE = 1e-3

_Item = TypeVar("_Item")

Identity: TypeAlias = dict[str, Any]
"""Identity of an index: encoder names, dimensions, lexical settings, format version."""


@lru_cache(maxsize=65_536)
def point_id(tool_id: str) -> int:
    """Number of a tool's point by the tool's id: the same in every store and every run.

    63 bits of a digest: of twenty million registries with a million tools, one has a collision.
    The embedded engine takes three times as long with UUIDs.
    """
    digest = hashlib.blake2b(tool_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) & MAX_POINT_ID


@dataclass(frozen=True, slots=True)
class Layout:
    """The named vectors of a collection: widths of dense and multivectors, sparse names."""

    dense: Mapping[str, int]
    multi: Mapping[str, int]
    sparse: tuple[str, ...]

    def __iter__(self) -> Iterator[str]:
        """Names of all vectors."""
        return iter((*self.dense, *self.multi, *self.sparse))


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One stored tool, passage or entry.

    `dense`: float32 [d], unit length. `multi`: float32 [n, d], rows of unit length, n >= 1.
    `sparse`: BM25 weights. A vector that a point does not have is left out.
    """

    id: int
    payload: Mapping[str, Any]
    dense: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    multi: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    sparse: Mapping[str, SparseVector] = field(default_factory=dict[str, SparseVector])


@dataclass(frozen=True, slots=True, eq=False)
class LegQuery:
    """A nearest-neighbour query to one named vector.

    `vector`: float32 [d] for dense and multi vectors (one query row, so MaxSim is the best
    row's cosine), `SparseVector` for sparse vectors. `idf_corpus`: points over which inverse
    document frequencies are counted; None counts all points.
    """

    using: str
    vector: FloatArray | SparseVector
    limit: int
    where: Filter | None = None
    idf_corpus: Filter | None = None


class ScoredPoint(NamedTuple):
    """A point and its score: cosine in [-1, 1] for dense and multi, >= 0 for sparse.

    A tuple, since a query makes hundreds of them.
    """

    id: int
    score: float


@dataclass(frozen=True, slots=True)
class Record:
    """A point's id and the payload fields that were requested."""

    id: int
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Request for the first `limit` points that match, by id, with these payload fields.

    None asks for whole payloads.
    """

    where: Filter | None
    limit: int
    fields: tuple[str, ...] | None = ()


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Facts for `doctor`: the engine with its version, the location, the number of points.

    `unindexed_fields` are payload fields without an index: filters by them scan all points.
    """

    engine: str
    location: str
    points: int
    optimised: bool
    unindexed_fields: tuple[str, ...] = ()


CopyChanges: TypeAlias = Callable[["Store", "Store"], bool]
"""Copies changes since the last call from an old store into a new store; False without changes."""


class Store(Protocol):
    """Keeps points and searches them.

    Every method raises `StoreError` or a subclass when it fails.
    """

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points; durable when this returns.

        Raises:
            BadPointError: a point would harm the engine; no point of the call is written.
        """
        ...

    def set_sparse(self, using: str, vectors: Mapping[int, SparseVector]) -> None:
        """Replace one sparse vector of existing points, keyed by point id; durable on return."""
        ...

    def delete(self, ids: Iterable[int]) -> None:
        """Remove points; unknown ids are no error; durable when this returns."""
        ...

    def search(self, queries: Sequence[LegQuery]) -> list[list[ScoredPoint]]:
        """Answer each query, best first; a remote store takes one round trip."""
        ...

    @property
    def is_remote(self) -> bool:
        """True if each call is a round trip, so that fetching too much costs less than a call."""
        return False

    def search_and_list(
        self, queries: Sequence[LegQuery], listings: Sequence[ListRequest]
    ) -> tuple[list[list[ScoredPoint]], list[list[Record]]]:
        """Answer queries as `search`, and listings; a remote store takes one round trip."""
        found = self.search(queries) if queries else []
        listed = [
            list(islice(self.scroll(each.where, each.fields), each.limit)) for each in listings
        ]
        return found, listed

    def retrieve(self, ids: Sequence[int]) -> list[Record]:
        """Points with these ids and whole payloads, in the order of `ids`, without unknown ids."""
        ...

    def vectors(self, ids: Sequence[int], using: str) -> dict[int, FloatArray]:
        """The dense vector `using` of these points, float32 [d], or the multivector, [n, d].

        Unknown points, and points without the vector, are left out.
        """
        ...

    def scroll(
        self,
        where: Filter | None = None,
        fields: Sequence[str] | None = None,
        *,
        after: int | None = None,
    ) -> Iterator[Record]:
        """Every matching point, with only these payload fields (None: all), in a fixed order.

        The scroll starts behind the point with the id `after`, which may have been removed.
        """
        ...

    def count(self, where: Filter | None = None) -> int:
        """Number of points that match, exactly."""
        ...

    def read_meta(self) -> Mapping[str, Any]:
        """Metadata that is kept beside the points; empty for a new store."""
        ...

    def write_meta(self, entries: Mapping[str, Any]) -> None:
        """Replace entries of the metadata, or remove an entry by None; durable on return.

        Other entries stay, even if another process writes them at the same time.
        """
        ...

    def of_tenant(self, namespace: str) -> Store:  # noqa: ARG002 -- stores with parts need it
        """The store, limited to the shard of a tenant's points if it has shards by tenant."""
        return self

    def renew(
        self, layout: Layout, copy: CopyChanges | None = None
    ) -> AbstractContextManager[Store]:
        """An empty store, which replaces this store when the block ends without an error.

        If other processes may write, `copy` is called before and after the swap, until it finds
        no more changes.

        Raises:
            StoreError: this store cannot be replaced; the message names the alternative.
        """
        ...

    def optimise(self) -> None:
        """Optimise the index for speed; searches are still answered meanwhile."""
        ...

    def info(self) -> StoreInfo:
        """Describe the store."""
        ...

    def close(self) -> None:
        """Release all resources; a second call does nothing."""
        ...


def is_point_id(value: object) -> bool:
    """True if a value can be the id of a point."""
    return type(value) is int and 0 <= value <= MAX_POINT_ID


def valid_ids(ids: Iterable[int]) -> list[int]:
    """Ids without those that no point can have: engines refuse a request with one bad id."""
    return [i for i in ids if is_point_id(i)]


def check_point(point: Point, layout: Layout) -> None:
    """Refuse a point that would crash the engine, or that the engine would store wrongly.

    Raises:
        BadPointError: a vector has an unknown name, a wrong shape or type, NaN, infinity, or no
            unit length; sparse indices are not ascending, or as many as the values; or JSON
            cannot hold the payload.
    """
    if not is_point_id(point.id):
        raise BadPointError(f"point id {point.id!r} is not a whole number from 0 to 2^63 - 1")
    for name, vector in point.dense.items():
        _check_width(point.id, name, layout.dense.get(name), vector, dimensions=1)
    for name, vector in point.multi.items():
        _check_width(point.id, name, layout.multi.get(name), vector, dimensions=2)
    for name, sparse in point.sparse.items():
        if name not in layout.sparse:
            raise BadPointError(f"point {point.id}: there is no sparse vector {name!r}")
        _check_sparse(point.id, name, sparse)
    for key, value in point.payload.items():
        fault = _json_fault(key) or _json_fault(value)
        if fault:
            raise BadPointError(f"point {point.id}: payload field {key!r} holds {fault}")


def _check_width(
    owner: int, name: str, width: int | None, vector: FloatArray, dimensions: int
) -> None:
    where = f"point {owner}: vector {name!r}"
    if width is None:
        raise BadPointError(f"{where}: the store has no such vector")
    if vector.ndim != dimensions or vector.shape[-1] != width or vector.size == 0:
        raise BadPointError(f"{where}: shape {vector.shape}, wanted width {width}")
    if vector.dtype != np.float32:
        raise BadPointError(f"{where}: type {vector.dtype}, wanted float32")
    if not np.isfinite(vector).all():
        raise BadPointError(f"{where}: holds NaN or infinity")
    lengths = np.linalg.norm(np.atleast_2d(vector), axis=1)
    if np.abs(lengths - 1.0).max() > UNIT_TOLERANCE:
        raise BadPointError(f"{where}: not of unit length")


def check_sparse(using: str, vectors: Mapping[int, SparseVector], layout: Layout) -> None:
    """Refuse sparse vectors, by point id, that would damage the engine's log.

    Raises:
        BadPointError: there is no vector `using`, or `check_point` would refuse a vector.
    """
    if using not in layout.sparse:
        raise BadPointError(f"there is no sparse vector {using!r}")
    for owner, vector in vectors.items():
        _check_sparse(owner, using, vector)


def _check_sparse(owner: int, name: str, sparse: SparseVector) -> None:
    where = f"point {owner}: sparse vector {name!r}"
    if sparse.indices.shape != sparse.values.shape or sparse.indices.ndim != 1:
        raise BadPointError(
            f"{where}: {sparse.indices.size} indices and {sparse.values.size} values"
        )
    if sparse.indices.dtype != np.uint32 or sparse.values.dtype != np.float32:
        raise BadPointError(f"{where}: types must be uint32 and float32")
    if not np.isfinite(sparse.values).all():
        raise BadPointError(f"{where}: holds NaN or infinity")
    if (np.diff(sparse.indices.astype(np.int64)) <= 0).any():
        raise BadPointError(f"{where}: indices must be strictly ascending")


def _json_fault(value: object) -> str:
    """Fault for which JSON cannot hold a value; empty if there is none."""
    match value:
        case str():
            return "" if value.isascii() or is_text(value) else "a lone surrogate"
        case float():
            return "" if math.isfinite(value) else "a number that is not finite"
        case dict():
            entries = cast("dict[Any, Any]", value)
            if not all(isinstance(key, str) for key in entries):
                return "a mapping whose keys are not all text"
            parts = (*entries, *entries.values())
            return next((fault for each in parts if (fault := _json_fault(each))), "")
        case list() | tuple():
            items = cast("Sequence[Any]", value)
            return next((fault for each in items if (fault := _json_fault(each))), "")
        case _:
            return "" if value is None or isinstance(value, int) else f"a {type(value).__name__}"


def is_text(*texts: str) -> bool:
    """True if UTF-8 can encode the texts, which a lone surrogate prevents."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def pages(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Yield the items in slices of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def named_vectors(point: Point, sparse: Callable[[SparseVector], Any]) -> dict[str, Any]:
    """A point's vectors by name, for an engine; `sparse` converts sparse vectors.

    Sparse vectors without entries are left out: engines differ in counting them for the IDF.
    """
    named = {name: each.tolist() for name, each in (*point.dense.items(), *point.multi.items())}
    return named | {name: sparse(v) for name, v in point.sparse.items() if v.indices.size}
