"""The last step of every reader: fields become a `ToolSpec`, or one line says why not."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolcrib.records import Refusal, ToolSpec

__all__ = ["build_spec", "kind_of"]

HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode categories that show nothing: controls, zero-width and direction marks, separators."""

EXPECTED = {
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "an object",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
"""What a field must be, by pydantic's name of the error."""

KINDS: dict[type, str] = {
    type(None): "null",
    bool: "true or false",
    str: "text",
    int: "a number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}


def build_spec(source: str, place: str, fields: Mapping[str, Any]) -> ToolSpec | Refusal:
    """Validate `fields` as a `ToolSpec`, or say in one line what is wrong with them.

    None stands for "not given". Descriptions are kept as they are; in a name, server or id
    invisible characters are refused, since they make two tools look alike.
    """
    given = {key: value for key, value in fields.items() if value is not None}
    try:
        spec = ToolSpec.model_validate(given)
        _check_is_json(given)
        _check_is_visible(spec)
    except ValidationError as error:
        reason = "; ".join(_in_words(detail) for detail in error.errors(include_url=False))
        return Refusal(source, place, reason)
    except ValueError as error:
        return Refusal(source, place, str(error))
    return spec


def _check_is_json(fields: Mapping[str, Any]) -> None:
    # Digest, store and service write specs as JSON; what cannot be written must stop here.
    try:
        json.dumps(fields, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no character") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"holds a value that JSON cannot: {error}") from None


def _check_is_visible(spec: ToolSpec) -> None:
    for field, value in (("name", spec.name), ("server", spec.server), ("id", spec.id)):
        for position, character in enumerate(value):
            if unicodedata.category(character) in HIDDEN:
                name = unicodedata.name(character, "control character")
                raise ValueError(
                    f"{field}: invisible character U+{ord(character):04X} ({name}) "
                    f"at position {position}; remove it",
                )


def _in_words(detail: ErrorDetails) -> str:
    field = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"]
    ).removeprefix(".")
    match detail["type"]:
        case "missing":
            return f"{field}: missing"
        case "string_too_short":
            return f"{field}: empty"
        case "string_too_long":
            limit = detail.get("ctx", {})["max_length"]
            return f"{field}: {len(detail['input']):,} characters; at most {limit:,} are accepted"
        case "extra_forbidden":
            return f"{field}: unknown field"
        case kind if kind in EXPECTED:
            return f"{field}: must be {EXPECTED[kind]}, not {kind_of(detail['input'])}"
        case _:
            return f"{field}: {detail['msg'].removeprefix('Value error, ')}"


def kind_of(value: object) -> str:
    """Name what a value is, in the words of JSON: "a list", "text", "null"."""
    return KINDS.get(type(value)) or f"a Python {type(value).__name__}"
