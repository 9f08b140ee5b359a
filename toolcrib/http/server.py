"""Server: the process around the application, with a socket, an event loop, and a clean end."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from toolcrib.errors import SettingsError
from toolcrib.http.authenticator import is_loopback

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolcrib.http.state import ServiceState

__all__ = ["bind", "make_server", "require_loopback", "serve", "url_of"]

KEEP_ALIVE_S = 60
BACKLOG = 2048
LAST_S = 2
"""After what was to be drained is, connections have this long to take their answers."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any that is free.

    Raises:
        SettingsError: there is no such address here, or it is in use.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        with ExitStack() as undo:
            undo.enter_context(made)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            undo.pop_all()
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; "
            "give another --host or --port"
        ) from error
    return made


def require_loopback(host: str) -> None:
    """See that a host is this machine alone, by every address that its name stands for.

    Raises:
        SettingsError: it is not, so others could come in without a key.
    """
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None)} if host else {host}
    except OSError:
        found = {host}
    if not all(map(is_loopback, found)):
        raise SettingsError(
            f"--insecure-local goes with a loopback host, and {host!r} is none; "
            "make a key with `toolcrib keys create NAME` and serve without it"
        )


def url_of(listening: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(app: Starlette, ready: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """A server whose `run([socket])` answers on that socket until it is told to end.

    `ready` is called when it can be reached, and told to end.
    After the first SIGTERM or SIGINT nothing new is taken, and what is under way is finished
    within `service.drain_s`; a second one does not wait for that.
    """
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LAST_S,
    )
    return _Server(config, app.state.service, ready)


def serve(app: Starlette, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Answer on a socket until a signal ends it; `ready` is called when it can be reached."""
    # What is loaded by now stays: no collection needs to look at it again.
    gc.collect()
    gc.freeze()
    make_server(app, ready).run([listening])


class _Server(uvicorn.Server):
    """One that lets others know that it is ending before it does."""

    def __init__(
        self, config: uvicorn.Config, state: ServiceState, ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._state = state
        self._ready = ready
        self._until: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin to end; at the second signal do not wait, at the third for nothing at all."""
        if self.should_exit:
            self.force_exit = True
        elif self._until is not None:
            self.should_exit = True
        else:
            self._state.draining = True
            self._until = time.monotonic() + self._state.settings.service.drain_s

    async def on_tick(self, counter: int) -> bool:
        """Whether it is time to end; asked ten times a second."""
        is_late = self._until is not None and time.monotonic() > self._until
        if is_late or (self._until is not None and not self._state.is_busy):
            self.should_exit = True
        return await super().on_tick(counter)
