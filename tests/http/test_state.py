"""Service state: threads that do what blocks, and readiness when a store says nothing."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.http.test_fairness import Held
from toolcrib.http.workers import Workers


@pytest.fixture
def workers():
    made = Workers(2)
    yield made
    made.close()


async def test_writers_leave_the_threads_for_reading_free(workers):
    release = threading.Event()
    writing = [asyncio.ensure_future(workers.write(release.wait)) for _ in range(4)]
    assert await workers.read(lambda: "read") == "read"
    release.set()
    assert await asyncio.gather(*writing) == [True] * 4


async def test_what_goes_on_though_nobody_waits_is_counted(workers):
    work = Held()
    waiting = await work.begin(workers.read)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert workers.abandoned_jobs == 1
    work.go.set()
    while workers.abandoned_jobs:
        await workers.read(lambda: None)


async def test_what_has_not_begun_is_dropped(workers):
    release, done = threading.Event(), []
    holding = [asyncio.ensure_future(workers.read(release.wait)) for _ in range(2)]
    waiting = asyncio.ensure_future(workers.read(lambda: done.append(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    await asyncio.gather(*holding)
    await workers.read(lambda: None)
    assert (done, workers.abandoned_jobs) == ([], 0)


@pytest.fixture
def hasty(start):
    with start(timeout_s=0.3) as started:
        yield started


@pytest.fixture
def silence(hasty, monkeypatch):
    """Lets the store say nothing until it is set; counts who waits for it."""
    silence = threading.Event()
    silence.asked = 0

    def wait():
        silence.asked += 1
        assert silence.wait(30)

    monkeypatch.setattr(hasty.namespaces, "check", wait)
    yield silence
    silence.set()


def test_many_who_ask_at_once_are_answered_by_one_look(hasty, silence):
    with hasty.anonymous() as client, ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(client.get, "/readyz") for _ in range(12)]
        for each in asked:
            answer = each.result()
            assert answer.status_code == 503
            assert answer.json()["type"] == "urn:toolcrib:problem:service-unavailable"
            assert answer.headers["retry-after"] == "1"
        assert silence.asked == 1
        silence.set()
        while client.get("/readyz").status_code != 200:
            pass
        assert "toolcrib_tools 0.0" in client.get("/metrics").text


def test_metrics_are_given_and_lack_what_the_store_does_not_say(hasty, silence):
    with hasty.anonymous() as client:
        text = client.get("/metrics").text
        assert "toolcrib_requests_under_way 0.0" in text
        assert "toolcrib_tools " not in text
