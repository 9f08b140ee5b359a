"""Qdrant Edge: the embedded engine, in a folder. All use of it is in this module.

`python -m toolcrib.store.qdrant_edge SHARD` optimises the shard in a folder and ends: building a
graph would stop every thread of the process that does it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import qdrant_edge as engine
from filelock import FileLock

from toolcrib.encoders.base import SparseVector
from toolcrib.errors import StoreDamagedError, StoreError, StoreWriteError
from toolcrib.store.base import (
    Layout,
    LegQuery,
    Point,
    Record,
    Scored,
    Store,
    StoreInfo,
    check_point,
    check_sparse,
    is_point_id,
    named_vectors,
)
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
    all_of,
    as_keyword,
)
from toolcrib.store.folder import (
    Generations,
    copy_sparsely,
    lock_folder,
    read_json,
    read_layout,
    require_space,
    write_atomically,
    write_layout,
)

__all__ = ["EdgeStore", "guard", "optimise_beside"]

SCROLL_PAGE = 1000
FIRST_PAGE = 64  # who asks whether there is anything need not wait for a thousand
UPSERT_PAGE = 64
"""The engine holds the interpreter lock while it writes: 64 points stop other threads for 2 ms."""

OPTIMISE_FROM = 3000
"""Below this many unindexed points a plain scan is as fast as the graph (0.2 ms)."""

MIN_FREE_BYTES = 64 * 2**20
"""The engine writes through memory maps: on a full disk it would be killed, not refused."""


class EdgeStore(Store):
    """A `Store` in a folder, for one process at a time."""

    def __init__(
        self,
        lock: FileLock,
        generation: Path,
        min_free_bytes: int,
        on_close: Callable[[], None] | None,
    ) -> None:
        self._lock = lock
        self._generations = Generations(generation.parent)
        self._min_free_bytes = min_free_bytes
        self._on_close = on_close
        self._writing = threading.RLock()
        self._shard: engine.EdgeShard | None = None
        self._writes = 0
        self._facts: dict[object, tuple[int, bool]] = {}
        self._use(generation)

    @classmethod
    def open(
        cls,
        path: Path,
        layout: Layout,
        *,
        min_free_bytes: int = MIN_FREE_BYTES,
        on_close: Callable[[], None] | None = None,
    ) -> EdgeStore:
        """Open the folder with the layout that it has, or make it with `layout`.

        `on_close` is called once, after the store has been closed.

        Raises:
            StoreLockedError: another process has it open.
            StoreWriteError: the folder cannot be written to.
            StoreDamagedError: it holds something that cannot be read as a store.
        """
        lock = lock_folder(path)
        try:
            generations = Generations(path)
            generation = generations.current()
            if generation is None:
                require_space(path, min_free_bytes)
                generation = generations.unused()
                _create(generation, layout)
                generations.make_current(generation)
            generations.remove_others(generation)
            return cls(lock, generation, min_free_bytes, on_close)
        except BaseException:
            lock.release()
            raise

    def _use(self, generation: Path) -> None:
        layout = read_layout(generation)
        with guard(self._path):
            shard = engine.EdgeShard.load(str(generation / "shard"))
        # An old shard is dropped, not closed: another thread may be about to search it.
        self._generation, self._layout, self._shard = generation, layout, shard
        self._writes += 1

    @property
    def layout(self) -> Layout:
        """The named vectors that the store was made with."""
        return self._layout

    @property
    def _path(self) -> Path:
        return self._generations.folder

    # -- writing ---------------------------------------------------------------------------

    def upsert(self, points: Sequence[Point]) -> None:
        for point in points:
            check_point(point, self._layout)
        for start in range(0, len(points), UPSERT_PAGE):
            page = [_point(point) for point in points[start : start + UPSERT_PAGE]]
            self._update(engine.UpdateOperation.upsert_points(page))

    def set_sparse(self, using: str, vectors: Mapping[int, SparseVector]) -> None:
        check_sparse(using, vectors, self._layout)
        updates = [engine.PointVectors(i, {using: _sparse(v)}) for i, v in vectors.items()]
        for start in range(0, len(updates), UPSERT_PAGE):
            page = updates[start : start + UPSERT_PAGE]
            self._update(engine.UpdateOperation.update_vectors(page))

    def delete(self, ids: Iterable[int]) -> None:
        doomed: list[Any] = [i for i in ids if is_point_id(i)]
        if doomed:
            self._update(engine.UpdateOperation.delete_points(doomed))

    def _update(self, operation: engine.UpdateOperation) -> None:
        with self._writing:
            shard = self._open_shard()
            require_space(self._path, self._min_free_bytes)
            with guard(self._path):
                shard.update(operation)
            self._writes += 1

    # -- reading ---------------------------------------------------------------------------

    def search(self, queries: Sequence[LegQuery]) -> list[list[Scored]]:
        """Answer each query, best first."""
        shard = self._open_shard()
        answers: list[list[Scored]] = []
        with guard(self._path):
            # One by one: the engine's batch call is no faster (measured 2.0 ms against 1.3 ms).
            for query in queries:
                where = self._narrowing(query.where)
                hits = shard.query(_query(query, where)) if self._holds(query.using) else []
                answers.append([Scored(_number(hit.id), hit.score) for hit in hits])
        return answers

    def _holds(self, vector: str) -> bool:
        """Whether any point has this vector: looking where nothing is costs a filter's time."""
        if vector not in self._layout:
            return True  # the engine says best what is wrong with an unknown name
        return self._fact(vector, lambda: self._count_with(vector) > 0)

    def _narrowing(self, where: Filter | None) -> Filter | None:
        """Drop a flag that every point has (`enabled`): it costs a third of a search."""
        if isinstance(where, And):
            return all_of(*map(self._narrowing, where.parts))
        if isinstance(where, Equals) and isinstance(where.value, bool):
            everywhere = self._fact(where, lambda: self.count(Not(where)) == 0)
            return None if everywhere else where
        return where

    def _fact(self, key: object, find_out: Callable[[], bool]) -> bool:
        """Remember what holds of all points until the next write."""
        # Read first: what is found out while another thread writes is not kept.
        writes = self._writes
        known = self._facts.get(key)
        if known is None or known[0] != writes:
            known = self._facts[key] = (writes, find_out())
        return known[1]

    def retrieve(self, ids: Sequence[int]) -> list[Record]:
        known: list[Any] = [i for i in ids if is_point_id(i)]
        with guard(self._path):
            found = self._open_shard().retrieve(known, with_payload=True, with_vector=False)
        by_id = {_number(record.id): record for record in found}
        return [Record(i, by_id[i].payload or {}) for i in ids if i in by_id]

    def scroll(
        self,
        where: Filter | None = None,
        fields: Sequence[str] | None = None,
        *,
        after: int | None = None,
    ) -> Iterator[Record]:
        offset: Any = None if after is None else after + 1
        limit = FIRST_PAGE
        narrowed, shown = _condition(where), True if fields is None else list(fields)
        while True:
            asked = engine.ScrollRequest(offset, limit, narrowed, shown, with_vector=False)
            with guard(self._path):
                page, offset = self._open_shard().scroll(asked)
            for record in page:
                yield Record(_number(record.id), record.payload or {})
            if offset is None:
                return
            limit = SCROLL_PAGE

    def count(self, where: Filter | None = None) -> int:
        with guard(self._path):
            request = engine.CountRequest(exact=True, filter=_condition(where))
            return self._open_shard().count(request)

    def _count_with(self, vector: str) -> int:
        """How many points have this vector, exactly."""
        having = engine.Filter(must=[engine.HasVectorCondition(vector)])
        return self._open_shard().count(engine.CountRequest(exact=True, filter=having))

    # -- the rest --------------------------------------------------------------------------

    def read_meta(self) -> Mapping[str, Any]:
        return read_json(self._generation / "meta.json")

    def write_meta(self, meta: Mapping[str, Any]) -> None:
        with self._writing:
            write_atomically(self._generation / "meta.json", json.dumps(meta, sort_keys=True))

    def optimise(self) -> None:
        """Index what was written since the last time, in another process, and swap it in."""
        with self._writing:
            if self._unindexed() < OPTIMISE_FROM:
                return
            with guard(self._path):
                self._open_shard().flush()
            fresh = self._generations.unused()
            optimise_beside(self._generation, fresh)
            self._swap(fresh)

    @contextmanager
    def renew(self, layout: Layout) -> Generator[EdgeStore]:
        with self._writing:
            shutil.rmtree(self._generations.next_folder, ignore_errors=True)
            beside = EdgeStore.open(self._generations.next_folder, layout)
            try:
                yield beside
            finally:
                beside.close()
            fresh = self._generations.unused()
            # The other store is of this class, and closed.
            beside._generation.rename(fresh)  # noqa: SLF001
            self._swap(fresh)

    def _swap(self, generation: Path) -> None:
        self._generations.make_current(generation)
        self._use(generation)
        self._generations.remove_others(generation)

    def info(self) -> StoreInfo:
        return StoreInfo(
            engine=f"qdrant-edge-py {version('qdrant-edge-py')}",
            location=str(self._path),
            points=self._open_shard().info().points_count,
            optimised=self._unindexed() < OPTIMISE_FROM,
        )

    def _unindexed(self) -> int:
        # The engine counts sparse vectors as indexed from the start, dense ones once optimised.
        held = sum(self._count_with(name) for name in self._layout)
        return held - self._open_shard().info().indexed_vectors_count

    def close(self) -> None:
        """Flush, and let another process have the folder; a second call does nothing."""
        with self._writing:
            shard, self._shard = self._shard, None
            if shard is None:
                return
            try:
                with guard(self._path):
                    shard.flush()
                    shard.close()
            finally:
                self._lock.release()
                if self._on_close is not None:
                    self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _open_shard(self) -> engine.EdgeShard:
        if self._shard is None:
            raise StoreError(f"the store {self._path} is closed")
        return self._shard


