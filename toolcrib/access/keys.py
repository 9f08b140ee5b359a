"""API keys: grants, rates, and a key ring that creates, verifies and revokes hashed keys."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, WithJsonSchema, model_validator

from toolcrib.caches import BoundedMap
from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import (
    ForbiddenError,
    QueryError,
    RateLimitedError,
    StoreDamagedError,
    UnauthenticatedError,
)
from toolcrib.records import Scope, Sensitivity
from toolcrib.records.codec import FrozenModel, in_words, iso_time
from toolcrib.records.scope import DEFAULT_NAMESPACE, Names, lowest
from toolcrib.store.namespaced import NAMESPACE_PATTERN, check_name
from toolcrib.store.records_db import DbRow, RecordsDb

TABLE = "keys"

MAX_CACHED_KEYS_BYTES = 16 * 2**20
"""Memory of cached keys: about 30,000 keys, fewer if their grants have many names."""

KEY_BYTES = 512
"""Memory of a key without the names in its grant."""

KEY_CACHE_S = 1.0
"""Seconds that a looked-up key is cached. A revoked key stops within two seconds, even where
callers are cached again."""

MAX_COUNTED_KEYS = 100_000
"""Keys whose requests are counted; of more, the longest unused are dropped."""

PERIODS_S = {"second": 1, "minute": 60, "hour": 3600}
"""Seconds of a rate's period."""

KEY_TEXT = re.compile(r"tc_([0-9a-f]{12})_([0-9a-f]{64})")

State = Literal["active", "expired", "revoked"]
Access = Literal["read", "write", "admin"]

ALL_NAMESPACES = "*"

MIN_KEY_DAYS, MAX_KEY_DAYS = 0.001, 36_500
"""Shortest and longest time until a key expires."""


def _check_namespace(name: str) -> str:
    """Check the name of a namespace, or `*`, and return it."""
    return name if name == ALL_NAMESPACES else check_name(name)


Namespace = Annotated[
    str,
    AfterValidator(_check_namespace),
    WithJsonSchema({"type": "string", "pattern": rf"^(\*|{NAMESPACE_PATTERN.pattern})$"}),
]


# -- grants and callers ------------------------------------------------------------------


