"""Codec: records as JSON, back again, and the schema of what they look like there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from operator import not_
from typing import Annotated, Any, TypeGuard, TypeVar, cast

from pydantic import Field, PlainSerializer, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

_Record = TypeVar("_Record")

Score = Annotated[float, PlainSerializer(lambda value: round(value, 6), return_type=float)]
"""A score or a probability; JSON has six decimals."""

Milliseconds = Annotated[float, PlainSerializer(lambda value: round(value, 3), return_type=float)]
"""A time; JSON has three decimals."""

UNLESS_EMPTY = Field(exclude_if=not_)
"""Marks a field that JSON lacks where it holds nothing."""

UNLESS_NONE = Field(exclude_if=lambda value: value is None)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a parsed value is a JSON object."""
    return isinstance(value, dict)


def object_of(value: object) -> dict[str, Any]:
    """A parsed value, where it is a JSON object; else an empty one."""
    return value if is_object(value) else {}


def list_of(value: object) -> list[Any]:
    """A parsed value, where it is a JSON array; else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


@cache
def adapter(kind: type[_Record]) -> TypeAdapter[_Record]:
    """What reads and writes records of a kind; made once, since that takes milliseconds."""
    return TypeAdapter(kind)


def dump(record: object, *, full: bool = False) -> bytes:
    """A record as JSON text.

    Unless it is to be `full`, what its class names in `NOT_IN_SUMMARY` is left out.
    """
    exclude = None if full else getattr(record, "NOT_IN_SUMMARY", None)
    return adapter(type(record)).dump_json(record, by_alias=True, exclude=exclude)


def as_json(record: object, *, full: bool = False) -> Any:
    """A record as JSON values: what `dump` writes, before it is text."""
    exclude = None if full else getattr(record, "NOT_IN_SUMMARY", None)
    return adapter(type(record)).dump_python(record, mode="json", by_alias=True, exclude=exclude)


def load(kind: type[_Record], content: bytes | str) -> _Record:
    """The record that JSON text stands for.

    Raises:
        pydantic.ValidationError: it stands for none of this kind.
    """
    return adapter(kind).validate_json(content)


def schemas(
    kinds: Sequence[tuple[Any, JsonSchemaMode]], template: str
) -> tuple[list[JsonSchemaValue], Mapping[str, JsonSchemaValue]]:
    """The JSON schema of each kind, as it is read or written, and what those refer to."""
    inputs: list[tuple[int, JsonSchemaMode, TypeAdapter[Any]]] = [
        (number, mode, adapter(kind)) for number, (kind, mode) in enumerate(kinds)
    ]
    made, shared = TypeAdapter.json_schemas(
        inputs, ref_template=template, schema_generator=_RecordSchema
    )
    by_number = {number: schema for (number, _), schema in made.items()}
    return [by_number[number] for number in range(len(kinds))], shared.get("$defs", {})


class _RecordSchema(GenerateJsonSchema):
    """As pydantic has it, but what is always written is required, and names need no titles."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,  # noqa: FBT001 -- as pydantic has it
    ) -> bool:
        """Whether the field is always there."""
        if self.mode == "serialization":
            return "serialization_exclude_if" not in field
        return super().field_is_required(field, total)

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        """Never: it would be the name of the field again."""
        return False

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        """A set; what comes twice in it does no harm."""
        made = super().frozenset_schema(schema)
        made.pop("uniqueItems", None)
        return made

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """What is answered is always there: a default would tell nothing."""
        if self.mode == "serialization":
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def dataclass_field_schema(self, schema: core_schema.DataclassField) -> JsonSchemaValue:
        """A field; one that is left out where it holds nothing is never null."""
        made = super().dataclass_field_schema(schema)
        if self.mode == "serialization" and "serialization_exclude_if" in schema:
            kinds = [each for each in made.get("anyOf", ()) if each != {"type": "null"}]
            if len(kinds) == 1:
                return kinds[0]
        return made

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """A record; of answers nothing else is to be expected."""
        made = super().dataclass_schema(schema)
        if self.mode == "serialization":
            made["additionalProperties"] = False
        for each in made.get("properties", {}).values():
            # Whoever reads an answer cannot tell a property from a field.
            each.pop("readOnly", None)
        return made
