"""The gateway over standard input and output, or over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial

import uvicorn

from toolcrib.errors import SettingsError
from toolcrib.gateway.gateway import Gateway
from toolcrib.gateway.news import Say

__all__ = ["LOOPBACK", "listen_at", "serve_http", "serve_stdio"]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
PATH = "/mcp"
BACKLOG = 128
DRAIN_S = 5
CLOSING_S = 10
INTERRUPTED = 130


async def serve_stdio(gateway: Gateway) -> None:
    """Serve one client over standard input and output, until it closes them."""

    async def stop(code: int) -> None:
        # A thread waits for standard input, and nothing can call it back: so the process ends
        # from here, once the servers behind it have ended.
        with suppress(TimeoutError):
            await asyncio.wait_for(gateway.close(), CLOSING_S)
        os._exit(code)

    stopping: set[asyncio.Task[None]] = set()

    def begin(code: int) -> None:
        stopping.add(asyncio.create_task(stop(code)))

    _when_told(signal.SIGTERM, partial(begin, 0))
    _when_told(signal.SIGINT, partial(begin, INTERRUPTED))
    await gateway.server.run_stdio_async(show_banner=False, log_level="CRITICAL")


def listen_at(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        SettingsError: it cannot, as the port is taken or the address is not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen at {host}:{port}: {error.strerror}; choose another --port"
        ) from None
    return listener


async def serve_http(gateway: Gateway, host: str, listener: socket.socket, say: Say) -> None:
    """Serve clients over streamable HTTP, until interrupted or told to end.

    On loopback only requests that name this machine are answered: a page in a browser cannot
    reach it under a name of its own.
    """
    app = gateway.server.http_app(
        path=PATH,
        host_origin_protection=host in LOOPBACK,
        allowed_hosts=[host],
        stateless_http=False,
    )
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, timeout_graceful_shutdown=DRAIN_S
    )
    server = _Server(config)
    name = f"[{host}]" if ":" in host else host
    say("info", f"serving at http://{name}:{listener.getsockname()[1]}{PATH}")
    _when_told(signal.SIGTERM, server.end)
    _when_told(signal.SIGINT, server.end)
    await server.serve(sockets=[listener])


def _when_told(number: int, act: Callable[[], None]) -> None:
    # Windows has no such signals; there a closed input ends it.
    with suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(number, act)


class _Server(uvicorn.Server):
    """A server that leaves signals to us: its own way would end the process before its servers."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield

    def end(self) -> None:
        """Stop: at once when told twice."""
        self.force_exit = self.should_exit
        self.should_exit = True
