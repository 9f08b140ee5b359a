"""Scope: what a caller may use, and the ceilings of sensitivity; the one home of both rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import ConfigDict, PlainSerializer

DEFAULT_NAMESPACE = "default"
"""The namespace of requests that name none; it has a store of its own."""

Sensitivity: TypeAlias = Literal["public", "internal", "pii", "safety_critical"]

SENSITIVITIES: tuple[Sensitivity, ...] = get_args(Sensitivity)
"""From the least to the most sensitive: a ceiling lets through what stands up to it."""


Names: TypeAlias = Annotated[frozenset[str], PlainSerializer(sorted, return_type=list[str])]
"""Names in any order; JSON has them sorted."""


def levels_above(ceiling: Sensitivity | None) -> tuple[Sensitivity, ...]:
    """What a ceiling keeps out; nothing where there is none."""
    return () if ceiling is None else SENSITIVITIES[SENSITIVITIES.index(ceiling) + 1 :]


def is_above(level: Sensitivity, ceiling: Sensitivity | None) -> bool:
    """Whether a ceiling keeps out what is this sensitive."""
    return level in levels_above(ceiling)


def lowest(*ceilings: Sensitivity | None) -> Sensitivity | None:
    """The ceiling that holds where all of these do; None is no ceiling."""
    return next((level for level in SENSITIVITIES if level in ceilings), None)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller may use; becomes a filter inside every leg.

    `None` means no restriction on that field; an empty set means nothing is allowed.
    `without_safety_tags` removes tools that carry any of these tags. `max_sensitivity` is the
    ceiling of tools and collections; `collections` are those that may be asked.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    servers: Names | None = None
    tags: Names | None = None
    categories: Names | None = None
    without_safety_tags: Names = frozenset()
    max_sensitivity: Sensitivity | None = None
    collections: Names | None = None

    def allows_collection(self, name: str, sensitivity: Sensitivity) -> bool:
        """Whether this caller may see and ask a collection (tools: `filters.from_scope`)."""
        named = self.collections is None or name in self.collections
        return named and not is_above(sensitivity, self.max_sensitivity)
