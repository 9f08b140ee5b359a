"""A server on the loopback that answers well, unless a script tells it to misbehave."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Act = Callable[["Handler"], None]

FACETS = {"tools": 2, "servers": {"mail": 2}, "categories": {}, "tags": {}, "sensitivities": {}}
"""What it answers where no script says otherwise."""


@dataclass(frozen=True)
class Arrived:
    """A request as it came; names of headers in small letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def answer(status: int, body: Any = "", kind: str = "application/json", **headers: str) -> Act:
    """Send this; what is no text is sent as JSON, `_` in a header's name as `-`."""
    content = (body if isinstance(body, str) else json.dumps(body)).encode()

    def act(handler: Handler) -> None:
        handler.begin(status, kind, len(content), **headers)
        handler.wfile.write(content)

    return act


def problem(slug: str, status: int, detail: str = "said so", /, **more: Any) -> Act:
    """Send a problem as toolcrib does."""
    told = {"type": f"urn:toolcrib:problem:{slug}", "status": status, "detail": detail, **more}
    told["instance"] = "urn:toolcrib:request:r-1"
    return answer(status, told, "application/problem+json")


def refuse(_handler: Handler) -> None:
    """Close the connection before anything is read."""


def drop(handler: Handler) -> None:
    """Close the connection after the request was read, without a word."""
    handler.cut()


def half(handler: Handler) -> None:
    """Send half an answer, then close."""
    handler.begin(200, "application/json", 1_000)
    handler.wfile.write(b'{"tools": 2')
    handler.wfile.flush()
    handler.cut()


def garbage(handler: Handler) -> None:
    """Send what is no HTTP."""
    handler.wfile.write(b"what do you want?\r\n\r\n")
    handler.cut()


def hang(handler: Handler) -> None:
    """Never answer."""
    handler.server.over.wait()
    handler.cut()


def drip(handler: Handler) -> None:
    """Send an answer a byte at a time, and never the last one."""
    handler.begin(200, "application/json", 100_000)
    with suppress(OSError):
        while not handler.server.over.wait(0.01):
            handler.wfile.write(b" ")
            handler.wfile.flush()
    handler.cut()


class Faulty(ThreadingHTTPServer):
    """Does what stands first in `script`, once for each request, and keeps what arrived."""

    daemon_threads = False
    block_on_close = True

    def __init__(self) -> None:
        self.script: list[Act] = []
        self.arrived: list[Arrived] = []
        self.connections = 0
        self.over = threading.Event()
        self.reached = threading.Event()
        self._open: list[socket.socket] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        self._open.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing of a client that went away: some tests are about that."""

    def end(self) -> None:
        """Let go of whatever still waits."""
        self.over.set()
        self.shutdown()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Plays the script of its server."""

    server: Faulty
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        if self.server.script[:1] == [refuse]:
            self.server.script.pop(0)
            self.cut()
        else:
            super().handle_one_request()

    def begin(self, status: int, kind: str, size: int, **headers: str) -> None:
        """Send all that stands before a body."""
        self.send_response(status)
        told = {"Content-Type": kind, "Content-Length": str(size), **headers}
        for name, value in told.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def cut(self) -> None:
        """Close the connection so that the other side is told by a reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.arrived.append(Arrived(self.command, self.path, headers, body))
        self.server.reached.set()
        script = self.server.script
        is_told = self.path in {"/v1/outcomes", "/v1/feedback"} or self.command == "DELETE"
        good = answer(204) if is_told else answer(200, FACETS)
        act = script.pop(0) if script else good
        act(self)

    do_POST = do_GET  # noqa: N815 -- the name that the base class looks for
    do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def misbehaving() -> Iterator[Faulty]:
    """Run a server for as long as a test needs it."""
    with Faulty() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.end()
            thread.join()
