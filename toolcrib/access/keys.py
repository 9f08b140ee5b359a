"""API keys: what they allow; made, told apart, revoked, and kept without their secrets."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolcrib.caches import BoundedMap
from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import ForbiddenError, QueryError, StoreDamagedError, UnauthenticatedError
from toolcrib.records import Scope, Sensitivity
from toolcrib.records.scope import Names, lowest
from toolcrib.records.validation import in_words
from toolcrib.store.records_db.base import DbRow, RecordsDb

__all__ = ["ANYONE", "DEFAULT", "KEY_BYTES", "Caller", "Grant", "Key", "KeyRing", "within"]

TABLE = "keys"

MAX_READ_BYTES = 16 * 2**20
"""What keys take that were looked up a moment ago: some 30,000, fewer where they name much."""

KEY_BYTES = 512
"""What a key takes beside its names."""

FRESH_S = 1.0
"""How long a key is taken as it was looked up: a revoked one stops within two seconds, also where
callers are remembered for a moment after that."""

KEY_TEXT = re.compile(r"tc_([0-9a-f]{12})_([0-9a-f]{64})")

State = Literal["active", "expired", "revoked"]

EVERY = "*"
DEFAULT = "default"

Namespace = Annotated[str, Field(pattern=r"^(\*|[a-z0-9][a-z0-9_.-]{0,62})$")]


# -- what callers may do ------------------------------------------------------------------


class Grant(BaseModel):
    """What a key allows.

    `namespaces`: `*` is all of them. `servers`, `tags`, `collections`: None is no restriction,
    an empty set nothing. `rate`: requests a process takes, as in `service.rate`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespaces: tuple[Namespace, ...] = Field(default=(DEFAULT,), min_length=1)
    servers: Names | None = None
    tags: Names | None = None
    collections: Names | None = None
    max_sensitivity: Sensitivity | None = None
    access: Literal["read", "write"] = "read"
    rate: str | None = Field(default=None, pattern=r"^[1-9][0-9]*/(second|minute|hour)$")

    def scope(self) -> Scope:
        """What a key allows of tools and collections."""
        return Scope(
            servers=self.servers,
            tags=self.tags,
            collections=self.collections,
            max_sensitivity=self.max_sensitivity,
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is."""

    key_id: str
    name: str
    grant: Grant

    def scope(self) -> Scope:
        """What the caller may use; a filter inside every leg."""
        return self.grant.scope()

    @property
    def may_write(self) -> bool:
        """Whether the caller may change anything."""
        return self.grant.access == "write"

    def namespace(self, asked: str | None) -> str:
        """The namespace that is meant: the one asked for, the only one, or the default one.

        Raises:
            ForbiddenError: it is not the caller's.
        """
        granted = self.grant.namespaces
        if asked is None:
            only = granted[0] if len(granted) == 1 else EVERY
            asked = DEFAULT if only == EVERY else only
        if asked not in granted and EVERY not in granted:
            raise ForbiddenError(
                f"this key is not for the namespace {asked[:80]!r}, only for "
                f"{', '.join(map(repr, granted))}"
            )
        return asked


ANYONE = Caller("", "anyone", Grant(namespaces=(EVERY,), access="write"))
"""Who asks where no key is needed."""


def within(granted: Scope, asked: Scope | None) -> Scope:
    """What both scopes allow; where that is no scope (tags of two kinds), less."""
    if asked is None:
        return granted
    return Scope(
        servers=_both(granted.servers, asked.servers),
        tags=_both(granted.tags, asked.tags),
        categories=_both(granted.categories, asked.categories),
        without_safety_tags=granted.without_safety_tags | asked.without_safety_tags,
        max_sensitivity=lowest(granted.max_sensitivity, asked.max_sensitivity),
        collections=_both(granted.collections, asked.collections),
    )


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


# -- keys ---------------------------------------------------------------------------------


class Key(BaseModel):
    """What is known of a key; times are Unix times in seconds. Its secret is not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
    grant: Grant
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None

    def state(self, now: float) -> State:
        """Whether it holds at this time."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def as_dict(self, now: float) -> dict[str, Any]:
        """JSON values, its state at this time among them; times as ISO 8601 in UTC."""
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state(now),
            "grant": self.grant.model_dump(mode="json"),
            "created_at": _iso(self.created_at),
            "expires_at": _iso(self.expires_at),
            "revoked_at": _iso(self.revoked_at),
        }


class _Kept(Key):
    """A key as it stands in the records database: with the SHA-256 of its whole text, as hex."""

    sha256: str


class KeyRing:
    """The keys of a records database; for several threads and processes.

    `now` gives Unix time, for what expires; `clock` only measures how long ago a key was read.
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
        self._read: BoundedMap[str, tuple[float, _Kept]] = BoundedMap(
            MAX_READ_BYTES, lambda _, read: KEY_BYTES + read[1].grant.scope().bytes
        )

    def create(self, name: str, grant: Grant, expires_at: float | None = None) -> tuple[Key, str]:
        """A new key, and the text that callers send: it cannot be had again.

        Raises:
            QueryError: the name is empty or too long, or the time is past.
            StoreError: the key cannot be kept.
        """
        now, key_id = self._now(), secrets.token_hex(6)
        if expires_at is not None and expires_at <= now:
            raise QueryError(f"a key that expires at {_iso(expires_at)} would not hold: it is past")
        text = f"tc_{key_id}_{secrets.token_hex(32)}"
        try:
            kept = _Kept(
                id=key_id,
                name=name.strip(),
                grant=grant,
                created_at=now,
                expires_at=expires_at,
                sha256=_digest(text),
            )
        except ValidationError as error:
            raise QueryError(
                f"{name[:120]!r} is no name of a key: it has 1 to 100 characters, all of them "
                "printable"
            ) from error
        self._keep(kept)
        return _known_of(kept), text

    def revoke(self, key_id: str) -> bool:
        """Let a key hold no longer; whether there is one. Doing so again changes nothing.

        Raises:
            StoreError: the records database does not do it.
        """
        kept = self._look_up(key_id)
        if kept is None:
            return False
        if kept.revoked_at is None:
            self._keep(kept.model_copy(update={"revoked_at": self._now()}))
        return True

    def list(self) -> tuple[Key, ...]:
        """Every key, oldest first; those that no longer hold too.

        Raises:
            StoreError: the records database cannot be read.
        """
        return tuple(_known_of(_kept(entry)) for entry in self._records.read(TABLE))

    def verify(self, text: str) -> Caller:
        """Whose text this is. What is looked up is believed for `FRESH_S`.

        Raises:
            UnauthenticatedError: no key, or one that does not hold.
            StoreError: the records database cannot be read.
        """
        parts = KEY_TEXT.fullmatch(text)
        if parts is None:
            raise UnauthenticatedError("this is no API key: a key looks like tc_..._...")
        kept = self._recent(parts[1])
        # Also without a key, so that how long it takes does not tell whether there is one.
        is_right = hmac.compare_digest(_digest(text), kept.sha256 if kept else _digest(""))
        if kept is None or not is_right:
            raise UnauthenticatedError("the API key is not known")
        state = kept.state(self._now())
        if state != "active":
            raise UnauthenticatedError(f"the API key {kept.id} ({kept.name!r}) is {state}")
        return Caller(kept.id, kept.name, kept.grant)

    def _recent(self, key_id: str) -> _Kept | None:
        """The key as it was at most `FRESH_S` ago; an unknown one is asked for every time."""
        asked_at = self._clock()
        known = self._read.get(key_id)
        if known is not None and 0 <= asked_at - known[0] < FRESH_S:
            return known[1]
        kept = self._look_up(key_id)
        if kept is not None:
            self._read[key_id] = asked_at, kept
        return kept

    def _look_up(self, key_id: str) -> _Kept | None:
        entry = self._records.get(TABLE, key_id)
        return _kept(entry) if entry is not None else None

    def _keep(self, kept: _Kept) -> None:
        body = kept.model_dump(mode="json", exclude={"id"})
        self._records.put(TABLE, DbRow(kept.id, kept.created_at, body))
        self._read.pop(kept.id, None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _known_of(kept: _Kept) -> Key:
    return Key.model_validate(kept.model_dump(exclude={"sha256"}))


def _kept(entry: DbRow) -> _Kept:
    body: Mapping[str, Any] = {**entry.body, "id": entry.id}
    try:
        return _Kept.model_validate(body)
    except ValidationError as error:
        raise StoreDamagedError(
            f"the key {entry.id!r} cannot be read ({in_words(error)}); a newer toolcrib may have "
            "written it"
        ) from error


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
