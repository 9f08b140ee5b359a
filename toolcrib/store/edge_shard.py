"""Edge shard: the embedded engine's own shapes, errors and processes.

`python -m toolcrib.store.edge_shard SHARD` optimises the shard in a folder and ends: building a
graph would stop every thread of the process that does it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as engine

from toolcrib.encoders.base import SparseVector
from toolcrib.errors import StoreDamagedError, StoreError, StoreWriteError
from toolcrib.store.base import (
    Layout,
    LegQuery,
    Point,
    is_point_id,
    named_vectors,
    point_id,
)
from toolcrib.store.filters import (
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    TENANT_FIELD,
    YIELDS_FIELD,
    And,
    AnyOf,
    Equals,
    Filter,
    HasId,
    Keyword,
    Not,
    Or,
    Range,
    as_keyword,
)
from toolcrib.store.folder import AGAIN, copy_sparsely, write_atomically, write_layout

__all__ = [
    "MIN_FREE_BYTES",
    "create_shard",
    "engine",
    "from_payload",
    "guard",
    "index_fields",
    "is_coded",
    "optimise_beside",
    "roomy_folder",
    "size_of",
    "to_filter",
    "to_point",
    "to_query",
    "to_sparse",
]

MIN_FREE_BYTES = 64 * 2**20
"""The engine writes through memory maps: on a full disk it would be killed, not refused."""

CODED, CODES = "server", "server_code"
"""A keyword field, and beside it the same as numbers: looking up a thousand servers takes the
engine a millisecond by name in every leg, a tenth of that by number (benchmarks/scale.py)."""

MANY = 16
"""With fewer names the numbers gain nothing."""

MEMORY = Path("/dev/shm")  # noqa: S108 -- what is made there has a name that nobody knows
ROOMY_BYTES = 512 * 2**20
"""A file system in memory fills the holes of files that are looked at."""


def size_of(point: engine.Record) -> int:
    """About how many bytes a point takes: four a number, and its payload."""
    vectors: Any = point.vector or {}
    numbers = sum(
        2 * len(each.indices) if isinstance(each, engine.SparseVector) else np.size(each)
        for each in vectors.values()
    )
    return 4 * numbers + len(json.dumps(point.payload))


def create_shard(generation: Path, layout: Layout) -> None:
    """Make a generation of a store that holds nothing."""
    # It syncs a thousand times: on a busy disk that takes seconds.
    place = roomy_folder(0) or generation.parent
    with (
        guard(generation.parent),
        tempfile.TemporaryDirectory(prefix="toolcrib-", dir=place) as making,
    ):
        created = engine.EdgeShard.create(making, _config(layout))
        created.flush()
        created.close()
        copy_sparsely(Path(making), generation / "shard")
    write_layout(generation, layout)
    write_atomically(generation / "meta.json", "{}")


def roomy_folder(size: int) -> Path | None:
    """A folder for passing files of `size` bytes, None where none has room; in memory at best."""
    for folder in (MEMORY, Path(tempfile.gettempdir())):
        with suppress(OSError):
            if shutil.disk_usage(folder).free > size + ROOMY_BYTES:
                return folder
    return None


def _config(layout: Layout) -> engine.EdgeConfig:
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


def index_fields(shard: engine.EdgeShard, least: int) -> None:
    """Index every field that is filtered by, unless it is, from so many points on."""
    info = shard.info()
    if info.points_count < least:
        return
    known = info.payload_schema
    for name, kind in _filtered_fields():
        if name not in known:
            shard.update(engine.UpdateOperation.create_field_index(name, kind))


def _filtered_fields() -> list[tuple[str, Any]]:
    keywords = sorted({*KEYWORD_FIELDS, TENANT_FIELD, YIELDS_FIELD})
    kinds = [(name, engine.PayloadSchemaType.Keyword) for name in keywords]
    kinds += [(name, engine.PayloadSchemaType.Float) for name in sorted(NUMBER_FIELDS)]
    codes = engine.IntegerIndexParams(lookup=True, range=False)
    return [*kinds, (CODES, codes)]


def to_point(point: Point) -> engine.Point:
    """A point as the engine has it."""
    vectors: dict[str, Any] = named_vectors(point, to_sparse)
    payload = dict(point.payload)
    if isinstance(named := payload.get(CODED), str):
        payload[CODES] = point_id(named)
    return engine.Point(id=point.id, vector=vectors, payload=payload)


def from_payload(found: dict[str, Any] | None) -> dict[str, Any]:
    """A payload as it was given."""
    payload = found or {}
    payload.pop(CODES, None)
    return payload


def is_coded(shard: engine.EdgeShard) -> bool:
    """Whether every server has its number: not what an earlier version wrote."""
    if CODES not in shard.info().payload_schema:
        return False
    named, coded = engine.IsEmptyCondition(CODED), engine.IsEmptyCondition(CODES)
    lacking = engine.Filter(must=[coded], must_not=[named])
    return shard.count(engine.CountRequest(exact=True, filter=lacking)) == 0


def to_sparse(vector: SparseVector) -> engine.SparseVector:
    """A sparse vector as the engine has it."""
    return engine.SparseVector(indices=vector.indices.tolist(), values=vector.values.tolist())


def to_query(leg: LegQuery, where: Filter | None, *, coded: bool) -> engine.QueryRequest:
    """One leg's question within `where`: ids and scores only, as payloads cost more."""
    if isinstance(leg.vector, SparseVector):
        vector: Any = to_sparse(leg.vector)
    else:
        vector = leg.vector.tolist()
    # Rescoring with the float vectors makes a score the exact cosine, whatever found the point.
    params = engine.SearchParams(quantization=engine.QuantizationSearchParams(rescore=True))
    if leg.idf_corpus is not None and isinstance(leg.vector, SparseVector):
        corpus = to_filter(leg.idf_corpus, coded=coded)
        params = engine.SearchParams(idf=engine.IdfParams(corpus=corpus))
    return engine.QueryRequest(
        limit=leg.limit,
        query=engine.Query.Nearest(vector, using=leg.using),
        filter=to_filter(where, coded=coded),
        params=params,
        with_payload=False,
        with_vector=False,
    )


