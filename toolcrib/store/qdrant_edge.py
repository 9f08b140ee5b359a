"""Qdrant Edge: a store of the embedded engine in a folder.

All use of the engine is in this module and in `edge_shard`.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import qdrant_edge as engine
from filelock import FileLock

from toolcrib.encoders.base import FloatArray, SparseVector
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
)
from toolcrib.store.edge_shard import (
    MIN_FREE_BYTES,
    ScopedIdf,
    create_shard,
    estimate,
    from_payload,
    guard,
    index_fields,
    is_coded,
    missing_indexes,
    optimise_beside,
    roomy_folder,
    size_of,
    to_filter,
    to_point,
    to_query,
    to_sparse,
)
from toolcrib.store.filters import (
    And,
    Equals,
    Filter,
    Not,
    all_of,
)
from toolcrib.store.folder import (
    AGAIN,
    Checksums,
    Generations,
    allocated,
    copy_sparsely,
    lock_folder,
    read_json,
    read_layout,
    require_space,
    sync_file,
    sync_names,
    sync_tree,
    write_atomically,
)

__all__ = ["EdgeStore"]

SCROLL_PAGE = 1000
FIRST_PAGE = 64  # who asks whether there is anything need not wait for a thousand
UPSERT_PAGE = 64
"""The engine holds the interpreter lock while it writes: 64 points stop other threads for 2 ms."""

OPTIMISE_FROM = 3000
"""Below this many unindexed points a plain scan is as fast as the graph (0.2 ms)."""

CLOSED_FREE_BYTES = 4 * 2**20
"""What the engine writes at most to read what was closed."""

LEAST_WASTE = 4 * 2**20
"""Bytes of the disk that are not worth a rewriting."""


class EdgeStore(Store):
    """A `Store` in a folder, for one process at a time; a forked child is refused."""

    def __init__(
        self,
        lock: FileLock,
        generation: Path,
        *,
        min_free_bytes: int,
        survives_power_cut: bool,
        on_close: Callable[[], None] | None,
        written: int | None,
    ) -> None:
        self._lock = lock
        self._generations = Generations(generation.parent)
        self._min_free_bytes = min_free_bytes
        self._survives_power_cut = survives_power_cut
        self._on_close = on_close
        self._writing = threading.RLock()
        self._shard: engine.EdgeShard | None = None
        self._why_not = "is closed"
        self.updates = 0
        """Another number once the engine has begun to write, and once it is done."""
        self._facts: dict[object, tuple[int, bool]] = {}
        self._idf = ScopedIdf()
        self._use(generation, written)
        _OPEN.add(self)

    @classmethod
    def open(
        cls,
        path: Path,
        layout: Layout,
        *,
        min_free_bytes: int = MIN_FREE_BYTES,
        survives_power_cut: bool = True,
        on_close: Callable[[], None] | None = None,
    ) -> EdgeStore:
        """Open the folder with the layout that it has, or make it with `layout`.

        What a write acknowledged survives the end of the process in any case, and the end of
        the machine unless `survives_power_cut` is off. `on_close` is called once, after the
        store has been closed.

        Raises:
            StoreLockedError: another process has it open.
            StoreWriteError: the folder cannot be written to.
            StoreDamagedError: it holds something that cannot be read as a store, or not what it
                held when it was closed.
        """
        lock = lock_folder(path)
        try:
            generations = Generations(path)
            generation = generations.current()
            written = None
            if generation is None:
                written = 0
                require_space(path, min_free_bytes)
                generation = generations.unused()
                create_shard(generation, layout)
                if survives_power_cut:
                    sync_tree(generation)
                    sync_names(path)
                generations.make_current(generation)
            generations.remove_others(generation)
            store = cls(
                lock,
                generation,
                min_free_bytes=min_free_bytes,
                survives_power_cut=survives_power_cut,
                on_close=on_close,
                written=written,
            )
            store.compact()
        except BaseException:
            lock.release()
            raise
        return store

    def _use(self, generation: Path, written: int | None = None) -> None:
        closed = Checksums.check(generation)
        layout = read_layout(generation)
        copy = self._copy_for_reading(generation, is_closed=closed is not None)
        with guard(self._path):
            if closed is not None and copy is None:
                Checksums.remove(generation)
            shard = engine.EdgeShard.load(str(Path(copy.name) if copy else generation / "shard"))
        points = shard.info().points_count
        if closed is not None and closed.points != points:
            closed.write(generation)
            raise StoreDamagedError(
                f"{generation} held {closed.points} points when it was closed, and holds {points} "
                f"now; {AGAIN}"
            )
        if copy is None:
            # On a full disk it is read without them.
            with suppress(StoreWriteError), guard(self._path):
                require_space(self._path, self._min_free_bytes)
                index_fields(shard)
        # An old shard is dropped, not closed: another thread may be about to search it.
        self._generation, self._layout, self._shard = generation, layout, shard
        self._copy = copy
        # How many points were ever written here; nobody knows it of what was not closed.
        self._written = closed.written if closed is not None else written
        self._logs: set[Path] = set()
        self.updates += 1

    def _copy_for_reading(
        self, generation: Path, *, is_closed: bool
    ) -> tempfile.TemporaryDirectory[str] | None:
        """A copy of the shard on another disk, where its own is too full for the engine.

        To read, it writes as well: a little, and all of its log where it was not closed.

        Raises:
            StoreWriteError: there is no other disk, and not even room for that.
        """
        free = shutil.disk_usage(self._path).free
        if free >= self._min_free_bytes:
            return None
        place = roomy_folder(allocated(generation))
        if place is None:
            if free < (CLOSED_FREE_BYTES if is_closed else MIN_FREE_BYTES):
                raise StoreWriteError(
                    f"only {free // 2**20} MiB are free where {self._path} lies, too few to read "
                    "it, and no other disk has room for a copy: free some space"
                )
            return None
        copy = tempfile.TemporaryDirectory(prefix="toolcrib-", dir=place)
        copy_sparsely(generation / "shard", Path(copy.name))
        return copy

    @property
    def layout(self) -> Layout:
        """The named vectors that the store was made with."""
        return self._layout

    @property
    def generation(self) -> Path:
        """Where its files are now; another one once they were swapped."""
        return self._generation

    @property
    def _path(self) -> Path:
        return self._generations.folder

    # -- writing ---------------------------------------------------------------------------

    def upsert(self, points: Sequence[Point]) -> None:
        for point in points:
            check_point(point, self._layout)
        for start in range(0, len(points), UPSERT_PAGE):
            self._write_page([to_point(point) for point in points[start : start + UPSERT_PAGE]])
        self._sync()

    def _write_page(self, points: list[engine.Point]) -> None:
        """Write points, and index fields: while there are few, that stops others the least."""
        with self._writing:
            self._update(engine.UpdateOperation.upsert_points(points), len(points))
            with guard(self._path):
                index_fields(self._open_shard())

    def set_sparse(self, using: str, vectors: Mapping[int, SparseVector]) -> None:
        check_sparse(using, vectors, self._layout)
        updates = [engine.PointVectors(i, {using: to_sparse(v)}) for i, v in vectors.items()]
        for start in range(0, len(updates), UPSERT_PAGE):
            page = updates[start : start + UPSERT_PAGE]
            self._update(engine.UpdateOperation.update_vectors(page), len(page))
        self._sync()

    def delete(self, ids: Iterable[int]) -> None:
        doomed: list[Any] = [i for i in ids if is_point_id(i)]
        if doomed:
            self._update(engine.UpdateOperation.delete_points(doomed), 0)
            self._sync()

    def _update(self, operation: engine.UpdateOperation, points: int) -> None:
        with self._writing:
            shard = self._require_writable()
            # Also before, and where it fails: nobody knows what of it is written by then.
            self.updates += 1
            try:
                with guard(self._path):
                    shard.update(operation)
            finally:
                self.updates += 1
            if self._written is not None:
                self._written += points

    def _require_writable(self) -> engine.EdgeShard:
        shard = self._open_shard()
        require_space(self._path, self._min_free_bytes)
        if self._copy is not None:
            raise StoreWriteError(
                f"{self._path} was opened when its disk was full, to be read alone; open it again"
            )
        return shard

    def _sync(self) -> None:
        """Have the log on the disk: what else a power cut takes is made again from it."""
        if not self._survives_power_cut:
            return
        with self._writing, guard(self._path):
            folder = self._generation / "shard" / "wal"
            # The engine makes the next log under another name, in a thread of its own.
            logs = set(folder.glob("[!t]*"))
            for path in logs:
                if path not in self._logs or path.name.startswith("open-"):
                    sync_file(path)
            if logs - self._logs:
                sync_file(folder)
            self._logs = logs

    # -- reading ---------------------------------------------------------------------------

    def search(self, queries: Sequence[LegQuery]) -> list[list[Scored]]:
        """Answer each query, best first."""
        # Read first: what is counted while another thread writes is not kept.
        writes, shard = self.updates, self._open_shard()
        with guard(self._path):
            coded = self._coded
            # Legs have their filter in common: what it leaves is counted once.
            size = cache(partial(estimate, shard, coded=coded))
            asked = {
                at: self._idf.weighed(shard, query, writes, coded=coded)
                for at, query in enumerate(queries)
                if self._holds(query.using)
            }
            # A batch of them is no faster: 2.0 ms against 1.3 ms.
            found = {
                at: shard.query(to_query(query, self._narrowing(query.where), size, coded=coded))
                for at, query in asked.items()
            }
        return [
            [Scored(_number(hit.id), hit.score) for hit in found.get(at, ())]
            for at in range(len(queries))
        ]

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

    @property
    def _coded(self) -> bool:
        """Whether servers can be asked for by their numbers."""
        return self._fact(is_coded, lambda: is_coded(self._open_shard()))

    def _fact(self, key: object, find_out: Callable[[], bool]) -> bool:
        """Remember what holds of all points until the next write."""
        # Read first: what is found out while another thread writes is not kept.
        writes = self.updates
        known = self._facts.get(key)
        if known is None or known[0] != writes:
            known = self._facts[key] = (writes, find_out())
        return known[1]

    def retrieve(self, ids: Sequence[int]) -> list[Record]:
        known: list[Any] = [i for i in ids if is_point_id(i)]
        with guard(self._path):
            found = self._open_shard().retrieve(known, with_payload=True, with_vector=False)
        by_id = {_number(record.id): record for record in found}
        return [Record(i, from_payload(by_id[i].payload)) for i in ids if i in by_id]

    def vectors(self, ids: Sequence[int], using: str) -> dict[int, FloatArray]:
        known: list[Any] = [i for i in ids if is_point_id(i)]
        made: dict[int, FloatArray] = {}
        for start in range(0, len(known), SCROLL_PAGE):
            page = known[start : start + SCROLL_PAGE]
            with guard(self._path):
                found = self._open_shard().retrieve(page, with_payload=False, with_vector=[using])
            for record in found:
                named: Any = record.vector or {}
                if using in named:
                    made[_number(record.id)] = np.asarray(named[using], dtype=np.float32)
        return made

    def scroll(
        self,
        where: Filter | None = None,
        fields: Sequence[str] | None = None,
        *,
        after: int | None = None,
    ) -> Iterator[Record]:
        offset: Any = None if after is None else after + 1
        limit = FIRST_PAGE
        narrowed = to_filter(where, coded=where is not None and self._coded)
        shown = True if fields is None else list(fields)
        while True:
            asked = engine.ScrollRequest(offset, limit, narrowed, shown, with_vector=False)
            with guard(self._path):
                page, offset = self._open_shard().scroll(asked)
            for record in page:
                yield Record(_number(record.id), from_payload(record.payload))
            if offset is None:
                return
            limit = SCROLL_PAGE

    def count(self, where: Filter | None = None) -> int:
        with guard(self._path):
            asked = to_filter(where, coded=where is not None and self._coded)
            request = engine.CountRequest(exact=True, filter=asked)
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
            self._require_writable()
            write_atomically(self._generation / "meta.json", json.dumps(meta, sort_keys=True))

    def optimise(self) -> None:
        """Drop what was overwritten, index what was written, and swap that in.

        The graph is built in another process; both only when there is enough of it.
        """
        with self._writing:
            self.compact()
            if self._unindexed() < OPTIMISE_FROM:
                return
            with guard(self._path):
                self._open_shard().flush()
            fresh = self._generations.unused()
            optimise_beside(self._generation, fresh)
            self._swap(fresh, self._open_shard().info().points_count)

    def compact(self) -> None:
        """Write what is live anew, and drop the rest, once that is more and not little.

        The engine takes no space back: every change stays in its log and in its segments.
        """
        with self._writing:
            points = self._open_shard().info().points_count
            if self._written is not None and self._written <= 2 * points:
                return
            page, _ = self._whole_points(None, FIRST_PAGE)
            each = sum(map(size_of, page)) // max(len(page), 1)
            live = points * each
            # What was not counted is still in the log.
            logged = self._generation / "shard" / "wal"
            written = allocated(logged) if self._written is None else self._written * each
            room = shutil.disk_usage(self._path).free - self._min_free_bytes
            if written - live > max(live, LEAST_WASTE) and room > live:
                # What is stored is whole without it.
                with suppress(StoreWriteError):
                    self._rewrite()

    def _rewrite(self) -> None:
        with self.renew(self._layout) as beside:
            offset = None
            while True:
                page, offset = self._whole_points(offset, UPSERT_PAGE)
                points = [engine.Point(r.id, r.vector or {}, r.payload) for r in page]
                beside._write_page(points)  # noqa: SLF001 -- of this class
                if offset is None:
                    break
            beside.write_meta(self.read_meta())

    def _whole_points(self, offset: Any, limit: int) -> tuple[list[engine.Record], Any]:
        """Points with all that they have, and where to go on; None at the end."""
        asked = engine.ScrollRequest(offset, limit, None, with_payload=True, with_vector=True)
        with guard(self._path):
            return self._open_shard().scroll(asked)

    @contextmanager
    def renew(self, layout: Layout) -> Generator[EdgeStore]:
        with self._writing:
            shutil.rmtree(self._generations.next_folder, ignore_errors=True)
            place = self._generations.next_folder
            beside = EdgeStore.open(place, layout, survives_power_cut=False)
            try:
                yield beside
            finally:
                beside.close()
            fresh = self._generations.unused()
            # The other store is of this class, and closed.
            beside._generation.rename(fresh)  # noqa: SLF001
            self._swap(fresh)

    def _swap(self, generation: Path, written: int | None = None) -> None:
        with guard(self._path):
            sync_tree(generation)
        self._generations.make_current(generation)
        self._use(generation, written)
        self._generations.remove_others(generation)

    def info(self) -> StoreInfo:
        shard = self._open_shard()
        return StoreInfo(
            engine=f"qdrant-edge-py {version('qdrant-edge-py')}",
            location=str(self._path),
            points=shard.info().points_count,
            optimised=self._unindexed() < OPTIMISE_FROM,
            unindexed_fields=tuple(missing_indexes(shard)),
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
                    points = shard.info().points_count
                    shard.flush()
                    shard.close()
                    # What drops it writes once more.
                    del shard
                    self._end_generation(points)
            finally:
                self._lock.release()
                if self._on_close is not None:
                    self._on_close()

    def copy_to(self, folder: Path) -> None:
        """Copy all that is stored into a new folder, where another process can open it.

        Raises:
            StoreWriteError: it cannot be written to.
        """
        with self._writing, guard(self._path):
            self._open_shard().flush()
            folder.mkdir(parents=True, exist_ok=True)
            require_space(folder, self._min_free_bytes + allocated(self._generation))
            copy_sparsely(self._generation, folder / self._generation.name)
            Generations(folder).make_current(folder / self._generation.name)

    def _end_generation(self, points: int) -> None:
        """Leave the files of a closed shard as they are to be found."""
        if self._copy is not None:
            self._copy.cleanup()
            return
        if self._survives_power_cut:
            # The engine has synced its files, but not that others are gone.
            sync_tree(self._generation, names_only=True)
        # Without room for them the next one to open it goes without.
        with suppress(StoreWriteError):
            Checksums.of(self._generation, points, self._written).write(self._generation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _open_shard(self) -> engine.EdgeShard:
        if self._shard is None:
            raise StoreError(f"the store {self._path} {self._why_not}")
        return self._shard

    def leave_to_parent(self) -> None:
        """Do nothing more, in a forked child: what it wrote would be lost, or harm the parent's."""
        if self._shard is not None:
            # Kept for good: an engine that is dropped writes to the parent's files.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._shard))
            self._shard, self._why_not = None, _FORKED
        self._writing = threading.RLock()


def _number(point: Any) -> int:
    """A point's id as we gave it: the engine's stubs allow UUIDs too."""
    return point


_OPEN: weakref.WeakSet[EdgeStore] = weakref.WeakSet()
_FORKED = (
    "was opened before this process was forked from another, which holds it; open it in one "
    'process alone, or start processes by "spawn"'
)


def _leave_all_to_parent() -> None:
    for store in list(_OPEN):
        store.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)
