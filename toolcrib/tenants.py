"""Tenants: one isolated crib for each namespace, all over one store.

The default namespace is the store itself, as `Crib.open` opens it. All other namespaces share a
second store beside it, in which every point belongs to one namespace (`NamespacedStore`).
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from toolcrib import build
from toolcrib.crib import Crib
from toolcrib.encoders.base import DenseEncoder
from toolcrib.errors import QueryError, StoreError
from toolcrib.indexers.copier import Copier
from toolcrib.indexers.points import layout, passage_layout
from toolcrib.indexers.writer import Listener
from toolcrib.knowledge_base import passage_copier
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.retrieval.rerank import ToolRerankers, load_reranker
from toolcrib.router.decision_log import DecisionLog
from toolcrib.router.decision_log_db import DatabaseLog
from toolcrib.settings import Settings, load_settings
from toolcrib.store.base import Carry, Store
from toolcrib.store.folder import LazyStore
from toolcrib.store.namespaced import NamespacedStore, check_name, namespaces_of
from toolcrib.store.records_db import DbRow, RecordsDb
from toolcrib.tool_index import tool_copier

REVISION_TABLE = "revisions"

MAX_OPEN_CRIBS = 512
"""Cribs kept open; another crib opens in milliseconds."""

STALE_AFTER_S = 1.0
"""Longest time after which a process sees another process's write."""


@dataclass(frozen=True, slots=True)
class Revisions:
    """Revision of each namespace, changed by every write, by which processes notice writes.

    It is in the records database of a server, which orders writes.
    """

    records_db: RecordsDb

    def revision(self, namespace: str) -> str | None:
        """Revision after the last write; None before the first."""
        entry = self.records_db.get(REVISION_TABLE, namespace)
        return entry.body["revision"] if entry else None

    def revise(self, namespace: str) -> str:
        """Give a namespace another revision after a write, and return it."""
        revision = uuid.uuid4().hex
        self.records_db.put(REVISION_TABLE, DbRow(namespace, time.time(), {"revision": revision}))
        return revision


@dataclass(slots=True)
class _OpenCrib:
    """Open crib, its revision, and the time of the last comparison."""

    crib: Crib
    log: DatabaseLog
    revision: str | None
    checked: float


