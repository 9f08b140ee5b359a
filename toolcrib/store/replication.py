"""Replication: one process owns the stores of a folder and writes; others search replicas.

The owner sends every follower a copy of each store, and then each of its writes in their order.
Once the engine has swapped its files (a new index, an optimised one) a copy is sent again.
"""

from __future__ import annotations

import queue
import shutil
import threading
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from pickle import loads
from typing import Any, NoReturn

from toolcrib.encoders.base import FloatArray, SparseVector
from toolcrib.errors import ReplicaError, StoreError
from toolcrib.store.base import Carry, Layout, LegQuery, Point, Record, Scored, Store, StoreInfo
from toolcrib.store.filters import Filter
from toolcrib.store.qdrant_edge import EdgeStore

MAX_QUEUED_WRITES = 64
"""Writes that a follower may be behind; the next one waits."""

FOLLOWER_TIMEOUT_S = 10.0
"""A follower whose queue is full for this time is dropped."""

_COMPLETE = "complete"
_OPEN = "open"
_REVISION = "revision"
_WRITES = frozenset({"upsert", "set_sparse", "delete", "write_meta"})


class _Readable(Store):
    """A store that hands its reads to an embedded store."""

    @property
    def _engine(self) -> EdgeStore:
        raise NotImplementedError

    def search(self, queries: Sequence[LegQuery]) -> list[list[Scored]]:
        return self._engine.search(queries)

    def retrieve(self, ids: Sequence[int]) -> list[Record]:
        return self._engine.retrieve(ids)

    def vectors(self, ids: Sequence[int], using: str) -> dict[int, FloatArray]:
        return self._engine.vectors(ids, using)

    def scroll(
        self,
        where: Filter | None = None,
        fields: Sequence[str] | None = None,
        *,
        after: int | None = None,
    ) -> Iterator[Record]:
        return self._engine.scroll(where, fields, after=after)

    def count(self, where: Filter | None = None) -> int:
        return self._engine.count(where)

    def read_meta(self) -> Mapping[str, Any]:
        return self._engine.read_meta()

    def info(self) -> StoreInfo:
        return self._engine.info()


# -- the owner's end -------------------------------------------------------------------------------


