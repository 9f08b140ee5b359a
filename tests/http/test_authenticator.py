"""Authenticator: whom the service takes a caller for."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.http.conftest import same_answer
from toolcrib.access.keys import Caller, Grant, KeyRing
from toolcrib.errors import OverloadedError, UnauthenticatedError
from toolcrib.http import Anyone
from toolcrib.http.app import ENDPOINTS
from toolcrib.http.authenticator import (
    CALLER_RENEWAL_S,
    CALLER_TTL_S,
    MAX_VERIFICATIONS,
    Authenticator,
)
from toolcrib.http.workers import Workers


@pytest.fixture(scope="module")
def open_service(start):
    with start(callers=Anyone(), rate="1/hour") as started:
        yield started


def test_without_a_key_nobody_comes_in(service):
    with service.anonymous() as client:
        for endpoint in (each for each in ENDPOINTS if each.path.startswith("/v1/")):
            answer = client.request(endpoint.method, re.sub(r"{.*?}", "x", endpoint.path))
            assert answer.status_code == 401, endpoint
            assert answer.headers["www-authenticate"] == 'Bearer realm="toolcrib"'
            assert answer.json()["type"] == "urn:toolcrib:problem:unauthenticated"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer tc_000000000000_" + "0" * 64},
        *({"Authorization": text} for text in ("Bearer x", "Bearer", "Basic dXNlcjpwYXNz")),
        {"Authorization": b"Bearer \xe4\xff"},
        *({"X-API-Key": text} for text in ("x", "")),
    ],
)
def test_with_a_wrong_key_nobody_comes_in(service, headers):
    with service.anonymous() as client:
        assert client.get("/v1/me", headers=headers).status_code == 401


def test_a_key_may_come_in_either_header(service):
    key = service.key()
    with service.anonymous() as client:
        for headers in (
            {"Authorization": f"Bearer {key}"},
            {"Authorization": f"bearer  {key}"},
            {"X-API-Key": key},
        ):
            assert client.get("/v1/me", headers=headers).status_code == 200


def test_a_key_says_what_it_allows(service):
    grant = {"namespaces": ("a", "b"), "servers": {"y", "x"}, "max_sensitivity": "pii"}
    with service.client(access="read", **grant) as client:
        answer = client.get("/v1/me", headers={"Toolcrib-Namespace": "b"}).json()
    assert answer.pop("scope") == {
        **dict.fromkeys(("tags", "categories", "collections")),
        "servers": ["x", "y"],
        "without_safety_tags": [],
        "max_sensitivity": "pii",
    }
    named = {"name": "Ana", "namespaces": ["a", "b"], "namespace": "b"}
    assert answer == {**named, "access": "read"}


def test_another_namespace_is_forbidden_whether_it_is_there_or_not(service, stocked, namespace):
    with service.client("mine") as client:
        told = same_answer(
            lambda name: client.get("/v1/facets", headers={"Toolcrib-Namespace": name}),
            namespace,
            "nowhere",
        )
    assert told.status_code == 403


def test_a_name_that_no_namespace_has_is_refused(service):
    with service.client(namespaces=("*",)) as client:
        for name in ("Upper", "a b", "x" * 64, "-a", ":meta"):
            answer = client.get("/v1/facets", headers={"Toolcrib-Namespace": name})
            assert answer.status_code == 422, name


def test_without_keys_anybody_on_this_machine_comes_in(open_service):
    with open_service.anonymous() as client:
        assert client.get("/v1/me").json()["name"] == "anyone"
        sent = {"tools": [{"name": "ping", "version": "1"}]}
        elsewhere = {"Toolcrib-Namespace": "elsewhere"}
        assert client.post("/v1/tools", json=sent, headers=elsewhere).json()["added"] == 1
        assert client.get("/v1/facets").json()["tools"] == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": "[::"},
        {"Host": "10.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
def test_without_keys_a_page_from_elsewhere_gets_nothing(open_service, headers):
    allowed = {"Host": "localhost:1", "Origin": "http://[::1]:3000"}
    with open_service.anonymous() as client:
        for path in ("/v1/me", "/metrics", "/readyz", "/healthz", "/openapi.json", "/"):
            assert client.get(path, headers=headers).status_code == 403, path
            assert client.get(path, headers=allowed).status_code == 200, path


def test_a_header_that_comes_twice_counts_once(service):
    key = service.key()
    headers = [("Authorization", f"Bearer {key}"), ("Authorization", "Bearer other")]
    assert httpx2.get(f"{service.url}/v1/me", headers=headers).status_code == 200


class GatedKeys(KeyRing):
    """Keys that are verified only while the gate is open."""

    def __init__(self, records_db):
        super().__init__(records_db)
        self.open, self.verified = threading.Event(), 0

    def verify(self, text):
        self.verified += 1
        assert self.open.wait(20)
        return super().verify(text)


@pytest.fixture
def gated(service):
    keys, workers = GatedKeys(service.namespaces.records_db), Workers(1)
    yield keys, Authenticator(keys, workers)
    keys.open.set()
    workers.close()


def with_key(text):
    return {"headers": [(b"authorization", f"Bearer {text}".encode())]}


async def test_requests_of_a_key_share_one_verification(service, gated):
    keys, authenticator = gated
    scope = with_key(service.key())
    waiting = [asyncio.ensure_future(authenticator.caller(scope)) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    keys.open.set()
    given_up, *callers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(given_up, asyncio.CancelledError)
    assert {caller.name for caller in callers} == {"Ana"}
    assert keys.verified == 1


async def test_a_verified_key_does_not_wait_while_it_is_verified_again(service, gated, monkeypatch):
    keys, authenticator = gated
    keys.open.set()
    scope = with_key(service.key())
    known = await authenticator.caller(scope)
    keys.open.clear()
    later = time.monotonic() + CALLER_RENEWAL_S
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert [await authenticator.caller(scope) for _ in range(3)] == [known] * 3
    keys.revoke(known.key_id)
    keys.open.set()
    monkeypatch.setattr(time, "monotonic", lambda: later + CALLER_TTL_S)
    with pytest.raises(UnauthenticatedError):
        await authenticator.caller(scope)
    assert keys.verified == 2


class SlowForWrongKeys:
    """Keys of which the wrong ones are refused only while the gate is open."""

    def __init__(self):
        self.open, self.entered = threading.Event(), threading.Event()

    def verify(self, text):
        if text == "right":
            return Caller("a", "right", Grant())
        self.entered.set()
        assert self.open.wait(20)
        raise UnauthenticatedError("wrong")


def test_a_request_with_a_wrong_key_takes_no_place_of_another(start):
    keys = SlowForWrongKeys()
    with (
        start(callers=keys, concurrent=1) as service,
        service.anonymous() as client,
        ThreadPoolExecutor(1) as pool,
    ):
        wrong = pool.submit(client.get, "/v1/me", headers={"X-API-Key": "wrong"})
        assert keys.entered.wait(20)
        assert client.get("/v1/me", headers={"X-API-Key": "right"}).status_code == 200
        keys.open.set()
        assert wrong.result().status_code == 401


async def test_while_too_many_keys_are_verified_others_are_refused_and_known_ones_hold(
    service, gated, monkeypatch
):
    keys, authenticator = gated
    start = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: start)
    keys.open.set()
    scope = with_key(service.key())
    known = await authenticator.caller(scope)
    keys.open.clear()
    scopes = [with_key(f"tc_{n:012x}_{n:064x}") for n in range(MAX_VERIFICATIONS)]
    waiting = [asyncio.ensure_future(authenticator.caller(each)) for each in scopes]
    await asyncio.sleep(0)
    monkeypatch.setattr(time, "monotonic", lambda: start + CALLER_RENEWAL_S)
    assert await authenticator.caller(scope) == known
    with pytest.raises(OverloadedError):
        await authenticator.caller(with_key("tc_" + "f" * 12 + "_" + "0" * 64))
    for each in waiting:
        each.cancel()
