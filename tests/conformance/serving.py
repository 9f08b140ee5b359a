"""A service that really runs, in a thread, and cribs that are clients of it."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from starlette.applications import Starlette

from toolcrib import Crib, Settings
from toolcrib.access.addresses import bind, url_of
from toolcrib.access.keys import Grant, KeyRing
from toolcrib.client import RemoteCrib
from toolcrib.http import Callers, make_app
from toolcrib.http.server import make_server
from toolcrib.telemetry import Logs, Telemetry
from toolcrib.tenants import Tenants

__all__ = ["Service", "answering", "serving"]


class Service:
    """A running service and its keys."""

    def __init__(self, url: str, namespaces: Tenants) -> None:
        self.url = url
        self.namespaces = namespaces
        self._keys = KeyRing(namespaces.records_db)
        self._numbers = itertools.count()
        self._names: WeakKeyDictionary[RemoteCrib, str] = WeakKeyDictionary()

    def key(self, **grant: object) -> str:
        """The text of a new key, which may write to every namespace unless it is told less."""
        granted = {"namespaces": ("*",), "access": "write", **grant}
        return self._keys.create("test", Grant.model_validate(granted))[1]

    def crib(self, namespace: str | None = None, **grant: object) -> RemoteCrib:
        """A client; its namespace is a new one unless one is named."""
        named = namespace or f"tenant-{next(self._numbers)}"
        crib = RemoteCrib(self.url, api_key=self.key(**grant), namespace=named, timeout_s=30)
        self._names[crib] = named
        return crib

    def behind(self, crib: RemoteCrib) -> Crib:
        """The embedded crib that does a client's work."""
        return self.namespaces.crib(self._names[crib])


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
def serving(settings: Settings, port: int = 0, callers: Callers | None = None) -> Iterator[Service]:
    """A service with these settings, for the time of the block.

    Port 0 is any that is free; without `callers`, keys of its own are asked for.
    """
    telemetry = Telemetry.of(settings.service, logs=Logs("json", io.BytesIO()))
    with Tenants.open(":memory:", settings=settings) as namespaces:
        asked = callers or KeyRing(namespaces.records_db)
        app = make_app(namespaces, settings, callers=asked, telemetry=telemetry)
        with answering(app, port) as url:
            yield Service(url, namespaces)
