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
from toolcrib.indexers.points import layout, passage_layout
from toolcrib.indexers.writer import Listener
from toolcrib.knowledge_base import passage_copier
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.retrieval.rerank import ToolRerankers, load_reranker
from toolcrib.router.decision_log import DecisionLog
from toolcrib.router.decision_log_db import DatabaseLog, DecisionPruner
from toolcrib.settings import Settings, load_settings
from toolcrib.store.base import CopyChanges, Layout, Store
from toolcrib.store.copier import Copier
from toolcrib.store.folder import LazyStore
from toolcrib.store.namespaced import NamespacedStore, check_name, namespaces_of
from toolcrib.store.records_db import DbRow, RecordsDb
from toolcrib.tool_index import tool_copier

REVISION_TABLE = "revisions"
"""Table of each namespace's revision, in the records database of a server. Every write changes the
revision, by which other processes notice the write."""

MAX_OPEN_CRIBS = 512
"""Cribs kept open; a closed crib opens again in milliseconds."""

STALE_AFTER_S = 1.0
"""Longest time until a process sees another process's write."""


def _revise(records_db: RecordsDb, namespace: str) -> str:
    """Write a new revision of a namespace, and return the revision."""
    revision = uuid.uuid4().hex
    records_db.put(REVISION_TABLE, DbRow(namespace, time.time(), {"revision": revision}))
    return revision


@dataclass(slots=True)
class _OpenCrib:
    """Open crib, its revision, and the time of the last comparison."""

    crib: Crib
    log: DatabaseLog
    revision: str | None
    checked_at: float


