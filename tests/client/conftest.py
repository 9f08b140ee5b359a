"""A client without pauses, in both ways of calling it, and a server that misbehaves."""

from __future__ import annotations

import asyncio

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


def _in_a_thread(url, name, *args, **options):
    with RemoteCrib(url, api_key=KEY, **options) as crib:
        return getattr(crib, name)(*args)


def _in_a_loop(url, name, *args, **options):
    async def ask():
        async with RemoteCrib(url, api_key=KEY, **options) as crib:
            return await getattr(crib, f"a{name}")(*args)

    return asyncio.run(ask())


@pytest.fixture(params=[_in_a_thread, _in_a_loop], ids=["sync", "async"])
def ask(request):
    """Call a method of a crib at a URL, by its name without an `a`."""
    return request.param