class Grant(FrozenModel):
    """Permissions of a key.

    `*` in `namespaces` is every namespace. In `servers`, `tags` and `collections` None is no
    restriction, an empty set allows nothing. `rate`: requests per process, as `service.rate`.
    `profile` is one of a gateway's `gateway.profiles`; a service ignores it. The access `admin`
    manages keys and servers too, so it has no limits.
    """

    namespaces: tuple[Namespace, ...] = Field(default=(DEFAULT_NAMESPACE,), min_length=1)
    servers: Names | None = None
    tags: Names | None = None
    collections: Names | None = None
    max_sensitivity: Sensitivity | None = None
    access: Access = "read"
    rate: str | None = Field(default=None, pattern=r"^[1-9][0-9]*/(second|minute|hour)$")
    profile: str | None = Field(default=None, min_length=1, max_length=100)

    @model_validator(mode="after")
    def _admin_has_no_limits(self) -> Grant:
        is_limited = self.namespaces != (ALL_NAMESPACES,) or self.scope() != Scope() or self.profile
        if self.access == "admin" and is_limited:
            raise ValueError("the access admin is for all namespaces (*), without other limits")
        return self

    def scope(self) -> Scope:
        """Scope of tools and collections that a key allows; a filter inside every leg."""
        return Scope(
            servers=self.servers,
            tags=self.tags,
            collections=self.collections,
            max_sensitivity=self.max_sensitivity,
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of a request: the key and its grant."""

    key_id: str
    name: str
    grant: Grant

    @property
    def may_write(self) -> bool:
        """True if the caller may change anything."""
        return self.grant.access != "read"

    @property
    def may_administer(self) -> bool:
        """True if the caller may manage keys and servers."""
        return self.grant.access == "admin"

    def namespace(self, name: str | None) -> str:
        """Namespace of a request; without a name, the key's only namespace or the default.

        Raises:
            ForbiddenError: the key is not for this namespace.
        """
        granted = self.grant.namespaces
        if name is None:
            name = granted[0] if len(granted) == 1 else ALL_NAMESPACES
            name = DEFAULT_NAMESPACE if name == ALL_NAMESPACES else name
        if name not in granted and ALL_NAMESPACES not in granted:
            raise ForbiddenError(
                f"this key is not for the namespace {name[:80]!r}, only for "
                f"{', '.join(map(repr, granted))}"
            )
        return name


ANYONE = Caller("", "anyone", Grant(namespaces=(ALL_NAMESPACES,), access="write"))
"""Caller where a service asks for no key."""


class RateLimiter:
    """Rate limits of keys; `default` is the rate of a key without its own."""

    def __init__(self, default: str | None = None) -> None:
        self._default = default
        self._request_times: BoundedMap[str, deque[float]] = BoundedMap(MAX_COUNTED_KEYS)

    def count(self, key_id: str, grant: Grant) -> None:
        """Count one request; callers without a key have no limit.

        Raises:
            RateLimitedError: the key reached its limit.
        """
        rate = grant.rate or self._default
        if rate is None or key_id == ANYONE.key_id:
            return
        most, _, period = rate.partition("/")
        now, counted = time.monotonic(), self._request_times.get_or_make(key_id, deque[float])
        begin = now - PERIODS_S[period]
        while counted and counted[0] <= begin:
            counted.popleft()
        if len(counted) >= int(most):
            raise RateLimitedError(
                f"this key may send {most} requests a {period}; wait a little",
                retry_after_s=max(0.05, counted[0] - begin),
            )
        counted.append(now)


def intersection(granted: Scope, requested: Scope | None) -> Scope:
    """Intersection of two scopes; smaller if no scope can state it (two sets of tags)."""
    if requested is None:
        return granted
    return Scope(
        servers=_intersect(granted.servers, requested.servers),
        tags=_intersect(granted.tags, requested.tags),
        categories=_intersect(granted.categories, requested.categories),
        without_safety_tags=granted.without_safety_tags | requested.without_safety_tags,
        max_sensitivity=lowest(granted.max_sensitivity, requested.max_sensitivity),
        collections=_intersect(granted.collections, requested.collections),
    )


def _intersect(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


# -- keys ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedKey:
    """Key as lists show it, without its secret; times are ISO 8601 in UTC."""

    id: str
    name: str
    state: State
    grant: Grant
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class Key(FrozenModel):
    """Key with the SHA-256 of its text; times are Unix times in seconds."""

    id: str
    name: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
    grant: Grant
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    sha256: str = Field(exclude=True, repr=False)

    def state(self, now: float) -> State:
        """State of the key at a time."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def listing(self, now: float) -> ListedKey:
        """The key with its state at a time."""
        times = self.expires_at, self.revoked_at
        expires, revoked = (None if at is None else iso_time(at) for at in times)
        state, created = self.state(now), iso_time(self.created_at)
        return ListedKey(self.id, self.name, state, self.grant, created, expires, revoked)


class KeyRing:
    """Keys of a records database; for several threads and processes.

    `now` gives Unix time for expiry; `clock` measures the age of cached keys.
    """

    def __init__(
        self,
        records_db: RecordsDb,
        now: Callable[[], float] = time.time,
        clock: Clock | None = None,
    ) -> None:
        self._records = records_db
        self._now = now
        self._clock = clock or SystemClock()
        self._cache: BoundedMap[str, tuple[float, Key]] = BoundedMap(
            MAX_CACHED_KEYS_BYTES, lambda _, read: KEY_BYTES + read[1].grant.scope().bytes
        )

    def create(self, name: str, grant: Grant, expires_at: float | None = None) -> tuple[Key, str]:
        """Create a key, and return the text that callers send, which is not stored.

        Raises:
            QueryError: the name is empty or too long, or the key would expire in the past.
            StoreError: the key cannot be written.
        """
        now, key_id = self._now(), secrets.token_hex(6)
        if expires_at is not None and expires_at <= now:
            past = iso_time(expires_at)
            raise QueryError(f"the key would expire in the past ({past}); give a later time")
        text = f"tc_{key_id}_{secrets.token_hex(32)}"
        try:
            kept = Key(
                id=key_id,
                name=name.strip(),
                grant=grant,
                created_at=now,
                expires_at=expires_at,
                sha256=_digest(text),
            )
        except ValidationError as error:
            raise QueryError(
                f"{name[:120]!r} is no name for a key; give 1 to 100 printable characters"
            ) from error
        self._keep(kept)
        return kept, text

    def revoke(self, key_id: str) -> bool:
        """Revoke a key for good; True if the key exists."""
        kept = self._look_up(key_id)
        if kept is None:
            return False
        if kept.revoked_at is None:
            self._keep(kept.model_copy(update={"revoked_at": self._now()}))
        return True

    def list(self) -> tuple[Key, ...]:
        """List all keys, oldest first, expired and revoked keys too."""
        return tuple(map(_stored_key, self._records.read(TABLE)))

    def verify(self, text: str) -> Caller:
        """Caller of a key's text; a looked-up key is cached for `KEY_CACHE_S`.

        Raises:
            UnauthenticatedError: the text is no key, or the key is not active.
            StoreError: the records database cannot be read.
        """
        parts = KEY_TEXT.fullmatch(text)
        if parts is None:
            raise UnauthenticatedError("this is no API key: a key looks like tc_..._...")
        kept = self._cached_key(parts[1])
        # Compared without a key too: the response time must not show that a key exists.
        is_right = hmac.compare_digest(_digest(text), kept.sha256 if kept else _digest(""))
        if kept is None or not is_right:
            raise UnauthenticatedError("the API key is not known")
        state = kept.state(self._now())
        if state != "active":
            refused = f"the API key {kept.id} ({kept.name!r}) is {state}"
            raise UnauthenticatedError(refused, key_id=kept.id)
        return Caller(kept.id, kept.name, kept.grant)

    def _cached_key(self, key_id: str) -> Key | None:
        """Key, from the cache for `KEY_CACHE_S`; an unknown key is looked up every time."""
        at = self._clock()
        known = self._cache.get(key_id)
        if known is not None and 0 <= at - known[0] < KEY_CACHE_S:
            return known[1]
        kept = self._look_up(key_id)
        if kept is not None:
            self._cache[key_id] = at, kept
        return kept

    def _look_up(self, key_id: str) -> Key | None:
        entry = self._records.get(TABLE, key_id)
        return _stored_key(entry) if entry is not None else None

    def _keep(self, kept: Key) -> None:
        body = {**kept.model_dump(mode="json", exclude={"id"}), "sha256": kept.sha256}
        self._records.put(TABLE, DbRow(kept.id, kept.created_at, body))
        self._cache.pop(kept.id, None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _stored_key(entry: DbRow) -> Key:
    try:
        return Key.model_validate({**entry.body, "id": entry.id})
    except ValidationError as error:
        raise StoreDamagedError(
            f"the key {entry.id!r} cannot be read ({in_words(error)}); a newer toolcrib may have "
            "written it"
        ) from error
