"""Codec: records to JSON and back, their JSON Schema, and validation errors in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import cache, wraps
from operator import not_
from pathlib import Path
from typing import Annotated, Any, TypeGuard, TypeVar, cast, dataclass_transform

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from toolcrib.errors import SettingsError

_Record = TypeVar("_Record")
_Model = TypeVar("_Model", bound=BaseModel)

Score = Annotated[float, PlainSerializer(lambda value: round(value, 6), return_type=float)]
"""Score or probability, with six decimals in JSON."""

Milliseconds = Annotated[float, PlainSerializer(lambda value: round(value, 3), return_type=float)]
"""Duration in milliseconds, with three decimals in JSON."""

UNLESS_EMPTY = Field(exclude_if=not_)
"""Field that JSON omits when its value is empty."""

UNLESS_NONE = Field(exclude_if=lambda value: value is None)
"""Field that JSON omits when its value is None."""


FINITE_FIELDS = ConfigDict(extra="forbid", allow_inf_nan=False)
"""Configuration of sections of settings: an infinite timeout would never end."""


class FrozenModel(BaseModel):
    """Base of models that never change and have no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def settings_section(kind: type[_Record]) -> type[_Record]:
    """Frozen dataclass of settings; a value out of its bounds is a SettingsError."""
    made: Any = dataclass(frozen=True, slots=True, config=FINITE_FIELDS)(kind)
    build = made.__init__

    @wraps(build)
    def __init__(self: object, *args: Any, **fields: Any) -> None:  # noqa: N807
        try:
            build(self, *args, **fields)
        except ValidationError as error:
            raise SettingsError(in_words(error, "", most=None)) from error

    made.__init__ = __init__
    return made


def pattern_validator(pattern: re.Pattern[str], reason: str) -> AfterValidator:
    """Validator of texts by a pattern; `reason` is the error for all other texts."""

    def check(text: str) -> str:
        if pattern.search(text) is None:
            raise ValueError(reason)
        return text

    return AfterValidator(check)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """True for a parsed JSON object."""
    return isinstance(value, dict)


def object_of(value: object) -> dict[str, Any]:
    """Return a parsed JSON object unchanged; `{}` for any other value."""
    return value if is_object(value) else {}


def list_of(value: object) -> list[Any]:
    """Return a parsed JSON array unchanged; `[]` for any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


@cache
def adapter(kind: type[_Record]) -> TypeAdapter[_Record]:
    """Type adapter of a record class, built once because building takes milliseconds."""
    return TypeAdapter(kind)


def dump(record: object, *, full: bool = False) -> bytes:
    """Write a record as JSON text, without its class's `NOT_IN_SUMMARY` unless `full`."""
    exclude = None if full else getattr(record, "NOT_IN_SUMMARY", None)
    return adapter(type(record)).dump_json(record, by_alias=True, exclude=exclude)


def as_json(record: object, *, full: bool = False) -> Any:
    """Convert a record, or each of a list, to the JSON values that `dump` writes as text."""
    if isinstance(record, list | tuple):
        return [as_json(each, full=full) for each in cast("Sequence[object]", record)]
    exclude = None if full else getattr(record, "NOT_IN_SUMMARY", None)
    return adapter(type(record)).dump_python(record, mode="json", by_alias=True, exclude=exclude)


def load(kind: type[_Record], content: bytes | str) -> _Record:
    """Read a record from JSON text.

    Raises:
        pydantic.ValidationError: the text is no record of this class.
    """
    return adapter(kind).validate_json(content)


def iso_time(at: float, precision: str = "seconds") -> str:
    """Unix time as ISO 8601 in UTC, as records have it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision)


# -- errors in words, and models of YAML files -----------------------------------------------------

_UNION_STEP = re.compile(r"[-\[(']|^(bool|str|TurnBody)$|Json$")
"""Steps of an error's location that name a type of a union, not a field."""


_UNKNOWN_FIELD_TYPES = frozenset({"extra_forbidden", "unexpected_keyword_argument"})

UNKNOWN_FIELD = "unknown field"
"""Reason for a field that a record or a model does not have."""

_PYTHON_TYPE = re.compile(r"a (?:valid )?(tuple|frozenset|dictionary)( or (an )?instance of \w+)?$")
"""Type of Python in the reason for a value that is no list or no object."""

MAX_FAULTS = 1_000
"""Faults of one value that are listed; to list a million takes seconds."""


def faults(error: ValidationError, whole: str = "the whole") -> list[tuple[str, str]]:
    """Place and reason of each fault; `whole` is the place of a fault without a field."""
    if (count := error.error_count()) > MAX_FAULTS:
        return [(whole, f"{count:,} faults, too many to list")]
    details = error.errors(include_url=False, include_input=False)
    inside = {each["loc"][:depth] for each in details for depth in range(len(each["loc"]))}
    # An item with a fault was not counted, so its list may only seem too short.
    kept = [each for each in details if each["type"] != "too_short" or each["loc"] not in inside]
    return [(_place(each) or whole, _reason(each)) for each in kept]


