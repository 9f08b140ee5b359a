"""A service that runs: a real server in a thread, and clients with keys of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
