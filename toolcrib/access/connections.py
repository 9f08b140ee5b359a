"""Connection of a client to the service or the gateway, with limits of a request's head and body.

Needs uvicorn with httptools.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

KEEP_ALIVE_S = 60

MAX_HEAD_BYTES = 64 * 1024
"""Size of a request's headers; key, namespace and trace need a few hundred bytes."""

HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


def bounded_connection(timeout_s: float, *, limits_bodies: bool = False) -> type[BoundedConnection]:
    """Protocol for `uvicorn.Config(http=...)`."""
    given = {"timeout_s": timeout_s, "limits_bodies": limits_bodies}
    return cast("type[BoundedConnection]", partial(BoundedConnection, **given))


class BoundedConnection(HttpToolsProtocol):
    """Connection that closes if a head takes longer than `timeout_s`, or has `MAX_HEAD_BYTES`.

    With `limits_bodies` a body may take `timeout_s` too. Answers may take any time.
    """

    def __init__(self, *, timeout_s: float, limits_bodies: bool = False, **given: Any) -> None:
        super().__init__(**given)
        self._timeout_s, self._limits_bodies = timeout_s, limits_bodies
        self._has_begun = False
        self._heads = 0
        self._ends = 0
        self._head_size = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(  # pyright: ignore[reportIncompatibleMethodOverride] -- as uvicorn has it
        self, transport: asyncio.Transport
    ) -> None:
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive data, unless a head or a body is too slow, or a head too large."""
        before = self._heads, self._ends
        super().data_received(data)
        if before != (self._heads, self._ends):
            # If a body ended in the same data, the size of the next head is unknown.
            self._head_size = 0
            self._stop_timer()
        elif self._has_begun:
            self._head_size += len(data)
        if self._head_size > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(HEAD_TOO_LARGE)
            self.transport.close()
        elif self._has_begun or self._lacks_body:
            self._start_timer()

    def on_message_begin(self) -> None:
        """Record that a head begins."""
        self._has_begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Record that a head is complete."""
        self._has_begun = False
        self._heads += 1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Record that a body is complete, or missing."""
        self._ends += 1
        super().on_message_complete()

    @property
    def _lacks_body(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        # Data after an answer are the next head, or the rest of a body that was not read.
        is_answered = cycle is not None and cycle.response_complete
        return is_answered or (self._limits_bodies and self._ends < self._heads)

    @property
    def _is_answering(self) -> bool:
        cycle: Any = self.cycle
        return bool(self.pipeline) or not (
            cycle is None or cycle.response_complete or cycle.more_body
        )

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._timeout_s, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._stop_timer()
        if self._is_answering:
            # A part of the next request must not cut off this answer.
            self._start_timer()
        else:
            self.timeout_keep_alive_handler()
