"""Server: socket, event loop and shutdown of the application's process."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolcrib.http.state import ServiceState

KEEP_ALIVE_S = 60
SERVICE_BACKLOG_CONNECTIONS = 2048
LAST_ANSWERS_S = 2
"""Time for connections to send their answers, after draining."""

MAX_HEAD_BYTES = 64 * 1024
"""Size of a request's headers; key, namespace and trace need a few hundred bytes."""

HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


def make_server(app: Starlette, ready: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """Server whose `run([socket])` serves that socket until a signal ends it.

    `ready` is called once the server is reachable. After the first SIGTERM or SIGINT no request is
    admitted, and running requests are finished within `service.drain_s`; a second signal does not
    wait for them.
    """
    head_s = app.state.service.settings.service.timeout_s
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=cast("type[_Connection]", partial(_Connection, head_s=head_s)),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=SERVICE_BACKLOG_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LAST_ANSWERS_S,
    )
    return _DrainingServer(config, app.state.service, ready)


def serve(app: Starlette, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Run a server (`make_server`) on a socket until a signal ends it."""
    # Loaded objects live until the end: exclude them from garbage collection.
    gc.collect()
    gc.freeze()
    make_server(app, ready).run([listening])


class _DrainingServer(uvicorn.Server):
    """Server that drains its requests before it ends."""

    def __init__(
        self, config: uvicorn.Config, state: ServiceState, ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._state = state
        self._ready = ready
        self._until: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Drain at the first signal, stop at the second, drop connections at the third."""
        if self.should_exit:
            self.force_exit = True
        elif self._until is not None:
            self.should_exit = True
        else:
            self._state.draining = True
            self._until = time.monotonic() + self._state.settings.service.drain_s

    async def on_tick(self, counter: int) -> bool:
        """True when it is time to end; called ten times a second."""
        until = self._until
        if until is not None and (time.monotonic() > until or not self._state.is_busy):
            self.should_exit = True
        if self.should_exit:
            self._state.ending.set()
        return await super().on_tick(counter)


class _Connection(HttpToolsProtocol):
    """Connection with limits for the head of a request, `head_s` and `MAX_HEAD_BYTES`.

    Admission of the request limits its body.
    """

    def __init__(self, *, head_s: float, **given: Any) -> None:
        super().__init__(**given)
        self._head_s = head_s
        self._has_begun = False
        self._heads = 0
        self._ends = 0
        self._head_size = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(  # pyright: ignore[reportIncompatibleMethodOverride] -- as uvicorn has it
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive data, unless a head or an unread body is too slow, or a head too large."""
        before = self._heads, self._ends
        super().data_received(data)
        if before != (self._heads, self._ends):
            # If a body ended in the same data, the size of the next head is unknown.
            self._head_size = 0
            self._stop_timer()
        elif self._has_begun:
            self._head_size += len(data)
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        if self._head_size > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(HEAD_TOO_LARGE)
            self.transport.close()
        elif self._has_begun or (cycle is not None and cycle.response_complete):
            # Data after an answer are the next head, or the rest of a body that was not read.
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

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._head_s, self.timeout_keep_alive_handler)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