class Tenants:
    """Cribs by namespace, opened on first use. Safe for several threads."""

    def __init__(
        self,
        location: str,
        settings: Settings,
        dense: DenseEncoder,
        reranker: ToolRerankers | None,
        records_db: RecordsDb,
    ) -> None:
        self.location = location
        self.settings = settings
        self.records_db = records_db
        self._dense = dense
        self._reranker = reranker
        self._stores = _SharedStores(location, settings, dense)
        self._pruner = DecisionPruner(records_db, settings.service.keep_days * 86_400)
        self._open_cribs: OrderedDict[str, _OpenCrib] = OrderedDict()
        self._lock = threading.RLock()
        self._is_closed = False
        self.is_alone = not build.is_url(location)

    @classmethod
    def open(
        cls,
        location: str | Path | None = None,
        *,
        settings: Settings | None = None,
        progress: Listener | None = None,
    ) -> Self:
        """Open a location as `Crib.open`, for all namespaces; a folder has one process."""
        settings = settings or load_settings()
        where = build.fixed_location(str(settings.store if location is None else location))
        dense = build.make_dense(settings)
        records_db = build.open_records_db(where, settings)
        with ExitStack() as undo:
            undo.callback(records_db.close)
            reranker = load_reranker(build.make_reranker(settings), settings.rerank)
            opened = cls(where, settings, dense, reranker, records_db)
            opened._open(DEFAULT_NAMESPACE, progress)
            undo.pop_all()
        return opened

    # -- cribs ---------------------------------------------------------------------------------

    def crib(self, name: str = DEFAULT_NAMESPACE) -> Crib:
        """Crib of a namespace, shared by all callers; empty before the first write."""
        with self._lock:
            opened = self._opened(name)
            self._open_cribs.move_to_end(name)
            stale = not self.is_alone and time.monotonic() - opened.checked_at > STALE_AFTER_S
            if stale:
                opened.checked_at = time.monotonic()
        if stale:
            self._refresh_stale(name, opened)
        return opened.crib

    def log(self, name: str = DEFAULT_NAMESPACE) -> DatabaseLog:
        """Decision log of a namespace."""
        with self._lock:
            return self._opened(name).log

    def names(self) -> tuple[str, ...]:
        """List the default namespace and every other namespace ever written to."""
        return (DEFAULT_NAMESPACE, *self._stores.names())

    def remove(self, name: str) -> None:
        """Remove everything that a namespace holds.

        Raises:
            QueryError: the name cannot be a namespace's, or is the default namespace's.
        """
        if check_name(name) == DEFAULT_NAMESPACE:
            raise QueryError("the default namespace cannot be removed; remove its tools instead")
        with self._lock:
            opened = self._open_cribs.pop(name, None)
        if opened is not None:
            opened.crib.close()
        self._stores.clear(name)
        for table in self.tables(name):
            self.records_db.prune(table, before=float("inf"))
        self.announce_write(name)

    def tables(self, name: str) -> list[str]:
        """Tables of a namespace in the records database."""
        return [table for table in self.records_db.tables() if table.endswith(f"/{name}")]

    def announce_write(self, name: str) -> None:
        """Announce a write to a namespace, so that other processes refresh."""
        if self.is_alone:
            return
        before, revision = self._revision(name), _revise(self.records_db, name)
        with self._lock:
            opened = self._open_cribs.get(name)
            # If another process wrote meanwhile, its write is still to be seen.
            if opened is not None and opened.revision == before:
                opened.revision = revision

    def check(self) -> None:
        """Check that all stores answer; old decisions are removed even if nothing is decided."""
        self.crib().info()
        self._stores.check()
        self._pruner.prune_if_due()

    def close(self) -> None:
        """Write the rest of the logs, and close everything."""
        with self._lock:
            self._is_closed = True
            while self._open_cribs:
                self._open_cribs.popitem()[1].crib.close()
            self._stores.close()
            self._pruner.close()
            self.records_db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _opened(self, name: str) -> _OpenCrib:
        """Open crib of a namespace; a crib that a caller closed is replaced."""
        opened = self._open_cribs.get(name)
        if opened is None or opened.crib.tools.is_closed:
            return self._open(check_name(name))
        return opened

    def _open(self, name: str, progress: Listener | None = None) -> _OpenCrib:
        if self._is_closed:
            raise StoreError(f"the store {self.location} is closed")
        text = self.settings.telemetry.text
        log = DatabaseLog(self.records_db, name, text=text, pruner=self._pruner)
        revision = self._revision(name)
        if name == DEFAULT_NAMESPACE:
            crib = Crib.open(
                self.location,
                settings=self.settings,
                dense=self._dense,
                reranker=self._reranker,
                log=log,
                progress=progress,
            )
        else:
            crib = self._stores.crib(name, log, self._reranker, self.records_db)
        opened = self._open_cribs[name] = _OpenCrib(crib, log, revision, time.monotonic())
        idle = [each for each in self._open_cribs if each not in {DEFAULT_NAMESPACE, name}]
        for each in idle[: max(0, len(self._open_cribs) - MAX_OPEN_CRIBS)]:
            # The crib is not closed: a request may still use it, and all it holds is shared.
            self._open_cribs.pop(each).log.close()
        return opened

    def _revision(self, name: str) -> str | None:
        """Revision after the last write; None before the first, or of a folder."""
        row = None if self.is_alone else self.records_db.get(REVISION_TABLE, name)
        return row.body["revision"] if row else None

    def _refresh_stale(self, name: str, opened: _OpenCrib) -> None:
        """Refresh after another process's write; an index by other models is refused."""
        revision = self._revision(name)
        if revision == opened.revision:
            return
        try:
            opened.crib.refresh()
        except StoreError:
            # Checked again at the next request: a stale crib must not answer.
            opened.checked_at = float("-inf")
            raise
        opened.revision = revision


