"""Keys of the gateway: verification, and the scope that is left for their holders."""

from __future__ import annotations

import pytest

from toolcrib import build
from toolcrib.access.keys import Grant, KeyRing
from toolcrib.errors import StoreUnavailableError
from toolcrib.gateway.auth import KeyVerifier, granted_scope, has_tool
from toolcrib.records import Scope
from toolcrib.settings import ProfileSettings, Settings

POST = Scope(servers=frozenset({"post"}), max_sensitivity="internal")


def _fail(*_given):
    raise StoreUnavailableError("the store does not answer")


@pytest.fixture
def ring():
    records_db = build.open_records_db(":memory:", Settings())
    yield KeyRing(records_db)
    records_db.close()


async def test_a_key_that_holds_lets_in_with_what_it_grants(ring):
    key, text = ring.create("ada", Grant(servers=frozenset({"post", "fax"})))
    token = await KeyVerifier(ring).verify_token(text)

    assert token.client_id == key.id
    ours = Scope(servers=frozenset({"post", "vault"}), max_sensitivity="internal")
    assert granted_scope(token, ours) == POST
    assert granted_scope(None, ours) is ours


async def test_a_key_gets_the_profile_that_it_names(ring):
    limits = {"servers": ("post",), "max_sensitivity": "internal"}
    profiles = {"writing": ProfileSettings(exclude=("post/delete_*",), **limits)}
    _, text = ring.create("ada", Grant(profile="writing"))
    token = await KeyVerifier(ring, profiles=profiles).verify_token(text)

    assert granted_scope(token, Scope()) == POST
    assert [has_tool(token, each) for each in ("post/send", "post/delete_all")] == [True, False]
    assert has_tool(None, "post/delete_all")


@pytest.mark.parametrize(
    ("profile", "servers"),
    [
        (ProfileSettings(include=("post/send", "fax/*")), {"post", "fax"}),
        (ProfileSettings(include=("*t/send",)), {"post", "fax", "vault"}),
        (ProfileSettings(exclude=("vault/*", "fax/send")), {"post", "fax"}),
        (ProfileSettings(servers=("post", "fax"), exclude=("f*",)), {"post"}),
    ],
)
async def test_a_server_of_which_a_profile_has_nothing_is_out_of_scope(ring, profile, servers):
    _, text = ring.create("ada", Grant(profile="part"))
    token = await KeyVerifier(ring, profiles={"part": profile}).verify_token(text)

    ours = Scope(servers=frozenset({"post", "fax", "vault"}))
    assert granted_scope(token, ours).servers == servers


async def test_a_key_whose_profile_is_not_there_is_refused(ring):
    _, text = ring.create("ada", Grant(profile="writing"))
    assert await KeyVerifier(ring).verify_token(text) is None


async def test_keys_are_asked_for_once_there_was_one_and_where_nobody_can_tell(ring, monkeypatch):
    verifier = KeyVerifier(ring)
    assert not await verifier.requires_keys()
    with monkeypatch.context() as broken:
        broken.setattr(ring, "list", _fail)
        assert await verifier.requires_keys()
    assert not await verifier.requires_keys()
    key, _ = ring.create("ada", Grant())
    ring.revoke(key.id)
    assert await verifier.requires_keys()


async def test_while_keys_cannot_be_looked_up_nobody_is_let_in(ring, monkeypatch):
    _, text = ring.create("ada", Grant())

    monkeypatch.setattr(ring, "verify", _fail)
    assert await KeyVerifier(ring).verify_token(text) is None


async def test_a_caller_ends_with_its_key_and_not_with_a_store_that_fails(ring, monkeypatch):
    key, text = ring.create("ada", Grant())
    verifier = KeyVerifier(ring)
    token = await verifier.verify_token(text)
    with monkeypatch.context() as broken:
        broken.setattr(ring, "verify", _fail)
        assert not await verifier.has_ended(token)
    assert not await verifier.has_ended(token)
    ring.revoke(key.id)
    assert await verifier.has_ended(token)


async def test_a_caller_without_a_key_ends_with_the_first_key(ring, monkeypatch):
    verifier = KeyVerifier(ring)
    token = await verifier.verify_token(verifier.anyone)
    with monkeypatch.context() as broken:
        broken.setattr(ring, "list", _fail)
        assert not await verifier.has_ended(token)
    assert not await verifier.has_ended(token)
    ring.create("ada", Grant())
    assert await verifier.has_ended(token)
