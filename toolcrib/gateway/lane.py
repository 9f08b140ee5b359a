"""A conversation's own way to a server, and the calls that are under way on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Any

from mcp.types import INVALID_REQUEST, CallToolResult, ErrorData, InputRequest

from toolcrib.gateway.exchange import Exchange
from toolcrib.gateway.front import Answer, Front
from toolcrib.gateway.link import Link
from toolcrib.indexers.readers.mcp_config import Target

__all__ = ["Lane"]


class Lane:
    """One link to a server, and the calls that are made over it.

    Nothing in the protocol says to which call belongs what a server asks or says meanwhile. Where
    all have one caller (`is_one_callers`), the youngest gets it. Else there must be but one.
    """

    def __init__(self, target: Target, *, is_one_callers: bool) -> None:
        self.link = Link(target, self)
        self._is_one_callers = is_one_callers
        self.used_at = monotonic()
        self._under_way: list[Exchange] = []

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return bool(self._under_way)

    def call(
        self,
        front: Front,
        name: str,
        arguments: dict[str, Any],
        meta: Mapping[str, Any] | None,
        timeout_s: float,
    ) -> Exchange:
        """Start a call of a tool."""
        self.used_at = monotonic()
        exchange = Exchange(front, timeout_s)
        self._under_way.append(exchange)

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            await exchange.front.progress(progress, total, message)

        progress = tell if front.wants_progress else None

        async def run() -> CallToolResult:
            try:
                return await self.link.call(name, arguments, meta=meta, progress=progress)
            finally:
                self._under_way.remove(exchange)
                self.used_at = monotonic()

        exchange.start(asyncio.create_task(run()))
        return exchange

    async def answer(self, request: InputRequest) -> Answer:
        """Answer a question of the server's."""
        exchange = self._meant
        if exchange is None:
            why = "it cannot be told whose call this is about" if self._under_way else "no call"
            return ErrorData(code=INVALID_REQUEST, message=f"nobody can be asked: {why}")
        return await exchange.answer(request)

    async def hear(self, note: Any) -> None:
        """Hand on what the server says; without a call there is nobody to tell."""
        exchange = self._meant
        if exchange is not None:
            await exchange.front.hear(note)

    @property
    def _meant(self) -> Exchange | None:
        """The call that what the server says is about."""
        if not self._under_way or (len(self._under_way) > 1 and not self._is_one_callers):
            return None
        return self._under_way[-1]
