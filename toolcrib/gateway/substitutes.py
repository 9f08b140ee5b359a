"""Which other tools may do what a failed one was to do, in reach of who called it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from toolcrib.errors import ToolcribError
from toolcrib.gateway.catalogue import Offer
from toolcrib.gateway.stock import Stock
from toolcrib.gateway.turns import Turn
from toolcrib.records import Outcome, Scope, ToolHit
from toolcrib.router.alternates import Failures, alternates
from toolcrib.store.filters import AnyOf, Not

__all__ = ["Substitutes"]

AT_MOST = 3
MAX_CHARS = 100

logger = logging.getLogger(__name__)


class Substitutes:
    """Asks the index for alternates of a tool, and remembers which have failed in a turn.

    It asks the index itself: a crib would read the turn first, which is of no use here, and takes
    minutes where the encoder is not the shipped one.
    """

    def __init__(
        self, stock: Stock, scope: Callable[[], Scope], dead: Callable[[], tuple[str, ...]]
    ) -> None:
        self._stock = stock
        self._scope = scope
        self._dead = dead
        self._failures = Failures()

    async def in_words(self, failed: Offer, turn: Turn) -> str:
        """The tools to try instead, or that there are none, as an end to a message."""
        if not self._stock.is_open.is_set():
            return " Try again later."
        try:
            hits = await self._stock.work(self._hits, failed, turn, self._scope())
        except ToolcribError:
            logger.warning("alternates could not be looked for", exc_info=True)
            return ""
        lines = [line for hit in hits if (line := self._line(hit))]
        if not lines:
            return " No other tool is like it; try again later, or go on without it."
        return "\nOther tools that may do it:\n" + "\n".join(lines)

    def _hits(self, failed: Offer, turn: Turn, scope: Scope) -> list[ToolHit]:
        return alternates(
            self._stock.crib.find_tools,
            failed.spec,
            turn.query or failed.spec.description or failed.spec.name,
            excluded=self._failures.of(turn.id),
            scope=scope,
            where=Not(AnyOf("server", self._dead())),
            k=AT_MOST,
        )

    async def report(self, turn: Turn, offer: Offer, outcome: Outcome, took_ms: float) -> None:
        """Take down how a call ended."""
        self._failures.report(turn.id, offer.spec.id, outcome)
        if not self._stock.is_open.is_set():
            return
        told = self._stock.crib.report_outcome
        try:
            await self._stock.work(told, turn.id, offer.spec.id, outcome, took_ms=took_ms)
        except (ToolcribError, OSError):
            # The call was made: its result is not lost for that.
            logger.warning("the outcome of a call could not be taken down", exc_info=True)

    def _line(self, hit: ToolHit) -> str:
        """One tool to try; empty for one that is not on offer any more."""
        offer = self._stock.catalogue.get(hit.id)
        if offer is None:
            return ""
        about = " ".join(offer.spec.description.split())
        short = about if len(about) <= MAX_CHARS else about[: MAX_CHARS - 1] + "…"
        return f"- {offer.name}: {short}" if short else f"- {offer.name}"
