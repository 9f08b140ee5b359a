"""Who asks: what a caller may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import ConfigDict, PlainSerializer

__all__ = ["SENSITIVITIES", "Names", "Scope", "Sensitivity"]

Sensitivity: TypeAlias = Literal["public", "internal", "pii", "safety_critical"]

SENSITIVITIES: tuple[Sensitivity, ...] = get_args(Sensitivity)
"""From the least to the most sensitive: a ceiling lets through what stands up to it."""


Names: TypeAlias = Annotated[frozenset[str], PlainSerializer(sorted, return_type=list[str])]
"""Names in any order; JSON has them sorted."""


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

    def admits(self, collection: str, sensitivity: Sensitivity) -> bool:
        """Whether a collection of this name and sensitivity may be asked."""
        is_named = self.collections is None or collection in self.collections
        ceiling = self.max_sensitivity
        rank = SENSITIVITIES.index
        return is_named and (ceiling is None or rank(sensitivity) <= rank(ceiling))
