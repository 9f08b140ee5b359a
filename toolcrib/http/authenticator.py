"""Authenticator: a key becomes a caller, who may ask so often."""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Protocol
from urllib.parse import urlsplit

from toolcrib.access.keys import ANYONE, KEY_BYTES, Caller
from toolcrib.caches import BoundedMap
from toolcrib.errors import ForbiddenError, RateLimitedError, UnauthenticatedError
from toolcrib.extras import import_extra
from toolcrib.http.context import header
from toolcrib.http.workers import Workers

__all__ = ["Anyone", "Authenticator", "Callers", "RateLimiter", "is_loopback"]

FRESH_S = 0.5
"""How long a caller is taken at its key's last word, beside what the key ring itself remembers."""

MAX_CALLERS_BYTES = 16 * 2**20
"""What remembered callers take: some 30,000 of them, fewer where keys name many servers."""

JUMP_S = 1.0
"""A wall clock that is this far from where it would be was set."""


class Callers(Protocol):
    """Tells whose key a text is; a `KeyRing` does."""

    def verify(self, text: str) -> Caller:
        """The caller; may look it up somewhere else, so it is called in a thread.

        Raises:
            UnauthenticatedError: the key is unknown, expired or revoked.
            StoreError: nobody can tell.
        """
        ...


class Anyone:
    """Lets everybody in who is on this machine: what `--insecure-local` stands for."""

    def verify(self, text: str) -> Caller:  # noqa: ARG002 -- no key is asked for
        """Anyone at all."""
        return ANYONE


class Authenticator:
    """Asks for keys, and remembers for a moment whose they are."""

    def __init__(self, callers: Callers, workers: Workers) -> None:
        self._callers = callers
        self._workers = workers
        self._known: BoundedMap[bytes, tuple[float, Caller]] = BoundedMap(
            MAX_CALLERS_BYTES, lambda _, known: KEY_BYTES + known[1].scope().bytes
        )
        self._is_open = isinstance(callers, Anyone)

    def require_local(self, scope: Mapping[str, Any]) -> None:
        """Stop what a page from elsewhere makes a browser send, also by a name that points here.

        Raises:
            ForbiddenError: nobody needs a key, and the request names another machine.
        """
        if not self._is_open:
            return
        host = header(scope, b"host") or b""
        origin = header(scope, b"origin")
        named = [_hostname("//" + host.decode("latin-1"))]
        if origin is not None:
            named.append(_hostname(origin.decode("latin-1")))
        if not all(map(is_loopback, named)):
            raise ForbiddenError(
                "without keys only this machine is served, by the name localhost or its address"
            )

    async def caller(self, scope: Mapping[str, Any]) -> Caller:
        """Who sends a request.

        Raises:
            UnauthenticatedError: without a key, or with one that does not hold.
            StoreError: nobody can tell whether the key holds.
        """
        if self._is_open:
            return ANYONE
        text = _key(scope)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(digest)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        self._known.pop(digest, None)
        until = time.monotonic() + FRESH_S
        caller = await self._workers.read(partial(self._callers.verify, text))
        self._known[digest] = until, caller
        return caller


class RateLimiter:
    """Counts requests by key, and turns away what is too much; `default` where a key has none.

    Counts begin anew when the wall clock is set: what was counted happened at times that do not
    compare with the new ones, and a key could be locked out until they do.
    """

    def __init__(self, default: str | None) -> None:
        strategies = import_extra("limits.strategies", "toolcrib serve", "service")
        storage = import_extra("limits.storage", "toolcrib serve", "service")
        self._storage: Any = storage.MemoryStorage()
        self._limiter: Any = strategies.MovingWindowRateLimiter(self._storage)
        self._default = default
        self._ahead = _ahead()

    def count(self, caller: Caller) -> None:
        """Take one more request into account.

        Raises:
            RateLimitedError: it is one too many; the error says when to ask again.
        """
        rate = caller.grant.rate or self._default
        if rate is None or caller is ANYONE:
            return
        self._follow_clock()
        limit = _parsed(rate)
        if not self._limiter.hit(limit, caller.key_id):
            until = self._limiter.get_window_stats(limit, caller.key_id).reset_time
            raise RateLimitedError(
                f"this key may ask {rate.replace('/', ' times a ')}; wait a little",
                retry_after_s=max(0.05, until - time.time()),
            )

    def _follow_clock(self) -> None:
        before, self._ahead = self._ahead, _ahead()
        if abs(self._ahead - before) > JUMP_S:
            self._storage.reset()


def _ahead() -> float:
    """How far the wall clock is ahead of one that is never set."""
    return time.time() - time.monotonic()


@lru_cache(maxsize=256)
def _parsed(rate: str) -> Any:
    return import_extra("limits", "toolcrib serve", "service").parse(rate)


def _key(scope: Mapping[str, Any]) -> str:
    """The key that a request brings; latin-1, as headers are."""
    given = header(scope, b"authorization")
    if given is not None:
        kind, _, text = given.decode("latin-1").partition(" ")
        if kind.lower() == "bearer" and text.strip():
            return text.strip()
        raise UnauthenticatedError("the Authorization header is not of the form: Bearer KEY")
    given = header(scope, b"x-api-key")
    if given is None or not given.strip():
        raise UnauthenticatedError("there is no API key; send one as `Authorization: Bearer KEY`")
    return given.decode("latin-1").strip()


def is_loopback(host: str) -> bool:
    """Whether a host, by name or address, is this very machine."""
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
