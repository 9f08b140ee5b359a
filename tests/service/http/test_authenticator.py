"""Who may come in."""

from __future__ import annotations

import time

import httpx2
import pytest

from toolcrib.service.http import Anyone
from toolcrib.service.http.authenticator import is_loopback


@pytest.fixture(scope="module")
def open_service(start):
    with start(callers=Anyone(), rate="1/hour") as started:
        yield started


def test_without_a_key_nobody_comes_in(service):
    with service.anonymous() as client:
        answer = client.get("/v1/me")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="toolcrib"'
    assert answer.json()["type"] == "urn:toolcrib:problem:unauthenticated"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer tc_000000000000_" + "0" * 64},
        {"Authorization": "Bearer x"},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": b"Bearer \xe4\xff"},
        {"X-API-Key": "x"},
        {"X-API-Key": ""},
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


def test_a_revoked_key_stops_within_two_seconds(service):
    with service.client() as client:
        assert client.get("/v1/me").status_code == 200
        key = client.headers["authorization"].removeprefix("Bearer ")
        service.keys.revoke(key.split("_")[1])
        time.sleep(2)
        assert client.get("/v1/me").status_code == 401


def test_health_needs_no_key(service):
    with service.anonymous() as client:
        assert [client.get(p).status_code for p in ("/healthz", "/readyz", "/metrics")] == [200] * 3


def test_a_key_says_what_it_allows(service):
    grant = {"namespaces": ("a", "b"), "servers": {"y", "x"}, "max_sensitivity": "pii"}
    with service.client(access="read", **grant) as client:
        answer = client.get("/v1/me", headers={"Toolcrib-Namespace": "b"})
    assert answer.json() == {
        "name": "test",
        "access": "read",
        "namespaces": ["a", "b"],
        "namespace": "b",
        "scope": {
            "servers": ["x", "y"],
            "tags": None,
            "categories": None,
            "without_safety_tags": [],
            "max_sensitivity": "pii",
            "collections": None,
        },
    }


def test_another_namespace_is_forbidden_whether_it_is_there_or_not(service, stocked):
    there = stocked.get("/v1/me").json()["namespace"]
    with service.client("mine") as client:
        told = [
            client.get("/v1/facets", headers={"Toolcrib-Namespace": name})
            for name in (there, "nowhere")
        ]
    assert [answer.status_code for answer in told] == [403, 403]
    texts = [
        answer.json()["detail"].replace(name, "X")
        for answer, name in zip(told, (there, "nowhere"), strict=True)
    ]
    assert texts[0] == texts[1]


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
    with open_service.anonymous() as client:
        answer = client.get("/v1/me", headers=headers)
        assert answer.status_code == 403
        allowed = {"Host": "localhost:1", "Origin": "http://[::1]:3000"}
        assert client.get("/v1/me", headers=allowed).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_is_known(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "localhost.evil", "10.1.1.1", "example.org"])
def test_other_machines_are_known(host):
    assert not is_loopback(host)


def test_a_header_that_comes_twice_counts_once(service):
    key = service.key()
    headers = [("Authorization", f"Bearer {key}"), ("Authorization", "Bearer other")]
    assert httpx2.get(f"{service.url}/v1/me", headers=headers).status_code == 200
