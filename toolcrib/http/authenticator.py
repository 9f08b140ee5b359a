"""Authenticator: keys of requests, their callers and rate limits."""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Protocol
from urllib.parse import urlsplit

from toolcrib.access.keys import ANYONE, KEY_BYTES, Caller
from toolcrib.access.tokens import KeysAndTokens
from toolcrib.caches import BoundedMap
from toolcrib.errors import ForbiddenError, RateLimitedError, UnauthenticatedError
from toolcrib.extras import import_extra
from toolcrib.http.context import header
from toolcrib.http.workers import Workers

CALLER_TTL_S = 0.5
"""Lifetime of a verified caller, beside the key ring's own cache."""

MAX_CALLERS_BYTES = 16 * 2**20
"""Cache of callers: some 30,000, fewer with grants of many servers."""

CLOCK_STEP_S = 1.0
"""A wall clock that moved this far from the monotonic clock was set."""


class Callers(Protocol):
    """Verifier of keys, such as a `KeyRing`."""

    def verify(self, text: str) -> Caller:
        """The caller of a key; may block, so it is called in a thread.

        Raises:
            UnauthenticatedError: the key is unknown, expired or revoked.
            StoreError: keys cannot be read.
        """
        ...


class Anyone:
    """Verifier of `--insecure-local`: accepts every request from this machine."""

    def verify(self, text: str) -> Caller:  # noqa: ARG002 -- needs no key
        """The caller `ANYONE`."""
        return ANYONE


class Authenticator:
    """Verifies keys and tokens, and caches their callers for a moment.

    `challenge` is the end of the header that tells a caller without a key how to get a token.
    """

    def __init__(self, callers: Callers, workers: Workers) -> None:
        self._callers = callers
        self._workers = workers
        self._known: BoundedMap[bytes, tuple[float, Caller]] = BoundedMap(
            MAX_CALLERS_BYTES, lambda _, known: KEY_BYTES + known[1].scope().bytes
        )
        self._is_open = isinstance(callers, Anyone)
        self.challenge = callers.tokens.challenge() if isinstance(callers, KeysAndTokens) else ""

    def require_local(self, scope: Mapping[str, Any]) -> None:
        """Refuse requests that a foreign web page makes a browser send, also by DNS rebinding.

        Raises:
            ForbiddenError: no keys are needed, and the request names another host.
        """
        if not self._is_open:
            return
        host = header(scope, b"host") or b""
        origin = header(scope, b"origin")
        hosts = [_hostname("//" + host.decode("latin-1"))]
        if origin is not None:
            hosts.append(_hostname(origin.decode("latin-1")))
        if not all(map(is_loopback, hosts)):
            raise ForbiddenError(
                "without keys only this machine is served, by the name localhost or its address"
            )

    async def caller(self, scope: Mapping[str, Any]) -> Caller:
        """The caller of a request.

        Raises:
            UnauthenticatedError: no key, or an invalid one.
            StoreError: keys cannot be read.
        """
        if self._is_open:
            return ANYONE
        text = _key(scope)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(digest)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        self._known.pop(digest, None)
        until = time.monotonic() + CALLER_TTL_S
        caller = await self._workers.read(partial(self._callers.verify, text))
        self._known[digest] = until, caller
        return caller


class RateLimiter:
    """Rate limits of keys; `default` is the rate of a key without its own.

    Counts are reset when the wall clock is set: else a key could be locked out until the clock
    reaches the old time again.
    """

    def __init__(self, default: str | None) -> None:
        strategies = import_extra("limits.strategies", "toolcrib serve", "service")
        storage = import_extra("limits.storage", "toolcrib serve", "service")
        self._storage: Any = storage.MemoryStorage()
        self._limiter: Any = strategies.MovingWindowRateLimiter(self._storage)
        self._default = default
        self._offset_s = _clock_offset_s()

    def count(self, caller: Caller) -> None:
        """Count one request.

        Raises:
            RateLimitedError: the rate is exceeded, with the time to retry.
        """
        rate = caller.grant.rate or self._default
        if rate is None or caller is ANYONE:
            return
        self._follow_clock()
        limit = _parse_rate(rate)
        if not self._limiter.hit(limit, caller.key_id):
            until = self._limiter.get_window_stats(limit, caller.key_id).reset_time
            raise RateLimitedError(
                f"this key may ask {rate.replace('/', ' times a ')}; wait a little",
                retry_after_s=max(0.05, until - time.time()),
            )

    def _follow_clock(self) -> None:
        before, self._offset_s = self._offset_s, _clock_offset_s()
        if abs(self._offset_s - before) > CLOCK_STEP_S:
            self._storage.reset()


def _clock_offset_s() -> float:
    """Seconds by which the wall clock is ahead of the monotonic clock."""
    return time.time() - time.monotonic()


@lru_cache(maxsize=256)
def _parse_rate(rate: str) -> Any:
    return import_extra("limits", "toolcrib serve", "service").parse(rate)


def _key(scope: Mapping[str, Any]) -> str:
    """Key in a request's headers, which are latin-1."""
    given = header(scope, b"authorization")
    if given is not None:
        kind, _, text = given.decode("latin-1").partition(" ")
        if kind.lower() == "bearer" and text.strip():
            return text.strip()
        raise UnauthenticatedError("the Authorization header is not of the form: Bearer KEY")
    given = header(scope, b"x-api-key")
    if given is None or not given.strip():
        raise UnauthenticatedError(
            "there is no API key; send one as `Authorization: Bearer KEY`"
            " (TOOLCRIB_API_KEY on the command line)"
        )
    return given.decode("latin-1").strip()


def is_loopback(host: str) -> bool:
    """True for a host that is this machine, by name or address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
