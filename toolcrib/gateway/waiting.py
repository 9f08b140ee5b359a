"""Which servers are there, which are not yet, and which have died."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Any

from fastmcp.server.context import Context

from toolcrib.gateway.stock import Stock
from toolcrib.gateway.upstream import Upstream
from toolcrib.records import Scope

__all__ = ["Waiting"]

WORDS = {
    "starting": "is still being connected to",
    "down": "does not answer",
    "unusable": "is misconfigured",
}


class Waiting:
    """Knows of all servers how they are; what it tells has no word of theirs."""

    def __init__(self, upstreams: Mapping[str, Upstream], stock: Stock, patience_s: float) -> None:
        self._upstreams = upstreams
        self._stock = stock
        self._patience_s = patience_s

    @property
    def is_complete(self) -> bool:
        """Whether the tools of every server that can be used are known."""
        return all(
            upstream.health.state == "unusable" or self._stock.knows(upstream.name)
            for upstream in self._upstreams.values()
        )

    def dead(self) -> tuple[str, ...]:
        """The servers whose tools cannot be called."""
        return tuple(name for name, each in self._upstreams.items() if each.health.state != "up")

    def note(self, server: str) -> str:
        """Why a server's tools cannot be called; empty where they can, or soon will."""
        state = self._upstreams[server].health.state
        dead = state in {"down", "unusable"}
        return f"[cannot be called now: its server {WORDS[state]}]" if dead else ""

    def missing(self, scope: Scope) -> list[dict[str, Any]]:
        """The servers whose tools cannot be called now, and for how long that has been so."""
        return [
            {
                "server": upstream.name,
                "state": WORDS[upstream.health.state],
                "for_s": round(monotonic() - upstream.health.since),
            }
            for upstream in self._upstreams.values()
            if upstream.health.state != "up"
            and (scope.servers is None or upstream.name in scope.servers)
        ]

    async def wait(self, context: Context) -> bool:
        """Wait for what is still starting, a bounded time, and tell the caller how far it is.

        Whether there was anything to wait for.
        """
        events = [self._stock.is_open, *(each.settled for each in self._upstreams.values())]
        pending = [event for event in events if not event.is_set()]
        if not pending:
            return False
        waits = {asyncio.create_task(event.wait()) for event in pending}
        until = monotonic() + self._patience_s
        try:
            while waits and (left := until - monotonic()) > 0:
                done = len(events) - len(waits)
                await context.report_progress(done, len(events), "connecting to servers")
                _, waits = await asyncio.wait(
                    waits, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            for wait in waits:
                wait.cancel()
        return True
