"""The desk of a crib: where turns are decided, remembered, and looked back at."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from toolcrib.clock import Clock
from toolcrib.encoders.protocols import DenseEncoder, Reranker
from toolcrib.errors import (
    FeedbackError,
    QueryError,
    SettingsError,
    StoreError,
    UnknownDecisionError,
)
from toolcrib.library import Library
from toolcrib.records import Context, Decision, KnowledgeResult, Scope, ToolHit, ToolSpec, Turn
from toolcrib.records.validation import in_words
from toolcrib.retrieval.hybrid import HybridRetriever
from toolcrib.retrieval.passage_rerank import PassageReranker
from toolcrib.retrieval.queries import has_words
from toolcrib.router.budget import Costs
from toolcrib.router.context.detector import Detector
from toolcrib.router.knowledge import KnowledgeRouter
from toolcrib.router.recovery import Failures, alternates
from toolcrib.router.router import Router, RouterParts
from toolcrib.router.telemetry import (
    DecisionLog,
    FailureLog,
    Feedback,
    Outcome,
    decision_record,
    feedback_record,
    open_log,
    outcome_record,
)
from toolcrib.router.tools import ToolSelector, compatible
from toolcrib.settings import Settings
from toolcrib.store.protocol import Store

__all__ = ["Desk", "Stock"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stock:
    """What a turn is decided over: tools, passages, and how a turn is read."""

    retriever: HybridRetriever
    store: Store
    dense: DenseEncoder
    detector: Detector
    stranger: Detector
    library: Library | None
    reranker: Reranker | None = None


class Desk:
    """Decides turns over a stock; keeps their log and what failed. Safe for several threads."""

    def __init__(self, settings: Settings, clock: Clock, log: DecisionLog | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._costs = Costs()
        self._failures = Failures()
        self._log = log or open_log(settings.telemetry)
        self._stock: Stock | None = None
        self._router: Router | None = None

    def supply(self, stock: Stock) -> None:
        """Decide over this from now on."""
        self._stock, self._router = stock, self._make_router(stock)

    def detect(self, turn: Turn) -> Context:
        """What kind of turn it is."""
        return self._supplied[1].detect(turn)

    def route(
        self,
        turn: Turn,
        *,
        k: int | None,
        budget_ms: float | None,
        shown: Sequence[str],
        by: str | None,
    ) -> Decision:
        """Decide a turn and log the decision."""
        _, router = self._supplied
        decision = router.route(turn, k=k, budget_ms=budget_ms, shown=shown)
        if self._log is not None:
            text = self._settings.telemetry.text
            made = decision_record(decision, text=text, at=time.time())
            self._write(self._log, made if by is None else {**made, "by": by})
        return decision

    def find_knowledge(self, query: str, scope: Scope | None) -> KnowledgeResult:
        """The passages that answer a question."""
        if not has_words(query):
            raise QueryError("the question is empty: say in a few words what is to be known")
        return self._supplied[1].find_knowledge(Turn(text=query, scope=scope))

    def alternates(
        self, failed: ToolSpec, turn: Turn, decision_id: str | None, k: int
    ) -> tuple[ToolHit, ...]:
        """What to use in place of a failed tool."""
        if k < 1:
            raise QueryError(f"k is {k}; at least one tool must be asked for")
        stock, _ = self._supplied
        gone = self._gone(decision_id) if decision_id else ()
        found = alternates(
            stock.retriever.find,
            failed,
            turn.text,
            excluded=gone,
            scope=turn.scope,
            where=compatible(self._settings.tools, turn.max_sensitivity),
            k=k,
        )
        return tuple(found)

    def _gone(self, decision_id: str) -> tuple[str, ...]:
        """The tools that failed for a decision, also where another process heard of it."""
        known = tuple(self._failures.of(decision_id))
        if isinstance(self._log, FailureLog):
            known += self._log.failed(decision_id)
        return known

    def report_outcome(
        self, decision_id: str, tool: str, outcome: Outcome, took_ms: float | None
    ) -> None:
        """Remember and log how a call ended; a log that others ask for it must have taken it."""
        self._failures.report(decision_id, tool, outcome)
        if self._log is not None:
            record = outcome_record(decision_id, tool, outcome, at=time.time(), took_ms=took_ms)
            if isinstance(self._log, FailureLog):
                self._log.write(record)
            else:
                self._write(self._log, record)

    def feedback(self, decision_id: str, said: Mapping[str, Any]) -> None:
        """Log what would have been right for a decision."""
        if self._log is None:
            raise SettingsError(
                "feedback is kept in the log of decisions, and there is none: set telemetry.path",
            )
        try:
            given = Feedback.model_validate(said)
        except ValidationError as error:
            raise FeedbackError(in_words(error, "feedback")) from error
        if self._log.find(decision_id) is None:
            raise UnknownDecisionError(f"there is no decision {decision_id!r}")
        text = self._settings.telemetry.text
        self._log.write(feedback_record(decision_id, given, text=text, at=time.time()))

    def close(self) -> None:
        """Let go of the log."""
        if self._log is not None:
            self._log.close()

    @property
    def _supplied(self) -> tuple[Stock, Router]:
        assert self._stock is not None
        assert self._router is not None
        return self._stock, self._router

    def _make_router(self, stock: Stock) -> Router:
        settings, library = self._settings, stock.library
        knowledge = None
        if library is not None and settings.knowledge.enabled:
            retriever = library.retriever()
            second = None
            if stock.reranker is not None:
                second = PassageReranker(stock.reranker, settings.rerank, self._clock)
            knowledge = KnowledgeRouter(
                retriever, library.catalogue, settings.knowledge, stock.detector.aliases, second
            )
        parts = RouterParts(
            retriever=stock.retriever,
            selector=ToolSelector(stock.store, settings.tools),
            tool_settings=settings.tools,
            detector=stock.detector,
            stranger=stock.stranger,
            dense=stock.dense,
            limits=settings.limits,
            knowledge=knowledge,
            gate_decides=settings.gate.is_explicit,
        )
        return Router(parts, self._clock, self._costs)

    def _write(self, log: DecisionLog, record: Mapping[str, Any]) -> None:
        """A log that cannot be written loses its record, never the answer."""
        try:
            log.write(record)
        except StoreError:
            logger.warning("a decision could not be logged", exc_info=True)
