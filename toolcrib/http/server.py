"""Server: socket, event loop and shutdown of the application's process."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from toolcrib.access.connections import KEEP_ALIVE_S, bounded_connection

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolcrib.http.state import ServiceState

SERVICE_BACKLOG_CONNECTIONS = 2048
LAST_ANSWERS_S = 2
"""Time for connections to send their answers, after draining."""


def make_server(app: Starlette, ready: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """Server whose `run([socket])` serves that socket until a signal ends it.

    `ready` is called once the server is reachable. After the first SIGTERM or SIGINT no request is
    admitted, and running requests are finished within `service.drain_s`; a second signal does not
    wait for them.
    """
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=bounded_connection(app.state.service.settings.service.timeout_s),
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