def _number(point: Any) -> int:
    """A point's id as we gave it: the engine's stubs allow UUIDs too."""
    return point


def _create(generation: Path, layout: Layout) -> None:
    shard = generation / "shard"
    with guard(generation.parent):
        shard.mkdir(parents=True)
        created = engine.EdgeShard.create(str(shard), _config(layout))
        for operation in _payload_indexes():
            created.update(operation)
        created.flush()
        created.close()
    write_layout(generation, layout)
    write_atomically(generation / "meta.json", "{}")


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


def _payload_indexes() -> list[engine.UpdateOperation]:
    """The operations that index every field that is filtered by."""
    keywords = sorted({*KEYWORD_FIELDS, TENANT_FIELD})
    kinds = [(name, engine.PayloadSchemaType.Keyword) for name in keywords]
    kinds += [(name, engine.PayloadSchemaType.Float) for name in sorted(NUMBER_FIELDS)]
    return [engine.UpdateOperation.create_field_index(name, kind) for name, kind in kinds]


def _point(point: Point) -> engine.Point:
    vectors: dict[str, Any] = named_vectors(point, _sparse)
    return engine.Point(id=point.id, vector=vectors, payload=dict(point.payload))


def _sparse(vector: SparseVector) -> engine.SparseVector:
    return engine.SparseVector(indices=vector.indices.tolist(), values=vector.values.tolist())


