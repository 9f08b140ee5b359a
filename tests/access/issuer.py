"""An authorisation server: Authlib's, which gives clients signed tokens (RFC 9068) over HTTP."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx2
from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.serving import serving_app

AUDIENCE = "https://tools.example.com/mcp"


class AnyClient(ClientMixin):
    """A client that may have every scope, by its own id as secret."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id

    def get_client_id(self) -> str:
        return self.client_id

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.client_id

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_post"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "client_credentials"


class Credentials(ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_post",)


class FormRequest(OAuth2Request):
    """A request by a form; Authlib refuses http, which stays on this machine."""

    def __init__(self, form: dict[str, str], headers: dict[str, str]) -> None:
        super().__init__("POST", "https://issuer/token", headers=headers)
        self.payload = BasicOAuth2Payload(form)

    @property
    def form(self) -> dict[str, str]:
        return self.payload.data


class Issuer(AuthorizationServer):
    """The server; `lasts_s` is the time that new tokens hold, `keys` sign them."""

    def __init__(self) -> None:
        super().__init__()
        self.url, self.audience, self.lasts_s, self.reads = "", AUDIENCE, 600, 0
        self.keys = new_keys("first")
        self.register_grant(Credentials)
        self.register_token_generator("default", self._generate)

    def _generate(self, **given: Any) -> dict[str, Any]:
        issuer = self

        class Generator(JWTBearerTokenGenerator):
            def get_jwks(self) -> KeySet:
                return issuer.keys

            def get_audiences(self, client: Any, user: Any, scope: Any) -> str:
                return issuer.audience

        made = Generator(self.url, expires_generator=lambda *_: self.lasts_s)
        return made(**given)

    def query_client(self, client_id: str) -> AnyClient:
        return AnyClient(client_id)

    def save_token(self, token: Any, request: Any) -> None:
        """Keep no token: it says all itself."""

    def create_oauth2_request(
        self, request: tuple[dict[str, str], dict[str, str]]
    ) -> OAuth2Request:
        return FormRequest(*request)

    def handle_response(self, status: int, body: Any, headers: Any) -> Response:
        return Response(json.dumps(body), status, dict(headers))

    def send_signal(self, name: str, *given: Any, **more: Any) -> None:
        """Tell nobody."""

    # -- over HTTP

    async def answer_token(self, request: Request) -> Response:
        form = {key: str(value) for key, value in (await request.form()).items()}
        return self.create_token_response((form, dict(request.headers)))

    async def answer_metadata(self, _request: Request) -> Response:
        return JSONResponse({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"})

    async def answer_keys(self, _request: Request) -> Response:
        self.reads += 1
        return JSONResponse(self.keys.as_dict(private=False))

    # -- for tests

    def token(self, scope: str, client: str = "agent") -> str:
        form = {"grant_type": "client_credentials", "scope": scope}
        answer = httpx2.post(
            f"{self.url}/token", data={**form, "client_id": client, "client_secret": client}
        )
        return answer.json()["access_token"]

    def settings(self, **more: Any) -> dict[str, Any]:
        scopes = {
            "tools.admin": {"access": "write", "namespaces": ["*"]},
            "tools.mail": {"servers": ["mail"]},
            "tools.read": {},
        }
        return {"issuer": self.url, "audience": AUDIENCE, "scopes": scopes, **more}


def new_keys(name: str) -> KeySet:
    return KeySet([RSAKey.generate_key(2048, {"kid": name, "use": "sig", "alg": "RS256"})])


@contextmanager
def issuing() -> Generator[Issuer]:
    issuer = Issuer()
    routes = [
        Route("/token", issuer.answer_token, methods=["POST"]),
        Route("/.well-known/openid-configuration", issuer.answer_metadata),
        Route("/jwks", issuer.answer_keys),
    ]
    with serving_app(Starlette(routes=routes)) as issuer.url:
        yield issuer
