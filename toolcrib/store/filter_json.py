"""Filters as JSON, for the wire.

{"field": "server", "equals": "mail"}
{"field": "tags", "any_of": ["a", "b"]}
{"field": "cost_estimate", "range": {"lte": 0.5}}
{"not": FILTER}, {"all": [FILTER, ...]}, {"any": [FILTER, ...]}
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import core_schema

from toolcrib.errors import QueryError
from toolcrib.records.validation import in_words
from toolcrib.store.filters import (
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    And,
    AnyOf,
    Equals,
    Filter,
    Not,
    Or,
    Range,
    validate,
)

__all__ = ["FilterField", "filter_from_json", "filter_to_json", "read_filter"]

MAX_DEPTH = 16
MAX_VALUES = 1_000

Value: TypeAlias = Annotated[str, Field(max_length=1_000)] | bool
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]

# `read_filter` refuses other fields, in better words than a list of choices makes.
KeywordField: TypeAlias = Annotated[
    str, WithJsonSchema({"type": "string", "enum": sorted(KEYWORD_FIELDS)})
]
NumberField: TypeAlias = Annotated[
    str, WithJsonSchema({"type": "string", "enum": sorted(NUMBER_FIELDS)})
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)


class EqualsJson(_Part):
    """The field, or one entry of a list field, equals the value."""

    field: KeywordField
    equals: Value


class AnyOfJson(_Part):
    """The field, or one entry of a list field, is one of the values."""

    field: KeywordField
    any_of: list[Value] = Field(max_length=MAX_VALUES)


class Bounds(_Part):
    """Bounds of a number; those that are left out do not hold."""

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

    all: list[FilterJson] = Field(max_length=MAX_VALUES)


class AnyJson(_Part):
    """At least one part matches."""

    any: list[FilterJson] = Field(max_length=MAX_VALUES)


FilterJson: TypeAlias = EqualsJson | AnyOfJson | RangeJson | NotJson | AllJson | AnyJson

for _model in (NotJson, AllJson, AnyJson):
    _model.model_rebuild()


def filter_to_json(where: Filter) -> dict[str, Any]:
    """A filter as JSON.

    Raises:
        QueryError: it names points by their number, which means nothing elsewhere.
    """
    match where:
        case Equals(field=field, value=value):
            return {"field": field, "equals": value}
        case AnyOf(field=field, values=values):
            return {"field": field, "any_of": list(values)}
        case Range(field=field):
            bounds = {name: getattr(where, name) for name in ("gt", "gte", "lt", "lte")}
            return {"field": field, "range": {k: v for k, v in bounds.items() if v is not None}}
        case Not(part=part):
            return {"not": filter_to_json(part)}
        case And(parts=parts):
            return {"all": [filter_to_json(part) for part in parts]}
        case Or(parts=parts):
            return {"any": [filter_to_json(part) for part in parts]}
        case _:
            raise QueryError("a filter by the numbers of points cannot be sent to a service")


def filter_from_json(fields: Any) -> Filter:
    """The filter that JSON stands for.

    Raises:
        QueryError: it is none, is nested too deep, or names an unknown field.
    """
    try:
        return TypeAdapter(FilterField).validate_python(fields)
    except ValidationError as error:
        raise QueryError(f"no filter: {in_words(error)}") from error


def read_filter(given: FilterJson) -> Filter:
    """The filter that a validated model stands for.

    Raises:
        QueryError: it is nested too deep, or names an unknown field.
    """
    where = _read(given, 1)
    validate(where)
    return where


def _read(given: FilterJson, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise QueryError(f"a filter may be nested {MAX_DEPTH} deep, not deeper")
    match given:
        case EqualsJson():
            return Equals(given.field, given.equals)
        case AnyOfJson():
            return AnyOf(given.field, given.any_of)
        case RangeJson():
            return Range(given.field, **given.range.model_dump())
        case NotJson():
            return Not(_read(given.negated, depth + 1))
        case AllJson():
            return And(*(_read(part, depth + 1) for part in given.all))
        case AnyJson():
            return Or(*(_read(part, depth + 1) for part in given.any))


def _field_schema(_source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    return core_schema.no_info_after_validator_function(
        read_filter,
        handler(FilterJson),
        serialization=core_schema.plain_serializer_function_ser_schema(filter_to_json),
    )


FilterField: TypeAlias = Annotated[Filter, GetPydanticSchema(_field_schema)]
"""A filter that is read from JSON, and written to it."""
