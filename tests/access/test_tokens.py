"""Tokens of an authorisation server that runs here let in with what their scopes are granted."""

from __future__ import annotations

import base64
import hmac
import json
import socket
from collections import Counter

import jwt
import pytest

from tests.access.issuer import AUDIENCE, Issuer, issuing, new_keys
from toolcrib.access import tokens as tokens_module
from toolcrib.access.keys import Grant, KeyRing
from toolcrib.access.tokens import KeysAndTokens, callers_of
from toolcrib.errors import (
    ForbiddenError,
    ServiceUnavailableError,
    SettingsError,
    UnauthenticatedError,
)
from toolcrib.settings import TokenSettings


@pytest.fixture(scope="module")
def running():
    with issuing() as issuer:
        yield issuer


@pytest.fixture
def issuer(running: Issuer):
    yield running
    running.audience, running.lasts_s = AUDIENCE, 600


def trusting(running, **more):
    return KeysAndTokens(KeyRing(None), TokenSettings.model_validate(running.settings(**more)))


@pytest.fixture
def verifier(issuer):
    return trusting(issuer)


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def test_the_first_scope_of_the_table_that_a_token_has_grants(issuer, verifier):
    both = verifier.verify(issuer.token("tools.read tools.mail", client="bot"))
    admin = verifier.verify(issuer.token("openid tools.read tools.admin"))

    assert (both.key_id, both.name) == ("sub:bot", "bot")
    assert both.grant == Grant(servers=frozenset({"mail"}))
    assert admin.may_write
    assert admin.namespace("acme") == "acme"


@pytest.mark.parametrize("claim", [5, True, {"tools.read": 1}, [["tools.read"]]])
def test_a_claim_of_another_type_has_no_scope(issuer, verifier, claim):
    claims = jwt.decode(issuer.token("tools.read"), options={"verify_signature": False})
    key = issuer.keys.keys[0]
    token = jwt.encode({**claims, "scope": claim}, key.private_key, "RS256", {"kid": key.kid})
    with pytest.raises(ForbiddenError, match="scope"):
        verifier.verify(token)


def test_a_token_without_a_known_scope_is_forbidden(issuer, verifier):
    with pytest.raises(ForbiddenError, match=r"tools\.read"):
        verifier.verify(issuer.token("openid"))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("audience", "https://other.example.com", r"[Aa]udience"),
        ("lasts_s", -tokens_module.TOKEN_CLOCK_SKEW_S - 1, "expired"),
    ],
)
def test_a_token_of_another_audience_or_time_does_not_hold(issuer, verifier, field, value, said):
    setattr(issuer, field, value)
    with pytest.raises(UnauthenticatedError, match=said):
        verifier.verify(issuer.token("tools.read"))


def test_a_token_of_another_issuer_costs_no_look_up(issuer, verifier):
    before = issuer.reads
    with pytest.raises(UnauthenticatedError, match="another issuer"):
        trusting(issuer, issuer="https://a.b").verify(issuer.token("tools.read"))
    for text in ("", "x", "a.b.c", "tc_1"):
        with pytest.raises(UnauthenticatedError):
            verifier.verify(text)
    assert issuer.reads == before


def test_a_changed_token_and_one_signed_by_the_public_key_do_not_hold(issuer, verifier):
    token = issuer.token("tools.read")
    head, body, signature = token.split(".")
    with pytest.raises(UnauthenticatedError):
        verifier.verify(f"{head}.{body}.{signature[:-8]}AAAAAAAA")

    key = issuer.keys.keys[0]
    forged = json.dumps({"alg": "HS256", "kid": key.kid}).encode()
    signed = f"{_base64(forged)}.{body}"
    made = hmac.digest(key.as_pem(private=False), signed.encode(), "sha256")
    with pytest.raises(UnauthenticatedError):
        verifier.verify(f"{signed}.{_base64(made)}")

    claims = jwt.decode(token, options={"verify_signature": False})
    with pytest.raises(UnauthenticatedError):
        verifier.verify(jwt.encode(claims, None, algorithm="none", headers={"kid": key.kid}))


def test_keys_that_are_replaced_are_read_again(issuer, verifier, monkeypatch):
    assert verifier.verify(issuer.token("tools.read"))
    # The client waits half a minute before it asks again for a key that it does not know.
    monkeypatch.setattr(verifier._keys, "cooldown_duration", 0)
    issuer.keys = new_keys("second")
    assert verifier.verify(issuer.token("tools.read"))


def test_an_issuer_that_does_not_answer_is_unavailable_and_not_asked_at_each_request(issuer):
    token = issuer.token("tools.read")
    with pytest.raises(ServiceUnavailableError, match="keys of the issuer"):
        trusting(issuer, jwks_url="http://127.0.0.1:9/jwks").verify(token)

    wrong = trusting(issuer)
    issuer.url, url = f"{issuer.url}/", issuer.url
    try:
        for said in ("not its metadata", "a moment ago"):
            with pytest.raises(ServiceUnavailableError, match=said):
                wrong.verify(token)
    finally:
        issuer.url = url


def test_a_silent_issuer_holds_up_one_request(issuer, monkeypatch):
    monkeypatch.setattr(tokens_module, "KEYS_FETCH_TIMEOUT_S", 0.5)
    token = issuer.token("tools.read")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/jwks"
        verifier = trusting(issuer, jwks_url=url)
        reasons = Counter(_refusal(verifier, token).rpartition(": ")[2] for _ in range(4))
        assert reasons.pop("they could not be fetched a moment ago") == 3
        assert len(reasons) == 1
        monkeypatch.setattr(verifier._keys, "retry_at", 0.0)
        assert "a moment ago" not in _refusal(verifier, token)


def _refusal(verifier, token):
    with pytest.raises(ServiceUnavailableError) as refused:
        verifier.verify(token)
    return str(refused.value)


def test_keys_hold_beside_tokens(issuer, records_db):
    ring = KeyRing(records_db)
    _, text = ring.create("ada", Grant())
    callers = callers_of(ring, TokenSettings.model_validate(issuer.settings()))

    assert callers.verify(text).name == "ada"
    assert callers.verify(issuer.token("tools.read")).name == "agent"
    assert callers_of(ring, None) is ring


def test_a_grant_that_is_none_is_named(issuer):
    with pytest.raises(SettingsError, match=r"tokens\.scopes\.tools\.read.*access"):
        trusting(issuer, scopes={"tools.read": {"access": "all"}})
