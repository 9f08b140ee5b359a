"""What callers of a service may do, and what is left of that where they ask for less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolcrib.errors import ForbiddenError
from toolcrib.records import SENSITIVITIES, Scope, Sensitivity
from toolcrib.records.scope import Names

__all__ = ["ANYONE", "DEFAULT", "Caller", "Grant", "within"]

EVERY = "*"
DEFAULT = "default"

Namespace = Annotated[str, Field(pattern=r"^(\*|[a-z0-9][a-z0-9_.-]{0,62})$")]


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


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is."""

    key_id: str
    name: str
    grant: Grant

    def scope(self) -> Scope:
        """What the caller may use; a filter inside every leg."""
        grant = self.grant
        return Scope(
            servers=grant.servers,
            tags=grant.tags,
            collections=grant.collections,
            max_sensitivity=grant.max_sensitivity,
        )

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
                f"{', '.join(map(repr, granted))}",
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
        max_sensitivity=_lower(granted.max_sensitivity, asked.max_sensitivity),
        collections=_both(granted.collections, asked.collections),
    )


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _lower(one: Sensitivity | None, other: Sensitivity | None) -> Sensitivity | None:
    if one is None or other is None:
        return other if one is None else one
    return SENSITIVITIES[min(map(SENSITIVITIES.index, (one, other)))]
