"""Authenticator: keys of requests, and their callers."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from toolcrib.access.addresses import is_loopback
from toolcrib.access.keys import ANYONE, KEY_BYTES, Caller, KeyRing
from toolcrib.access.tokens import KeysAndTokens
from toolcrib.caches import BoundedMap
from toolcrib.errors import (
    ForbiddenError,
    OverloadedError,
    UnauthenticatedError,
)
from toolcrib.http.context import header
from toolcrib.http.workers import Workers

CALLER_TTL_S = 0.5
"""Lifetime of a verified caller, beside the key ring's own cache."""

CALLER_RENEWAL_S = 0.25
"""Age from which a caller with further requests is verified again in the background."""

MAX_VERIFICATIONS = 256
"""Concurrent verifications; each key has one. The limit holds if a store hangs."""

MAX_CALLERS_BYTES = 16 * 2**20
"""Size of the cache of callers: some 30,000, fewer with grants of many servers."""


class Anyone:
    """Verifier of `--insecure-local`: accepts every request from this machine."""

    def verify(self, text: str) -> Caller:  # noqa: ARG002 -- needs no key
        """The caller `ANYONE`."""
        return ANYONE


Callers: TypeAlias = KeyRing | KeysAndTokens | Anyone
"""Verifier of keys and tokens; may block, so it runs in a thread."""


class Authenticator:
    """Verifier of keys and tokens that caches callers briefly.

    `challenge`: end of the header that tells a caller without a key how to get a token.
    """

    def __init__(self, callers: Callers, workers: Workers) -> None:
        self._callers = callers
        self._workers = workers
        self._known: BoundedMap[bytes, tuple[float, Caller]] = BoundedMap(
            MAX_CALLERS_BYTES, lambda _, known: KEY_BYTES + known[1].grant.scope().bytes
        )
        self._running: dict[bytes, asyncio.Task[Caller]] = {}
        self._is_open = isinstance(callers, Anyone)
        self.challenge = callers.challenge() if isinstance(callers, KeysAndTokens) else ""

    def require_local(self, scope: Mapping[str, Any]) -> None:
        """Refuse requests that a foreign web page sends by a browser, also by DNS rebinding."""
        if not self._is_open:
            return
        urls = f"//{header(scope, 'host') or ''}", header(scope, "origin")
        if not all(is_loopback(_hostname(url)) for url in urls if url is not None):
            raise ForbiddenError(
                "without keys only this machine is served, by the name localhost or its address"
            )

    async def caller(self, scope: Mapping[str, Any]) -> Caller:
        """Caller of a request.

        Waiting requests hold places for concurrent requests. So all requests of a key share one
        verification, and few wait for it.

        Raises:
            UnauthenticatedError: no key, or an invalid one.
            OverloadedError: too many keys are being verified.
            StoreError: keys cannot be read.
        """
        if self._is_open:
            return ANYONE
        text = _key(scope)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        known, now = self._known.get(digest), time.monotonic()
        if known is None or now >= known[0]:
            return await asyncio.shield(self._verification(digest, text))
        if now >= known[0] - CALLER_TTL_S + CALLER_RENEWAL_S:
            # Without capacity for a verification, the cached caller remains valid.
            with suppress(OverloadedError):
                self._verification(digest, text)
        return known[1]

    def _verification(self, digest: bytes, text: str) -> asyncio.Task[Caller]:
        """Running verification of a key, or a new one."""
        task = self._running.get(digest)
        if task is None:
            if len(self._running) >= MAX_VERIFICATIONS:
                raise OverloadedError("too many keys are being verified; try again later")
            task = self._running[digest] = asyncio.create_task(self._verify(digest, text))
            # Retrieve the error even if no request waits for it.
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def _verify(self, digest: bytes, text: str) -> Caller:
        until = time.monotonic() + CALLER_TTL_S
        try:
            caller = await self._workers.read(partial(self._callers.verify, text))
        except Exception:
            self._known.pop(digest, None)
            raise
        finally:
            del self._running[digest]
        self._known[digest] = until, caller
        return caller


def _key(scope: Mapping[str, Any]) -> str:
    given = header(scope, "authorization")
    if given is not None:
        kind, _, text = given.partition(" ")
        if kind.lower() == "bearer" and text.strip():
            return text.strip()
        raise UnauthenticatedError("the Authorization header is not of the form: Bearer KEY")
    given = (header(scope, "x-api-key") or "").strip()
    if not given:
        raise UnauthenticatedError(
            "there is no API key; send one as `Authorization: Bearer KEY`"
            " (TOOLCRIB_API_KEY on the command line)"
        )
    return given


def _hostname(url: str) -> str:
    with suppress(ValueError):
        return urlsplit(url).hostname or ""
    return ""
