"""Connections: whoever does not come to the point is let go, and keeps nobody else out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["Connection"]

HEAD_BYTES = 64 * 1024
"""What may stand before a body; a key, a namespace and a trace take a few hundred."""

TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class Connection(HttpToolsProtocol):
    """One whose client has `head_s` for the head of a request, and `HEAD_BYTES`.

    How long a body may take is its request's affair.
    """

    def __init__(self, *, head_s: float, **given: Any) -> None:
        super().__init__(**given)
        self._head_s = head_s
        self._begun = False
        self._heads = 0
        self._ends = 0
        self._head_size = 0
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(  # pyright: ignore[reportIncompatibleMethodOverride] -- as uvicorn has it
        self, transport: asyncio.Transport
    ) -> None:
        """Expect a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what comes, unless a head takes too long or is too long."""
        heads, ends = self._heads, self._ends
        super().data_received(data)
        if heads != self._heads:
            self._head_size = 0
            self._stop_waiting()
        elif self._begun and ends == self._ends:
            # Where a body ended in the same piece, nobody knows how much of it is the next head.
            self._head_size += len(data)
        if self._head_size > HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(TOO_LONG)
            self.transport.close()
        elif self._begun:
            self._wait()
        else:
            self._expect_no_more()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head is complete."""
        self._begun = False
        self._heads += 1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A body is complete, or there was none."""
        self._ends += 1
        super().on_message_complete()

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self._head_s, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _expect_no_more(self) -> None:
        """Wait no longer for the rest of a body that was answered than for a new request."""
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        is_answered = cycle is not None and cycle.response_complete
        if is_answered and self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
