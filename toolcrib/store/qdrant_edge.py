"""Qdrant Edge: a store of the embedded engine in a folder.

Only this module and `edge_query` use the engine.
`python -m toolcrib.store.qdrant_edge SHARD` optimises the shard in a folder and exits: building a
graph stops all threads of its process.
"""

from __future__ import annotations

import ctypes
import errno
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import qdrant_edge as engine
from filelock import FileLock

from toolcrib.encoders.base import FloatArray, SparseVector
from toolcrib.errors import StoreDamagedError, StoreError, StoreLockedError, StoreWriteError
from toolcrib.store.base import (
    CopyChanges,
    Layout,
    LegQuery,
    Point,
    Record,
    ScoredPoint,
    Store,
    StoreInfo,
    check_point,
    check_sparse,
    pages,
    valid_ids,
)
from toolcrib.store.edge_query import (
    SERVER_CODE_FIELD,
    EdgeSearch,
    count_points,
    count_vectors,
    from_payload,
    to_filter,
    to_point,
    to_sparse,
)
from toolcrib.store.filters import (
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    TENANT_FIELD,
    YIELDS_FIELD,
    Filter,
)
from toolcrib.store.folder import (
    REINDEX_HINT,
    RIGHTS_HINT,
    Checksums,
    Generations,
    allocated_bytes,
    copy_sparsely,
    hole_bytes,
    is_in_memory,
    lock_folder,
    read_json,
    read_layout,
    require_space,
    sync_file,
    sync_names,
    sync_tree,
    write_atomically,
    write_layout,
)

logger = logging.getLogger(__name__)

MIN_FREE_BYTES = 64 * 2**20
"""The engine writes by memory map: on a full disk the process would be killed, without an error."""


def _os_errors(*numbers: int) -> tuple[str, ...]:
    """An error number of the system, in both spellings of the engine's messages."""
    return tuple(each for n in numbers for each in (f"(os error {n})", f"code: {n},"))


KNOWN_REFUSALS: tuple[tuple[tuple[str, ...], type[StoreError], str], ...] = (
    (
        _os_errors(errno.ENOSPC, errno.EDQUOT),
        StoreWriteError,
        (
            "cannot be written, as its disk is full; free some space and open the store again: "
            "acknowledged writes are kept"
        ),
    ),
    (
        _os_errors(errno.EACCES, errno.EPERM),
        StoreWriteError,
        f"has a file of another user; {RIGHTS_HINT}",
    ),
    (("WouldBlock",), StoreLockedError, "is in use by a forked child of its last holder; end it"),
    (("Shard is not initialized",), StoreError, "is closed"),
)
"""Words in messages of the engine, each with the error and the reason that they stand for."""

CLOSED_MIN_FREE_BYTES = 4 * 2**20
"""Most that the engine writes to read a closed generation."""

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 -- files there get random names
SCRATCH_MIN_FREE_BYTES = 512 * 2**20
"""A file system in memory allocates the holes of files that are read."""

SCROLL_PAGE_POINTS = 1000
FIRST_PAGE_POINTS = 64
"""A caller that only checks for any point should not wait for a thousand."""

UPSERT_PAGE_POINTS = 64
"""The engine holds the interpreter lock while it writes: 64 points stop other threads for 2 ms."""

INDEXED_FROM_POINTS = 32
"""Below this many points a filter scans them all in less than a millisecond. Payload indexes are
270 files, and double the time to open and close a store."""

OPTIMISE_FROM_POINTS = 3000
"""Below this many unindexed points a plain scan is as fast as the graph (0.2 ms)."""

MIN_WASTE_BYTES = 4 * 2**20
"""Overwritten points that take less space are not worth a rewrite."""


