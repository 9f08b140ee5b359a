"""Processes (experimental): several that answer on one socket; one owns the store's folder.

The owner starts the others and restarts dead ones; they end with it. They answer reads from
replicas of their own, and forward all other requests to the owner.
"""

from __future__ import annotations

import asyncio
import hmac
import multiprocessing
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolcrib.errors import (
    OverloadedError,
    QueryError,
    ServiceUnavailableError,
    ToolcribError,
)
from toolcrib.http.app import ENDPOINTS
from toolcrib.http.context import context_of, header
from toolcrib.http.errors import problem_response
from toolcrib.http.server import BACKLOG
from toolcrib.telemetry import Metrics, merge_metrics

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from toolcrib.http.state import ServiceState
    from toolcrib.store.replication import Publisher

TOKEN = b"toolcrib-internal"
"""Header that marks requests between the processes."""

OWNER = "owner.sock"
WORKERS = "worker*.sock"
METRICS = "/metrics"
LEARNED_ENDPOINTS = frozenset({"/v1/route", "/v1/classify", "/v1/capabilities"})
"""Endpoints of decisions that outcomes teach by."""

METRICS_TIMEOUT_S = 1.0

READY = b"ready"
READY_TIMEOUT_S = 120.0
WATCH_EVERY_S = 0.1
RESTART_AFTER_S = 1.0
"""Least time between two starts of one process."""

EXIT_TIMEOUT_S = 5.0
"""Wait for processes to end, beyond the time of their requests."""

LOCAL_ENDPOINTS = frozenset(
    (each.method, each.path)
    for each in ENDPOINTS
    if not each.writes and (each.method == "GET" or each.tag != "decisions")
)
"""Endpoints answered from replicas; paths with a parameter are matched by GET alone."""

READ_BYTES = 64 * 1024

HOP_HEADERS = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"})


def bind_path(path: Path) -> socket.socket:
    """A socket that only this user's processes can reach."""
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    return made


# -- connections -------------------------------------------------------------------------------


class Dispatcher:
    """Accepts connections, and distributes them in turn to its own and other processes.

    The system alone would give a burst of connections to the process that wakes first. `channels`
    are sockets to the processes that are ready.
    """

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.channels: Sequence[socket.socket] = ()
        self._turn = 0

    def start(self, take: Callable[[socket.socket], None]) -> None:
        """Start accepting; `take` gets the connections of the own process."""
        self._take = take
        self._listening.settimeout(0)
        self._listening.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def drain(self) -> None:
        """Do nothing: requests on new connections are answered that the service stops."""

    def stop(self) -> None:
        """Stop accepting."""
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()

    def _accept(self) -> None:
        try:
            for _ in range(BACKLOG):
                connection, _ = self._listening.accept()
                self._distribute(connection)
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            # Such as too many open files: retry later.
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listening)
            loop.call_later(RESTART_AFTER_S, self._resume)

    def _resume(self) -> None:
        if self._listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _distribute(self, connection: socket.socket) -> None:
        channels = self.channels
        self._turn = (self._turn + 1) % (len(channels) + 1)
        if self._turn:
            # Skip workers that died or whose queue is full.
            with suppress(OSError):
                socket.send_fds(channels[self._turn - 1], [b"+"], [connection.fileno()])
                connection.close()
                return
        self._take(connection)


