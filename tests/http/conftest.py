"""A service that runs: a real server in a thread, and clients with keys of every kind."""

from __future__ import annotations

import io
import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from tests.conformance.serving import answering
from toolcrib import Settings
from toolcrib.access.keys import Grant, KeyRing
from toolcrib.access.tokens import callers_of
from toolcrib.http import make_app
from toolcrib.router.settings import RecoverySettings
from toolcrib.settings import ContextSettings, EncoderSettings, LearningSettings, ServiceSettings
from toolcrib.telemetry import Logs, Telemetry
from toolcrib.tenants import Tenants

TOOLS = [
    {"name": "send_mail", "server": "mail", "description": "Send a mail to somebody."},
    {"name": "read_mail", "server": "mail", "description": "Read the mail.", "tags": ["safe"]},
    {"name": "read_file", "server": "files", "description": "Read a file.", "tags": ["safe"]},
    {
        "name": "drop_table",
        "server": "sql",
        "description": "Drop a table.",
        "category": "data",
        "sensitivity": "pii",
    },
]


class Service:
    """A running service, its namespaces and its keys."""

    def __init__(self, namespaces: Tenants, url: str, state: Any, log: io.BytesIO) -> None:
        self.namespaces = namespaces
        self.url = url
        self.state = state
        self.keys = KeyRing(namespaces.records_db)
        self._log = log
        self._numbers = itertools.count()

    def key(self, **grant: Any) -> str:
        """The text of a new key."""
        _, text = self.keys.create("test", Grant(**grant))
        return text

    def namespace(self) -> str:
        """One that nobody has written to."""
        return f"tenant-{next(self._numbers)}"

    def client(self, namespace: str | None = None, **grant: Any) -> httpx2.Client:
        """A client with a key of its own; it may write unless the grant says otherwise."""
        granted = {"access": "write", "namespaces": (namespace or "default",), **grant}
        headers = {"Authorization": f"Bearer {self.key(**granted)}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=20)

    def anonymous(self) -> httpx2.Client:
        """A client without a key."""
        return httpx2.Client(base_url=self.url, timeout=20)

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
def running(
    location: str = ":memory:",
    *,
    callers: Any = None,
    provider: Any = None,
    audit: bool = True,
    learning: bool = False,
    more: dict[str, Any] | None = None,
    **service: Any,
) -> Iterator[Service]:
    """A service with these settings, for the time of the block."""
    settings = Settings(
        encoder=EncoderSettings(dense="deterministic"),
        context=ContextSettings(detector="heuristic"),
        service=ServiceSettings(**service),
        recovery=RecoverySettings(likeness=0),
        audit=audit,
        learning=LearningSettings(enabled=learning),
        **(more or {}),
    )
    log = io.BytesIO()
    telemetry = Telemetry.of(settings.service, provider=provider, logs=Logs("json", log))
    with Tenants.open(location, settings=settings) as namespaces:
        app = make_app(
            namespaces,
            settings,
            callers=callers or callers_of(KeyRing(namespaces.records_db), settings.tokens),
            telemetry=telemetry,
        )
        with answering(app) as url:
            yield Service(namespaces, url, app.state.service, log)


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """One service for all tests that need no settings of their own."""
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def start():
    """Start a service of the test's own."""
    return running


@pytest.fixture(scope="session")
def tools() -> list[dict[str, Any]]:
    """A handful of specifications."""
    return TOOLS


@pytest.fixture
def tenant(service: Service) -> Iterator[httpx2.Client]:
    """A client that writes to a namespace of its own."""
    with service.client(service.namespace()) as client:
        yield client


@pytest.fixture
def stocked(tenant: httpx2.Client) -> httpx2.Client:
    """The same, with `TOOLS` put in."""
    assert tenant.post("/v1/tools", json={"tools": TOOLS}).status_code == 200
    return tenant