class Tenants:
    """Cribs by namespace, opened on first use. Safe for several threads."""

    def __init__(
        self,
        location: str,
        settings: Settings,
        dense: DenseEncoder,
        reranker: ToolRerankers | None,
        records_db: RecordsDb,
        *,
        revisions: Revisions | None,
    ) -> None:
        self.location = location
        self.settings = settings
        self.records_db = records_db
        self._dense = dense
        self._reranker = reranker
        self._shared = _SharedStores(location, settings, dense)
        self._opened: OrderedDict[str, _OpenCrib] = OrderedDict()
        self._lock = threading.RLock()
        self._is_closed = False
        self.is_alone = revisions is None
        self._revisions = revisions

    @classmethod
    def open(
        cls,
        location: str | Path | None = None,
        *,
        settings: Settings | None = None,
        progress: Listener | None = None,
    ) -> Self:
        """Open a location as `Crib.open`, for all namespaces; a folder has one process.

        Raises:
            StoreError: as `Crib.open`.
        """
        settings = settings or load_settings()
        where = str(location if location is not None else settings.store)
        dense = build.make_dense(settings)
        records_db = build.open_records_db(where, settings)
        with ExitStack() as undo:
            undo.callback(records_db.close)
            reranker = load_reranker(build.make_reranker(settings), settings.rerank)
            revisions = Revisions(records_db) if build.is_url(where) else None
            opened = cls(where, settings, dense, reranker, records_db, revisions=revisions)
            opened._open_default(progress)
            undo.pop_all()
        return opened

    # -- cribs ---------------------------------------------------------------------------------

    def crib(self, name: str = DEFAULT_NAMESPACE) -> Crib:
        """Crib of a namespace; empty before the first write.

        Raises:
            QueryError: the name cannot be a namespace's.
            StoreError: the store does not answer, or other models made the index.
        """
        with self._lock:
            opened = self._opened.get(name) or self._open(check_name(name))
            self._opened.move_to_end(name)
            stale = not self.is_alone and time.monotonic() - opened.checked > STALE_AFTER_S
            if stale:
                opened.checked = time.monotonic()
        if stale:
            self._catch_up(name, opened)
        return opened.crib

    def log(self, name: str = DEFAULT_NAMESPACE) -> DatabaseLog:
        """Decision log of a namespace."""
        with self._lock:
            return (self._opened.get(name) or self._open(check_name(name))).log

    def names(self) -> tuple[str, ...]:
        """List the default namespace and every other namespace ever written to."""
        return (DEFAULT_NAMESPACE, *self._shared.names())

    def remove(self, name: str) -> None:
        """Remove everything that a namespace holds.

        Raises:
            QueryError: the name cannot be a namespace's, or is the default namespace's.
        """
        if check_name(name) == DEFAULT_NAMESPACE:
            raise QueryError("the default namespace cannot be removed; remove its tools instead")
        with self._lock:
            opened = self._opened.pop(name, None)
        if opened is not None:
            opened.crib.close()
        self._shared.clear(name)
        for table in self.records_db.tables():
            if table.endswith(f"/{name}"):
                self.records_db.prune(table, before=float("inf"))
        self.announce_write(name)

    def announce_write(self, name: str) -> None:
        """Announce a write to a namespace, so that other processes refresh."""
        if self._revisions is None:
            return
        before = self._revisions.revision(name)
        revision = self._revisions.revise(name)
        with self._lock:
            opened = self._opened.get(name)
            # If another process wrote meanwhile, its write is still to be seen.
            if opened is not None and opened.revision == before:
                opened.revision = revision

    def check(self) -> None:
        """Check that the store answers.

        Raises:
            StoreError: the store does not answer.
        """
        self.crib().info()

    def close(self) -> None:
        """Write the rest of the logs, and close everything."""
        with self._lock:
            self._is_closed = True
            while self._opened:
                self._opened.popitem()[1].crib.close()
            self._shared.close()
            self.records_db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _open_default(self, progress: Listener | None) -> None:
        log = self._log(DEFAULT_NAMESPACE)
        crib = Crib.open(
            self.location,
            settings=self.settings,
            dense=self._dense,
            reranker=self._reranker,
            log=log,
            progress=progress,
        )
        self._opened[DEFAULT_NAMESPACE] = _OpenCrib(
            crib, log, self._revision(DEFAULT_NAMESPACE), time.monotonic()
        )

    def _open(self, name: str) -> _OpenCrib:
        if self._is_closed:
            raise StoreError(f"the store {self.location} is closed")
        log = self._log(name)
        revision = self._revision(name)
        crib = self._shared.crib(name, log, self._reranker, self.records_db)
        opened = self._opened[name] = _OpenCrib(crib, log, revision, time.monotonic())
        idle = [each for each in self._opened if each not in {DEFAULT_NAMESPACE, name}]
        for each in idle[: max(0, len(self._opened) - MAX_OPEN_CRIBS)]:
            # The crib is not closed: a request may still use it, and all it holds is shared.
            self._opened.pop(each).log.close()
        return opened

    def _log(self, name: str) -> DatabaseLog:
        keep_s = self.settings.service.keep_days * 86_400
        return DatabaseLog(self.records_db, name, text=self.settings.telemetry.text, keep_s=keep_s)

    def _revision(self, name: str) -> str | None:
        return None if self._revisions is None else self._revisions.revision(name)

    def _catch_up(self, name: str, opened: _OpenCrib) -> None:
        """Refresh after another process's write; an index by other models is refused."""
        revision = self._revision(name)
        if revision == opened.revision:
            return
        try:
            opened.crib.refresh()
        except StoreError:
            # No answers come from it until a refresh succeeds.
            opened.checked = float("-inf")
            raise
        opened.revision = revision