class Receiver:
    """Receives connections from a dispatcher."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def start(self, take: Callable[[socket.socket], None]) -> None:
        """Start receiving."""
        self._take = take
        self._channel.settimeout(0)
        asyncio.get_running_loop().add_reader(self._channel, self._receive)

    def drain(self) -> None:
        """Receive connections sent by now, and no more: the dispatcher keeps the others."""
        if self._channel.fileno() >= 0:
            self._receive()
            self.stop()

    def stop(self) -> None:
        """Stop receiving."""
        if self._channel.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while True:
                data, files, _, _ = socket.recv_fds(self._channel, 1, 1)
                for file in files:
                    self._take(socket.socket(fileno=file))
                if not data:
                    asyncio.get_running_loop().remove_reader(self._channel)
                    return


# -- forwarding --------------------------------------------------------------------------------


class Forwarder:
    """Middleware of a process that is not the owner: answers reads, forwards other requests.

    `folder` holds the processes' sockets. Forwarded requests count as under way here too.
    """

    def __init__(self, app: ASGIApp, folder: Path, token: str) -> None:
        self._app = app
        self._token = token.encode()
        self._owner = str(folder / OWNER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or forward it to the owner."""
        if scope["type"] != "http" or self._is_internal(scope):
            await self._app(scope, receive, send)
        elif self._is_local(scope):
            await self._answer_or_forward(scope, receive, send)
        else:
            await self._forward(scope, receive, send)

    def _is_internal(self, scope: Scope) -> bool:
        given = header(scope, TOKEN)
        return given is not None and hmac.compare_digest(given, self._token)

    def _is_local(self, scope: Scope) -> bool:
        state = _state(scope)
        if scope["path"] == METRICS or state.draining:
            return False
        if scope["path"] in LEARNED_ENDPOINTS and state.settings.learning.enabled:
            # The owner gets the outcomes, so it must know the decisions.
            return False
        return (
            scope["method"] in {"GET", "HEAD"}
            or (scope["method"], scope["path"]) in LOCAL_ENDPOINTS
        )

    async def _answer_or_forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or forward it if a replica that it needs is missing."""
        received: list[Message] = []
        is_elsewhere = False

        async def receiving() -> Message:
            message = await receive()
            received.append(message)
            return message

        async def sending(message: Message) -> None:
            nonlocal is_elsewhere
            is_elsewhere = is_elsewhere or context_of(scope).is_elsewhere
            if not is_elsewhere:
                await send(message)

        async def replay() -> Message:
            return received.pop(0) if received else await receive()

        await self._app(scope, receiving, sending)
        if is_elsewhere:
            await self._forward(scope, replay, send)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        state, started = _state(scope), False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start" and state.draining:
                # The client's next request shall reach another process.
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            started = True
            await send(message)

        state.under_way += 1
        try:
            if state.under_way > state.settings.service.concurrent:
                raise OverloadedError("too many requests are under way already; ask again later")
            await self._exchange(scope, receive, sending)
        except ToolcribError as error:
            if started:
                raise
            given = header(scope, b"x-request-id") or b"forwarded"
            await problem_response(error, given.decode("latin-1"))(scope, receive, sending)
        finally:
            state.under_way -= 1

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, and relay the answer, until either side disconnects.

        Raises:
            QueryError: the request cannot be forwarded.
            ServiceUnavailableError: the owner does not answer.
        """
        head = _head(scope)
        with closing(_Upstream()) as upstream:
            await upstream.connect(self._owner)
            await upstream.send(head)
            # The owner may answer, or the client disconnect, before the end of the body.
            sending = asyncio.create_task(upstream.send_body(receive))
            answering = asyncio.create_task(upstream.answer(send))
            try:
                await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
                for each in (answering, sending):
                    if each.done():
                        each.result()
            finally:
                sending.cancel()
                answering.cancel()
                await asyncio.wait({sending, answering})


OWNER_GONE = "the process that owns the store does not answer"


def _state(scope: Scope) -> ServiceState:
    return scope["app"].state.service


