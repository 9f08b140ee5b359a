"""Keys and tokens over the gateway's HTTP: authentication of clients, and their scopes."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from fastmcp.server.auth import AccessToken, TokenVerifier
from mcp.server.auth.routes import create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Request

from toolcrib.access.keys import Grant, KeyRing, within
from toolcrib.access.tokens import KeysAndTokens
from toolcrib.caches import BoundedMap
from toolcrib.errors import ServiceError, ServiceUnavailableError, StoreError
from toolcrib.records import Scope
from toolcrib.records.scope import DEFAULT_NAMESPACE

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

CLAIM = "grant"

MAX_SCOPES_BYTES = 4 * 2**20
"""Size of the cache of scopes narrowed by grants."""

AUTHORIZATION = b"authorization"

logger = logging.getLogger(__name__)


class KeyVerifier(TokenVerifier):
    """Verifier of keys, and of an issuer's tokens, for the default namespace.

    Without an issuer, every request is accepted until the first key was ever made; each request
    looks that up.
    """

    def __init__(self, ring: KeyRing, callers: KeyRing | KeysAndTokens | None = None) -> None:
        super().__init__()
        self._ring, self._callers = ring, callers or ring
        self._tokens = callers.tokens if isinstance(callers, KeysAndTokens) else None
        self._requires_keys = self._tokens is not None
        self._anyone = secrets.token_urlsafe()

    async def requires_keys(self) -> bool:
        """True once a key was ever made, and if the store cannot tell."""
        if not self._requires_keys:
            try:
                self._requires_keys = bool(await asyncio.to_thread(self._ring.list))
            except StoreError:
                logger.warning("keys cannot be looked up", exc_info=True)
                return True
        return self._requires_keys

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Route of the metadata that lead clients to the issuer of tokens, if there is one."""
        url = self._get_resource_url(mcp_path)
        if self._tokens is None or url is None:
            return []
        about = self._tokens.metadata()
        issuers = [AnyHttpUrl(each) for each in about["authorization_servers"]]
        return create_protected_resource_routes(url, issuers, about["scopes_supported"])

    def _get_resource_url(self, path: str | None = None) -> AnyHttpUrl | None:
        # The audience is the public URL; FastMCP would make one of its own.
        del path
        resource = self._tokens and self._tokens.resource
        return AnyHttpUrl(resource) if resource else None

    def get_middleware(self) -> list[Any]:
        """Middleware around FastMCP's endpoints."""
        theirs = cast("Callable[[], list[Any]]", super().get_middleware)
        return [Middleware(_OpenUntilKeys, self), *theirs()]

    async def headers(self, given: Headers) -> Headers:
        """Headers of a request, with a token for anyone until keys are required.

        FastMCP requires a token whenever a verifier exists.
        """
        if await self.requires_keys():
            return given
        others = [each for each in given if each[0].lower() != AUTHORIZATION]
        return [*others, (AUTHORIZATION, f"Bearer {self._anyone}".encode())]

    async def verify_token(self, token: str) -> AccessToken | None:
        """The token of a key; None for a key that does not hold."""
        if token == self._anyone:
            return AccessToken(token=token, client_id="", scopes=[])
        try:
            caller = await asyncio.to_thread(self._callers.verify, token)
            caller.namespace(DEFAULT_NAMESPACE)
        except ServiceUnavailableError as error:
            logger.warning("a token cannot be verified: %s", error)
            return None
        except ServiceError:
            return None
        except StoreError:
            logger.warning("keys cannot be looked up", exc_info=True)
            return None
        claims = {CLAIM: caller.grant.model_dump_json()}
        return AccessToken(token=token, client_id=caller.key_id, scopes=[], claims=claims)


class _OpenUntilKeys:
    """Accepts every request until the first key was made."""

    def __init__(self, app: ASGIApp, verifier: KeyVerifier) -> None:
        self._app, self._verifier = app, verifier

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": await self._verifier.headers(scope["headers"])}
        await self._app(scope, receive, send)


def grant(token: AccessToken | None) -> str | None:
    """Grant of a key as text; None if no keys are used."""
    return None if token is None else token.claims.get(CLAIM)


def granted_scope(token: AccessToken | None, scope: Scope) -> Scope:
    """Scope narrowed to the grant of a key; unchanged if no keys are used."""
    text = grant(token)
    if text is None:
        return scope

    def narrow() -> Scope:
        return within(Grant.model_validate_json(text).scope(), scope)

    return _NARROWED_SCOPES.get_or_make((text, scope), narrow)


_NARROWED_SCOPES: BoundedMap[tuple[str, Scope], Scope] = BoundedMap(
    MAX_SCOPES_BYTES, lambda key, narrowed: len(key[0]) + key[1].bytes + narrowed.bytes
)
