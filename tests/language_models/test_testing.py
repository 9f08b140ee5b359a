"""The chat server has two addresses, and faults that repeat."""

from __future__ import annotations

import httpx

from toolcrib.language_models.testing import ChatServer, faulty_share

SAID = [{"role": "user", "content": "hi"}]


def test_what_is_nowhere_is_not_found():
    with ChatServer() as server:
        assert httpx.post(f"{server.url}/embeddings", json={}).status_code == 404


def test_a_share_of_faults_is_the_same_every_time():
    def drawn(seed):
        with ChatServer("x") as server, httpx.Client() as client:
            for _ in range(30):
                client.post(f"{server.url}/chat/completions", json={"messages": SAID})
        return [faulty_share(0.3, seed=seed)(request) for request in server.requests]

    first = drawn(1)
    assert first == drawn(1) != drawn(2)
    assert 3 <= sum(fault is not None for fault in first) <= 16