def _head(scope: Scope) -> h11.Request:
    """Head of a forwarded request. The path is raw, since `..` may be part of a name."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    headers = [pair for pair in scope["headers"] if pair[0] not in {*HOP_HEADERS, TOKEN}]
    if header(scope, b"transfer-encoding"):
        headers.append((b"transfer-encoding", b"chunked"))
    headers.append((b"connection", b"close"))
    if header(scope, b"host") is None:
        headers.append((b"host", b""))
    try:
        target = path + (b"?" + query if query else b"")
        return h11.Request(method=scope["method"], target=target, headers=headers)
    except h11.LocalProtocolError as error:
        raise QueryError(f"the request cannot be forwarded: {error}") from error


class _Upstream:
    """A connection to the owner, for one request.

    Uses a socket: a stream would lose the answer of an owner that stops reading the body.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(0)
        self._loop = asyncio.get_running_loop()
        self._wire = h11.Connection(h11.CLIENT)

    def close(self) -> None:
        """Close the connection, which also cancels the owner's work."""
        self._socket.close()

    async def connect(self, path: str) -> None:
        """Connect to the owner.

        Raises:
            ServiceUnavailableError: the owner is not running.
        """
        try:
            await self._loop.sock_connect(self._socket, path)
        except OSError as error:
            raise ServiceUnavailableError(OWNER_GONE) from error

    async def send(self, event: h11.Event) -> None:
        """Send a part of the request; an owner that stopped reading may have answered."""
        if self._wire.our_state in {h11.ERROR, h11.DONE, h11.CLOSED, h11.MUST_CLOSE}:
            return
        with suppress(OSError):
            await self._loop.sock_sendall(self._socket, self._wire.send(event) or b"")

    async def send_body(self, receive: Receive) -> None:
        """Forward the client's body, until the client disconnects."""
        while (message := await receive())["type"] != "http.disconnect":
            if body := message.get("body"):
                await self.send(h11.Data(data=body))
            if not message.get("more_body", False):
                await self.send(h11.EndOfMessage())
            # Received data never blocks this loop: let other tasks run.
            await asyncio.sleep(0)

    async def answer(self, send: Send) -> None:
        """Relay the owner's answer to the client.

        Raises:
            ServiceUnavailableError: the owner does not answer.
        """
        while True:
            event = await self._receive()
            if isinstance(event, h11.Response):
                kept = [pair for pair in event.headers if pair[0] not in HOP_HEADERS | {b"date"}]
                start = {"status": event.status_code, "headers": kept}
                await send({"type": "http.response.start", **start})
            elif isinstance(event, h11.Data):
                part = bytes(event.data)
                await send({"type": "http.response.body", "body": part, "more_body": True})
            elif isinstance(event, h11.EndOfMessage):
                await send({"type": "http.response.body", "body": b""})
                return

    async def _receive(self) -> object:
        try:
            while (event := self._wire.next_event()) is h11.NEED_DATA:
                received = await self._loop.sock_recv(self._socket, READ_BYTES)
                self._wire.receive_data(received)
        except (OSError, h11.RemoteProtocolError) as error:
            raise ServiceUnavailableError(OWNER_GONE) from error
        if isinstance(event, h11.ConnectionClosed):
            raise ServiceUnavailableError(OWNER_GONE)
        return event


class SharedMetrics(Metrics):
    """Metrics of the owner and of all other processes."""

    def __init__(self, folder: Path, token: str) -> None:
        super().__init__()
        self._folder = folder
        self._headers = {TOKEN.decode(): token}

    def text(self) -> tuple[bytes, str]:
        """Merged metrics of all processes that answer, in Prometheus' text format."""
        own, kind = super().text()
        return merge_metrics([own, *self._others()]), kind

    def _others(self) -> Iterator[bytes]:
        for path in sorted(self._folder.glob(WORKERS)):
            client = HTTPConnection("localhost")
            with closing(client), suppress(OSError, HTTPException):
                client.sock = socket.socket(socket.AF_UNIX)
                client.sock.settimeout(METRICS_TIMEOUT_S)
                client.sock.connect(str(path))
                client.request("GET", METRICS, headers=self._headers)
                answer = client.getresponse()
                if answer.status == HTTPStatus.OK:
                    yield answer.read()


# -- the owner's processes ---------------------------------------------------------------------


@dataclass(slots=True)
class _Process:
    """A running process; `leave` ends its replication."""

    process: SpawnProcess
    connection: Connection
    channel: socket.socket
    leave: Callable[[], None]
    started: float
    is_ready: bool = False
    has_ended: bool = False

    def end(self) -> None:
        """Release a process that has ended."""
        self.has_ended = True
        self.process.join()
        self.leave()
        self.channel.close()


