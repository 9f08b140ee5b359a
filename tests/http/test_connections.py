"""Connections on which no request comes, or none that ends: they are let go."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def hasty(start):
    with start(timeout_s=0.3) as started:
        yield started


@contextmanager
def connected(service):
    place = urlsplit(service.url)
    with socket.create_connection((place.hostname, place.port), 20) as made:
        yield made, made.makefile("rb")


def read_answer(reader):
    """The status of an answer, whose body is read as well."""
    status = int(reader.readline().split()[1])
    length = 0
    while (line := reader.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    reader.read(length)
    return status


@pytest.mark.parametrize("said", [b"", b"\r\n", b"G", HEAD, HEAD + b"X-More: "], ids=repr)
def test_one_on_which_no_whole_head_comes_in_time_is_closed(hasty, said):
    with connected(hasty) as (connection, reader):
        connection.sendall(said)
        assert reader.read() == b""


def test_one_on_which_a_second_head_stays_half_is_closed_too(hasty):
    with connected(hasty) as (connection, reader):
        connection.sendall(HEAD + b"\r\n" + HEAD)
        assert read_answer(reader) == 200
        assert reader.read() == b""


def test_several_requests_in_one_piece_are_all_answered(service):
    with connected(service) as (connection, reader):
        connection.sendall((HEAD + b"\r\n") * 5)
        assert [read_answer(reader) for _ in range(5)] == [200] * 5


def test_one_that_has_asked_before_may_be_idle_for_longer(hasty):
    with connected(hasty) as (connection, reader), connected(hasty) as (_, silent):
        connection.sendall(HEAD + b"\r\n")
        assert read_answer(reader) == 200
        assert silent.read() == b""
        connection.sendall(HEAD + b"\r\n")
        assert read_answer(reader) == 200


def test_a_long_head_is_read_and_a_longer_one_refused(service):
    with connected(service) as (connection, reader):
        connection.sendall(HEAD + b"X-Long: " + b"x" * 50_000 + b"\r\n\r\n")
        assert read_answer(reader) == 200
        connection.sendall(HEAD + b"X-Long: " + b"x" * 70_000)
        assert read_answer(reader) == 431
        assert reader.read() == b""


def test_a_large_body_is_no_long_head(service):
    key = service.key(access="write").encode()
    body = b'{"query": "' + b"mail " * 40_000 + b'"}'
    head = (
        b"POST /v1/tools/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (key, len(body))
    )
    with connected(service) as (connection, reader):
        connection.sendall(head + body + HEAD)
        assert read_answer(reader) in {200, 504}
        connection.sendall(b"\r\n")
        assert read_answer(reader) == 200


def test_the_rest_of_a_body_that_was_answered_already_does_no_harm(service):
    head = b"POST /v1/tools HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
    with connected(service) as (connection, reader):
        connection.sendall(head + b"12345")
        assert read_answer(reader) == 401
        connection.sendall(b"678")
        connection.sendall(b"90" + HEAD + b"\r\n")
        assert read_answer(reader) == 200


def test_what_is_no_http_is_told_so(service):
    with connected(service) as (connection, reader):
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        assert read_answer(reader) == 400
        assert reader.read() == b""
