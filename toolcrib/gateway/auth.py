"""Authentication over the gateway's HTTP: keys and tokens of clients, and their scopes."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, cast

from fastmcp.server.auth import AccessToken, TokenVerifier
from mcp.server.auth.routes import create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Request

from toolcrib.access.keys import Caller, Grant, KeyRing, RateLimiter, intersection
from toolcrib.access.tokens import KeysAndTokens
from toolcrib.caches import BoundedMap
from toolcrib.errors import (
    ForbiddenError,
    RateLimitedError,
    ServiceError,
    ServiceUnavailableError,
    StoreError,
    UnauthenticatedError,
)
from toolcrib.gateway.config import profile_filter
from toolcrib.problems import retry_after, slug_of
from toolcrib.records import Scope
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.settings import ProfileSettings

MAX_NARROWED_SCOPES_BYTES = 4 * 2**20
"""Size of the cache of scopes narrowed by grants."""

RECHECK_S = 5.0
"""Seconds between checks of the caller of an open stream or a long call."""

AUTHORIZATION, CHALLENGE = b"authorization", b"www-authenticate"

logger = logging.getLogger(__name__)


class KeyToken(AccessToken):
    """Token of a caller with a key, or with an issuer's token."""

    grant: Grant
    profile: ProfileSettings


class KeyVerifier(TokenVerifier):
    """Verifier of keys, and of an issuer's tokens, for the default namespace.

    Without an issuer, every request is accepted until the first key is created; each request checks
    for keys. A grant's profile is one of `profiles`. `anyone` is the token of anonymous callers.
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
        self._tokens = callers if isinstance(callers, KeysAndTokens) else None
        self._requires_keys = self._tokens is not None
        self.anyone = secrets.token_urlsafe()

    async def requires_keys(self) -> bool:
        """True once a key was ever created, or if the store cannot be read."""
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
        # The audience is the public URL; FastMCP would derive another.
        del path
        resource = self._tokens and self._tokens.resource
        return AnyHttpUrl(resource) if resource else None

    def get_middleware(self) -> list[Any]:
        """Middleware around FastMCP's endpoints."""
        theirs = cast("Callable[[], list[Any]]", super().get_middleware)
        return [
            Middleware(_CredentialsMiddleware, self),
            *theirs(),
            Middleware(_CallerMiddleware, self),
        ]

    async def verify_token(self, token: str) -> AccessToken | None:
        """The caller's token; None for an invalid key or token."""
        if token == self.anyone:
            return AccessToken(token=token, client_id="", scopes=[])
        try:
            caller = await self._caller(token)
        except (ServiceError, StoreError) as error:
            if isinstance(error, ServiceUnavailableError | StoreError):
                logger.warning("a key or token cannot be verified: %s", error)
            return None
        grant, key_id, name = caller.grant, caller.key_id, caller.grant.profile
        profile = _NO_PROFILE if name is None else self._profiles.get(name)
        if profile is None:
            logger.warning(
                "gateway.profiles has no profile %r, which the key %s names", name, key_id
            )
            return None
        return KeyToken(token=token, client_id=key_id, scopes=[], grant=grant, profile=profile)

    async def has_ended(self, token: AccessToken) -> bool:
        """True if the caller of an open request is let in no longer; False if nobody can tell."""
        try:
            if not isinstance(token, KeyToken):
                return self._requires_keys or bool(await asyncio.to_thread(self._ring.list))
            await self._caller(token.token)
        except (UnauthenticatedError, ForbiddenError):
            return True
        except (ServiceError, StoreError) as error:
            logger.warning("a key or token cannot be verified: %s", error)
        return False

    async def _caller(self, token: str) -> Caller:
        caller = await asyncio.to_thread(self._callers.verify, token)
        caller.namespace(DEFAULT_NAMESPACE)
        return caller


NO_CREDENTIALS = (
    "this gateway needs a key or token: send it as `Authorization: Bearer ...`; its operator makes "
    "a key with `toolcrib keys create NAME --store STORE`"
)
WRONG_CREDENTIALS = (
    "the key or token is unknown, expired, revoked or not for this gateway: check the header "
    "Authorization, or ask its operator for another key"
)


