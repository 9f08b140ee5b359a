"""Lazy stores: opened, and made, at the first use; and the opening of folders."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from toolcrib.errors import StoreError
from toolcrib.store.base import Layout, Store


class LazyStore:
    """Opens a store once, by `opener`; safe for several threads."""

    def __init__(self, opener: Callable[[], Store], exists: Callable[[], bool]) -> None:
        self._opener = opener
        self._exists = exists
        self._store: Store | None = None
        self._is_closed = False
        self._lock = threading.RLock()

    @property
    def exists(self) -> bool:
        """Say whether the store was ever made, without making it.

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
        """Close the store; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            if self._store is not None:
                self._store.close()


_opener: Callable[..., Store] | None = None


def open_folder(path: Path, layout: Layout, *, survives_power_cut: bool) -> Store:
    """Open the store in a folder: embedded, or by the opener of `folders_opened_by`."""
    from toolcrib.store.qdrant_edge import EdgeStore

    return (_opener or EdgeStore.open)(path, layout, survives_power_cut=survives_power_cut)


@contextmanager
def folders_opened_by(opener: Callable[..., Store]) -> Generator[None]:
    """Make all threads open folders by `opener`, which has the parameters of `open_folder`."""
    global _opener  # noqa: PLW0603 -- later openers must use the same function
    _opener = opener
    try:
        yield
    finally:
        _opener = None
