"""The documents of a crib: collections, their passages, and where a question finds them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Self

from toolcrib import wiring
from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import IndexMismatchError, UnknownCollectionError
from toolcrib.identity import difference, library_identity
from toolcrib.indexers.points import passage_layout
from toolcrib.indexers.sync import PassageEntry, PassageSync
from toolcrib.indexers.writer import Listener, ignore
from toolcrib.rebuilding import copy_passages
from toolcrib.records import Collection, IndexReport, Passage
from toolcrib.retrieval.passages import PassageRetriever, PassageWeights
from toolcrib.router.collections import (
    CollectionIndex,
    preset,
    read_collection_index,
    read_collections,
)
from toolcrib.settings import Settings
from toolcrib.store.base import Store
from toolcrib.store.filters import AnyOf, Equals, Filter, all_of
from toolcrib.store.payload import read_passage

__all__ = ["Library"]


class Library:
    """Collections of passages in a store of their own; safe for several threads.

    `settings.collections` stand beside those that the store knows, and win over them.

    Raises:
        IndexMismatchError: other models or another format made the passages.
    """

    def __init__(
        self, store: Store, dense: DenseEncoder, settings: Settings, *, rebuild: bool = False
    ) -> None:
        self._store = store
        self._dense = dense
        self._lexical = LexicalEncoder(settings.lexical)
        self._settings = settings
        self._writing = threading.Lock()
        self._claim(rebuild=rebuild)
        self._catalogue = self._known()

    @classmethod
    def open(
        cls, location: str, dense: DenseEncoder, settings: Settings, *, rebuild: bool = False
    ) -> Self:
        """The library that belongs to a location, made if missing.

        Raises:
            StoreError: it cannot be opened, or other models made it.
        """
        store = wiring.open_library(location, passage_layout(dense.dimensions), settings)
        try:
            return cls(store, dense, settings, rebuild=rebuild)
        except BaseException:
            store.close()
            raise

    @property
    def catalogue(self) -> CollectionIndex:
        """The collections that can be asked."""
        return self._catalogue

    def refresh(self) -> None:
        """Look again at the collections: another process may have changed them."""
        with self._writing:
            self._catalogue = self._known()

    def _known(self) -> CollectionIndex:
        kept = read_collection_index(self._store.read_meta(), self._dense)
        return kept.with_changes(self._settings.collections, self._dense)

    def retriever(self, weights: PassageWeights | None = None) -> PassageRetriever:
        """What finds passages, by the settings' weights or by others."""
        return PassageRetriever(self._store, weights or self._settings.passages)

    def collection(self, name: str) -> Collection:
        """The collection of this name.

        Raises:
            UnknownCollectionError: there is none; the nearest names are given.
        """
        for each in self._catalogue.collections:
            if each.name == name:
                return each
        nearest = tuple(get_close_matches(name, self._catalogue.names, n=3))
        raise UnknownCollectionError(name, nearest)

    def define(self, collections: Iterable[Collection]) -> None:
        """Make these collections known, or describe them anew; durable when this returns."""
        given = tuple(collections)
        with self._writing:
            kept = read_collection_index(self._store.read_meta(), self._dense)
            changed = kept.with_changes(given, self._dense)
            if changed is not kept:
                self._keep(changed)
            self._catalogue = self._catalogue.with_changes(given, self._dense)

    def put(
        self,
        entries: Sequence[PassageEntry],
        *,
        prune: str | None = None,
        progress: Listener | None = None,
    ) -> IndexReport:
        """Bring the passages up to date with what loaders yield.

        Collections that are not known yet become known, as their preset says where one ships.
        `prune` names the collection whose other documents go.

        Raises:
            StoreError: the store refused; what was reported to `progress` is durable.
        """
        named = {item.collection for _, item in entries if isinstance(item, Passage)}
        self.define(self._described(name) for name in sorted(named - self._kept_names()))
        sync = PassageSync(self._store, self._dense, self._lexical)
        with self._writing:
            return sync.run(entries, prune=prune, progress=progress or ignore)

    def _kept_names(self) -> set[str]:
        return {each.name for each in read_collections(self._store.read_meta())}

    def _described(self, name: str) -> Collection:
        """As this session has it, else as its preset says."""
        known = {each.name: each for each in self._catalogue.collections}
        return known.get(name) or preset(name)

    def remove(self, collection: str, documents: Sequence[str] = ()) -> int:
        """Remove documents of a collection; without any, the collection itself. Counts passages.

        Raises:
            UnknownCollectionError: there is no such collection.
        """
        self.collection(collection)
        where = all_of(
            Equals("collection", collection),
            AnyOf("document", documents) if documents else None,
        )
        with self._writing:
            gone = [record.id for record in self._store.scroll(where, ("id",))]
            self._store.delete(gone)
            if not documents:
                kept = read_collection_index(self._store.read_meta(), self._dense)
                self._keep(kept.without(collection))
                self._catalogue = self._catalogue.without(collection)
        return len(gone)

    def passages(self, where: Filter | None = None) -> Iterator[Passage]:
        """Every passage that matches, in no particular order."""
        for record in self._store.scroll(where):
            yield read_passage(record.payload)

    def count(self, collection: str | None = None) -> int:
        """How many passages there are, of a collection or in all."""
        return self._store.count(Equals("collection", collection) if collection else None)

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        self._store.close()

    def _keep(self, catalogue: CollectionIndex) -> None:
        self._store.write_meta({**self._store.read_meta(), "catalogue": catalogue.as_meta()})

    def _claim(self, *, rebuild: bool) -> None:
        """Check that the passages are ours to use, or make them so."""
        identity = library_identity(self._dense, self._lexical)
        meta = self._store.read_meta()
        found = meta.get("identity")
        if found is None:
            self._store.write_meta({**meta, "identity": identity})
        elif rebuild:
            with self._store.renew(passage_layout(self._dense.dimensions)) as beside:
                copy_passages(self._store, beside, self._dense, self._settings)
        elif found != identity:
            raise IndexMismatchError(difference(found, identity))
