"""Clients that say half of what they mean, or nothing: the others are served."""

from __future__ import annotations

import json
import resource
import socket
from contextlib import ExitStack

import httpx2
import pytest

from tests.faults.processes import Served, head_of, make_key, served, until

SETTINGS = {"SERVICE__TIMEOUT_S": 2, "SERVICE__CONCURRENT": 16}
TOOL = {"name": "bolt", "description": "Turns a bolt by hand."}
SEARCH = {"query": "turn a bolt"}


@pytest.fixture(scope="module")
def key_and_service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("awkward")
    key = make_key(folder / "store")
    started = Served(folder / "store", folder / "service.log", settings=SETTINGS)
    yield key, started
    started.kill()


@pytest.fixture
def service(key_and_service):
    return key_and_service[1]


@pytest.fixture
def client(service, key_and_service):
    with service.client(key_and_service[0]) as made:
        served(made.post, "/v1/tools", json={"tools": [TOOL]})
        yield made


@pytest.fixture
def connect(service):
    """Opens connections that are closed with the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(service.connect())


def body_of(number):
    return json.dumps({"tools": [{**TOOL, "name": f"bolt{number}"}]}).encode()


def status_of(connection):
    """The status that comes on a connection, 0 where it is closed without one."""
    try:
        line = connection.makefile("rb").readline()
    except ConnectionError:
        return 0
    return int(line.split()[1]) if line else 0


def require_served(client):
    found = served(client.post, "/v1/tools/search", json=SEARCH).json()
    assert "bolt" in {hit["id"] for hit in found["tools"]}


def test_hundreds_of_connections_that_say_nothing_keep_nobody_out(service, client, connect):
    # More than the process may have open: it must let go of those that say nothing.
    usual = resource.prlimit(service.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (200, usual[1]))
    silent = [connect() for _ in range(300)]
    assert status_of(silent[0]) in {0, 408}

    def newcomer_is_served():
        with httpx2.Client(base_url=service.url, headers=client.headers) as newcomer:
            try:
                return newcomer.post("/v1/tools/search", json=SEARCH).status_code == 200
            except httpx2.TransportError:
                return False

    until(newcomer_is_served, "somebody new is served")
    resource.prlimit(service.pid, resource.RLIMIT_NOFILE, usual)


def test_hundreds_of_half_heads_keep_nobody_out(service, client, connect):
    halves = [connect() for _ in range(200)]
    for half in halves:
        half.sendall(b"POST /v1/tools HTTP/1.1\r\nHost: localhost\r\nAuthoriz")
    require_served(client)
    assert {status_of(half) for half in halves[:5]} <= {0, 408}


def test_a_head_without_end_is_cut_off(service, client, connect):
    endless = connect()
    endless.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
    sent = 0
    try:
        while sent < 2**26:
            sent += endless.send(b"x" * 2**16)
    except ConnectionError:
        pass
    assert sent < 2**26, "all of it was taken"
    require_served(client)


@pytest.mark.parametrize(
    ("count", "statuses"), [(8, {504}), (20, {503, 504})], ids=["places left", "too many"]
)
def test_half_a_body_gets_504_and_its_place_is_given_back(
    service, client, connect, count, statuses
):
    body = body_of(1)
    halves = [connect() for _ in range(count)]
    for half in halves:
        half.sendall(head_of(client, body) + body[:-1])
    require_served(client)
    found = {status_of(half) for half in halves}
    assert {504} <= found <= statuses
    until(service.is_idle, "places given back")
    assert client.get("/v1/tools/bolt1").status_code == 404


def test_half_a_body_without_a_key_is_turned_away_at_once(service, client, connect):
    body = body_of(3)
    stranger = connect()
    head = head_of(client, body).replace(b"Authorization", b"X-Nothing")
    stranger.sendall(head + body[:5])
    assert status_of(stranger) == 401


def test_a_body_that_drips_on_after_its_answer_is_cut_off(service, client, connect):
    dripping = connect()
    head = head_of(client, b"x" * 100_000).replace(b"Authorization", b"X-Nothing")
    dripping.sendall(head)
    assert status_of(dripping) == 401

    def is_cut_off():
        try:
            dripping.sendall(b"x")
        except ConnectionError:
            return True
        return False

    until(is_cut_off, "the connection is cut off")
    require_served(client)


def test_a_client_that_goes_in_the_middle_of_its_body_has_written_nothing(service, client, connect):
    body = body_of(4)
    for _ in range(20):
        leaving = connect()
        leaving.sendall(head_of(client, body) + body[:-1])
        leaving.close()
    until(service.is_idle, "places given back")
    require_served(client)
    assert client.get("/v1/tools/bolt4").status_code == 404


def test_a_request_that_comes_byte_by_byte_is_answered_and_so_are_the_others(
    service, client, connect
):
    body = body_of(5)
    slow = connect()
    slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for place, byte in enumerate(head_of(client, body) + body):
        slow.sendall(bytes([byte]))
        if place % 100 == 0:
            require_served(client)
    assert status_of(slow) == 200
    assert client.get("/v1/tools/bolt5").status_code == 200


def test_clients_that_never_read_their_answers_hold_no_place(service, client, connect):
    long = [{**TOOL, "name": f"long{n}", "description": "Turns bolts. " * 1000} for n in range(200)]
    # Few at once, for all of them take longer than a request may.
    for first in range(0, len(long), 10):
        served(client.post, "/v1/tools", json={"tools": long[first : first + 10]})
    ask = head_of(client, b"").replace(b"POST /v1/tools", b"GET /v1/tools?limit=200")
    for _ in range(10):
        deaf = connect()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(ask)
    require_served(client)
    until(service.is_idle, "places given back")


def test_what_is_no_http_is_refused_and_forgotten(service, client, connect):
    for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01", b"HELLO\r\n\r\n", b"GET  HTTP/9\r\n\r\n"):
        talker = connect()
        talker.sendall(nonsense)
        assert status_of(talker) in {0, 400}
    require_served(client)