class EdgeStore(Store):
    """A `Store` in a folder, for one process at a time; a forked child is refused.

    `layout`: the named vectors of the points. `generation`: folder of the live files, which a swap
    changes.
    """

    def __init__(
        self,
        lock: FileLock,
        generation: Path,
        *,
        survives_power_cut: bool,
        ends_with_process: bool,
        on_close: Callable[[], None] | None,
        written: int | None,
    ) -> None:
        self._lock = lock
        self._path = generation.parent
        self._generations = Generations(self._path)
        self._survives_power_cut = survives_power_cut
        self._ends_with_process = ends_with_process
        self._on_close = on_close
        self._writing = threading.RLock()
        self._search: EdgeSearch | None = None
        self._closed_reason = "is closed"
        self._open_generation(generation, written)
        _OPEN_STORES.add(self)

    @classmethod
    def open(
        cls,
        path: Path,
        layout: Layout,
        *,
        survives_power_cut: bool = True,
        ends_with_process: bool = False,
        on_close: Callable[[], None] | None = None,
    ) -> EdgeStore:
        """Open the folder with its own layout, or make it with `layout`.

        An acknowledged write survives the end of the process, and a power failure unless
        `survives_power_cut` is off. With `ends_with_process` this is the process' last store, and
        closing skips writes if nothing changed. `on_close` is called once, after the store is
        closed.

        Raises:
            StoreLockedError: another process has the folder open.
            StoreWriteError: the folder cannot be written to.
            StoreDamagedError: the folder holds no readable store, or has changed since it was
                closed.
        """
        generations = Generations(path)
        generations.require_store_or_empty()
        lock = lock_folder(path)
        try:
            generation = generations.current()
            written = None
            if generation is None:
                written = 0
                require_space(path, MIN_FREE_BYTES)
                generation = generations.next_generation()
                create_shard(generation, layout)
                if survives_power_cut:
                    sync_tree(generation)
                    sync_names(path)
                generations.make_current(generation)
            generations.remove_others(generation)
            store = cls(
                lock,
                generation,
                survives_power_cut=survives_power_cut,
                ends_with_process=ends_with_process,
                on_close=on_close,
                written=written,
            )
            store.compact()
        except BaseException:
            lock.release()
            raise
        return store

    def _open_generation(self, generation: Path, written: int | None = None) -> None:
        closed = Checksums.check(generation)
        layout = read_layout(generation)
        copy = self._copy_for_reading(generation, is_closed=closed is not None)
        with engine_guard(self._path):
            if closed is not None and copy is None:
                Checksums.remove(generation)
            shard = engine.EdgeShard.load(str(Path(copy.name) if copy else generation / "shard"))
        points = shard.info().points_count
        if closed is not None and closed.points != points:
            closed.write(generation)
            raise StoreDamagedError(
                f"{generation} held {closed.points} points when it was closed, and holds {points} "
                f"now; {REINDEX_HINT}"
            )
        # An old shard is dropped, not closed: another thread may still search it.
        self.generation, self.layout, self._copy = generation, layout, copy
        # Number of points ever written; unknown for a generation that was not closed.
        self._written = closed.written if closed is not None else written
        self._search = EdgeSearch(shard, layout, self._written)
        self._checksums_until_change = closed
        if copy is None and missing_indexes(shard):
            # On a full disk the shard is read without indexes.
            with suppress(StoreWriteError), engine_guard(self._path):
                index_fields(self._require_writable())
        self._logs: set[Path] = set()

    def _copy_for_reading(
        self, generation: Path, *, is_closed: bool
    ) -> tempfile.TemporaryDirectory[str] | None:
        """A copy of the shard on another disk, if its own disk is too full for the engine.

        Even to read, the engine writes a little, and a whole log if the shard was not closed. A
        file system in memory fills the holes of files that are read.

        Raises:
            StoreWriteError: no disk has room for these writes.
        """
        free, holes = shutil.disk_usage(self._path).free, _holes_to_fill(generation)
        if free >= MIN_FREE_BYTES + holes:
            return None
        place = roomy_folder(allocated_bytes(generation))
        if place is None:
            if free < (CLOSED_MIN_FREE_BYTES if is_closed else MIN_FREE_BYTES) + holes:
                raise StoreWriteError(
                    f"only {free // 2**20} MiB are free where {self._path} lies, too few to read "
                    "it, and no other disk has room for a copy: free some space"
                )
            return None
        copy = tempfile.TemporaryDirectory(prefix="toolcrib-", dir=place)
        copy_sparsely(generation / "shard", Path(copy.name))
        logger.warning(
            "%s is opened read-only, as only %d MiB are free on its disk; "
            "free some space, and open it again",
            self._path,
            free // 2**20,
        )
        return copy

    # -- writing ---------------------------------------------------------------------------

    def upsert(self, points: Sequence[Point]) -> None:
        for point in points:
            check_point(point, self.layout)
        for page in pages(points, UPSERT_PAGE_POINTS):
            self._write_page([*map(to_point, page)])
        self._sync()

    def _write_page(self, points: list[engine.Point]) -> None:
        """Write points, then index fields: early, while that blocks other threads only briefly."""
        with self._writing:
            self._update(engine.UpdateOperation.upsert_points(points), len(points))
            with engine_guard(self._path):
                index_fields(self._open_shard())

    def set_sparse(self, using: str, vectors: Mapping[int, SparseVector]) -> None:
        check_sparse(using, vectors, self.layout)
        updates = [engine.PointVectors(i, {using: to_sparse(v)}) for i, v in vectors.items()]
        for page in pages(updates, UPSERT_PAGE_POINTS):
            self._update(engine.UpdateOperation.update_vectors([*page]), len(page))
        self._sync()

    def delete(self, ids: Iterable[int]) -> None:
        doomed: list[Any] = valid_ids(ids)
        if doomed:
            self._update(engine.UpdateOperation.delete_points(doomed), 0)
            self._sync()

    def _update(self, operation: engine.UpdateOperation, points: int) -> None:
        with self._writing:
            shard = self._require_writable()
            # Caches are dropped before the write and after a failure: a part may be written.
            self._search = EdgeSearch(shard, self.layout, self._written)
            try:
                with engine_guard(self._path):
                    shard.update(operation)
                if self._written is not None:
                    self._written += points
            finally:
                self._search = EdgeSearch(shard, self.layout, self._written)

    def _require_writable(self) -> engine.EdgeShard:
        shard = self._open_shard()
        require_space(self._path, MIN_FREE_BYTES)
        if self._copy is not None:
            raise StoreWriteError(
                f"{self._path} was opened read-only, as its disk was full; open it again"
            )
        self._checksums_until_change = None
        return shard

    def _sync(self) -> None:
        """Flush the write-ahead log to the disk: it restores the shard after a power failure."""
        if not self._survives_power_cut:
            return
        with self._writing, engine_guard(self._path):
            folder = self.generation / "shard" / "wal"
            # The engine makes the next log under another name, in its own thread.
            logs = set(folder.glob("[!t]*"))
            for path in logs:
                if path not in self._logs or path.name.startswith("open-"):
                    sync_file(path)
            if logs - self._logs:
                sync_file(folder)
            self._logs = logs

    # -- reading ---------------------------------------------------------------------------

    def search(self, queries: Sequence[LegQuery]) -> list[list[ScoredPoint]]:
        search = self._open_search()
        with engine_guard(self._path):
            return search.answer(queries)

    def retrieve(self, ids: Sequence[int]) -> list[Record]:
        search = self._open_search()
        with engine_guard(self._path):
            return search.retrieve(ids)

    def vectors(self, ids: Sequence[int], using: str) -> dict[int, FloatArray]:
        made: dict[int, FloatArray] = {}
        for page in pages(valid_ids(ids), SCROLL_PAGE_POINTS):
            asked: list[Any] = [*page]
            with engine_guard(self._path):
                found: list[Any] = self._open_shard().retrieve(
                    asked, with_payload=False, with_vector=[using]
                )
            for record in found:
                named: dict[str, Any] = record.vector or {}
                if using in named:
                    made[record.id] = np.asarray(named[using], dtype=np.float32)
        return made

    def scroll(
        self,
        where: Filter | None = None,
        fields: Sequence[str] | None = None,
        *,
        after: int | None = None,
    ) -> Iterator[Record]:
        offset: Any = None if after is None else after + 1
        page: list[Any]
        limit = FIRST_PAGE_POINTS
        shown = True if fields is None else list(fields) or False
        while True:
            search = self._open_search()
            with engine_guard(self._path):
                narrowed = to_filter(search.without_universal_flags(where))
                request = engine.ScrollRequest(offset, limit, narrowed, shown, with_vector=False)
                page, offset = search.shard.scroll(request)
            for record in page:
                yield Record(record.id, from_payload(record.payload))
            if offset is None:
                return
            limit = SCROLL_PAGE_POINTS

    def count(self, where: Filter | None = None) -> int:
        with engine_guard(self._path):
            return count_points(self._open_shard(), where)

    # -- the rest --------------------------------------------------------------------------

    def read_meta(self) -> Mapping[str, Any]:
        self._open_search()
        return read_json(self.generation / "meta.json")

    def write_meta(self, entries: Mapping[str, Any]) -> None:
        if not entries:
            return
        with self._writing:
            self._require_writable()
            meta = {k: v for k, v in {**self.read_meta(), **entries}.items() if v is not None}
            write_atomically(self.generation / "meta.json", json.dumps(meta, sort_keys=True))

    def optimise(self) -> None:
        """Drop overwritten points and index new vectors, each if there are enough of them.

        Another process builds the graph, in a copy that is then swapped in.
        """
        with self._writing:
            self.compact()
            if self._unindexed_count() < OPTIMISE_FROM_POINTS:
                return
            with engine_guard(self._path):
                self._open_shard().flush()
            fresh = self._generations.next_generation()
            optimise_beside(self.generation, fresh)
            self._swap(fresh, self._open_shard().info().points_count)

    def compact(self) -> None:
        """Rewrite the live points if overwritten points take more space.

        The engine frees no space: every change stays in its log and in its segments.
        """
        with self._writing:
            points = self._open_shard().info().points_count
            if self._written is not None and self._written <= 2 * points:
                return
            page, _ = self._whole_points(None, FIRST_PAGE_POINTS)
            each = sum(map(size_of, page)) // max(len(page), 1)
            live = points * each
            # Points that were not counted are still in the log.
            logged = self.generation / "shard" / "wal"
            written = allocated_bytes(logged) if self._written is None else self._written * each
            room = shutil.disk_usage(self._path).free - MIN_FREE_BYTES
            if written - live > max(live, MIN_WASTE_BYTES) and room > live:
                # The store is complete without the rewrite.
                with suppress(StoreWriteError):
                    self._rewrite()

    def _rewrite(self) -> None:
        with self.renew(self.layout) as beside:
            offset = None
            while True:
                page, offset = self._whole_points(offset, UPSERT_PAGE_POINTS)
                points = [engine.Point(r.id, r.vector or {}, r.payload) for r in page]
                beside._write_page(points)  # noqa: SLF001 -- of this class
                if offset is None:
                    break
            beside.write_meta(self.read_meta())

    def _whole_points(self, offset: Any, limit: int) -> tuple[list[engine.Record], Any]:
        """Points with payloads and vectors, and the next offset; None at the end."""
        request = engine.ScrollRequest(offset, limit, None, with_payload=True, with_vector=True)
        with engine_guard(self._path):
            return self._open_shard().scroll(request)

    @contextmanager
    def renew(
        self,
        layout: Layout,
        copy: CopyChanges | None = None,  # noqa: ARG002 -- other threads' writes wait
    ) -> Generator[EdgeStore]:
        with self._writing:
            place = self._generations.next_folder
            shutil.rmtree(place, ignore_errors=True)
            with EdgeStore.open(place, layout, survives_power_cut=False) as beside:
                yield beside
            fresh = self._generations.next_generation()
            beside.generation.rename(fresh)
            self._swap(fresh)

    def _swap(self, generation: Path, written: int | None = None) -> None:
        with engine_guard(self._path):
            sync_tree(generation)
        self._generations.make_current(generation)
        self._open_generation(generation, written)
        self._generations.remove_others(generation)

    def info(self) -> StoreInfo:
        shard = self._open_shard()
        return StoreInfo(
            engine=f"qdrant-edge-py {version('qdrant-edge-py')}",
            location=str(self._path),
            points=shard.info().points_count,
            optimised=self._unindexed_count() < OPTIMISE_FROM_POINTS,
            unindexed_fields=tuple(missing_indexes(shard)),
        )

    def _unindexed_count(self) -> int:
        """Estimate the dense vectors outside the graph; a point written twice counts twice."""
        # The engine counts sparse vectors as indexed at once, dense vectors after `optimise`, and
        # overwritten points are still counted.
        shard = self._open_shard()
        found = shard.info()
        held = {name: count_vectors(shard, name) for name in self.layout}
        total, points = sum(held.values()), max(found.points_count, 1)
        dead = 0 if self._written is None else self._written - found.points_count
        missing = total * (points + dead) // points - found.indexed_vectors_count
        return max(0, min(missing, total - sum(held[name] for name in self.layout.sparse)))

    def close(self) -> None:
        """Flush, and release the folder for other processes; a second call does nothing."""
        with self._writing:
            if self._search is None:
                return
            shard, self._search = self._search.shard, None
            try:
                with engine_guard(self._path):
                    points = shard.info().points_count
                    if self._ends_with_process and self._checksums_until_change is not None:
                        # Flushing and closing would rewrite the same files.
                        keep_until_exit(shard)
                    else:
                        self._checksums_until_change = None
                        shard.flush()
                        shard.close()
                    # The engine writes again when the shard is dropped.
                    del shard
                    self._end_generation(points)
            finally:
                self._lock.release()
                if self._on_close is not None:
                    self._on_close()

    def _end_generation(self, points: int) -> None:
        """Flush names and write checksums of a closed shard."""
        if self._copy is not None:
            self._copy.cleanup()
            return
        found = Checksums.of(self.generation, points, self._written)
        if self._survives_power_cut and found != self._checksums_until_change:
            # The engine syncs its files, but not the removal of files.
            sync_tree(self.generation, names_only=True)
        # Without room, the next process opens the store without checksums.
        with suppress(StoreWriteError):
            found.write(self.generation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _open_search(self) -> EdgeSearch:
        if (search := self._search) is None:
            raise StoreError(f"the store {self._path} {self._closed_reason}")
        return search

    def _open_shard(self) -> engine.EdgeShard:
        return self._open_search().shard

    def leave_to_parent(self) -> None:
        """Refuse work in a forked child: its writes would be lost, or damage the parent's files."""
        if self._search is not None:
            keep_until_exit(self._search.shard)
            self._search, self._closed_reason = None, _FORKED_REASON
        self._writing = threading.RLock()


# -- shards -------------------------------------------------------------------------------------


def keep_until_exit(shard: engine.EdgeShard) -> None:
    """Keep a shard until the process ends: dropping it would write to its files."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(shard))


def size_of(point: engine.Record) -> int:
    """Estimate the bytes of a point: four for each number, and the payload."""
    vectors: Any = point.vector or {}
    numbers = sum(
        2 * len(each.indices) if isinstance(each, engine.SparseVector) else np.size(each)
        for each in vectors.values()
    )
    return 4 * numbers + len(json.dumps(point.payload))


def create_shard(generation: Path, layout: Layout) -> None:
    """Make an empty generation."""
    # The engine syncs a thousand times here, which takes seconds on a busy disk.
    place = roomy_folder(0) or generation.parent
    with (
        engine_guard(generation.parent),
        tempfile.TemporaryDirectory(prefix="toolcrib-", dir=place) as making,
    ):
        created = engine.EdgeShard.create(making, _config(layout))
        created.flush()
        created.close()
        copy_sparsely(Path(making), generation / "shard")
    write_layout(generation, layout)
    write_atomically(generation / "meta.json", "{}")


def _holes_to_fill(generation: Path) -> int:
    """Bytes of holes that the engine reads when it opens a shard, and that memory then takes."""
    if not is_in_memory(generation):
        return 0
    read = "chunk_*.mmap", "payload_index/*/page_*.dat"
    return sum(hole_bytes(generation.rglob(each)) for each in read)


def roomy_folder(size: int) -> Path | None:
    """Folder for temporary files of `size` bytes, in memory if possible; None without room."""
    for folder in (MEMORY_FOLDER, Path(tempfile.gettempdir())):
        with suppress(OSError):
            if shutil.disk_usage(folder).free > size + SCRATCH_MIN_FREE_BYTES:
                return folder
    return None


def _config(layout: Layout) -> engine.EdgeConfig:
    """Configuration of a shard, with the write-ahead log switched on by name."""
    make = partial(engine.EdgeVectorParams, distance=engine.Distance.Cosine)
    int8 = engine.ScalarQuantizationConfig(type=engine.ScalarType.Int8)
    max_sim = engine.MultiVectorConfig(comparator=engine.MultiVectorComparator.MaxSim)
    half = engine.VectorStorageDatatype.Float16
    dense = {n: make(size=width, quantization_config=int8) for n, width in layout.dense.items()}
    # An optimised segment has a placeholder for every point without a multivector: float16 halves
    # it, and int8 copies would add a quarter.
    multi = {
        name: make(size=width, multivector_config=max_sim, datatype=half)
        for name, width in layout.multi.items()
    }
    idf = engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)
    return engine.EdgeConfig(
        vectors=dense | multi,
        sparse_vectors=dict.fromkeys(layout.sparse, idf),
        # A query takes a millisecond; a thread pool would add a third.
        max_search_threads=1,
        hnsw_config=engine.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=2000),
        # The engine indexes any size: the store decides when to optimise.
        optimizers=engine.EdgeOptimizersConfig(indexing_threshold=1),
        wal_enabled=True,
    )


def index_fields(shard: engine.EdgeShard) -> None:
    """Make the missing payload indexes, if there are enough points."""
    for name, kind in missing_indexes(shard).items():
        shard.update(engine.UpdateOperation.create_field_index(name, kind))


def missing_indexes(shard: engine.EdgeShard) -> dict[str, Any]:
    """Missing payload indexes of a shard: kind of index by field."""
    info = shard.info()
    if info.points_count < INDEXED_FROM_POINTS:
        return {}
    keywords = sorted({*KEYWORD_FIELDS, TENANT_FIELD, YIELDS_FIELD})
    kinds: dict[str, Any] = {
        **dict.fromkeys(keywords, engine.PayloadSchemaType.Keyword),
        **dict.fromkeys(sorted(NUMBER_FIELDS), engine.PayloadSchemaType.Float),
        SERVER_CODE_FIELD: engine.IntegerIndexParams(lookup=True, range=False),
    }
    return {name: kind for name, kind in kinds.items() if name not in info.payload_schema}


@contextmanager
def engine_guard(path: Path) -> Generator[None]:
    """Turn the engine's exceptions into our own errors.

    Raises:
        StoreWriteError: the disk refused.
        StoreLockedError: a forked child holds the shard.
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
        for words, kind, reason in KNOWN_REFUSALS:
            if any(each in str(error) for each in words):
                raise kind(f"the store {path} {reason}") from error
        raise StoreError(f"the engine refused a request on {path}: {error}") from error
    except BaseException as error:
        # The class of a Rust panic, a BaseException, cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        why = f"the engine failed on {path}: {error}; {REINDEX_HINT}"
        raise StoreDamagedError(why) from error


def optimise_beside(generation: Path, target: Path) -> None:
    """Copy a flushed generation to `target` and optimise the copy in another process.

    Raises:
        StoreError: the other process failed; `target` is removed, the original is unchanged.
    """
    # A new interpreter, never a fork: a forked child hangs on its first query.
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
    # Searches of the parent process have priority.
    os.nice(10)
    shard = engine.EdgeShard.load(shard_folder)
    shard.optimize()
    shard.flush()
    shard.close()


# -- forks --------------------------------------------------------------------------------------

_OPEN_STORES: weakref.WeakSet[EdgeStore] = weakref.WeakSet()
_FORKED_REASON = (
    "was opened before this process was forked, and the parent process holds it; open it in one "
    'process alone, or start processes by "spawn"'
)


def _leave_all_to_parent() -> None:
    for store in list(_OPEN_STORES):
        store.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)


if __name__ == "__main__":
    _optimise(sys.argv[1])
