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
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as engine

from toolcrib.caches import BoundedMap
from toolcrib.encoders.base import FloatArray, SparseVector
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
    MAX_CACHED_BYTES,
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
    bytes_of_filter,
)
from toolcrib.store.folder import AGAIN, copy_sparsely, write_atomically, write_layout

__all__ = [
    "MIN_FREE_BYTES",
    "ScopedIdf",
    "create_shard",
    "engine",
    "estimate",
    "from_payload",
    "guard",
    "index_fields",
    "is_coded",
    "missing_indexes",
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

INDEXED_FROM_POINTS = 32
"""Below this many points a filter reads them all, in less than a millisecond: indexes of fields are
270 files, and twice the time to open and close a store."""

MANY = 16
"""With fewer names the numbers gain nothing."""

MEMORY = Path("/dev/shm")  # noqa: S108 -- what is made there has a name that nobody knows
ROOMY_BYTES = 512 * 2**20
"""A file system in memory fills the holes of files that are looked at."""

TERM_BYTES = 100
"""What the frequency of a term takes in memory."""

NOTHING = HasId(frozenset())

MOST = 0.3
"""A share of the points from which on walking further finds as much as ACORN, in half the time."""

FEW = 6_000
"""So many points are looked at in about the time that ACORN takes."""

ACORN = engine.AcornSearchParams(enable=True, max_selectivity=1.0)
FURTHER, THROUGH = 256, 64
"""Candidates that are kept while the graph is walked; without a filter they are 100."""


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


def index_fields(shard: engine.EdgeShard) -> None:
    """Index every field that is filtered by, unless it is, where a scan would be slower."""
    for name, kind in missing_indexes(shard).items():
        shard.update(engine.UpdateOperation.create_field_index(name, kind))


def missing_indexes(shard: engine.EdgeShard) -> dict[str, Any]:
    """Fields that a shard of this size should have an index of, and has not, by kind of index."""
    info = shard.info()
    if info.points_count < INDEXED_FROM_POINTS:
        return {}
    known = info.payload_schema
    return {name: kind for name, kind in _filtered_fields() if name not in known}


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


def estimate(shard: engine.EdgeShard, where: Filter | None, *, coded: bool) -> int:
    """About how many points a filter leaves."""
    within = to_filter(where, coded=coded)
    return shard.count(engine.CountRequest(exact=False, filter=within))


def to_query(
    leg: LegQuery, where: Filter | None, size: Callable[[Filter | None], int], *, coded: bool
) -> engine.QueryRequest:
    """One leg's question within `where`: ids and scores only, as payloads cost more.

    `size` tells about how many points a filter leaves.
    """
    if not isinstance(leg.vector, SparseVector):
        params = _nearest(where, size)
    elif leg.idf_corpus is None:
        params = engine.SearchParams()
    else:
        corpus = to_filter(leg.idf_corpus, coded=coded)
        params = engine.SearchParams(idf=engine.IdfParams(corpus=corpus))
    return _request(leg.vector, leg.using, leg.limit, to_filter(where, coded=coded), params)


def _nearest(where: Filter | None, size: Callable[[Filter | None], int]) -> engine.SearchParams:
    """How to find what is nearest: of a few points by looking at them all, else by the graph.

    The graph loses one of three where a filter leaves a tenth, unless it is walked through the
    others too (ACORN, Patel et al. 2024), and some where it leaves half, unless it is walked
    further (docs/explanation/scale.md).
    """
    # Rescoring with the float vectors makes a score the exact cosine, whatever found the point.
    rescore = engine.QuantizationSearchParams(rescore=True)
    if where is None:
        return engine.SearchParams(quantization=rescore)
    left = size(where)
    if left > MOST * size(None):
        return engine.SearchParams(quantization=rescore, hnsw_ef=FURTHER)
    if left <= FEW:
        return engine.SearchParams(exact=True)
    return engine.SearchParams(quantization=rescore, hnsw_ef=THROUGH, acorn=ACORN)


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


class ScopedIdf:
    """Inverse document frequencies within a corpus, remembered between two writes.

    The engine counts the words of a corpus for each query, which takes many times as long as the
    search (benchmarks/scale.py). Here it counts those that no query had before, and a query goes
    to a corpus that holds nothing, where all terms weigh alike, with the rest in its own weights.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes = 0
        self._known: BoundedMap[tuple[str, Filter], dict[int, float]] = BoundedMap(
            MAX_CACHED_BYTES, _corpus_bytes
        )

    def weighed(
        self, shard: engine.EdgeShard, leg: LegQuery, writes: int, *, coded: bool
    ) -> LegQuery:
        """The same question with the corpus in its weights; `writes` tells what is outdated.

        It is to be read before the shard is: what is counted in a later one is then not kept.
        """
        if leg.idf_corpus is None or not isinstance(leg.vector, SparseVector):
            return leg
        key = leg.using, leg.idf_corpus
        factors = self._factors(key, writes)
        terms = leg.vector.indices.tolist()
        if new := [term for term in terms if term not in factors]:
            corpus = to_filter(leg.idf_corpus, coded=coded)
            factors |= _counted(shard, leg.using, corpus, new)
            self._keep(key, factors, writes)
        weights = np.array([factors[term] for term in terms], dtype=np.float32)
        vector = SparseVector(leg.vector.indices, leg.vector.values * weights)
        return replace(leg, vector=vector, idf_corpus=NOTHING)

    def _factors(self, corpus: tuple[str, Filter], writes: int) -> dict[int, float]:
        with self._lock:
            if writes != self._writes:
                self._known.clear()
                self._writes = writes
            return dict(self._known.get(corpus, {}))

    def _keep(self, corpus: tuple[str, Filter], factors: dict[int, float], writes: int) -> None:
        with self._lock:
            if writes == self._writes:
                self._known[corpus] = self._known.get(corpus, {}) | factors


def _corpus_bytes(corpus: tuple[str, Filter], factors: dict[int, float]) -> int:
    return bytes_of_filter(corpus[1]) + TERM_BYTES * (1 + len(factors))


def _counted(
    shard: engine.EdgeShard, using: str, corpus: engine.Filter | None, terms: list[int]
) -> dict[int, float]:
    """What each term weighs within a corpus, as a multiple of what it weighs within nothing."""
    alone = [SparseVector(np.array([term]), np.ones(1, dtype=np.float32)) for term in terms]

    def best(counted: engine.Filter | None, within: Sequence[engine.Filter | None]) -> list[Any]:
        params = engine.SearchParams(idf=engine.IdfParams(corpus=counted))
        asked = [
            _request(vector, using, 1, where, params)
            for vector, where in zip(alone, within, strict=True)
        ]
        found = shard.query_batch(engine.QueryBatchRequest(asked))
        return [hits[0] if hits else None for hits in found]

    nothing = to_filter(NOTHING)
    # A point of the corpus, where one has the term: others change not even the last bit.
    inside, anywhere = (best(nothing, [where] * len(terms)) for where in (corpus, None))
    plain = [mine or other for mine, other in zip(inside, anywhere, strict=True)]
    # By the same point in both: a batch that asks for single points counts the corpus once.
    places = [to_filter(HasId(frozenset({hit.id} if hit else ()))) for hit in plain]
    return {
        term: weighed.score / hit.score if weighed and hit and hit.score else 0.0
        for term, weighed, hit in zip(terms, best(corpus, places), plain, strict=True)
    }


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
            make = partial(_any_of, field, values, coded=coded)
            return _CONDITIONS.get_or_make((where, coded), make)
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
_CONDITIONS: BoundedMap[tuple[AnyOf, bool], engine.FieldCondition] = BoundedMap(
    MAX_CACHED_BYTES, lambda asked, _: bytes_of_filter(asked[0])
)


def _any_of(field: str, values: tuple[Keyword, ...], *, coded: bool) -> engine.FieldCondition:
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
