"""The collections behind one name: how one is made, and how another takes its place.

The name that users set is an alias; behind it stand `NAME.g0001`, `NAME.g0002`, ..., of which one
is live. Searches go to the alias, and a server moves an alias in one step, so that no search
ever finds nothing there.
"""

from __future__ import annotations

import re
from contextlib import suppress

from qdrant_client import models

from toolcrib.errors import IndexMismatchError, StoreError, StoreUnavailableError
from toolcrib.store import server_requests as requests
from toolcrib.store.base import Layout
from toolcrib.store.qdrant_client import Wire, connect, shown

__all__ = ["META_KEY", "Collections", "has_collection"]

META_KEY = "toolcrib"
"""Where a collection's own metadata holds our document; what has it was made by us."""


def has_collection(url: str, name: str, *, api_key: str | None, timeout_s: float) -> bool:
    """Whether a server has a collection, or an alias, of this name; nothing is made for it.

    Raises:
        StoreUnavailableError: the server does not answer.
        StoreError: not a URL, or a refused API key.
    """
    wire = Wire(connect(url, api_key, timeout_s), shown(url))
    try:
        return Collections(wire, name).exists()
    finally:
        wire.close(client_too=True)


class Collections:
    """What stands behind one name on one server.

    `shards`, `replicas`: of every collection that is made; None leaves it to the server.
    """

    def __init__(
        self,
        wire: Wire,
        name: str,
        shards: int | None = None,
        replicas: int | None = None,
    ) -> None:
        self.wire = wire
        self.name = name
        self._shards = shards
        self._replicas = replicas

    def open(self, layout: Layout) -> Layout:
        """Make sure that there is a collection; its layout, which is `layout` for a new one.

        Raises:
            IndexMismatchError: there is one, not made by toolcrib, with other vectors.
            StoreError: the server is older than 1.19.
        """
        self.wire.require_version()
        if not self._exists(self.name):
            # The same for all who come first at one time: whoever is later finds it made.
            founded = self._generation(1)
            self.make(founded, layout)
            self.point_to(founded)
        found = self.describe()
        ours = META_KEY in (found.config.metadata or {})
        wanted = requests.layout_of(found.config.params) if ours else layout
        self._require_layout(self.name, found, wanted)
        self._index_fields(self.name, found)
        return wanted

    def describe(self, name: str | None = None) -> models.CollectionInfo:
        """What the server says about a collection; None: about the live one."""
        name = name or self.name
        describe = self.wire.client.get_collection
        return self.wire.ask(f"reading about the collection {name!r}", describe, name)

    def live(self) -> str:
        """The collection that the name stands for now.

        Raises:
            StoreError: the name is a collection itself, so that nothing can take its place.
        """
        aliases = self.wire.ask("reading the aliases", self.wire.client.get_aliases).aliases
        for alias in aliases:
            if alias.alias_name == self.name:
                return alias.collection_name
        raise StoreError(
            f"{self.name!r} at {self.wire.place} is a collection, not an alias that toolcrib "
            "made, and cannot be renewed; set server.collection to a new name and index into it",
        )

    def unused(self) -> str:
        """A name for the next collection."""
        return self._generation(1 + max(self._generations().values(), default=0))

    def make(self, name: str, layout: Layout) -> None:
        """Make a collection with an index on every field that a filter may name.

        Raises:
            IndexMismatchError: there is one of this name already, for other vectors.
        """
        try:
            self.wire.ask(
                f"making the collection {name!r}",
                self.wire.client.create_collection,
                name,
                vectors_config=requests.dense_vectors(layout),
                sparse_vectors_config=requests.sparse_vectors(layout),
                shard_number=self._shards,
                replication_factor=self._replicas,
                metadata={META_KEY: "{}"},
            )
        except StoreUnavailableError:
            raise
        except StoreError:
            # Another process may have made it since we looked, or our own first try did.
            if not self._exists(name):
                raise
        found = self.describe(name)
        self._require_layout(name, found, layout)
        self._index_fields(name, found)

    def point_to(self, name: str) -> None:
        """Let the name stand for this collection from now on, in one step."""
        to = models.CreateAlias(collection_name=name, alias_name=self.name)
        move = self.wire.client.update_collection_aliases
        what = f"letting {self.name!r} stand for {name!r}"
        self.wire.ask(what, move, [models.CreateAliasOperation(create_alias=to)])

    def remove(self, name: str) -> None:
        """Remove a collection that is no longer needed; what stays is removed next time."""
        with suppress(StoreError):
            delete = self.wire.client.delete_collection
            self.wire.ask(f"removing the collection {name!r}", delete, name)

    def remove_leftovers(self, live: str) -> None:
        """Remove what broken-off renewals left behind."""
        for name in self._generations():
            if name != live:
                self.remove(name)

    def exists(self) -> bool:
        """Whether there is a collection behind the name; nothing is made for it."""
        return self._exists(self.name)

    def _exists(self, name: str) -> bool:
        exists = self.wire.client.collection_exists
        return self.wire.ask(f"looking for the collection {name!r}", exists, name)

    def _generation(self, number: int) -> str:
        return f"{self.name}.g{number:04d}"

    def _generations(self) -> dict[str, int]:
        listed = self.wire.ask("listing the collections", self.wire.client.get_collections)
        ours = re.compile(re.escape(self.name) + r"\.g(\d{4,})")
        found = [ours.fullmatch(collection.name) for collection in listed.collections]
        return {match[0]: int(match[1]) for match in found if match}

    def _require_layout(self, name: str, found: models.CollectionInfo, wanted: Layout) -> None:
        faults = requests.layout_faults(wanted, found.config.params)
        if faults:
            raise IndexMismatchError(
                f"the collection {name!r} at {self.wire.place} was made for other models: "
                f"{'; '.join(faults)}; set server.collection to another name, or delete this one",
            )

    def _index_fields(self, name: str, found: models.CollectionInfo) -> None:
        index = self.wire.client.create_payload_index
        for field, kind in requests.payload_indexes().items():
            if field not in found.payload_schema:
                self.wire.ask(f"indexing the field {field!r}", index, name, field, kind)