def rebuild(location: str, settings: Settings, progress: Listener | None = None) -> None:
    """Encode all namespaces into new stores, and swap them in when all of them are complete.

    Services that run meanwhile answer from the old stores. They are notified after each swap.
    """
    dense = build.make_dense(settings)
    tools = layout(dense.dimensions), partial(tool_copier, dense, settings, progress)
    passages = passage_layout(dense.dimensions), partial(passage_copier, dense, settings)
    tenants = build.part_of(location, settings, build.TENANTS)

    def announce_swap(names: Callable[[], Iterable[str]]) -> None:
        announce(location, settings, names())

    with ExitStack() as opened, ExitStack() as swaps:
        for place, shared in (((location, settings), False), (tenants, True)):
            stores = lazy_stores(place, dense, shared=shared)
            for lazy, (form, copier) in zip(stores, (tools, passages), strict=True):
                opened.callback(lazy.close)
                if not lazy.exists:
                    continue
                store = lazy.open()
                names = partial(namespaces_of, store) if shared else lambda: [DEFAULT_NAMESPACE]
                copy = _namespace_copier(copier) if shared else copier()
                if shared or "identity" in store.read_meta():
                    swaps.callback(announce_swap, names)
                    copy(store, swaps.enter_context(store.renew(form, copy)))


def lazy_stores(
    place: tuple[str, Settings], dense: DenseEncoder, *, shared: bool
) -> tuple[LazyStore, LazyStore]:
    """Stores of tools and of passages at a place; `shared` by namespaces."""
    library = build.part_of(*place, build.LIBRARY)

    def lazy(part: tuple[str, Settings], form: Layout) -> LazyStore:
        opener = partial(build.open_store, *part, form, shared=shared)
        return LazyStore(opener, partial(build.has_store, *part))

    width = dense.dimensions
    return lazy(place, layout(width)), lazy(library, passage_layout(width))


def count_shared(location: str, settings: Settings) -> tuple[int, int]:
    """Numbers of tools and passages in all namespaces but the default one."""
    place = build.part_of(location, settings, build.TENANTS)
    tools, passages = lazy_stores(place, build.make_dense(settings), shared=True)
    with closing(tools), closing(passages):
        return _count(tools), _count(passages)


class _SharedStores:
    """Stores of tools and of passages that all namespaces but the default one share."""

    def __init__(self, location: str, settings: Settings, dense: DenseEncoder) -> None:
        self._settings = settings
        self._dense = dense
        place = build.part_of(location, settings, build.TENANTS)
        self._tools, self._passages = lazy_stores(place, dense, shared=True)

    def crib(
        self, name: str, log: DecisionLog, reranker: ToolRerankers | None, records_db: RecordsDb
    ) -> Crib:

        def passages() -> NamespacedStore:
            return NamespacedStore(self._passages.open(), name)

        crib = Crib.over(
            NamespacedStore(self._tools.open(), name),
            self._dense,
            self._settings,
            passages=LazyStore(
                passages, lambda: self._passages.exists and bool(passages().read_meta())
            ),
            reranker=reranker,
            log=log,
            records=(records_db, name),
        )
        crib.tools.check()
        return crib

    def check(self) -> None:
        """Check that the existing stores answer; the first check opens them."""
        for store in self._existing_stores():
            store.open().info()

    def names(self) -> list[str]:
        """List the namespaces ever written to, by name."""
        return sorted(
            {name for store in self._existing_stores() for name in namespaces_of(store.open())}
        )

    def clear(self, name: str) -> None:
        for store in self._existing_stores():
            NamespacedStore(store.open(), name).clear()

    def close(self) -> None:
        self._tools.close()
        self._passages.close()

    def _existing_stores(self) -> list[LazyStore]:
        """Stores that exist already; opening the others would create them."""
        return [store for store in (self._tools, self._passages) if store.exists]


def _count(lazy: LazyStore) -> int:
    if not lazy.exists:
        return 0
    store = lazy.open()
    return sum(NamespacedStore(store, name).count() for name in namespaces_of(store))


def _namespace_copier(copier: Callable[[], Copier[Any]]) -> CopyChanges:
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
    """Announce writes from outside of a service; a folder has no other process to notify."""
    if not build.is_url(location):
        return
    with closing(build.open_records_db(location, settings)) as records_db:
        for name in namespaces:
            _revise(records_db, name)
