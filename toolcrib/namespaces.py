"""Namespaces: many cribs over one store, each of which looks like the only one.

The default namespace is the store itself, as `Crib.open` opens it. All others share a second
store beside it, in which every point belongs to one of them (`NamespacedStore`).
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from toolcrib import wiring
from toolcrib.crib import Crib
from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.errors import QueryError, StoreError
from toolcrib.indexers.writer import Listener
from toolcrib.revisions import announce, change_revision, revision_of
from toolcrib.router.decision_log_db import DatabaseLog
from toolcrib.settings import Settings, load_settings
from toolcrib.shared_store import SharedStore
from toolcrib.store.namespaced import DEFAULT
from toolcrib.store.records_db.base import RecordsDb

__all__ = ["DEFAULT", "Namespaces", "check_name", "rebuild_shared"]

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")

OPEN_AT_ONCE = 512
"""Cribs of namespaces that are kept ready; another one takes milliseconds to open."""

STALE_AFTER_S = 1.0
"""How long a process may not know what another one wrote."""


def check_name(name: str) -> str:
    """A namespace's name, as it is.

    Raises:
        QueryError: it is none.
    """
    if NAME.fullmatch(name) is None:
        raise QueryError(
            f"{name[:80]!r} is no namespace: a name has 1 to 63 small letters, digits, '.', '_' "
            "and '-', and begins with a letter or digit",
        )
    return name


@dataclass(slots=True)
class _Opened:
    """A crib, the revision that it has seen, and when it was last compared."""

    crib: Crib
    log: DatabaseLog
    revision: str | None
    checked: float


class Namespaces:
    """Opens the crib of a namespace when it is asked for. Safe for several threads."""

    def __init__(
        self,
        location: str,
        settings: Settings,
        dense: DenseEncoder,
        reranker: Reranker | None,
        ledger: RecordsDb,
    ) -> None:
        self.location = location
        self.settings = settings
        self.ledger = ledger
        self._dense = dense
        self._reranker = reranker
        self._shared = SharedStore(location, settings, dense)
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        self._lock = threading.RLock()
        self._is_closed = False
        self._is_alone = not wiring.is_url(location)

    @classmethod
    def open(
        cls,
        location: str | Path | None = None,
        *,
        settings: Settings | None = None,
        progress: Listener | None = None,
    ) -> Self:
        """Open what `Crib.open` opens, for all namespaces.

        Raises:
            StoreError: as `Crib.open`.
        """
        settings = settings or load_settings()
        where = str(location if location is not None else settings.store)
        dense = wiring.make_dense(settings)
        ledger = wiring.open_ledger(where, settings)
        with ExitStack() as undo:
            undo.callback(ledger.close)
            reranker = wiring.make_reranker(settings)
            opened = cls(where, settings, dense, reranker, ledger)
            opened._open_default(progress)
            undo.pop_all()
        return opened

    # -- cribs ---------------------------------------------------------------------------------

    def crib(self, name: str = DEFAULT) -> Crib:
        """The crib of a namespace; one that nobody wrote to is empty.

        Raises:
            QueryError: no name of a namespace.
            StoreError: the store does not answer, or other models made the index.
        """
        with self._lock:
            opened = self._opened.get(name) or self._open(check_name(name))
            self._opened.move_to_end(name)
            stale = not self._is_alone and time.monotonic() - opened.checked > STALE_AFTER_S
            if stale:
                opened.checked = time.monotonic()
        if stale:
            self._catch_up(name, opened)
        return opened.crib

    def log(self, name: str = DEFAULT) -> DatabaseLog:
        """The log of a namespace's decisions."""
        with self._lock:
            return (self._opened.get(name) or self._open(check_name(name))).log

    def names(self) -> tuple[str, ...]:
        """The default namespace, and every other one that was written to."""
        return (DEFAULT, *self._shared.names())

    def remove(self, name: str) -> None:
        """Remove everything that a namespace holds; the default one cannot be removed.

        Raises:
            QueryError: no name of a namespace, or the default one's.
        """
        if check_name(name) == DEFAULT:
            raise QueryError("the default namespace cannot be removed; remove its tools instead")
        with self._lock:
            opened = self._opened.pop(name, None)
        if opened is not None:
            opened.crib.close()
        self._shared.clear(name)
        for shelf in self.ledger.tables():
            if shelf.endswith(f"/{name}"):
                self.ledger.prune(shelf, before=float("inf"))
        self.touched(name)

    def touched(self, name: str) -> None:
        """Say that a namespace was written to, so that other processes look again."""
        if self._is_alone:
            return
        before = self._revision(name)
        revision = change_revision(self.ledger, name)
        with self._lock:
            opened = self._opened.get(name)
            # Where another one wrote meanwhile, its write is still to be looked at.
            if opened is not None and opened.revision == before:
                opened.revision = revision

    def check(self) -> None:
        """Ask the store whether it answers.

        Raises:
            StoreError: it does not.
        """
        self.crib().info()

    def close(self) -> None:
        """Write what is still to be logged, and let go of everything."""
        with self._lock:
            self._is_closed = True
            while self._opened:
                self._opened.popitem()[1].crib.close()
            self._shared.close()
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _open_default(self, progress: Listener | None) -> None:
        log = self._log(DEFAULT)
        crib = Crib.open(
            self.location,
            settings=self.settings,
            dense=self._dense,
            reranker=self._reranker,
            log=log,
            progress=progress,
        )
        self._opened[DEFAULT] = _Opened(crib, log, self._revision(DEFAULT), time.monotonic())

    def _open(self, name: str) -> _Opened:
        if self._is_closed:
            raise StoreError(f"the store {self.location} is closed")
        log = self._log(name)
        revision = self._revision(name)
        crib = self._shared.crib(name, log, self._reranker)
        opened = self._opened[name] = _Opened(crib, log, revision, time.monotonic())
        idle = [each for each in self._opened if each not in {DEFAULT, name}]
        for each in idle[: max(0, len(self._opened) - OPEN_AT_ONCE)]:
            # The crib is not closed: a request may still be at it, and all it holds is shared.
            self._opened.pop(each).log.close()
        return opened

    def _log(self, name: str) -> DatabaseLog:
        keep_s = self.settings.service.keep_days * 86_400
        return DatabaseLog(self.ledger, name, text=self.settings.telemetry.text, keep_s=keep_s)

    def _revision(self, name: str) -> str | None:
        return None if self._is_alone else revision_of(self.ledger, name)

    def _catch_up(self, name: str, opened: _Opened) -> None:
        """Look again where another process wrote; what it rebuilt for other models is refused."""
        revision = self._revision(name)
        if revision == opened.revision:
            return
        try:
            opened.crib.refresh()
        except StoreError:
            # Nothing may be answered from it until that went well.
            opened.checked = float("-inf")
            raise
        opened.revision = revision


def rebuild_shared(location: str, settings: Settings, progress: Listener | None = None) -> None:
    """Renew what all namespaces but the default one share, where there is anything.

    `Crib.open(rebuild=True)` renews the default one. Processes that use the old models are told.

    Raises:
        StoreError: the store does not answer, or another process holds it.
    """
    shared = SharedStore(location, settings, wiring.make_dense(settings))
    try:
        shared.rebuild(progress)
        announce(location, settings, (DEFAULT, *shared.names()))
    finally:
        shared.close()
