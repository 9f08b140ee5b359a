"""The face: what a library user holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from toolcrib import wiring
from toolcrib.clock import Clock, SystemClock
from toolcrib.desk import Desk, Stock
from toolcrib.encoders.protocols import DenseEncoder
from toolcrib.errors import StoreError
from toolcrib.indexers.points import layout
from toolcrib.indexers.sources import ToolSource
from toolcrib.indexers.writing import Listener
from toolcrib.library import Library
from toolcrib.reading import Reading
from toolcrib.records import (
    Collection,
    Context,
    Decision,
    FindResult,
    IndexReport,
    KnowledgeResult,
    Outcome,
    Passage,
    Scope,
    ToolHit,
    Turn,
)
from toolcrib.router.policy import RecoveryPolicy
from toolcrib.settings import Settings, load_settings
from toolcrib.store.protocol import Identity, Store, StoreInfo
from toolcrib.tool_counter import ToolCounter

__all__ = ["Crib"]


class Crib(ToolCounter):
    """A counter of tools and a library of passages: put them in, ask for what a turn needs.

    Safe for several threads; one process at a time holds a folder. A context manager.
    """

    def __init__(
        self,
        store: Store,
        dense: DenseEncoder,
        settings: Settings,
        *,
        library: Callable[[], Library] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._open_library = library
        self._library: Library | None = None
        self._opening = threading.Lock()
        self._desk = Desk(settings, clock or SystemClock())
        self._reading = Reading(store, dense, settings)
        self._stocked = False
        super().__init__(store, dense, settings)

    @classmethod
    def open(
        cls,
        location: str | Path | None = None,
        *,
        settings: Settings | None = None,
        rebuild: bool = False,
        progress: Listener | None = None,
    ) -> Self:
        """Open a folder (made if missing), a Qdrant server's URL, or `:memory:`.

        `location` defaults to the settings' `store`. `rebuild` renews the index beside the old
        one and swaps them at the end; `progress` hears how far that is.

        Raises:
            StoreLockedError: another process has the folder open.
            StoreUnavailableError: the server does not answer.
            IndexMismatchError: other models, settings or format made the index.
        """
        settings = settings or load_settings()
        dense = wiring.make_dense(settings)
        where = str(location if location is not None else settings.store)
        store = wiring.open_store(where, layout(dense.dimensions), settings)

        opened = partial(Library.open, where, dense, settings, rebuild=rebuild)
        try:
            crib = cls(store, dense, settings, library=opened)
            crib._claim(rebuild=rebuild, progress=progress)
            if wiring.has_library(where, settings):
                _ = crib.library
        except BaseException:
            store.close()
            raise
        return crib

    # -- knowledge ---------------------------------------------------------------------------

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

        found = [entry for source in sources for entry in passages(source, collection)]
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

    def find_knowledge(self, query: str, *, scope: Scope | None = None) -> KnowledgeResult:
        """The passages that answer a question, out of the collections that fit it.

        Raises:
            QueryError: a query without words.
            StoreError: the store does not answer.
        """
        return self._at_desk().find_knowledge(query, scope)

    # -- turns -------------------------------------------------------------------------------

    def detect(self, turn: Turn | str) -> Context:
        """What kind of turn it is; nothing is called or written for it."""
        return self._at_desk().detect(_turn(turn))

    def learn_labels(self) -> None:
        """Fit the settings' own labels and cues, and keep what was fitted beside the index.

        Without that every process fits them anew for its first turn.

        Raises:
            SettingsError: labels or cues cannot be read.
        """
        with self._writing:
            self._reading.keep()

    def route(
        self,
        turn: Turn | str,
        *,
        k: int | None = None,
        budget_ms: float | None = None,
        shown: Sequence[str] = (),
    ) -> Decision:
        """Decide a turn: what kind it is, which tools and which passages it needs.

        `k` tools and `budget_ms` milliseconds in place of the settings'. `shown` are ids of
        tools that the conversation's earlier turns had, for an append-only order.

        Raises:
            QueryError: an impossible `k`.
            StoreError: a store does not answer.
        """
        return self._at_desk().route(_turn(turn), k=k, budget_ms=budget_ms, shown=shown)

    def alternates(
        self, failed_tool: str, turn: Turn | str, *, decision_id: str | None = None, k: int = 3
    ) -> tuple[ToolHit, ...]:
        """The next best tools for what a failed one was to do, never one that failed before.

        `decision_id` is that of the turn, where outcomes were reported for it.

        Raises:
            UnknownToolError: no tool has the id of the failed one.
            StoreError: the store does not answer.
        """
        failed = self.get_tool(failed_tool)
        return self._at_desk().alternates(failed, _turn(turn), decision_id, k)

    def report_outcome(
        self, decision_id: str, tool: str, outcome: Outcome, *, took_ms: float | None = None
    ) -> None:
        """Say how a call of a tool ended: `alternates` avoids what failed, and it is logged."""
        self._desk.report_outcome(decision_id, tool, outcome, took_ms)

    @property
    def recovery(self) -> RecoveryPolicy:
        """What an agent's loop asks after a failed call; it never waits by itself."""
        return RecoveryPolicy(self._settings.recovery)

    def feedback(self, decision_id: str, **said: Any) -> None:
        """Say what would have been right for a decision, in the fields of `Feedback`.

        Raises:
            SettingsError: no log is kept (`telemetry.path`).
            UnknownDecisionError: the log has no such decision.
            FeedbackError: a field is unknown, or nothing is said.
        """
        self._desk.feedback(decision_id, said)

    def _put(
        self, entries: Sequence[Any], prune: str | None, progress: Listener | None
    ) -> IndexReport:
        report = self.library.put(entries, prune=prune, progress=progress)
        self._changed(tools=False)
        return report

    def _at_desk(self) -> Desk:
        """The desk, with what is in stock now."""
        with self._opening:
            if not self._stocked:
                detector = self._reading.detector()
                # Before the stock is looked at: what changes meanwhile must be seen next time.
                self._stocked = True
                stock = (self._retriever, self._store, self._dense, detector, self._library)
                self._desk.supply(Stock(*stock, self._reranker))
        return self._desk

    def _changed(self, *, tools: bool) -> None:
        """Tools or what judges them changed: the desk must hear of it before the next turn."""
        if tools:
            self._reading.forget_names()
        self._stocked = False

    # -- asynchronous twins ------------------------------------------------------------------

    async def aindex_tools(self, *sources: ToolSource, **how: Any) -> IndexReport:
        """As `index_tools`, with its keywords, in a thread; `progress` is called from there."""
        return await asyncio.to_thread(self.index_tools, *sources, **how)

    async def afind_tools(self, query: str, k: int | Literal["auto"] = 5, **how: Any) -> FindResult:
        """As `find_tools`, with its keywords, in a thread."""
        return await asyncio.to_thread(self.find_tools, query, k, **how)

    async def aroute(self, turn: Turn | str, **how: Any) -> Decision:
        """As `route`, with its keywords, in a thread."""
        return await asyncio.to_thread(self.route, turn, **how)

    # -- life --------------------------------------------------------------------------------

    def info(self) -> tuple[StoreInfo, Identity]:
        """What the store is, and by what its index was built."""
        return self._store.info(), dict(self._identity)

    def close(self) -> None:
        """Flush and let go of the stores; a second call does nothing."""
        self._desk.close()
        if self._library is not None:
            self._library.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await asyncio.to_thread(self.close)


def _turn(turn: Turn | str) -> Turn:
    return Turn(text=turn) if isinstance(turn, str) else turn
