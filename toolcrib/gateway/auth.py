"""Keys and tokens over the gateway's HTTP: authentication of clients, and their scopes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeAlias, cast

from fastmcp.server.auth import AccessToken, TokenVerifier
from mcp.server.auth.routes import create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Request

from toolcrib.access.keys import Grant, KeyRing, within
from toolcrib.access.tokens import KeysAndTokens
from toolcrib.caches import BoundedMap
from toolcrib.errors import ServiceError, ServiceUnavailableError, StoreError
from toolcrib.gateway.config import profile_filter
from toolcrib.records import Scope
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.settings import ProfileSettings

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

CLAIM, PROFILE = "grant", "profile"

MAX_SCOPES_BYTES = 4 * 2**20
"""Size of the cache of scopes narrowed by grants."""

AUTHORIZATION, CHALLENGE = b"authorization", b"www-authenticate"

logger = logging.getLogger(__name__)


class KeyVerifier(TokenVerifier):
    """Verifier of keys, and of an issuer's tokens, for the default namespace.

    Without an issuer, every request is accepted until the first key was ever made; each request
    looks that up. A grant's profile is one of `profiles`.
    """

    def __init__(
        self,
        ring: KeyRing,
        callers: KeyRing | KeysAndTokens | None = None,
        profiles: Mapping[str, ProfileSettings] | None = None,
    ) -> None:
        super().__init__()
        self._profiles = profiles or {}
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
        return [Middleware(_Entrance, self), *theirs()]

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
        if (name := caller.grant.profile) is not None:
            if name not in self._profiles:
                text = "gateway.profiles has no %r, which the key %s names"
                logger.warning(text, name, caller.key_id)
                return None
            claims[PROFILE] = self._profiles[name].model_dump_json()
        return AccessToken(token=token, client_id=caller.key_id, scopes=[], claims=claims)


NO_CREDENTIALS = (
    "this gateway needs a key or token: send it as `Authorization: Bearer ...`; its operator makes "
    "a key with `toolcrib keys create NAME --store STORE`"
)
WRONG_CREDENTIALS = (
    "the key or token is unknown, expired, revoked or not for this gateway: check the header "
    "Authorization, or ask its operator for another key"
)


class _Entrance:
    """Accepts every request until the first key was made, and explains refusals."""

    def __init__(self, app: ASGIApp, verifier: KeyVerifier) -> None:
        self._app, self._verifier = app, verifier

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": await self._verifier.headers(scope["headers"])}
            has_any = any(name.lower() == AUTHORIZATION for name, _ in scope["headers"])
            send = _explaining(send, WRONG_CREDENTIALS if has_any else NO_CREDENTIALS)
        await self._app(scope, receive, send)


def _explaining(send: Send, reason: str) -> Send:
    """Sender that gives a refusal with 401 a body and a challenge that say what to do."""
    is_refused = False

    async def answer(message: Message) -> None:
        nonlocal is_refused
        if is_refused:
            return
        if message["type"] != "http.response.start" or message["status"] != HTTPStatus.UNAUTHORIZED:
            await send(message)
            return
        is_refused = True
        theirs = b" ".join(v for k, v in message["headers"] if k.lower() == CHALLENGE)
        link = re.search(rb'resource_metadata="[^"]*"', theirs)
        about = {"error": "invalid_token", "error_description": reason}
        parts = ", ".join(f'{key}="{value}"' for key, value in about.items())
        challenge = f"Bearer {parts}".encode() + (b", " + link[0] if link else b"")
        body = json.dumps(about).encode()
        length = str(len(body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({**message, "headers": [*headers, (CHALLENGE, challenge)]})
        await send({"type": "http.response.body", "body": body})

    return answer


def grant(token: AccessToken | None) -> str | None:
    """Grant of a key as text; None if no keys are used."""
    return None if token is None else token.claims.get(CLAIM)


def profile_of(token: AccessToken | None) -> ProfileSettings:
    """Profile of a key; one that changes nothing for a key without a profile."""
    text = "" if token is None else token.claims.get(PROFILE, "")
    return _PROFILES.get_or_make(
        text, lambda: ProfileSettings.model_validate_json(text) if text else ProfileSettings()
    )


def has_tool(token: AccessToken | None, tool_id: str) -> bool:
    """True unless the profile of a key leaves a tool out, by id."""
    return profile_filter(profile_of(token)).allows(tool_id)


def granted_scope(token: AccessToken | None, scope: Scope) -> Scope:
    """Scope narrowed to the grant of a key and its profile; unchanged if no keys are used."""
    text = grant(token)
    if text is None:
        return scope

    def narrow() -> Scope:
        profile = profile_of(token)
        part = Scope(
            servers=frozenset(profile.servers) or None,
            tags=frozenset(profile.tags) or None,
            max_sensitivity=profile.max_sensitivity,
        )
        return within(Grant.model_validate_json(text).scope(), within(part, scope))

    profile_text = "" if token is None else token.claims.get(PROFILE, "")
    return _NARROWED_SCOPES.get_or_make((text + profile_text, scope), narrow)


_PROFILES: BoundedMap[str, ProfileSettings] = BoundedMap(1_000)


_NARROWED_SCOPES: BoundedMap[tuple[str, Scope], Scope] = BoundedMap(
    MAX_SCOPES_BYTES, lambda key, narrowed: len(key[0]) + key[1].bytes + narrowed.bytes
)