def _query(leg: LegQuery, where: Filter | None) -> engine.QueryRequest:
    """One leg's question within `where`: ids and scores only, as payloads cost more."""
    if isinstance(leg.vector, SparseVector):
        vector: Any = _sparse(leg.vector)
    else:
        vector = leg.vector.tolist()
    # Rescoring with the float vectors makes a score the exact cosine, whatever found the point.
    params = engine.SearchParams(quantization=engine.QuantizationSearchParams(rescore=True))
    if leg.idf_corpus is not None and isinstance(leg.vector, SparseVector):
        corpus = _condition(leg.idf_corpus)
        params = engine.SearchParams(idf=engine.IdfParams(corpus=corpus))
    return engine.QueryRequest(
        limit=leg.limit,
        query=engine.Query.Nearest(vector, using=leg.using),
        filter=_condition(where),
        params=params,
        with_payload=False,
        with_vector=False,
    )


def _condition(where: Filter | None) -> engine.Filter | None:
    """The engine's filter; None for none."""
    if where is None:
        return None
    # Candidates are never the same twice: remembering them would only push out what is.
    return _filter(where) if isinstance(where, HasId) else _remembered_filter(where)


def _filter(where: Filter) -> engine.Filter:
    return engine.Filter(must=[_translated(where)])


# A wide scope takes a millisecond to translate, and every leg of every query has it.
_remembered_filter = lru_cache(maxsize=256)(_filter)


def _translated(where: Filter) -> Any:  # noqa: PLR0911
    match where:
        case Equals(field=field, value=value):
            return engine.FieldCondition(key=field, match=engine.MatchValue(as_keyword(value)))
        case AnyOf(field=field, values=values):
            return engine.FieldCondition(
                key=field, match=engine.MatchAny([*map(as_keyword, values)])
            )
        case Range(field=field):
            bounds = engine.RangeFloat(gt=where.gt, gte=where.gte, lt=where.lt, lte=where.lte)
            return engine.FieldCondition(key=field, range=bounds)
        case HasId(ids=ids):
            return engine.HasIdCondition({i for i in ids if is_point_id(i)})
        case Not(part=part):
            return engine.Filter(must_not=[_translated(part)])
        case And(parts=parts):
            return engine.Filter(must=[*map(_translated, parts)])
        case Or(parts=parts):
            # An empty `should` would match everything; an empty set of ids matches nothing.
            should = [*map(_translated, parts)]
            return engine.Filter(should=should) if should else engine.HasIdCondition(set())


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
        raise StoreDamagedError(
            f"the engine failed on {path}: {error}; the index can be made again from its "
            "sources: `toolcrib index SOURCE... --store NEW_FOLDER`"
        ) from error


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
