"""Who asks: what a caller may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

__all__ = ["SENSITIVITIES", "Scope", "Sensitivity"]

Sensitivity: TypeAlias = Literal["public", "internal", "pii", "safety_critical"]

SENSITIVITIES: tuple[Sensitivity, ...] = get_args(Sensitivity)
"""From the least to the most sensitive: a ceiling lets through what stands up to it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller may use; becomes a filter inside every leg.

    `None` means no restriction on that field; an empty set means nothing is allowed.
    `without_safety_tags` removes tools that carry any of these tags. `max_sensitivity` is the
    ceiling of tools and collections; `collections` are those that may be asked.
    """

    servers: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    without_safety_tags: frozenset[str] = frozenset()
    max_sensitivity: Sensitivity | None = None
    collections: frozenset[str] | None = None