class Publisher:
    """Sends followers what is written to the stores that it opens; `folder` is for copies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = count()
        self._stores: dict[str, _Published] = {}
        self._followers: list[_Follower] = []
        self._revisions: dict[str, str] = {}
        self._lock = threading.Lock()

    def revision(self, namespace: str) -> str | None:
        """Revision of a namespace after its last write."""
        return self._revisions.get(namespace)

    def revise(self, namespace: str) -> str:
        """Send followers a new revision of a namespace, after all its writes."""
        with self._lock:
            revision = self._revisions[namespace] = uuid.uuid4().hex
            for follower in self._followers:
                follower.send(namespace, _REVISION, revision)
        return revision

    def open(self, path: Path, layout: Layout, *, survives_power_cut: bool) -> Store:
        """Open a store, as `EdgeStore.open`, whose writes are sent."""
        engine = EdgeStore.open(path, layout, survives_power_cut=survives_power_cut)
        opened = _Published(engine, str(path))
        with self._lock, ExitStack() as undo:
            undo.callback(engine.close)
            for follower in self._followers:
                opened.add(follower)
            self._stores[str(path)] = opened
            undo.pop_all()
        return opened

    def add(self, connection: Connection) -> Callable[[], None]:
        """Send everything to one more follower, until what is returned is called."""
        follower = _Follower(connection, self._folder / f"follower{next(self._number)}")

        def remove() -> None:
            with self._lock:
                self._followers = [each for each in self._followers if each is not follower]
            follower.end()
            shutil.rmtree(follower.folder, ignore_errors=True)

        with ExitStack() as undo:
            undo.callback(remove)
            with self._lock:
                for store in self._stores.values():
                    store.add(follower)
                for namespace, revision in self._revisions.items():
                    follower.send(namespace, _REVISION, revision)
                follower.send("", _COMPLETE)
                self._followers.append(follower)
            undo.pop_all()
        return remove


class _Follower:
    """Sends messages to one process, in a thread: a write waits only where many are queued.

    `folder` is for the copies that are sent.
    """

    def __init__(self, connection: Connection, folder: Path) -> None:
        self.folder = folder
        self.is_gone = False
        self._connection = connection
        self._copies = count()
        self._messages: queue.Queue[Any] = queue.Queue(MAX_QUEUED_WRITES)
        threading.Thread(target=self._run, name="toolcrib-follower", daemon=True).start()

    def send(self, key: str, name: str, *given: object) -> None:
        """Queue a message; a follower that does not keep up is dropped."""
        if self.is_gone:
            return
        try:
            message = ForkingPickler.dumps((key, name, given))
            self._messages.put(message, timeout=FOLLOWER_TIMEOUT_S)
        except queue.Full:
            self.end()

    def send_copy(self, key: str, engine: EdgeStore) -> None:
        """Send a whole store."""
        if not self.is_gone:
            place = self.folder / f"replica{next(self._copies)}"
            engine.copy_to(place)
            self.send(key, _OPEN, str(place))

    def end(self) -> None:
        """Send nothing more."""
        self.is_gone = True
        with suppress(queue.Full):
            self._messages.put_nowait(None)
        self._connection.close()

    def _run(self) -> None:
        while (message := self._messages.get()) is not None:
            try:
                self._connection.send_bytes(message)
            except (OSError, ValueError):
                self.is_gone = True
                return


class _Published(_Readable):
    """A store of the owner, with its followers."""

    def __init__(self, engine: EdgeStore, key: str) -> None:
        self._own = engine
        self._key = key
        self._followers: list[_Follower] = []
        self._lock = threading.RLock()

    @property
    def _engine(self) -> EdgeStore:
        return self._own

    def add(self, follower: _Follower) -> None:
        """Send a follower a copy, and every later write."""
        with self._lock:
            self._followers = [each for each in self._followers if not each.is_gone]
            follower.send_copy(self._key, self._own)
            self._followers.append(follower)

    def upsert(self, points: Sequence[Point]) -> None:
        self._write("upsert", points)

    def set_sparse(self, using: str, vectors: Mapping[int, SparseVector]) -> None:
        self._write("set_sparse", using, vectors)

    def delete(self, ids: Iterable[int]) -> None:
        self._write("delete", list(ids))

    def write_meta(self, entries: Mapping[str, Any]) -> None:
        self._write("write_meta", entries)

    @contextmanager
    def renew(self, layout: Layout, carry: Carry | None = None) -> Generator[Store]:
        with self._copies_after_swap(), self._own.renew(layout, carry) as beside:
            yield beside

    def optimise(self) -> None:
        with self._copies_after_swap():
            self._own.optimise()

    def close(self) -> None:
        self._own.close()

    def _write(self, name: str, *given: object) -> None:
        with self._lock:
            before = self._own.updates
            try:
                getattr(self._own, name)(*given)
            except Exception:
                if self._own.updates != before:
                    # Part of it may have been written.
                    self._send_copies()
                raise
            for follower in self._followers:
                follower.send(self._key, name, *given)

    @contextmanager
    def _copies_after_swap(self) -> Generator[None]:
        """Send copies afterwards, where the files were swapped."""
        with self._lock:
            before = self._own.generation
            yield
            if self._own.generation != before:
                self._send_copies()

    def _send_copies(self) -> None:
        for follower in self._followers:
            try:
                follower.send_copy(self._key, self._own)
            except StoreError:
                # Without the copy the follower would serve old points.
                follower.end()


# -- a follower's end ------------------------------------------------------------------------------


class Replicas:
    """The stores that an owner sends; `follow` keeps them up to date."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stores: dict[str, tuple[EdgeStore, Path]] = {}
        self._revisions: dict[str, str] = {}
        while self._apply_next() != _COMPLETE:
            pass

    def open(self, path: Path, layout: Layout, *, survives_power_cut: bool) -> Store:  # noqa: ARG002 -- as the owner has it
        """The replica of a store of the owner; each call looks up its current files."""
        self.engine(str(path))
        return _Replica(self, str(path))

    def revision(self, namespace: str) -> str | None:
        """Revision of the last write to a namespace that has reached the replicas."""
        return self._revisions.get(namespace)

    def revise(self, namespace: str) -> str:
        """Refuse: only the owner writes.

        Raises:
            ReplicaError: always.
        """
        raise ReplicaError(f"{namespace} is written to by its owner alone")

    def engine(self, key: str) -> EdgeStore:
        """Store that holds a replica now.

        Raises:
            ReplicaError: the owner has sent none.
        """
        if key not in self._stores:
            raise ReplicaError(f"there is no replica of {key} here yet; ask again")
        return self._stores[key][0]

    def follow(self) -> None:
        """Apply the owner's writes until the owner ends.

        Raises:
            StoreError: it cannot be written here.
        """
        with suppress(EOFError, ConnectionError):
            while True:
                self._apply_next()

    def _apply_next(self) -> str:
        key, name, given = loads(self._connection.recv_bytes())  # noqa: S301 -- of our own owner
        if name == _OPEN:
            self._open(key, Path(*given))
        elif name == _REVISION:
            self._revisions[key] = given[0]
        elif name in _WRITES:
            getattr(self.engine(key), name)(*given)
        return name

    def _open(self, key: str, place: Path) -> None:
        # It has the layout that it was copied with.
        opened = EdgeStore.open(place, Layout({}, {}, ()), survives_power_cut=False)
        before = self._stores.get(key)
        self._stores[key] = opened, place
        if before is not None:
            # Whoever searches it has its files open.
            shutil.rmtree(before[1], ignore_errors=True)


class _Replica(_Readable):
    """A store that can only be read."""

    def __init__(self, replicas: Replicas, key: str) -> None:
        self._replicas = replicas
        self._key = key

    @property
    def _engine(self) -> EdgeStore:
        return self._replicas.engine(self._key)

    def info(self) -> StoreInfo:
        """Facts of the owner's store, with the owner's location."""
        return replace(self._engine.info(), location=self._key)

    def _refuse(self, *_given: Any, **_more: Any) -> NoReturn:
        raise ReplicaError(f"{self._key} is a replica here, which its owner alone writes to")

    upsert = set_sparse = delete = write_meta = renew = optimise = _refuse

    def close(self) -> None:
        """Do nothing: other requests use the replica."""