class Processes:
    """Starts processes that run `target(number, connection, channel, *given)`, and restarts them.

    A process sends `READY` by its connection; from then on `dispatcher` gives it connections.
    `state` is the owner's: when it drains, the processes are ended.
    """

    def __init__(
        self,
        count: int,
        target: Callable[..., None],
        given: tuple[Any, ...],
        state: ServiceState,
        dispatcher: Dispatcher,
        publisher: Publisher | None,
    ) -> None:
        self._target = target
        self._given = given
        self._state = state
        self._dispatcher = dispatcher
        self._publisher = publisher
        self._spawn = multiprocessing.get_context("spawn")
        self._ending = threading.Event()
        self._running: dict[int, _Process] = {}
        with ExitStack() as undo:
            undo.callback(self._kill)
            for number in range(1, count + 1):
                self._running[number] = self._start(number)
            until = time.monotonic() + READY_TIMEOUT_S
            for each in self._running.values():
                _wait_until_ready(each, until)
            undo.pop_all()
        self._dispatch()
        self._watching = threading.Thread(target=self._watch, name="toolcrib-processes")
        self._watching.start()

    def close(self) -> None:
        """End the processes, and wait for their end."""
        self._ending.set()
        self._watching.join()
        if self._state.hurried:
            for each in self._running.values():
                each.process.terminate()
        until = time.monotonic() + self._state.settings.service.drain_s + EXIT_TIMEOUT_S
        for each in self._running.values():
            each.process.join(max(0.0, until - time.monotonic()))
        self._kill()

    def _kill(self) -> None:
        for each in self._running.values():
            each.process.kill()
            each.end()

    def _start(self, number: int) -> _Process:
        # Typed for the type of another platform.
        ours, theirs = cast("tuple[Connection, Connection]", self._spawn.Pipe())
        channel, far = socket.socketpair()
        channel.settimeout(0)
        process = self._spawn.Process(
            target=self._target, args=(number, theirs, far, *self._given), daemon=True
        )
        with ExitStack() as undo:
            undo.callback(ours.close)
            undo.callback(channel.close)
            with closing(theirs), closing(far):
                process.start()
            undo.callback(process.join)
            undo.callback(process.kill)
            leave = ours.close if self._publisher is None else self._publisher.add(ours)
            undo.pop_all()
        return _Process(process, ours, channel, leave, time.monotonic())

    def _dispatch(self) -> None:
        ready = [each.channel for each in self._running.values() if each.is_ready]
        self._dispatcher.channels = ready

    def _watch(self) -> None:
        """Restart dead processes, until the owner ends; then end all."""
        try:
            while not (self._ending.is_set() or self._state.draining):
                for number, each in list(self._running.items()):
                    try:
                        self._check(number, each)
                    except (ToolcribError, OSError) as error:
                        # Such as a full disk: retry.
                        self._log("worker-not-started", number, text=str(error))
                        self._ending.wait(RESTART_AFTER_S)
                wait([each.process.sentinel for each in self._running.values()], WATCH_EVERY_S)
        finally:
            for each in self._running.values():
                each.process.terminate()

    def _check(self, number: int, each: _Process) -> None:
        if each.process.exitcode is not None:
            self._restart(number, each)
        elif not each.is_ready and not each.connection.closed and each.connection.poll():
            _wait_until_ready(each, time.monotonic())
            self._dispatch()

    def _log(self, event: str, number: int, **facts: object) -> None:
        self._state.telemetry.logs.say(event, warn=True, worker=number, **facts)

    def _restart(self, number: int, dead: _Process) -> None:
        if not dead.has_ended:
            dead.is_ready = False
            self._dispatch()
            dead.end()
            self._log("worker-died", number, code=dead.process.exitcode)
        self._ending.wait(max(0.0, dead.started + RESTART_AFTER_S - time.monotonic()))
        self._running[number] = self._start(number)


def _wait_until_ready(each: _Process, until: float) -> None:
    """Wait until a process is ready.

    Raises:
        ServiceUnavailableError: the process failed, with a message on standard error.
    """
    with suppress(EOFError, OSError):
        left_s = max(0.0, until - time.monotonic())
        if each.connection.poll(left_s) and each.connection.recv_bytes() == READY:
            each.is_ready = True
            return
    raise ServiceUnavailableError("a worker process did not start; its message stands above")
