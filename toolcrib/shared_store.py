"""The stores that all namespaces but the default one share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from toolcrib import wiring
from toolcrib.crib import Crib
from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.indexers.points import layout, passage_layout
from toolcrib.indexers.writer import Listener
from toolcrib.library import Library
from toolcrib.rebuilding import copy_passages, copy_tools
from toolcrib.router.decision_log import DecisionLog
from toolcrib.settings import Settings
from toolcrib.store.base import Layout, Store
from toolcrib.store.namespaced import NamespacedStore, namespaces_of

__all__ = ["SharedStore"]


class SharedStore:
    """One store of tools and one of passages, opened when first needed. For several threads."""

    def __init__(self, location: str, settings: Settings, dense: DenseEncoder) -> None:
        self._place, self._placed = wiring.tenants_place(location, settings)
        self._settings = settings
        self._dense = dense
        self._lock = threading.RLock()
        width = dense.dimensions
        self._tools = _Lazy(self._lock, lambda: self._open(wiring.open_store, layout(width)))
        self._passages = _Lazy(
            self._lock, lambda: self._open(wiring.open_library, passage_layout(width))
        )

    def crib(self, name: str, log: DecisionLog, reranker: Reranker | None) -> Crib:
        """A namespace's crib.

        Raises:
            IndexMismatchError: other models made its index.
        """
        has_library = partial(self._has_library, name)
        crib = Crib(
            NamespacedStore(self._tools.get(), name),
            self._dense,
            self._settings,
            library=partial(self._library, name),
            has_library=has_library,
            reranker=reranker,
            log=log,
        )
        crib.check_index()
        if has_library():
            _ = crib.library
        return crib

    def names(self) -> list[str]:
        """Every namespace that tools or passages were ever written to, by name."""
        stores = [self._tools.get()] if self._has_tools() else []
        stores += [self._passages.get()] if self._has_passages() else []
        return sorted({name for store in stores for name in namespaces_of(store)})

    def clear(self, name: str) -> None:
        """Remove what a namespace holds."""
        if self._has_tools():
            NamespacedStore(self._tools.get(), name).clear()
        if self._has_passages():
            NamespacedStore(self._passages.get(), name).clear()

    def rebuild(self, progress: Listener | None = None) -> None:
        """Encode everything anew into stores beside, and swap them in."""
        width = self._dense.dimensions
        if self._has_tools():
            tools = self._tools.get()
            with tools.renew(layout(width)) as beside:
                for name in namespaces_of(tools):
                    ends = NamespacedStore(tools, name), NamespacedStore(beside, name)
                    copy_tools(*ends, self._dense, self._settings, progress)
        if self._has_passages():
            passages = self._passages.get()
            with passages.renew(passage_layout(width)) as beside:
                for name in namespaces_of(passages):
                    ends = NamespacedStore(passages, name), NamespacedStore(beside, name)
                    copy_passages(*ends, self._dense, self._settings)

    def close(self) -> None:
        """Let go of the stores."""
        self._tools.close()
        self._passages.close()

    def _open(self, opener: Callable[[str, Layout, Settings], Store], kept: Layout) -> Store:
        return opener(self._place, kept, self._placed)

    def _library(self, name: str) -> Library:
        return Library(NamespacedStore(self._passages.get(), name), self._dense, self._settings)

    def _has_library(self, name: str) -> bool:
        """Whether there is one: looking must not make it."""
        if not self._has_passages():
            return False
        return bool(NamespacedStore(self._passages.get(), name).read_meta())

    def _has_tools(self) -> bool:
        return self._tools.is_open or wiring.has_tools(self._place, self._placed)

    def _has_passages(self) -> bool:
        return self._passages.is_open or wiring.has_library(self._place, self._placed)


class _Lazy:
    """A store that is opened when it is first asked for."""

    def __init__(self, lock: threading.RLock, opener: Callable[[], Store]) -> None:
        self._lock = lock
        self._opener = opener
        self._store: Store | None = None

    @property
    def is_open(self) -> bool:
        return self._store is not None

    def get(self) -> Store:
        with self._lock:
            if self._store is None:
                self._store = self._opener()
            return self._store

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = None