def in_words(error: ValidationError, whole: str = "the whole", *, most: int | None = 1) -> str:
    """The first `most` faults (None: all) as `place: reason; ...`."""
    return "; ".join(": ".join(filter(None, each)) for each in faults(error, whole)[:most])


def read_yaml(
    file: str | Path, model: type[_Model], what: str, *, texts_only: bool = False
) -> _Model:
    """Read a model from a YAML file; `texts_only` keeps scalars such as `no` and `404` as text.

    Raises:
        SettingsError: the file is unreadable, no YAML, or does not fit the model; with all faults.
    """
    import yaml

    kind = yaml.BaseLoader if texts_only else yaml.SafeLoader
    loader = getattr(yaml, f"C{kind.__name__}", kind)
    try:
        found: Any = yaml.load(Path(file).read_text("utf-8"), loader)  # noqa: S506 -- both build plain data only
        return model.model_validate(found)
    except OSError as error:
        raise SettingsError(f"cannot read {what} {str(file)!r}: {error.strerror}") from error
    except ValidationError as error:
        words = in_words(error, "the file", most=None)
        raise SettingsError(f"{what} {str(file)!r}: {words}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{what} {str(file)!r}: is not YAML: {error}") from error


def _place(detail: Mapping[str, Any]) -> str:
    """Path of the faulty field, without the types of a union."""
    steps: Sequence[int | str] = detail["loc"]
    # The name of an unknown field may look like the name of a type.
    own = steps[-1:] if detail["type"] in _UNKNOWN_FIELD_TYPES else ()
    tried = steps[: len(steps) - len(own)]
    way = [step for step in tried if isinstance(step, int) or not _UNION_STEP.search(step)]
    return ".".join(map(str, (*way, *own)))


def _reason(detail: Mapping[str, Any]) -> str:
    if detail["type"] in _UNKNOWN_FIELD_TYPES:
        return UNKNOWN_FIELD
    reason = str(detail["msg"]).removeprefix("Value error, ")
    return _PYTHON_TYPE.sub(lambda m: "an object" if m[1] == "dictionary" else "a list", reason)


# -- schemas --------------------------------------------------------------------------------------


def schemas(
    kinds: Sequence[tuple[Any, JsonSchemaMode]], template: str
) -> tuple[list[JsonSchemaValue], Mapping[str, JsonSchemaValue]]:
    """JSON Schema of each record class, as read or as written, and the shared definitions."""
    inputs: list[tuple[int, JsonSchemaMode, TypeAdapter[Any]]] = [
        (number, mode, adapter(kind)) for number, (kind, mode) in enumerate(kinds)
    ]
    made, shared = TypeAdapter.json_schemas(
        inputs, ref_template=template, schema_generator=_RecordSchema
    )
    return list(made.values()), shared.get("$defs", {})


class _RecordSchema(GenerateJsonSchema):
    """Schema generator by which an answer requires every field that is always written.

    Overrides documented methods only. `json_schema_serialization_defaults_required` would do
    for models, but a dataclass of the standard library has no configuration to set it in.
    """

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,  # noqa: FBT001 -- pydantic's signature
    ) -> bool:
        """Require every field of an answer that has no `exclude_if`."""
        if self.mode == "serialization":
            return "serialization_exclude_if" not in field
        return super().field_is_required(field, total)

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        """Set no title, as it would repeat the field's name."""
        return False

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        """Allow duplicates in a set that is read."""
        made = super().frozenset_schema(schema)
        made.pop("uniqueItems", None)
        return made

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave defaults out of answers, which have every field."""
        if self.mode == "serialization":
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Write `anyOf`, as for every union, where a function chooses the type."""
        made = super().tagged_union_schema(schema)
        return made if "discriminator" in made else {"anyOf": made["oneOf"]}

    def dataclass_field_schema(self, schema: core_schema.DataclassField) -> JsonSchemaValue:
        """Leave null out of a field that is omitted when it is None."""
        made = super().dataclass_field_schema(schema)
        if self.mode == "serialization" and "serialization_exclude_if" in schema:
            kinds = [each for each in made.get("anyOf", ()) if each != {"type": "null"}]
            if len(kinds) == 1:
                return kinds[0]
        return made

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """Rule out unknown fields in an answer, and describe properties like fields."""
        made = super().dataclass_schema(schema)
        if self.mode == "serialization":
            made["additionalProperties"] = False
        for each in made.get("properties", {}).values():
            each.pop("readOnly", None)
        return made
