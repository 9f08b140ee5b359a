"""A store that says nothing: who asks whether the service is ready has an answer all the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest


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