class _CredentialsMiddleware:
    """Middleware that accepts every request until the first key exists, and explains refusals."""

    def __init__(self, app: ASGIApp, verifier: KeyVerifier) -> None:
        self._app, self._verifier = app, verifier

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if not await self._verifier.requires_keys():
                # FastMCP requires a token whenever a verifier exists.
                others = (each for each in scope["headers"] if each[0].lower() != AUTHORIZATION)
                anyone = AUTHORIZATION, f"Bearer {self._verifier.anyone}".encode()
                scope = {**scope, "headers": [*others, anyone]}
            has_any = any(name.lower() == AUTHORIZATION for name, _ in scope["headers"])
            send = _with_explanation(send, WRONG_CREDENTIALS if has_any else NO_CREDENTIALS)
        await self._app(scope, receive, send)


class _CallerMiddleware:
    """Middleware that refuses messages above the rate of their key, and ends revoked streams."""

    def __init__(self, app: ASGIApp, verifier: KeyVerifier) -> None:
        self._app, self._verifier, self._rates = app, verifier, RateLimiter()

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        token = getattr(scope.get("user"), "access_token", None)
        if isinstance(token, KeyToken) and scope["method"] == "POST":
            try:
                self._rates.count(token.client_id, token.grant)
            except RateLimitedError as error:
                about = {"error": slug_of(type(error)), "error_description": str(error)}
                headers = {"Retry-After": str(math.ceil(retry_after(error) or 1))}
                answer = JSONResponse(about, HTTPStatus.TOO_MANY_REQUESTS, headers)
                return await answer(scope, receive, send)

        async def receive_while_let_in() -> Message:
            # Whoever streams an answer waits here for the client to leave.
            while True:
                try:
                    async with asyncio.timeout(None if token is None else RECHECK_S):
                        return await receive()
                except TimeoutError:
                    if token is not None and await self._verifier.has_ended(token):
                        return {"type": "http.disconnect"}

        return await self._app(scope, receive_while_let_in, send)


def _with_explanation(send: Send, reason: str) -> Send:
    """Sender that adds a body and a challenge with instructions to a refusal with 401."""
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
        shown = JSONResponse(about)
        await send({**message, "headers": [*shown.raw_headers, (CHALLENGE, challenge)]})
        await send({"type": "http.response.body", "body": shown.body})

    return answer


def grant_of(token: AccessToken | None) -> Grant | None:
    """Grant of a key; None if no keys are used."""
    return token.grant if isinstance(token, KeyToken) else None


def profile_of(token: AccessToken | None) -> ProfileSettings:
    """Profile of a key; an empty profile for a key without one."""
    return token.profile if isinstance(token, KeyToken) else _NO_PROFILE


def has_tool(token: AccessToken | None, tool_id: str) -> bool:
    """True unless the profile of a key excludes a tool, by id."""
    return profile_filter(profile_of(token)).allows(tool_id)


def granted_scope(token: AccessToken | None, scope: Scope) -> Scope:
    """Scope narrowed to a key's grant and profile; unchanged if no keys are used."""
    if not isinstance(token, KeyToken):
        return scope

    def narrow() -> Scope:
        profile = token.profile
        servers, allowed = frozenset(profile.servers) or scope.servers, profile_filter(profile)
        if servers is not None:
            servers = frozenset(each for each in servers if allowed.may_allow(f"{each}/"))
        part = Scope(
            servers=servers,
            tags=frozenset(profile.tags) or None,
            max_sensitivity=profile.max_sensitivity,
        )
        return intersection(token.grant.scope(), intersection(part, scope))

    return _NARROWED_SCOPES.get_or_make((token.grant, token.profile, scope), narrow)


_NO_PROFILE = ProfileSettings()

_NARROWED_SCOPES: BoundedMap[tuple[Grant, ProfileSettings, Scope], Scope] = BoundedMap(
    MAX_NARROWED_SCOPES_BYTES,
    lambda key, narrowed: key[0].scope().bytes + key[2].bytes + narrowed.bytes,
)
