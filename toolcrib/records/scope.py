"""Scope: the tools and collections a caller may use, and ceilings of sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import ConfigDict, PlainSerializer

DEFAULT_NAMESPACE = "default"
"""The namespace of requests that name none; it has a store of its own."""

Sensitivity: TypeAlias = Literal["public", "internal", "pii", "safety_critical"]

SENSITIVITIES: tuple[Sensitivity, ...] = get_args(Sensitivity)
"""Levels from the least to the most sensitive; a ceiling allows its own level."""


Names: TypeAlias = Annotated[frozenset[str], PlainSerializer(sorted, return_type=list[str])]
"""Names in any order; JSON has them sorted."""


def levels_above(ceiling: Sensitivity | None) -> tuple[Sensitivity, ...]:
    """Levels above a ceiling; none without a ceiling."""
    return () if ceiling is None else SENSITIVITIES[SENSITIVITIES.index(ceiling) + 1 :]


def is_above(level: Sensitivity, ceiling: Sensitivity | None) -> bool:
    """True if a ceiling keeps this level out."""
    return level in levels_above(ceiling)


def lowest(*ceilings: Sensitivity | None) -> Sensitivity | None:
    """Lowest of several ceilings; None is no ceiling."""
    return next((level for level in SENSITIVITIES if level in ceilings), None)


@dataclass(frozen=True, slots=True)
class Scope:
    """Tools and collections a caller may use; a filter inside every leg.

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
        """True if this caller may search a collection (for tools: `filters.from_scope`)."""
        named = self.collections is None or name in self.collections
        return named and not is_above(sensitivity, self.max_sensitivity)
