"""Scope: the tools and collections a caller may use, and ceilings of sensitivity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import ConfigDict, Field, PlainSerializer

from toolcrib.errors import QueryError

DEFAULT_NAMESPACE = "default"
"""The namespace of requests without a namespace; it has its own store."""

Sensitivity: TypeAlias = Literal["public", "internal", "pii", "safety_critical"]

SENSITIVITIES: tuple[Sensitivity, ...] = get_args(Sensitivity)
"""Levels from the least to the most sensitive; a ceiling allows its own level."""


MAX_FILTER_VALUES = 10_000
"""Most names in one field of a scope, and values in a filter: ten times the widest measured
(benchmarks/scale.py). Every leg of a query and the caches hold them."""

Names: TypeAlias = Annotated[
    frozenset[str],
    Field(max_length=MAX_FILTER_VALUES),
    PlainSerializer(sorted, return_type=list[str]),
]
"""Names in any order; JSON has them sorted."""

NAME_BYTES = 64
"""Memory of a short text without its characters."""


def bytes_of(names: Iterable[object]) -> int:
    """Estimated bytes of names in memory."""
    return sum(NAME_BYTES + len(str(name)) for name in names)


def levels_above(ceiling: Sensitivity | None) -> tuple[Sensitivity, ...]:
    """Levels above a ceiling; none without a ceiling."""
    return () if ceiling is None else SENSITIVITIES[SENSITIVITIES.index(ceiling) + 1 :]


def is_above(level: Sensitivity, ceiling: Sensitivity | None) -> bool:
    """True if a level is above a ceiling."""
    return level in levels_above(ceiling)


def lowest(*ceilings: Sensitivity | None) -> Sensitivity | None:
    """Lowest of several ceilings; None is no ceiling."""
    return next((level for level in SENSITIVITIES if level in ceilings), None)


@dataclass(frozen=True, slots=True)
class Scope:
    """Tools and collections a caller may use; a filter inside every leg.

    `None` means no restriction by a field; an empty set allows nothing. `without_safety_tags`
    excludes tools that have any of these tags. `max_sensitivity` is the ceiling of tools and
    collections; `collections` may be searched.

    Raises:
        QueryError: a field has more than `MAX_FILTER_VALUES` names or is one text, or the
            ceiling is no level.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    servers: Names | None = None
    tags: Names | None = None
    categories: Names | None = None
    without_safety_tags: Names = frozenset()
    max_sensitivity: Sensitivity | None = None
    collections: Names | None = None

    def __post_init__(self) -> None:
        for field, names in self._names():
            if isinstance(names, str):  # its letters would be the names
                raise QueryError(f"{field} of the scope must be a set of texts, not {names!r}")
            if len(names) > MAX_FILTER_VALUES:
                raise QueryError(
                    f"the scope has {len(names)} {field}, and may have {MAX_FILTER_VALUES}; use a "
                    "field that they have in common, such as a tag, or leave the field out"
                )
        if self.max_sensitivity not in (None, *SENSITIVITIES):
            raise QueryError(
                f"max_sensitivity is {self.max_sensitivity!r}; it must be one of "
                f"{', '.join(SENSITIVITIES)}"
            )

    @property
    def bytes(self) -> int:
        """Estimated bytes of the scope in memory."""
        return sum(bytes_of(names) for _, names in self._names())

    def _names(self) -> list[tuple[str, frozenset[str]]]:
        fields = ("servers", "tags", "categories", "without_safety_tags", "collections")
        return [(name, getattr(self, name) or frozenset()) for name in fields]

    def allows_collection(self, name: str, sensitivity: Sensitivity) -> bool:
        """True if the scope allows a collection (for tools: `filters.from_scope`)."""
        named = self.collections is None or name in self.collections
        return named and not is_above(sensitivity, self.max_sensitivity)
