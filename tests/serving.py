"""A service that really runs, in a thread, with its keys and clients of it."""

from __future__ import annotations

import io
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
import uvicorn
from starlette.applications import Starlette

from toolcrib import Crib, Settings
from toolcrib.access.addresses import bind, url_of
from toolcrib.access.keys import Grant, KeyRing
from toolcrib.access.tokens import callers_of
from toolcrib.client import RemoteCrib
from toolcrib.http import Callers, make_app
from toolcrib.http.server import make_server
from toolcrib.telemetry import Logs, Metrics, Telemetry, Traces
from toolcrib.tenants import Tenants

__all__ = ["ANSWER_TIMEOUT_S", "Service", "answering", "running_service", "serving_app"]

ANSWER_TIMEOUT_S = 60.0
"""Time for an answer where a test is not about time: a busy machine takes its time."""


class Service:
    """A running service, its namespaces and its keys."""

    def __init__(self, url: str, namespaces: Tenants, state: Any, log: io.BytesIO) -> None:
        self.url = url
        self.namespaces = namespaces
        self.state = state
        self.keys = KeyRing(namespaces.records_db)
        self._log = log
        self._numbers = itertools.count()
        self._names: WeakKeyDictionary[RemoteCrib, str] = WeakKeyDictionary()

    def key(self, name: str = "Ana", **grant: Any) -> str:
        """The text of a new key."""
        return self.keys.create(name, Grant(**grant))[1]

    @cached_property
    def writer(self) -> str:
        """The text of a key that may write to every namespace."""
        return self.key(access="write", namespaces=("*",))

    def namespace(self) -> str:
        """One that nobody has written to."""
        return f"tenant-{next(self._numbers)}"

    def client(self, namespace: str | None = None, **grant: Any) -> httpx2.Client:
        """A client with a key of its own; it may write unless the grant says otherwise."""
        granted = {"access": "write", "namespaces": (namespace or "default",), **grant}
        headers = {"Authorization": f"Bearer {self.key(**granted)}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=ANSWER_TIMEOUT_S)

    def anonymous(self) -> httpx2.Client:
        """A client without a key."""
        return httpx2.Client(base_url=self.url, timeout=ANSWER_TIMEOUT_S)

    def crib(self, namespace: str | None = None, **grant: Any) -> RemoteCrib:
        """A crib that may write to every namespace unless the grant says otherwise.

        It works in a new namespace unless one is named.
        """
        named = namespace or self.namespace()
        key = self.key(**{"namespaces": ("*",), "access": "write", **grant})
        crib = RemoteCrib(self.url, api_key=key, namespace=named, timeout_s=30)
        self._names[crib] = named
        return crib

    def behind(self, crib: RemoteCrib) -> Crib:
        """The embedded crib that does a client's work."""
        return self.namespaces.crib(self._names[crib])

    def lines(self, request_id: str) -> list[dict[str, Any]]:
        """Log lines of a request; waits for them, as they are written after the answer."""
        for _ in range(100):
            lines = [json.loads(line) for line in self._log.getvalue().splitlines()]
            found = [line for line in lines if line.get("request_id") == request_id]
            if any(line["event"] == "request" for line in found):
                return found
            time.sleep(0.02)
        raise AssertionError(f"nothing was logged of {request_id}")


@contextmanager
def answering(app: Starlette, port: int = 0) -> Iterator[str]:
    """The URL at which an application answers from a thread, for the time of the block."""
    listening, started = bind("127.0.0.1", port), threading.Event()
    server = make_server(app, started.set)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        assert started.wait(60)
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@contextmanager
def serving_app(app: Any) -> Iterator[str]:
    """The URL of any application by ASGI, for the time of the block."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            # The socket listens already, so that requests wait for the server.
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def running_service(
    settings: Settings,
    location: str = ":memory:",
    *,
    port: int = 0,
    callers: Callers | None = None,
    provider: Any = None,
) -> Iterator[Service]:
    """A service with these settings, for the time of the block.

    Port 0 is any that is free; without `callers`, keys of its own are asked for. `provider` gets
    the spans.
    """
    log = io.BytesIO()
    traces = provider and Traces(provider, text=settings.service.trace_text)
    telemetry = Telemetry(Metrics(), Logs("json", log), traces)
    with Tenants.open(location, settings=settings) as namespaces:
        asked = callers or callers_of(KeyRing(namespaces.records_db), settings.tokens)
        app = make_app(namespaces, settings, callers=asked, telemetry=telemetry)
        with answering(app, port) as url:
            yield Service(url, namespaces, app.state.service, log)
