"""The documents of a crib, beside its tools: into collections, and out again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.errors import StoreError
from toolcrib.indexers.writer import Listener
from toolcrib.library import Library
from toolcrib.records import Collection, IndexReport, Passage, Scope
from toolcrib.settings import Settings
from toolcrib.store.base import Store
from toolcrib.tool_counter import ToolCounter

__all__ = ["DocumentCounter"]


class DocumentCounter(ToolCounter):
    """A counter of tools with a library, which is made when something is put into it."""

    def __init__(
        self,
        store: Store,
        dense: DenseEncoder,
        settings: Settings,
        *,
        library: Callable[[], Library] | None = None,
        has_library: Callable[[], bool] | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self._open_library = library
        self._has_library = has_library or (lambda: False)
        self._library: Library | None = None
        self._opening = threading.Lock()
        super().__init__(store, dense, settings, reranker=reranker)

    @property
    def library(self) -> Library:
        """The collections and their passages; made when they are first asked for.

        Raises:
            StoreError: it cannot be opened, or other models made it.
        """
        with self._opening:
            if self._library is None:
                if self._open_library is None:
                    raise StoreError("this crib was made without a library; use Crib.open")
                self._library = self._open_library()
        return self._library

    def index_docs(
        self,
        *sources: str | Path,
        collection: str,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """Bring a collection up to date with files, folders and URLs of documents.

        What is unchanged is not encoded again. `prune` removes documents of the collection that
        no source names. What cannot be read is refused in the report, and keeps nothing out.

        Raises:
            MissingExtraError: the extra `docs` is not installed.
            StoreError: the store refused; what was reported to `progress` before is durable.
        """
        from toolcrib.indexers.documents.sources import passages

        size = self._settings.documents.max_tokens
        found = [
            entry for source in sources for entry in passages(source, collection, max_tokens=size)
        ]
        return self._put(found, collection if prune else None, progress)

    def index_passages(
        self, passages: Iterable[Passage], *, progress: Listener | None = None
    ) -> IndexReport:
        """Bring the library up to date with passages that were split elsewhere."""
        return self._put([("", passage) for passage in passages], None, progress)

    def remove_docs(self, collection: str, *documents: str) -> int:
        """As `Library.remove`: documents of a collection; without any, all of it."""
        removed = self.library.remove(collection, documents)
        self._changed(tools=False)
        return removed

    def add_collections(self, *collections: Collection) -> None:
        """Make collections known, or describe them anew."""
        self.library.define(collections)
        self._changed(tools=False)

    def list_collections(self, *, scope: Scope | None = None) -> list[tuple[Collection, int]]:
        """The collections in reach by name, each with its number of passages."""
        library = self._library
        if library is None:
            return []
        reach = library.catalogue.within(scope, None)
        return [(each, library.count(each.name)) for each in sorted(reach, key=lambda c: c.name)]

    def refresh(self) -> None:
        """Look again at what another process may have changed; what was open stays open."""
        if self._library is not None:
            self._library.refresh()
        elif self._has_library():
            _ = self.library
        super().refresh()

    def _put(
        self, entries: Sequence[Any], prune: str | None, progress: Listener | None
    ) -> IndexReport:
        report = self.library.put(entries, prune=prune, progress=progress)
        self._changed(tools=False)
        return report
