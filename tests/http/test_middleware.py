"""Admission of requests: limits, a deadline, and the end."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolcrib.http.app import SHORT_SWITCH_INTERVAL_S, SWITCH_INTERVAL_S

BLOCKED = {"query": "send a mail"}


class Gate:
    """A store that answers only when it is let; what it was asked meanwhile waits."""

    def __init__(self, service):
        self.crib = service.namespaces.crib()
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        found = self.crib.tools.find

        def find(*asked):
            self.entered.release()
            assert self.open.wait(20)
            return found(*asked)

        self.crib.tools.find = find

    def wait_for(self, count):
        for _ in range(count):
            assert self.entered.acquire(timeout=10)


def type_of(answer):
    return answer.json()["type"].rpartition(":")[2]


def test_a_request_id_is_taken_over_or_made(service, tenant):
    given = tenant.get("/v1/me", headers={"X-Request-Id": "abc-123.x:y_z"})
    assert given.headers["x-request-id"] == "abc-123.x:y_z"
    made = tenant.get("/v1/me").headers["x-request-id"]
    assert len(made) == 32
    assert made != tenant.get("/v1/me").headers["x-request-id"]


@pytest.mark.parametrize("odd", ["a b", "x" * 129, "ä", "a/b", ""])
def test_an_odd_request_id_is_replaced(tenant, odd):
    answer = tenant.get("/v1/nothing", headers={"X-Request-Id": odd.encode("latin-1")})
    assert len(answer.headers["x-request-id"]) == 32
    assert answer.json()["instance"].endswith(answer.headers["x-request-id"])


def test_every_answer_says_how_it_may_be_used(service):
    with service.anonymous() as client:
        for path in ("/healthz", "/v1/me", "/v1/nothing", "/nothing"):
            headers = client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in headers
            assert "server" not in headers


def test_a_body_may_not_be_larger_than_the_limit_also_in_chunks(start):
    large = b'{"text": "' + b"x" * 3000 + b'"}'
    with start(max_body_bytes=2048) as service, service.client() as client:
        client.headers["Content-Type"] = "application/json"
        assert client.post("/v1/detect", json={"text": "x" * 1000}).status_code == 200
        for content in (large, (large[at : at + 1000] for at in range(0, len(large), 1000))):
            answer = client.post("/v1/detect", content=content)
            assert (answer.status_code, type_of(answer)) == (413, "too-large")


def test_what_is_too_much_at_once_is_turned_away_at_once(start):
    with start(concurrent=2) as service, service.client() as client, ThreadPoolExecutor() as pool:
        gate = Gate(service)
        waiting = [pool.submit(client.post, "/v1/tools/search", json=BLOCKED) for _ in range(2)]
        gate.wait_for(2)
        answer = client.get("/v1/me")
        assert (answer.status_code, type_of(answer)) == (503, "overloaded")
        assert answer.headers["retry-after"] == "1"
        assert client.get("/healthz").status_code == 200
        assert sys.getswitchinterval() == pytest.approx(SHORT_SWITCH_INTERVAL_S)
        gate.open.set()
        assert [each.result().status_code for each in waiting] == [200, 200]
        assert client.get("/v1/me").status_code == 200
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)


def test_what_takes_too_long_is_given_up_and_its_place_is_free_when_its_thread_is(start):
    with start(timeout_s=0.2, concurrent=1) as service, service.client() as client:
        gate = Gate(service)
        answer = client.post("/v1/tools/search", json=BLOCKED)
        assert (answer.status_code, type_of(answer)) == (504, "deadline")
        assert type_of(client.get("/v1/me")) == "overloaded"
        gate.open.set()
        deadline = time.monotonic() + 10
        while client.get("/v1/me").status_code != 200:
            assert time.monotonic() < deadline


def test_what_waits_for_a_thread_is_dropped_when_it_is_given_up(start):
    settings = {"timeout_s": 0.2, "workers": 1, "concurrent": 8}
    with start(**settings) as service, service.client() as client, ThreadPoolExecutor() as pool:
        gate = Gate(service)
        asked = [pool.submit(client.post, "/v1/tools/search", json=BLOCKED) for _ in range(4)]
        assert {each.result().status_code for each in asked} == {504}
        assert service.state.workers.abandoned_jobs == 1
        gate.open.set()
        gate.wait_for(1)
        assert not gate.entered.acquire(timeout=0.2)


def test_a_key_may_not_ask_more_than_its_rate(start):
    with start(rate="2/hour") as service, service.client() as client:
        assert [client.get("/v1/me").status_code for _ in range(3)] == [200, 200, 429]
        answer = client.get("/v1/me")
        assert type_of(answer) == "rate-limited"
        assert 0 < answer.json()["retry_after_s"] <= 3600
        assert 1 <= int(answer.headers["retry-after"]) <= 3600
        with service.client() as other:
            assert other.get("/v1/me").status_code == 200


def test_a_service_that_is_stopping_takes_nothing_new(start):
    with start() as service, service.client() as client, ThreadPoolExecutor() as pool:
        gate = Gate(service)
        waiting = pool.submit(client.post, "/v1/tools/search", json=BLOCKED)
        gate.wait_for(1)
        service.state.draining = True
        answer = client.get("/v1/me")
        assert (answer.status_code, type_of(answer)) == (503, "service-unavailable")
        assert answer.headers["retry-after"] == "1"
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        gate.open.set()
        assert waiting.result().status_code == 200


def test_an_error_of_nobodys_making_tells_nothing_of_the_inside(start):
    with start() as service, service.client() as client:

        def fail(*_asked):
            raise RuntimeError("the secret of the inside")

        service.namespaces.crib().tools.find = fail
        answer = client.post("/v1/tools/search", json=BLOCKED)
        assert (answer.status_code, type_of(answer)) == (500, "internal")
        assert "secret" not in answer.text
        error, request = service.lines(answer.headers["x-request-id"])
        assert (error["event"], error["kind"]) == ("error", "RuntimeError")
        assert "secret" not in str(error)
        assert request["status"] == 500
