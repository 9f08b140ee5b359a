"""Filters: the neutral language of every store, its meaning and its JSON.

`matches` defines the meaning in Python. Engines translate the same tree into their own conditions,
and the contract suite compares their results with `matches`. In JSON a filter is one of

    {"field": "server", "equals": "mail"}
    {"field": "tags", "any_of": ["a", "b"]}
    {"field": "cost_estimate", "range": {"lte": 0.5}}
    {"not": FILTER}, {"all": [FILTER, ...]}, {"any": [FILTER, ...]}
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, TypeAlias, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    Tag,
    WithJsonSchema,
)
from pydantic_core import core_schema

from toolcrib.caches import BoundedMap
from toolcrib.errors import QueryError, require_type
from toolcrib.records import Scope
from toolcrib.records.codec import object_of
from toolcrib.records.scope import MAX_FILTER_VALUES, bytes_of, levels_above

Keyword: TypeAlias = str | bool

MAX_FILTER_DEPTH = 16
MAX_LIST_VALUES = 1_000

MAX_CACHED_BYTES = 16 * 2**20
"""Size of a cache of filters: about two hundred filters of a thousand names each."""

NAME_FIELD = "name_key"
"""Field with the spellings of a tool's name, for look-ups; messages do not suggest it."""

KEYWORD_FIELDS = frozenset(
    {
        "kind",
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
        NAME_FIELD,
    }
)
"""Payload fields that can be compared; booleans are kept as "true" and "false" (the
embedded engine is fifty times slower on its boolean index than on its keyword index)."""

NUMBER_FIELDS = frozenset({"cost_estimate", "avg_latency_ms"})

YIELDS_FIELD = "yields"
"""Field with the entities whose ids a tool returns; not for users' filters."""

TENANT_FIELD = "namespace"
"""Field with the tenant of a point in a shared store; not for users' filters."""


@dataclass(frozen=True, slots=True)
class Equals:
    """The field, or one entry of a list field, equals `value`."""

    field: str
    value: Keyword

    @property
    def values(self) -> tuple[Keyword]:
        """The value as the only one of `AnyOf`."""
        return (self.value,)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field, or one entry of a list field, is in `values`; without values nothing matches."""

    field: str
    values: tuple[Keyword, ...]

    def __init__(self, field: str, values: Iterable[Keyword]) -> None:
        if isinstance(values, str):  # its letters would be the values
            raise QueryError(
                f"the values of the filter on {field!r} must be a list, not {values!r}"
            )
        object.__setattr__(self, "field", field)
        object.__setattr__(self, "values", tuple(values))


_COMPARISONS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


@dataclass(frozen=True, slots=True)
class Range:
    """The number is within the given bounds; a point without the field does not match."""

    field: str
    gt: float | None = None
    gte: float | None = None
    lt: float | None = None
    lte: float | None = None

    def __post_init__(self) -> None:
        for name, bound in self.bounds.items():
            # JSON cannot write these, and the embedded engine panics on NaN.
            if not isinstance(bound, Real) or not abs(bound) <= sys.float_info.max:
                raise QueryError(
                    f"the range filter on {self.field!r} has {name}={bound!r}; "
                    "give a finite number, or leave the bound out"
                )

    @property
    def bounds(self) -> dict[str, float]:
        """The given bounds by name."""
        bounds = ((name, getattr(self, name)) for name in _COMPARISONS)
        return {name: bound for name, bound in bounds if bound is not None}


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
    """Every part matches; without parts everything matches."""

    parts: tuple[Filter, ...]

    def __init__(self, *parts: Filter) -> None:
        object.__setattr__(self, "parts", parts)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part matches; without parts nothing matches."""

    parts: tuple[Filter, ...]

    def __init__(self, *parts: Filter) -> None:
        object.__setattr__(self, "parts", parts)


Filter: TypeAlias = Equals | AnyOf | Range | HasId | Not | And | Or


EMPTY_CORPUS = HasId(frozenset())
"""Corpus without points, where all terms weigh alike."""