def to_filter(where: Filter | None, *, coded: bool = False) -> engine.Filter | None:
    """The engine's filter; None for none. Where the points are `coded`, it asks by number."""
    if where is None:
        return None
    return engine.Filter(must=[_translated(where, coded=coded)])


def _translated(where: Filter, *, coded: bool) -> Any:  # noqa: PLR0911
    match where:
        case Equals(field=field, value=value):
            return engine.FieldCondition(key=field, match=engine.MatchValue(as_keyword(value)))
        case AnyOf(field=field, values=values):
            return _any_of(field, values, coded)
        case Range(field=field):
            bounds = engine.RangeFloat(gt=where.gt, gte=where.gte, lt=where.lt, lte=where.lte)
            return engine.FieldCondition(key=field, range=bounds)
        case HasId(ids=ids):
            return engine.HasIdCondition({i for i in ids if is_point_id(i)})
        case Not(part=part):
            return engine.Filter(must_not=[_translated(part, coded=coded)])
        case And(parts=parts):
            return engine.Filter(must=[_translated(part, coded=coded) for part in parts])
        case Or(parts=parts):
            # An empty `should` would match everything; an empty set of ids matches nothing.
            should = [_translated(part, coded=coded) for part in parts]
            return engine.Filter(should=should) if should else engine.HasIdCondition(set())


# A wide scope takes milliseconds to translate, and every leg of every query has it: beside other
# conditions too, which are never the same twice.
@lru_cache(maxsize=256)
def _any_of(
    field: str,
    values: tuple[Keyword, ...],
    coded: bool,  # noqa: FBT001 -- for the cache
) -> engine.FieldCondition:
    words = [*map(as_keyword, values)]
    if coded and field == CODED and len(words) > MANY:
        numbers: list[Any] = [*map(point_id, words)]
        return engine.FieldCondition(key=CODES, match=engine.MatchAny(numbers))
    return engine.FieldCondition(key=field, match=engine.MatchAny(words))


@contextmanager
def guard(path: Path) -> Generator[None]:
    """Turn what the engine raises on this folder into our own errors.

    Raises:
        StoreWriteError: the disk refused.
        StoreError: the engine refused the request.
        StoreDamagedError: the engine panicked.
    """
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreWriteError(f"{path}: {error.strerror or error}") from error
    except Exception as error:
        raise StoreError(f"the engine refused a request on {path}: {error}") from error
    except BaseException as error:
        # A Rust panic is a BaseException of a class that cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise StoreDamagedError(f"the engine failed on {path}: {error}; {AGAIN}") from error


def optimise_beside(generation: Path, target: Path) -> None:
    """Copy a flushed generation to `target` and optimise the copy in another process.

    Raises:
        StoreError: the other process failed; `target` is removed, the original is as it was.
    """
    # A fresh interpreter, never a fork: a forked child hangs on its first query.
    command = [sys.executable, "-m", __name__, str(target / "shard")]
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, target, ignore_errors=True)
        copy_sparsely(generation, target)
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise StoreError(f"optimising a copy of {generation} failed: {last}")
        undo.pop_all()


def _optimise(shard_folder: str) -> None:
    # The searches of the parent come first.
    os.nice(10)
    shard = engine.EdgeShard.load(shard_folder)
    shard.optimize()
    shard.flush()
    shard.close()


if __name__ == "__main__":
    _optimise(sys.argv[1])
