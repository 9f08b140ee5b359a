"""Lazy store: opened, and made, when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from toolcrib.errors import StoreError
from toolcrib.store.base import Store

__all__ = ["LazyStore"]


class LazyStore:
    """Opens a store once, by `opener`; `exists` tells whether it was ever made. For threads."""

    def __init__(self, opener: Callable[[], Store], exists: Callable[[], bool]) -> None:
        self._opener = opener
        self._exists = exists
        self._store: Store | None = None
        self._is_closed = False
        self._lock = threading.RLock()

    @property
    def exists(self) -> bool:
        """Whether there is one: looking does not make it.

        Raises:
            StoreError: the server does not answer.
        """
        return self._store is not None or self._exists()

    def open(self) -> Store:
        """The store, made if missing.

        Raises:
            StoreError: it cannot be opened, or this was closed before.
        """
        with self._lock:
            if self._store is None:
                if self._is_closed:
                    raise StoreError("the store is closed")
                self._store = self._opener()
            return self._store

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            if self._store is not None:
                self._store.close()
