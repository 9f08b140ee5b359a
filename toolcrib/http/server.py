"""Server: the process around the application, with a socket, an event loop, and a clean end."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolcrib.errors import SettingsError
from toolcrib.http.authenticator import is_loopback

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolcrib.http.state import ServiceState

__all__ = ["BACKLOG", "bind", "make_server", "require_loopback", "serve", "url_of"]

KEEP_ALIVE_S = 60
BACKLOG = 2048
LAST_S = 2
"""After what was to be drained is, connections have this long to take their answers."""

HEAD_BYTES = 64 * 1024
"""What may stand before a body; a key, a namespace and a trace take a few hundred."""

TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


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


def make_server(
    app: Starlette, ready: Callable[[], None] = lambda: None, source: Acceptor | None = None
) -> uvicorn.Server:
    """A server whose `run([socket])` answers on that socket until it is told to end.

    `ready` is called when it can be reached, and told to end. It answers on the connections of
    `source` as well.
    After the first SIGTERM or SIGINT nothing new is taken, and what is under way is finished
    within `service.drain_s`; a second one does not wait for that.
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
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LAST_S,
    )
    return _Server(config, app.state.service, ready, source)


def serve(
    app: Starlette,
    listening: list[socket.socket],
    ready: Callable[[], None],
    source: Acceptor | None = None,
) -> None:
    """Answer on sockets until a signal ends it; the rest is as of `make_server`."""
    # What is loaded by now stays: no collection needs to look at it again.
    gc.collect()
    gc.freeze()
    make_server(app, ready, source).run(listening)


class Acceptor(Protocol):
    """Where connections come from that others have accepted."""

    def start(self, take: Callable[[socket.socket], None]) -> None:
        """Hand each to `take`, in the running event loop."""
        ...

    def drain(self) -> None:
        """Prepare for the end, which has been asked for; asked each moment until then."""
        ...

    def stop(self) -> None:
        """Hand over no more."""
        ...


class _Server(uvicorn.Server):
    """One that lets others know that it is ending before it does."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServiceState,
        ready: Callable[[], None],
        source: Acceptor | None,
    ) -> None:
        super().__init__(config)
        self._state = state
        self._ready = ready
        self._source = source
        self._beginning: set[asyncio.Task[Any]] = set()
        self._until: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        if self._source is not None:
            self._source.start(self._take)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, as uvicorn does."""
        if self._source is not None:
            self._source.stop()
        await super().shutdown(sockets)

    def _take(self, connection: socket.socket) -> None:
        """Answer on a connection that was accepted already."""

        def protocol() -> asyncio.Protocol:
            kind: Any = self.config.http_protocol_class
            return kind(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(protocol, connection))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin to end; at the second signal do not wait, at the third for nothing at all."""
        if self.should_exit:
            self.force_exit = True
        elif self._until is not None:
            self._state.hurried = self.should_exit = True
        else:
            self._state.draining = True
            self._until = time.monotonic() + self._state.settings.service.drain_s

    async def on_tick(self, counter: int) -> bool:
        """Whether it is time to end; asked ten times a second."""
        if self._until is not None and self._source is not None:
            self._source.drain()
        is_late = self._until is not None and time.monotonic() > self._until
        if is_late or (self._until is not None and not self._state.is_busy):
            self.should_exit = True
        return await super().on_tick(counter)


class _Connection(HttpToolsProtocol):
    """A connection whose client has `head_s` for the head of a request, and `HEAD_BYTES`.

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
