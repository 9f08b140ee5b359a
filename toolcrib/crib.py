"""The face: what a library user holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from toolcrib import wiring
from toolcrib.clock import Clock, SystemClock
from toolcrib.desk import Desk, Stock
from toolcrib.document_counter import DocumentCounter
from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.indexers.points import layout
from toolcrib.indexers.readers.registry import ToolSource
from toolcrib.indexers.writer import Listener
from toolcrib.library import Library
from toolcrib.reading import Reading
from toolcrib.records import (
    Context,
    Decision,
    FindResult,
    IndexReport,
    KnowledgeResult,
    Outcome,
    Scope,
    ToolHit,
    Turn,
)
from toolcrib.router.decision_log import DecisionLog
from toolcrib.router.recovery import RecoveryPolicy
from toolcrib.settings import Settings, load_settings
from toolcrib.store.base import Identity, Store, StoreInfo

if TYPE_CHECKING:
    from toolcrib.client import RemoteCrib

__all__ = ["Crib"]


class Crib(DocumentCounter):
    """A counter of tools and a library of passages: put them in, ask for what a turn needs.

    Safe for several threads; one process at a time holds a folder. A context manager.

    `Crib("https://...", api_key=...)` is the same over a service (`RemoteCrib`).
    """

    if TYPE_CHECKING:

        @overload
        def __new__(
            cls, store: str, *, api_key: str | None = None, namespace: str | None = None
        ) -> RemoteCrib: ...

        @overload
        def __new__(
            cls, store: Store, dense: DenseEncoder, settings: Settings, **_how: Any
        ) -> Self: ...

    def __new__(cls, store: Store | str, *_more: Any, **how: Any) -> Any:
        """An embedded crib for a store, a client for a service's URL."""
        if not isinstance(store, str):
            return super().__new__(cls)
        from toolcrib.client import RemoteCrib

        return RemoteCrib(store, **how)

    def __init__(  # pyright: ignore[reportInconsistentConstructor] -- __new__ takes a URL too
        self,
        store: Store,
        dense: DenseEncoder,
        settings: Settings,
        *,
        library: Callable[[], Library] | None = None,
        has_library: Callable[[], bool] | None = None,
        reranker: Reranker | None = None,
        clock: Clock | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        self._desk = Desk(settings, clock or SystemClock(), log)
        self._reading = Reading(store, dense, settings)
        self._stocked = False
        super().__init__(
            store, dense, settings, library=library, has_library=has_library, reranker=reranker
        )

    @classmethod
    def open(
        cls,
        location: str | Path | None = None,
        *,
        settings: Settings | None = None,
        dense: DenseEncoder | None = None,
        reranker: Reranker | None = None,
        log: DecisionLog | None = None,
        rebuild: bool = False,
        progress: Listener | None = None,
    ) -> Self:
        """Open a folder (made if missing), a Qdrant server's URL, or `:memory:`.

        `location` defaults to the settings' `store`; `dense`, `reranker` and `log` to what they
        name. `rebuild` renews the index beside the old one and swaps them at the end;
        `progress` hears how far that is.

        Raises:
            StoreLockedError: another process has the folder open.
            StoreUnavailableError: the server does not answer.
            IndexMismatchError: other models, settings or format made the index.
        """
        settings = settings or load_settings()
        dense = dense or wiring.make_dense(settings)
        where = str(location if location is not None else settings.store)
        store = wiring.open_store(where, layout(dense.dimensions), settings)

        opened = partial(Library.open, where, dense, settings, rebuild=rebuild)
        exists = partial(wiring.has_library, where, settings)
        try:
            crib = cls(
                store,
                dense,
                settings,
                library=opened,
                has_library=exists,
                reranker=reranker,
                log=log,
            )
            crib._claim(rebuild=rebuild, progress=progress)
            if exists():
                _ = crib.library
        except BaseException:
            store.close()
            raise
        return crib

    # -- knowledge ---------------------------------------------------------------------------

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
        by: str | None = None,
    ) -> Decision:
        """Decide a turn: what kind it is, which tools and which passages it needs.

        `k` tools and `budget_ms` milliseconds in place of the settings'. `shown` are ids of
        tools that the conversation's earlier turns had, for an append-only order. `by` says in
        the log who asked.

        Raises:
            QueryError: an impossible `k`.
            StoreError: a store does not answer.
        """
        return self._at_desk().route(_turn(turn), k=k, budget_ms=budget_ms, shown=shown, by=by)

    def alternates(
        self, failed_tool: str, turn: Turn | str, *, decision_id: str | None = None, k: int = 3
    ) -> tuple[ToolHit, ...]:
        """The next best tools for what a failed one was to do, never one that failed before.

        `decision_id` is that of the turn, where outcomes were reported for it.

        Raises:
            UnknownToolError: no tool has the id of the failed one.
            StoreError: the store does not answer.
        """
        asked = _turn(turn)
        failed = self.get_tool(failed_tool)
        return self._at_desk().alternates(failed, asked, decision_id, k)

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

    def _at_desk(self) -> Desk:
        """The desk, with what is in stock now."""
        with self._opening:
            if not self._stocked:
                detector = self._reading.detector()
                # Before the stock is looked at: what changes meanwhile must be seen next time.
                self._stocked = True
                stock = Stock(
                    self._retriever,
                    self._store,
                    self._dense,
                    detector,
                    self._reading.stranger(),
                    self._library,
                    self._reranker,
                )
                self._desk.supply(stock)
        return self._desk

    def refresh(self) -> None:
        """Look again at what another process may have changed."""
        self._reading.forget()
        super().refresh()

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