def rebuild_shared(location: str, settings: Settings, progress: Listener | None = None) -> None:
    """Rebuild the shared stores of all namespaces but the default one, if there are any.

    `Crib.open(rebuild=True)` rebuilds the default namespace. Other processes are notified.

    Raises:
        StoreError: the store does not answer, or another process holds it.
    """
    shared = _SharedStores(location, settings, build.make_dense(settings))
    try:
        shared.rebuild(progress)
        announce(location, settings, (DEFAULT_NAMESPACE, *shared.names()))
    finally:
        shared.close()


class _SharedStores:
    """Stores of tools and of passages that all namespaces but the default one share."""

    def __init__(self, location: str, settings: Settings, dense: DenseEncoder) -> None:
        self._settings = settings
        self._dense = dense
        place = build.part_of(location, settings, build.TENANTS)
        library = build.part_of(*place, build.LIBRARY)
        self._tool_layout = layout(dense.dimensions)
        self._passage_layout = passage_layout(dense.dimensions)
        self._tools = LazyStore(
            lambda: build.open_store(*place, self._tool_layout, shared=True),
            lambda: build.has_store(*place),
        )
        self._passages = LazyStore(
            lambda: build.open_store(*library, self._passage_layout, shared=True),
            lambda: build.has_store(*library),
        )

    def crib(
        self, name: str, log: DecisionLog, reranker: ToolRerankers | None, records_db: RecordsDb
    ) -> Crib:
        """Open a namespace's crib.

        Raises:
            IndexMismatchError: the index is by other models.
        """
        crib = Crib.over(
            NamespacedStore(self._tools.open(), name),
            self._dense,
            self._settings,
            passages=LazyStore(
                lambda: NamespacedStore(self._passages.open(), name),
                partial(self._has_passages, name),
            ),
            reranker=reranker,
            log=log,
            records=(records_db, name),
        )
        crib.tools.check()
        return crib

    def names(self) -> list[str]:
        """List the namespaces ever written to, by name."""
        return sorted({name for store in self._existing() for name in namespaces_of(store.open())})

    def clear(self, name: str) -> None:
        """Remove everything of a namespace."""
        for store in self._existing():
            NamespacedStore(store.open(), name).clear()

    def rebuild(self, progress: Listener | None = None) -> None:
        """Re-encode everything into new stores, and swap them in."""
        if self._tools.exists:
            tools = self._tools.open()
            copy = _copy_of_each(lambda: tool_copier(self._dense, self._settings, progress))
            with tools.renew(self._tool_layout, copy) as beside:
                copy(tools, beside)
        if self._passages.exists:
            passages = self._passages.open()
            copy = _copy_of_each(lambda: passage_copier(self._dense, self._settings))
            with passages.renew(self._passage_layout, copy) as beside:
                copy(passages, beside)

    def close(self) -> None:
        """Close the stores."""
        self._tools.close()
        self._passages.close()

    def _existing(self) -> list[LazyStore]:
        """Stores that exist already; looking must not create them."""
        return [store for store in (self._tools, self._passages) if store.exists]

    def _has_passages(self, name: str) -> bool:
        if not self._passages.exists:
            return False
        return bool(NamespacedStore(self._passages.open(), name).read_meta())


def _copy_of_each(copier: Callable[[], Copier[Any]]) -> Carry:
    """Copy of every namespace, each by a copier of its own."""
    copiers = defaultdict[str, Copier[Any]](copier)

    def copy(source: Store, target: Store) -> bool:
        names = namespaces_of(source)
        changes = [
            copiers[name](NamespacedStore(source, name), NamespacedStore(target, name))
            for name in names
        ]
        return any(changes)

    return copy


def announce(location: str, settings: Settings, namespaces: Iterable[str]) -> None:
    """Announce writes from outside of a service; a folder has no other process to notify.

    Raises:
        StoreError: the server does not answer.
    """
    if not build.is_url(location):
        return
    with closing(build.open_records_db(location, settings)) as records_db:
        for name in namespaces:
            Revisions(records_db).revise(name)
