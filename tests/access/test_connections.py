"""Connections of the service and the gateway: who is silent or slow goes, a long answer stays."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest
import uvicorn

from toolcrib.access.connections import HEAD_TOO_LARGE, bounded_connection

TIMEOUT_S = 0.3
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def stream(scope, receive, send):
    """Reads the body, then answers for three times as long as a request may take."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(3):
        await send({"type": "http.response.body", "body": b"event\n", "more_body": True})
        await asyncio.sleep(TIMEOUT_S)
    await send({"type": "http.response.body", "body": b"end\n"})


@contextmanager
def serving(*, limits_bodies: bool) -> Generator[tuple[str, int]]:
    protocol = bounded_connection(TIMEOUT_S, limits_bodies=limits_bodies)
    config = uvicorn.Config(stream, http=protocol, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def address():
    with serving(limits_bodies=True) as found:
        yield found


def answer(address: tuple[str, int], *parts: bytes, pause_s: float = 0.0) -> bytes:
    """All that comes until the connection is closed, or an answer ends."""
    got = b""
    with socket.create_connection(address, timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause_s)
        while not got.endswith(b"end\n\r\n0\r\n\r\n") and (more := connection.recv(65_536)):
            got += more
    return got


@pytest.mark.parametrize(
    "sent",
    [b"", GET[:20], HEAD, HEAD + b"abc"],
    ids=["nothing", "half a head", "no body", "half a body"],
)
def test_who_sends_nothing_more_is_cut_off(address, sent):
    assert answer(address, sent) == b""


def test_the_application_may_limit_bodies_itself():
    with serving(limits_bodies=False) as address:
        assert answer(address, HEAD + b"abc", b"d", pause_s=3 * TIMEOUT_S).endswith(b"0\r\n\r\n")


def test_a_head_without_end_is_refused(address):
    assert answer(address, GET[:-2] + b"X-Long: ", b"x" * 80_000) == HEAD_TOO_LARGE


@pytest.mark.parametrize(
    "parts",
    [[GET], [HEAD + b"abcd"], [HEAD, b"ab", b"cd"], [GET, GET[:20]]],
    ids=["no body", "body", "body in parts", "then half a head"],
)
def test_a_long_answer_is_not_cut_off(address, parts):
    got = answer(address, *parts, pause_s=0.05)
    assert got.count(b"event") == 3
    assert got.endswith(b"0\r\n\r\n")


def test_the_next_half_head_is_cut_off_after_the_answer(address):
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(GET + GET[:20])
        got = b""
        while more := connection.recv(65_536):
            got += more
    assert got.endswith(b"0\r\n\r\n")
