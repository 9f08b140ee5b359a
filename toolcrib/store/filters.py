"""The neutral filter language: what every store understands, and what it means.

`matches` is the meaning, in plain Python; the engines translate the same tree into their own
conditions, and the contract suite holds them to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from toolcrib.errors import QueryError
from toolcrib.records import Scope, Sensitivity, levels_above

__all__ = [
    "KEYWORD_FIELDS",
    "NUMBER_FIELDS",
    "TENANT_FIELD",
    "And",
    "AnyOf",
    "Equals",
    "Filter",
    "HasId",
    "Not",
    "Or",
    "Range",
    "all_of",
    "from_scope",
    "matches",
    "up_to",
    "validate",
]

Keyword: TypeAlias = str | bool

KEYWORD_FIELDS = frozenset(
    {
        "name_key",
        "server",
        "category",
        "tags",
        "safety_tags",
        "requires",
        "provides",
        "version",
        "enabled",
        "always_active",
        "deprecated",
        "sensitivity",
        "collection",
        "document",
    },
)
"""Payload fields that can be compared; booleans are kept as "true" and "false" (DESIGN.md: the
embedded engine is fifty times slower on its boolean index than on its keyword index)."""

NUMBER_FIELDS = frozenset({"cost_estimate", "avg_latency_ms"})

TENANT_FIELD = "namespace"
"""Whose a point is, where several share a store; nothing that users hand in may name it."""


@dataclass(frozen=True, slots=True)
class Equals:
    """The field, or one entry of a list field, equals `value`."""

    field: str
    value: Keyword


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field, or one entry of a list field, is one of `values`; none of them matches nothing."""

    field: str
    values: tuple[Keyword, ...]

    def __init__(self, field: str, values: Iterable[Keyword]) -> None:
        object.__setattr__(self, "field", field)
        object.__setattr__(self, "values", tuple(values))


@dataclass(frozen=True, slots=True)
class Range:
    """The number lies within the bounds given; a point without the field does not match."""

    field: str
    gt: float | None = None
    gte: float | None = None
    lt: float | None = None
    lte: float | None = None

    def __post_init__(self) -> None:
        for name in ("gt", "gte", "lt", "lte"):
            bound = getattr(self, name)
            # JSON has no word for these, and the embedded engine panics on NaN.
            if bound is not None and not math.isfinite(bound):
                raise QueryError(
                    f"the range filter on {self.field!r} has {name}={bound}; "
                    "give a finite number, or leave the bound out",
                )


@dataclass(frozen=True, slots=True)
class HasId:
    """The point's own id is one of `ids`."""

    ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match."""

    part: Filter


@dataclass(frozen=True, slots=True)
class And:
    """Every part matches; none at all matches everything."""

    parts: tuple[Filter, ...]

    def __init__(self, *parts: Filter) -> None:
        object.__setattr__(self, "parts", parts)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part matches; none at all matches nothing."""

    parts: tuple[Filter, ...]

    def __init__(self, *parts: Filter) -> None:
        object.__setattr__(self, "parts", parts)


Filter: TypeAlias = Equals | AnyOf | Range | HasId | Not | And | Or


def all_of(*parts: Filter | None) -> Filter | None:
    """Join what is there with `And`; None when nothing is."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    return present[0] if len(present) == 1 else And(*present)


def from_scope(scope: Scope | None) -> Filter | None:
    """The filter that keeps a search within what a caller may use; None for no restriction."""
    if scope is None:
        return None
    allowed = (
        ("server", scope.servers),
        ("tags", scope.tags),
        ("category", scope.categories),
    )
    parts: list[Filter] = [
        AnyOf(field, sorted(values)) for field, values in allowed if values is not None
    ]
    if scope.without_safety_tags:
        parts.append(Not(AnyOf("safety_tags", sorted(scope.without_safety_tags))))
    return all_of(*parts, up_to(scope.max_sensitivity))


def up_to(ceiling: Sensitivity | None) -> Filter | None:
    """What is no more sensitive than this; None for no ceiling."""
    above = levels_above(ceiling)
    return Not(AnyOf("sensitivity", above)) if above else None


def as_keyword(value: Keyword) -> str:
    """How a keyword stands in a payload."""
    return str(value).lower() if isinstance(value, bool) else value


def validate(where: Filter) -> None:
    """Check that every field can be filtered on.

    Raises:
        QueryError: a field is unknown, or of the other kind; the message lists the fields.
    """
    match where:
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                validate(part)
        case Not(part=part):
            validate(part)
        case Range(field=field):
            _require(field, NUMBER_FIELDS, "a range")
        case Equals(field=field) | AnyOf(field=field):
            _require(field, KEYWORD_FIELDS, "an equality")
        case HasId():
            pass


def _require(field: str, known: frozenset[str], what: str) -> None:
    if field not in known:
        raise QueryError(
            f"{what} filter cannot use the field {field!r}; it can use {', '.join(sorted(known))}",
        )


def matches(where: Filter, point_id: int, payload: Mapping[str, Any]) -> bool:  # noqa: PLR0911
    """Whether a point satisfies the filter: the reference meaning."""
    match where:
        case And(parts=parts):
            return all(matches(part, point_id, payload) for part in parts)
        case Or(parts=parts):
            return any(matches(part, point_id, payload) for part in parts)
        case Not(part=part):
            return not matches(part, point_id, payload)
        case HasId(ids=ids):
            return point_id in ids
        case Equals(field=field, value=value):
            return as_keyword(value) in _values(payload, field)
        case AnyOf(field=field, values=values):
            return bool(_values(payload, field) & {as_keyword(value) for value in values})
        case Range():
            return _in_range(where, payload.get(where.field))


def _values(payload: Mapping[str, Any], field: str) -> set[str]:
    value = payload.get(field)
    if value is None:
        return set()
    return set(cast("list[str]", value)) if isinstance(value, list | tuple) else {value}


def _in_range(bounds: Range, value: float | None) -> bool:
    if value is None:
        return False
    return (
        (bounds.gt is None or value > bounds.gt)
        and (bounds.gte is None or value >= bounds.gte)
        and (bounds.lt is None or value < bounds.lt)
        and (bounds.lte is None or value <= bounds.lte)
    )
