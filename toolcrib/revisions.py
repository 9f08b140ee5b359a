"""How processes over one server hear of each other's writes: a number that each write changes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from contextlib import closing

from toolcrib import wiring
from toolcrib.settings import Settings
from toolcrib.store.records_db.base import DbRow, RecordsDb

__all__ = ["announce", "change_revision", "revision_of"]

SHELF = "revisions"


def revision_of(ledger: RecordsDb, namespace: str) -> str | None:
    """What the last write left; None where nobody ever said that he wrote."""
    entry = ledger.get(SHELF, namespace)
    return entry.body["revision"] if entry else None


def change_revision(ledger: RecordsDb, namespace: str) -> str:
    """Say that a namespace was written to; the revision that it has now."""
    revision = uuid.uuid4().hex
    ledger.put(SHELF, DbRow(namespace, time.time(), {"revision": revision}))
    return revision


def announce(location: str, settings: Settings, namespaces: Iterable[str]) -> None:
    """Say so from outside of a service; a folder's only process needs no telling.

    Raises:
        StoreError: the server does not answer.
    """
    if not wiring.is_url(location):
        return
    with closing(wiring.open_ledger(location, settings)) as ledger:
        for name in namespaces:
            change_revision(ledger, name)
