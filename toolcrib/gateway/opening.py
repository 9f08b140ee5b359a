"""The store that the gateway searches in: its own folder, or memory where another has that."""

from __future__ import annotations

import time

from toolcrib import wiring
from toolcrib.errors import StoreError
from toolcrib.gateway.news import Say
from toolcrib.indexers.writer import Listener
from toolcrib.namespaces import Namespaces
from toolcrib.settings import Settings
from toolcrib.store.records_db.base import DbRow, RecordsDb

__all__ = ["MEMORY", "open_ledger", "open_store"]

MEMORY = ":memory:"
SHELF = "gateway"


def open_store(
    location: str, settings: Settings, say: Say, progress: Listener | None = None
) -> Namespaces:
    """The index at a location; what is in it is made of what servers list, so memory will do.

    Raises:
        StoreError: not even memory can be used.
    """
    try:
        return Namespaces.open(location, settings=settings, progress=progress)
    except StoreError as error:
        if location == MEMORY:
            raise
        say("warning", f"the index is kept in memory, for this run alone: {error}")
        return Namespaces.open(MEMORY, settings=settings, progress=progress)


def open_ledger(location: str, settings: Settings, say: Say, *, needed: bool) -> RecordsDb:
    """The keys and approvals at a location, which another process may use too.

    Where they are not `needed` for anybody's safety, memory will do.

    Raises:
        StoreError: they cannot be read or written.
    """
    try:
        return _writable(location, settings)
    except StoreError as error:
        if needed:
            raise
        say("warning", f"approvals are kept in memory, for this run alone: {error}")
        return wiring.open_ledger(MEMORY, settings)


def _writable(location: str, settings: Settings) -> RecordsDb:
    ledger = wiring.open_ledger(location, settings)
    try:
        # What is held back must be written down, or it could never be approved.
        ledger.put(SHELF, DbRow("opened", time.time(), {}))
    except StoreError:
        ledger.close()
        raise
    return ledger
