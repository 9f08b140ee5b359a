"""A scope, as a request narrows it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from toolcrib.http.wire.base import Answer, Body
from toolcrib.records import Scope, Sensitivity

__all__ = ["ScopeAnswer", "ScopeBody", "scope_as_dict"]


class ScopeBody(Body):
    """What the answer may be taken from; it can only narrow what the key allows.

    Null is no restriction, an empty list allows nothing. `without_safety_tags` leaves out tools
    that carry any of these. `max_sensitivity` is the ceiling of tools and collections.
    """

    servers: list[str] | None = None
    tags: list[str] | None = None
    categories: list[str] | None = None
    without_safety_tags: list[str] = Field(default=[])
    max_sensitivity: Sensitivity | None = None
    collections: list[str] | None = None

    def as_scope(self) -> Scope:
        """The scope that this is."""
        return Scope(
            servers=_set(self.servers),
            tags=_set(self.tags),
            categories=_set(self.categories),
            without_safety_tags=frozenset(self.without_safety_tags),
            max_sensitivity=self.max_sensitivity,
            collections=_set(self.collections),
        )


class ScopeAnswer(Answer):
    """What a key allows; null is no restriction."""

    servers: list[str] | None
    tags: list[str] | None
    categories: list[str] | None
    without_safety_tags: list[str]
    max_sensitivity: Sensitivity | None
    collections: list[str] | None


def scope_as_dict(scope: Scope) -> dict[str, Any]:
    """A scope as answers have it."""
    return {
        "servers": _sorted(scope.servers),
        "tags": _sorted(scope.tags),
        "categories": _sorted(scope.categories),
        "without_safety_tags": sorted(scope.without_safety_tags),
        "max_sensitivity": scope.max_sensitivity,
        "collections": _sorted(scope.collections),
    }


def _set(values: list[str] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)


def _sorted(values: frozenset[str] | None) -> list[str] | None:
    return None if values is None else sorted(values)
