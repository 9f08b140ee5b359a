"""Keys over HTTP: listed, made and revoked by a key with the access admin, and by no other."""

from __future__ import annotations

import time

import httpx2
import pytest

from toolcrib.http import Anyone

ASKED = (
    ("GET", "/v1/keys", None),
    ("POST", "/v1/keys", {"name": "x"}),
    ("DELETE", "/v1/keys/a", None),
)


@pytest.fixture
def admin(service):
    with service.client(access="admin", namespaces=("*",)) as client:
        yield client


def listed(admin, key_id):
    return next(key for key in admin.get("/v1/keys").json()["keys"] if key["id"] == key_id)


def test_a_new_key_has_its_grant_and_its_text_is_shown_once(service, admin):
    grant = {"servers": ["mail"], "access": "write", "rate": "5/second", "profile": "writing"}
    made = admin.post("/v1/keys", json={"name": "Ana", "grant": grant, "expires_days": 1}).json()
    caller = service.keys.verify(made["text"])
    assert (caller.key_id, caller.name) == (made["key"]["id"], "Ana")
    assert caller.grant.model_dump(mode="json", include=set(grant)) == grant
    everything = admin.get("/v1/keys")
    assert listed(admin, caller.key_id) == made["key"]
    assert made["key"]["state"] == "active"
    assert made["text"].split("_")[2] not in everything.text
    assert "sha256" not in everything.text


def test_a_revoked_key_stops_and_stays_listed(service, admin):
    made = admin.post("/v1/keys", json={"name": "Ana"}).json()
    with httpx2.Client(base_url=service.url, headers={"X-API-Key": made["text"]}) as client:
        assert client.get("/v1/me").status_code == 200
        assert admin.delete(f"/v1/keys/{made['key']['id']}").status_code == 204
        until = time.monotonic() + 5
        while client.get("/v1/me").status_code == 200 and time.monotonic() < until:
            time.sleep(0.1)
        assert client.get("/v1/me").status_code == 401
    assert listed(admin, made["key"]["id"])["state"] == "revoked"


@pytest.mark.parametrize("access", ["read", "write"])
@pytest.mark.parametrize(("method", "path", "body"), ASKED)
def test_other_keys_see_and_change_none(service, access, method, path, body):
    before = len(service.keys.list())
    with service.client(access=access, namespaces=("*",)) as client:
        answer = client.request(method, path, json=body)
    assert (answer.status_code, "text" in answer.json()) == (403, False)
    assert len(service.keys.list()) == before + 1


def test_no_key_is_needed_for_what_asks_for_none_and_so_none_is_made(start):
    with start(callers=Anyone()) as started, started.anonymous() as client:
        assert client.get("/v1/me").json()["access"] == "write"
        assert client.post("/v1/keys", json={"name": "x"}).status_code == 403


def test_an_admin_key_makes_no_other_one(admin):
    grant = {"access": "admin", "namespaces": ["*"]}
    answer = admin.post("/v1/keys", json={"name": "x", "grant": grant})
    assert (answer.status_code, "--admin" in answer.json()["detail"]) == (403, True)


@pytest.mark.parametrize(
    "body",
    [
        {},
        *({"name": name} for name in ("", "a\nb")),
        *({"name": "x", "grant": grant} for grant in ({"rate": "5/day"}, {"everything": True})),
        *({"name": "x", "expires_days": days} for days in (0, 1e-9)),
    ],
    ids=str,
)
def test_a_key_that_cannot_be_meant_is_refused(admin, body):
    assert admin.post("/v1/keys", json=body).status_code == 422


def test_an_unknown_key_is_not_there(admin):
    unknown = admin.delete("/v1/keys/0123456789ab")
    assert unknown.status_code == 404
    assert "endpoint" not in unknown.json()["title"]
