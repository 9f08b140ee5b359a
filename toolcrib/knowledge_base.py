"""Knowledge base: keeps collections and their passages, and lists, counts and retrieves them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import (
    IndexMismatchError,
    QueryError,
    UnknownCollectionError,
    did_you_mean,
    nearest,
    require_texts,
)
from toolcrib.fingerprint import mismatch_message, passage_fingerprint
from toolcrib.indexers.points import Draft, draft_passage, passage_layout
from toolcrib.records import Collection, Passage, Scope
from toolcrib.retrieval.fusion import PassageWeights
from toolcrib.router.collections import (
    CollectionIndex,
    index_collections,
    preset,
    read_collection_index,
    read_collections,
    with_known_fields,
)
from toolcrib.router.settings import PRESET
from toolcrib.settings import Settings
from toolcrib.store.base import Record, Store
from toolcrib.store.filters import AnyOf, Equals, Filter, all_of
from toolcrib.store.folder import LazyStore
from toolcrib.store.payload import read_passage

if TYPE_CHECKING:
    from toolcrib.indexers.integrity import Discrepancy
    from toolcrib.indexers.sync import PassageEntry, ReadSources
    from toolcrib.indexers.writer import Listener
    from toolcrib.records import IndexReport
    from toolcrib.retrieval.passages import PassageRetriever
    from toolcrib.store.copier import Copier


class KnowledgeBase:
    """Collections of passages in a store of their own; safe for several threads.

    The store is made by the first write; reading without a store finds nothing. A collection in
    `settings.collections` wins over that of the store or a preset. `version` grows with every
    change.

    Raises:
        IndexMismatchError: other models or another format made the passages; `rebuild` encodes
            them anew.
    """

    def __init__(
        self, store: LazyStore, dense: DenseEncoder, settings: Settings, *, rebuild: bool = False
    ) -> None:
        self._versions = count(1)
        self.version = 0
        self._lazy = store
        self._dense = dense
        self._lexical = LexicalEncoder(settings.lexical)
        self._settings = settings
        self._stated_collections = {each.name: each for each in settings.collections}
        self._opening = threading.Lock()
        self._writing = threading.Lock()
        self._store: Store | None = None
        self._catalogue: CollectionIndex | None = None
        if store.exists:
            self._open(rebuild=rebuild)

    @property
    def exists(self) -> bool:
        """True after the first write, as far as this process knows."""
        return self._store is not None

    # -- collections -------------------------------------------------------------------------

    @property
    def catalogue(self) -> CollectionIndex:
        """Collections that questions can search."""
        if self._catalogue is None:
            self._catalogue = self._read_catalogue()
        return self._catalogue

    def collection(self, name: str) -> Collection:
        """Collection of this name.

        Raises:
            UnknownCollectionError: there is no such collection; the nearest names are given.
        """
        if found := self._collections().get(name):
            return found
        raise UnknownCollectionError(name, nearest(name, self.catalogue.names))

    def _collections(self) -> dict[str, Collection]:
        return {each.name: each for each in self.catalogue.collections}

    def settings_warnings(self) -> Iterator[str]:
        """Warnings about collections that `knowledge.map` names and that do not exist.

        The shipped map names common collections; a collection that is missing there is no mistake.
        """
        own = self._settings.knowledge.map
        entries = () if own == PRESET else own
        named = [name for entry in entries for name in entry.collections]
        names = self.catalogue.names if named else ()
        for name in dict.fromkeys(named):
            if name not in names:
                meant = did_you_mean(nearest(name, names))
                yield f"knowledge.map names a collection {name!r}, which does not exist{meant}"

    def passage_counts(self, *, scope: Scope | None = None) -> list[tuple[Collection, int]]:
        """Collections in reach by name, each with its number of passages."""
        reach = self.catalogue.within(scope)
        return [(each, self.count(each.name)) for each in sorted(reach, key=lambda c: c.name)]

    def define(self, collections: Iterable[Collection]) -> None:
        """Add collections, or replace their descriptions; durable on return.

        Raises:
            QueryError: two different collections have one name.
        """
        given = tuple(collections)
        by_name: dict[str, Collection] = {}
        for each in given:
            if by_name.setdefault(each.name, each) != each:
                raise QueryError(f"two different collections have the name {each.name!r}")
        store = self._open()
        with self._writing:
            kept = read_collection_index(store.read_meta(), self._dense)
            changed = kept.with_changes(given, self._dense)
            store.write_meta(changed.changes_since(kept))
            shown = map(self._with_settings_fields, given)
            self._catalogue = self.catalogue.with_changes(shown, self._dense)
            self.version = next(self._versions)

    # -- passages in -------------------------------------------------------------------------

    def index(
        self,
        *sources: str | Path | ReadSources,
        collection: str,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """Bring a collection up to date with documents, as `Crib.index_docs`."""
        from toolcrib.documents.sources import passages
        from toolcrib.indexers.sync import require_entries

        tokens, limits = self._settings.documents.max_tokens, self._settings.documents.limits
        entries = list(passages(*sources, collection=collection, max_tokens=tokens, limits=limits))
        pruned = collection if prune else None
        return self.put(require_entries(entries, prune=prune), prune=pruned, progress=progress)

    def put(
        self,
        entries: Sequence[PassageEntry],
        *,
        prune: str | None = None,
        progress: Listener | None = None,
    ) -> IndexReport:
        """Bring the passages up to date with the entries of loaders.

        New collections are added, with the description of their preset if there is one.
        `prune` names the collection whose other documents are removed.
        """
        from toolcrib.indexers.sync import PassageSync
        from toolcrib.indexers.writer import ignore

        store = self._open()
        kept = {each.name for each in read_collections(store.read_meta())}
        named = {item.collection for _, item in entries if isinstance(item, Passage)}
        known = self._collections()
        self.define(known.get(name) or preset(name) for name in sorted(named - kept))
        sync = PassageSync(store, self._dense, self._lexical)
        with self._writing:
            try:
                return sync.run(entries, prune=prune, progress=progress or ignore)
            finally:
                self.version = next(self._versions)

    def remove(self, collection: str, documents: Sequence[str] = ()) -> int:
        """Remove documents or a collection, as `Crib.remove_docs`."""
        require_texts(documents, "documents")
        self.collection(collection)
        store = self._open()
        chosen = AnyOf("document", documents) if documents else None
        where = all_of(Equals("collection", collection), chosen)
        with self._writing:
            gone = [record.id for record in store.scroll(where, ("id",))]
            store.delete(gone)
            if not documents:
                kept = read_collection_index(store.read_meta(), self._dense)
                store.write_meta(kept.without(collection).changes_since(kept))
                self._catalogue = self.catalogue.without(collection)
            self.version = next(self._versions)
        return len(gone)

    # -- passages out ------------------------------------------------------------------------

    def retriever(self, weights: PassageWeights | None = None) -> PassageRetriever:
        """Retriever of passages, by `weights` or the settings' own."""
        from toolcrib.retrieval.passages import PassageRetriever

        return PassageRetriever(self._open(), weights or self._settings.passages)

    def passages(self, where: Filter | None = None) -> Iterator[Passage]:
        """All passages that match, in no particular order."""
        for record in self._store.scroll(where) if self._store else ():
            yield read_passage(record.payload)

    def count(self, collection: str | None = None) -> int:
        """Number of passages, of a collection or of all."""
        where = Equals("collection", collection) if collection else None
        return self._store.count(where) if self._store else 0

    def faults(self) -> Iterator[Discrepancy]:
        """Stored passages that differ from a new encoding of their texts; encodes all passages."""
        if self._store is None:
            return iter(())
        from toolcrib.indexers.integrity import find_faults

        def redraft(record: Record) -> Draft:
            return draft_passage(read_passage(record.payload), self._lexical)

        return find_faults(self._store, self._dense, self._lexical, redraft)

    # -- life --------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the collections again: another process may have changed them."""
        if self._lazy.exists:
            self._open()
        with self._writing:
            self._catalogue = self._read_catalogue()
            self.version = next(self._versions)

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        self._lazy.close()

    def _open(self, *, rebuild: bool = False) -> Store:
        """The store, made if missing, with its fingerprint checked."""
        with self._opening:
            if self._store is None:
                store = self._lazy.open()
                self._claim(store, rebuild=rebuild)
                self._store = store
                self._catalogue = self._read_catalogue()
            return self._store

    def _claim(self, store: Store, *, rebuild: bool) -> None:
        """Check or write the fingerprint of the passages, or encode them anew."""
        fingerprint = passage_fingerprint(self._dense, self._lexical)
        found = store.read_meta().get("identity")
        if found is None:
            store.write_meta({"identity": fingerprint})
        elif rebuild:
            copy = passage_copier(self._dense, self._settings)
            with store.renew(passage_layout(self._dense.dimensions), copy) as beside:
                copy(store, beside)
        elif found != fingerprint:
            raise IndexMismatchError(mismatch_message(found, fingerprint))

    def _read_catalogue(self) -> CollectionIndex:
        kept = read_collection_index(self._store.read_meta() if self._store else {}, self._dense)
        known = {each.name: each for each in kept.collections}
        found = (known.get(name) or preset(name) for name in self._stated_collections)
        return kept.with_changes(map(self._with_settings_fields, found), self._dense)

    def _with_settings_fields(self, collection: Collection) -> Collection:
        """Collection with the fields that the settings state of it."""
        own = self._stated_collections.get(collection.name)
        return collection if own is None else with_known_fields(own, collection)


def passage_copier(dense: DenseEncoder, settings: Settings) -> Copier[Passage]:
    """Copier of all collections and passages of a store, encoded anew."""
    from toolcrib.indexers.sync import PassageSync
    from toolcrib.store.copier import Copier

    lexical = LexicalEncoder(settings.lexical)
    identity = {"identity": passage_fingerprint(dense, lexical)}

    def write(target: Store, passages: list[tuple[str, Passage]]) -> IndexReport:
        return PassageSync(target, dense, lexical).run(passages)

    def convert(entries: Mapping[str, Any]) -> dict[str, Any]:
        gone = {key: None for key, value in entries.items() if value is None}
        kept = {key: value for key, value in entries.items() if value is not None}
        catalogue = index_collections(read_collections(kept), dense)
        return gone | catalogue.changes_since(None) | identity

    def document(payload: Mapping[str, Any]) -> str:
        return f"{payload['collection']}/{payload['document']}"

    return Copier(read_passage, document, write, convert)
