"""A client without pauses, and a server that misbehaves."""

from __future__ import annotations

import pytest

from tests.client.faulty import misbehaving
from toolcrib.client import RemoteCrib

KEY = "tc_0123456789ab_secret"


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """The seconds that would have been waited before further attempts."""
    waited = []
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("toolcrib.retries.sleep", waited.append)
    return waited


@pytest.fixture
def faulty():
    with misbehaving() as server:
        yield server


@pytest.fixture
def ask():
    """Call a method of a crib at a URL, by its name."""

    def call(url, name, *args, **options):
        with RemoteCrib(url, api_key=KEY, **options) as crib:
            return getattr(crib, name)(*args)

    return call
