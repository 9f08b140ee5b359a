"""Health: liveness and readiness."""

from __future__ import annotations

import time

import pytest

from toolcrib.errors import EncoderError, StoreUnavailableError


@pytest.fixture(scope="module")
def alone(start):
    with start() as started:
        yield started


def after_a_moment(service, status):
    """Answer of `/readyz` once the last answer has expired."""
    deadline = time.monotonic() + 10
    with service.anonymous() as client:
        while (answer := client.get("/readyz")).status_code != status:
            assert time.monotonic() < deadline, answer.text
    return answer


def test_a_process_that_answers_is_alive(service):
    with service.anonymous() as client:
        assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/facets"])
def test_a_head_request_is_answered_as_get_without_a_body(service, path):
    with service.client() as client:
        answer, whole = client.head(path), client.get(path)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == whole.headers["content-type"]


def test_a_service_that_can_answer_says_by_what(alone):
    with alone.client() as client:
        client.post("/v1/tools", json={"tools": [{"name": "ping", "version": "1"}]})
    ready = after_a_moment(alone, 200).json()
    assert ready.pop("engine").startswith("qdrant-edge")
    assert len(ready.pop("index")) == 16
    assert ready == {"status": "ok", "tools": 1, "encoder": "deterministic-trigrams-64"}


def test_a_dead_store_is_told_without_where_it_is(alone, monkeypatch):
    def dead():
        raise StoreUnavailableError("http://user:secret@qdrant:6333 does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(alone.namespaces, "check", dead)
        answer = after_a_moment(alone, 503)
    assert answer.json()["type"] == "urn:toolcrib:problem:store-unavailable"
    assert "qdrant" not in answer.text
    assert answer.headers["retry-after"] == "1"
    after_a_moment(alone, 200)


def test_a_model_that_fails_is_told(alone, monkeypatch):
    def fail(_texts):
        raise EncoderError("no model")

    with monkeypatch.context() as patch:
        patch.setattr(alone.namespaces.crib().tools.dense, "encode_query", fail)
        answer = after_a_moment(alone, 503)
    assert answer.json()["type"] == "urn:toolcrib:problem:encoder"