def all_of(*parts: Filter | None) -> Filter | None:
    """Join the parts that are not None with `And`; None if there are none."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    return present[0] if len(present) == 1 else And(*present)


def parts_by_reason(where: Filter) -> list[tuple[str, Filter]]:
    """Parts that must all match, each with the reason if a point does not match it."""
    parts = where.parts if isinstance(where, And) else (where,)
    return [(_reason_to_fail(part), part) for part in parts]


def _reason_to_fail(part: Filter) -> str:
    match part:
        case Not(Equals() | AnyOf() as inner):
            return _values_in_words(inner)
        case Equals("safety_tags" | "tags") | AnyOf("safety_tags" | "tags"):
            return f"no {_values_in_words(part)}"
        case Equals() | AnyOf():
            return f"not {_values_in_words(part)}"
        case Range():
            given = (f"{name} {bound:g}" for name, bound in part.bounds.items())
            return f"no {part.field} {' '.join(given)}"
        case _:
            return "another part of the filter"


def _values_in_words(part: Equals | AnyOf) -> str:
    words = " or ".join(map(str, part.values))
    is_hint = part.field == "safety_tags"
    return f"{words.replace('_', '-')} hint" if is_hint else f"{part.field} {words}"


SCOPE_FIELDS = ("server", "tags", "category", "safety_tags", "sensitivity")
"""Fields that `from_scope` reads: a scope treats tools with equal values in these alike."""


def from_scope(scope: Scope | None) -> Filter | None:
    """The filter that limits a search to a scope; None without restriction."""
    if scope is None:
        return None
    require_type(scope, Scope, "scope", "a Scope")
    allowed = (("server", scope.servers), ("tags", scope.tags), ("category", scope.categories))
    parts: list[Filter] = [
        AnyOf(field, _sorted_names(frozenset(values)))
        for field, values in allowed
        if values is not None
    ]
    if scope.without_safety_tags:
        parts.append(Not(AnyOf("safety_tags", sorted(scope.without_safety_tags))))
    if above := levels_above(scope.max_sensitivity):
        parts.append(Not(AnyOf("sensitivity", above)))
    return all_of(*parts)


# Every query of a caller needs the same names several times.
_SORTED_NAMES: BoundedMap[frozenset[str], tuple[str, ...]] = BoundedMap(
    MAX_CACHED_BYTES, lambda names, _: bytes_of(names)
)


def _sorted_names(names: frozenset[str]) -> tuple[str, ...]:
    return _SORTED_NAMES.get_or_make(names, lambda: tuple(sorted(names)))


def as_keyword(value: Keyword) -> str:
    """A keyword in the form that payloads have."""
    return str(value).lower() if isinstance(value, bool) else value


def validate(where: Filter) -> None:
    """Check that every field can be filtered on, with at most `MAX_FILTER_VALUES` values in all.

    Raises:
        QueryError: a field is unknown, or of the wrong kind (the message lists the fields), or a
            value is neither text nor boolean.
    """
    values = 0
    for part in _leaves(where):
        match part:
            case Range(field=field):
                _require(field, NUMBER_FIELDS, "a range")
            case Equals(field=field) | AnyOf(field=field):
                _require(field, KEYWORD_FIELDS, "an equality")
                for value in part.values:
                    require_type(value, str | bool, f"value of {field}", "a text, true or false")
                values += len(part.values)
            case _:
                require_type(
                    part, HasId, "filter", "an Equals, AnyOf, Range, And, Or or Not of toolcrib"
                )
    if values > MAX_FILTER_VALUES:
        raise QueryError(
            f"the filter has {values} values, and may have {MAX_FILTER_VALUES}; filter by a field "
            "that they have in common, such as a tag"
        )


def bytes_of_filter(where: Filter | None) -> int:
    """Estimate the bytes that the values of a filter take in memory."""
    leaves = () if where is None else _leaves(where)
    return sum(
        bytes_of(part.ids if isinstance(part, HasId) else part.values)
        for part in leaves
        if not isinstance(part, Range)
    )


def _leaves(where: Filter) -> Iterator[Equals | AnyOf | Range | HasId]:
    """Parts of a filter that have no parts themselves."""
    match where:
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from _leaves(part)
        case Not(part=part):
            yield from _leaves(part)
        case _:
            yield where


def _require(field: str, known: frozenset[str], what: str) -> None:
    if field not in known:
        shown = ", ".join(sorted(known - {NAME_FIELD}))
        raise QueryError(f"{what} filter cannot use the field {field!r}; it can use {shown}")


def matches(where: Filter, point_id: int, payload: Mapping[str, Any]) -> bool:
    """True if a point satisfies the filter: the reference implementation."""
    match where:
        case And(parts=parts):
            return all(matches(part, point_id, payload) for part in parts)
        case Or(parts=parts):
            return any(matches(part, point_id, payload) for part in parts)
        case Not(part=part):
            return not matches(part, point_id, payload)
        case HasId(ids=ids):
            return point_id in ids
        case Equals(field=field, values=values) | AnyOf(field=field, values=values):
            return bool(_payload_values(payload, field) & {as_keyword(value) for value in values})
        case Range(field=field):
            value = payload.get(field)
            return value is not None and all(
                _COMPARISONS[name](value, bound) for name, bound in where.bounds.items()
            )


def _payload_values(payload: Mapping[str, Any], field: str) -> set[str]:
    value = payload.get(field)
    if value is None:
        return set()
    return set(cast("list[str]", value)) if isinstance(value, list | tuple) else {value}


Value: TypeAlias = Annotated[str, Field(max_length=1_000)] | bool
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]

# `read_filter` refuses other fields, with a better message than an enumeration gives.
KeywordField: TypeAlias = Annotated[
    str, WithJsonSchema({"type": "string", "enum": sorted(KEYWORD_FIELDS)})
]
NumberField: TypeAlias = Annotated[
    str, WithJsonSchema({"type": "string", "enum": sorted(NUMBER_FIELDS)})
]


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", populate_by_name=True, defer_build=True
    )


class EqualsJson(_Part):
    """The field, or one entry of a list field, equals the value."""

    field: KeywordField
    equals: Value


class AnyOfJson(_Part):
    """The field, or one entry of a list field, is one of the values."""

    field: KeywordField
    any_of: list[Value] = Field(max_length=MAX_LIST_VALUES)


class Bounds(_Part):
    """Bounds of a number; a missing bound is no restriction."""

    gt: Number | None = None
    gte: Number | None = None
    lt: Number | None = None
    lte: Number | None = None


class RangeJson(_Part):
    """The number lies within the bounds."""

    field: NumberField
    range: Bounds


class NotJson(_Part):
    """The part does not match."""

    negated: FilterJson = Field(alias="not")


class AllJson(_Part):
    """Every part matches."""

    all: list[FilterJson] = Field(max_length=MAX_LIST_VALUES)


class AnyJson(_Part):
    """At least one part matches."""

    any: list[FilterJson] = Field(max_length=MAX_LIST_VALUES)


_PART_TAGS = {
    "equals": "EqualsJson",
    "any_of": "AnyOfJson",
    "range": "RangeJson",
    "not": "NotJson",
    "all": "AllJson",
    "any": "AnyJson",
}
"""Names of models by the key that only their JSON has."""


def _part_tag(given: object) -> str | None:
    if isinstance(given, _Part):
        return type(given).__name__
    keys = object_of(given)
    return next((tag for key, tag in _PART_TAGS.items() if key in keys), None)


FilterJson: TypeAlias = Annotated[
    Annotated[EqualsJson, Tag("EqualsJson")]
    | Annotated[AnyOfJson, Tag("AnyOfJson")]
    | Annotated[RangeJson, Tag("RangeJson")]
    | Annotated[NotJson, Tag("NotJson")]
    | Annotated[AllJson, Tag("AllJson")]
    | Annotated[AnyJson, Tag("AnyJson")],
    # One model is tried, so that errors speak of the filter that was meant.
    Discriminator(
        _part_tag,
        custom_error_type="filter",
        custom_error_message=f"a filter has one of {', '.join(_PART_TAGS)}",
    ),
]


def filter_to_json(where: Filter) -> dict[str, Any]:
    """A filter as JSON.

    Raises:
        QueryError: the filter has numbers of points, which have no meaning in another store.
    """
    match where:
        case Equals(field=field, value=value):
            return {"field": field, "equals": value}
        case AnyOf(field=field, values=values):
            return {"field": field, "any_of": list(values)}
        case Range(field=field):
            return {"field": field, "range": where.bounds}
        case Not(part=part):
            return {"not": filter_to_json(part)}
        case And(parts=parts):
            return {"all": [filter_to_json(part) for part in parts]}
        case Or(parts=parts):
            return {"any": [filter_to_json(part) for part in parts]}
        case _:
            raise QueryError("a filter by the numbers of points cannot be sent to a service")


def read_filter(given: FilterJson) -> Filter:
    """The filter that a validated model stands for.

    Raises:
        QueryError: the filter is nested too deeply, or has an unknown field.
    """
    where = _build(given, 1)
    validate(where)
    return where


def _build(given: FilterJson, depth: int) -> Filter:
    if depth > MAX_FILTER_DEPTH:
        raise QueryError(f"a filter may be nested {MAX_FILTER_DEPTH} deep, not deeper")
    match given:
        case EqualsJson():
            return Equals(given.field, given.equals)
        case AnyOfJson():
            return AnyOf(given.field, given.any_of)
        case RangeJson():
            return Range(given.field, **given.range.model_dump())
        case NotJson():
            return Not(_build(given.negated, depth + 1))
        case AllJson():
            return And(*(_build(part, depth + 1) for part in given.all))
        case AnyJson():
            return Or(*(_build(part, depth + 1) for part in given.any))


def _field_schema(_source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    # Any function before makes pydantic parse JSON once; else each choice of a model parses it.
    parsed = core_schema.no_info_before_validator_function(lambda given: given, handler(FilterJson))
    return core_schema.no_info_after_validator_function(
        read_filter,
        parsed,
        serialization=core_schema.plain_serializer_function_ser_schema(filter_to_json),
    )


FilterField: TypeAlias = Annotated[Filter, GetPydanticSchema(_field_schema)]
"""A filter as a field of a pydantic model, read from JSON and written to JSON."""
