"""A service that runs: a real server in a thread, and clients with keys of every kind."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.serving import ANSWER_TIMEOUT_S, Service, running_service
from toolcrib import Settings
from toolcrib.router.settings import RecoverySettings
from toolcrib.settings import ContextSettings, EncoderSettings, LearningSettings, ServiceSettings

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


def same_answer(ask: Callable[[str], httpx2.Response], *names: str) -> httpx2.Response:
    """Answer to the first of these names; those to the others differ in the name alone."""
    answers = {name: ask(name) for name in names}
    told = {
        (answer.status_code, json.dumps({**answer.json(), "instance": ""}).replace(name, "X"))
        for name, answer in answers.items()
    }
    assert len(told) == 1
    return answers[names[0]]


@contextmanager
def half_a_body(
    service: Service,
    key: str,
    path: str = "/v1/tools/search",
    size: int = 1000,
    kind: str = "application/json",
    request_id: str = "half",
) -> Iterator[socket.socket]:
    """Connection over which a request came, and one character of its body."""
    address = urlsplit(service.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        head += f"Content-Type: {kind}\r\nContent-Length: {size}\r\n"
        connection.sendall(f"{head}X-Request-Id: {request_id}\r\n\r\n{{".encode())
        yield connection


@contextmanager
def running(
    location: str = ":memory:",
    *,
    callers: Any = None,
    provider: Any = None,
    audit: bool = True,
    learning: bool = False,
    timeout_s: float = ANSWER_TIMEOUT_S,
    more: dict[str, Any] | None = None,
    **service: Any,
) -> Iterator[Service]:
    """A service with these settings, for the time of the block."""
    settings = Settings(
        encoder=EncoderSettings(dense="deterministic"),
        context=ContextSettings(detector="heuristic"),
        service=ServiceSettings(timeout_s=timeout_s, **service),
        recovery=RecoverySettings(likeness=0),
        audit=audit,
        learning=LearningSettings(enabled=learning),
        **(more or {}),
    )
    with running_service(settings, location, callers=callers, provider=provider) as started:
        yield started


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """One service for all tests that need no settings of their own."""
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def start():
    """Start a service of the test's own."""
    return running


@pytest.fixture
def namespace(service: Service) -> str:
    """A namespace of the test's own."""
    return service.namespace()


@pytest.fixture
def tenant(service: Service, namespace: str) -> Iterator[httpx2.Client]:
    """A client that writes to that namespace."""
    with service.client(namespace) as client:
        yield client


@pytest.fixture
def loops_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str], list[Any]]:
    """Gather the event loops, or None, in which a function is called."""

    def watch(owner: type, name: str) -> list[Any]:
        loops, function = [], getattr(owner, name)

        def watched(*given: Any) -> Any:
            loops.append(asyncio._get_running_loop())
            return function(*given)

        monkeypatch.setattr(owner, name, watched)
        return loops

    return watch


@pytest.fixture
def stocked(tenant: httpx2.Client) -> httpx2.Client:
    """The same, with `TOOLS` put in."""
    assert tenant.post("/v1/tools", json={"tools": TOOLS}).status_code == 200
    return tenant
