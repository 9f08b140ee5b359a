"""Tokens of an issuer in place of keys, and where a client without one is led."""

from __future__ import annotations

import httpx2
import pytest

from tests.access.issuer import AUDIENCE, issuing
from tests.http.conftest import TOOLS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def issuer():
    with issuing() as running:
        yield running


@pytest.fixture(scope="module")
def guarded(issuer, start):
    with start(more={"tokens": issuer.settings()}) as service:
        yield service


def with_token(guarded, text: str) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {text}"}
    return httpx2.Client(base_url=guarded.url, headers=headers, timeout=20)


def test_scopes_grant_what_keys_grant(issuer, guarded):
    with with_token(guarded, issuer.token("tools.admin")) as admin:
        assert admin.post("/v1/tools", json={"tools": TOOLS}).status_code == 200
    with with_token(guarded, issuer.token("tools.read")) as reader:
        assert reader.post("/v1/tools", json={"tools": TOOLS}).status_code == 403
        found = reader.post("/v1/tools/search", json={"query": TOOLS[0]["name"]})
        assert found.json()["tools"]
    with with_token(guarded, issuer.token("openid")) as stranger:
        assert stranger.post("/v1/tools/search", json={"query": "x"}).status_code == 403
    with guarded.client() as keyed:
        assert keyed.post("/v1/tools/search", json={"query": "x"}).status_code == 200


def test_a_client_without_a_token_is_led_to_the_issuer(issuer, guarded):
    with guarded.anonymous() as client:
        refused = client.post("/v1/tools/search", json={"query": "x"})
        path = "/.well-known/oauth-protected-resource/mcp"
        metadata = client.get(path)

    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == (
        f'Bearer realm="toolcrib", resource_metadata="https://tools.example.com{path}"'
    )
    assert metadata.json() == {
        "resource": AUDIENCE,
        "authorization_servers": [issuer.url],
        "scopes_supported": ["tools.admin", "tools.mail", "tools.read"],
        "bearer_methods_supported": ["header"],
    }


def test_without_an_issuer_nothing_is_led_anywhere(service):
    with service.anonymous() as client:
        refused = client.post("/v1/tools/search", json={"query": "x"})
        assert refused.headers["www-authenticate"] == 'Bearer realm="toolcrib"'
        assert client.get("/.well-known/oauth-protected-resource").status_code == 404
