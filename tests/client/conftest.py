"""A client without pauses, and a server that misbehaves."""

from __future__ import annotations

import pytest
import stamina

from tests.client.faulty import misbehaving
from toolcrib.client import RemoteCrib

KEY = "tc_0123456789ab_secret"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with stamina.set_testing(True, attempts=9, cap=True):
        yield


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
