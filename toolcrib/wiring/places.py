"""Where tools, passages and records of a location are kept, and by which engine."""

from __future__ import annotations

import tempfile
from pathlib import Path

from toolcrib.settings import Settings
from toolcrib.store.base import Layout, Store
from toolcrib.store.records_db.base import RecordsDb

__all__ = [
    "MEMORY",
    "has_index",
    "has_library",
    "has_tools",
    "is_url",
    "open_ledger",
    "open_library",
    "open_store",
    "tenants_place",
]

MEMORY = ":memory:"
LIBRARY = "library"
TENANTS = "tenants"
LEDGER = "ledger"


def is_url(location: str) -> bool:
    """Whether a store's location is a server."""
    return location.startswith(("http://", "https://"))


def has_library(location: str, settings: Settings) -> bool:
    """Whether passages were ever kept beside the tools of a location.

    Raises:
        StoreError: the server does not answer.
    """
    if not is_url(location):
        return location != MEMORY and _is_store(Path(location) / LIBRARY)
    return _has_collection(location, settings, _beside(settings.server.collection, LIBRARY))


def has_tools(location: str, settings: Settings) -> bool:
    """Whether tools were ever kept at a location.

    Raises:
        StoreError: the server does not answer.
    """
    if not is_url(location):
        return location != MEMORY and _is_store(Path(location))
    return _has_collection(location, settings, settings.server.collection)


def _is_store(folder: Path) -> bool:
    return (folder / "current").is_file()


def _has_collection(url: str, settings: Settings, collection: str) -> bool:
    from toolcrib.store.qdrant_client import has_collection

    server = settings.server
    return has_collection(
        url,
        collection,
        api_key=server.api_key.get_secret_value() if server.api_key else None,
        timeout_s=server.timeout_s,
    )


def open_library(location: str, layout: Layout, settings: Settings) -> Store:
    """The store of passages that belongs to a location: a folder in its folder, or beside it."""
    if location == MEMORY:
        return open_store(MEMORY, layout, settings)
    if not is_url(location):
        return open_store(str(Path(location) / LIBRARY), layout, settings)
    beside = _beside(settings.server.collection, LIBRARY)
    return open_store(location, layout, _on_server(settings, beside))


def tenants_place(location: str, settings: Settings) -> tuple[str, Settings]:
    """Where the tools of all namespaces but the default one are, which share a store."""
    if location == MEMORY:
        return MEMORY, settings
    if not is_url(location):
        return str(Path(location) / TENANTS), settings
    return location, _on_server(settings, _beside(settings.server.collection, TENANTS))


def open_ledger(location: str, settings: Settings) -> RecordsDb:
    """The records that are kept beside the points of a location.

    A folder need not be free for that: another process may hold its points.

    Raises:
        StoreError: it cannot be opened.
    """
    if is_url(location):
        from toolcrib.store.records_db.qdrant import QdrantRecordsDb

        server = settings.server
        return QdrantRecordsDb.open(
            location,
            api_key=server.api_key.get_secret_value() if server.api_key else None,
            collection=_beside(server.collection, LEDGER),
            timeout_s=server.timeout_s,
            replicas=server.replicas,
        )
    from toolcrib.store.records_db.sqlite import SqliteRecordsDb

    if location == MEMORY:
        passing = tempfile.TemporaryDirectory(prefix="toolcrib-", ignore_cleanup_errors=True)
        return SqliteRecordsDb(Path(passing.name) / f"{LEDGER}.db", on_close=passing.cleanup)
    return SqliteRecordsDb(Path(location) / f"{LEDGER}.db")


def _beside(collection: str, what: str) -> str:
    """The collection that belongs to one of tools."""
    return f"{collection}-{what}"


def _on_server(settings: Settings, collection: str) -> Settings:
    """The settings, of another collection on the same server."""
    server = settings.server.model_copy(update={"collection": collection})
    return settings.model_copy(update={"server": server})


def has_index(location: str) -> bool:
    """Whether there is something to open; a server is taken at its word until it is asked."""
    return is_url(location) or _is_store(Path(location))


def open_store(location: str, layout: Layout, settings: Settings) -> Store:
    """The store at a location: a folder, a server's URL, or `:memory:` for a passing folder."""
    if is_url(location):
        from toolcrib.store.qdrant_server import ServerStore

        server = settings.server
        return ServerStore.open(
            location,
            layout,
            api_key=server.api_key.get_secret_value() if server.api_key else None,
            collection=server.collection,
            timeout_s=server.timeout_s,
            shards=server.shards,
            replicas=server.replicas,
        )
    from toolcrib.store.qdrant_edge import EdgeStore

    if location == MEMORY:
        passing = tempfile.TemporaryDirectory(prefix="toolcrib-", ignore_cleanup_errors=True)
        return EdgeStore.open(Path(passing.name), layout, on_close=passing.cleanup)
    return EdgeStore.open(Path(location), layout)
