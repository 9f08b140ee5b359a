"""API keys at the gateway's HTTP: who may come in, and what of it they see."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

from fastmcp.server.auth import AccessToken, TokenVerifier
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Request

from toolcrib.access.keys import Grant, KeyRing, within
from toolcrib.caches import BoundedMap
from toolcrib.errors import ServiceError, StoreError
from toolcrib.records import Scope
from toolcrib.records.scope import DEFAULT_NAMESPACE

__all__ = ["KeyVerifier", "grant", "reach"]

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

CLAIM = "grant"

MAX_REACHES_BYTES = 4 * 2**20
"""What is kept of the scopes that keys come to."""

AUTHORIZATION = b"authorization"

logger = logging.getLogger(__name__)


class KeyVerifier(TokenVerifier):
    """Lets in whoever shows a key that holds for the default namespace.

    Until the first key was ever made, everybody is let in; whether it was is looked up for
    every request.
    """

    def __init__(self, ring: KeyRing) -> None:
        super().__init__()
        self._ring = ring
        self._asks = False
        self._anyone = secrets.token_urlsafe()

    async def asks_for_keys(self) -> bool:
        """Whether a key was ever made; also where nobody can tell."""
        if not self._asks:
            try:
                self._asks = bool(await asyncio.to_thread(self._ring.list))
            except StoreError:
                logger.warning("keys cannot be looked up", exc_info=True)
                return True
        return self._asks

    def get_middleware(self) -> list[Any]:
        """What stands around FastMCP's endpoints."""
        theirs = cast("Callable[[], list[Any]]", super().get_middleware)
        return [Middleware(_OpenUntilKeys, self), *theirs()]

    async def headers(self, given: Headers) -> Headers:
        """The headers of a request, with a token for anyone while no keys are asked for.

        FastMCP looks for a token as soon as any may ever be needed.
        """
        if await self.asks_for_keys():
            return given
        others = [each for each in given if each[0].lower() != AUTHORIZATION]
        return [*others, (AUTHORIZATION, f"Bearer {self._anyone}".encode())]

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who holds this key; None for nobody."""
        if token == self._anyone:
            return AccessToken(token=token, client_id="", scopes=[])
        try:
            caller = await asyncio.to_thread(self._ring.verify, token)
            caller.namespace(DEFAULT_NAMESPACE)
        except ServiceError:
            return None
        except StoreError:
            logger.warning("keys cannot be looked up", exc_info=True)
            return None
        claims = {CLAIM: caller.grant.model_dump_json()}
        return AccessToken(token=token, client_id=caller.key_id, scopes=[], claims=claims)


class _OpenUntilKeys:
    """Lets everybody in until there is a key."""

    def __init__(self, app: ASGIApp, verifier: KeyVerifier) -> None:
        self._app, self._verifier = app, verifier

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": await self._verifier.headers(scope["headers"])}
        await self._app(scope, receive, send)


def grant(token: AccessToken | None) -> str | None:
    """What the holder of a key may use, as text; None where no keys are used."""
    return None if token is None else token.claims.get(CLAIM)


def reach(token: AccessToken | None, scope: Scope) -> Scope:
    """What the holder of a key may use of a scope: all of it where no keys are used."""
    granted = grant(token)
    if granted is None:
        return scope
    return _REACHES.get_or_make((granted, scope), partial(_reach, granted, scope))


def _reach(granted: str, scope: Scope) -> Scope:
    return within(Grant.model_validate_json(granted).scope(), scope)


_REACHES: BoundedMap[tuple[str, Scope], Scope] = BoundedMap(
    MAX_REACHES_BYTES, lambda asked, reached: len(asked[0]) + asked[1].bytes + reached.bytes
)
