"""What is wrong with arguments, in words by which a model can mend them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

from jsonschema import exceptions
from jsonschema.exceptions import ValidationError

from toolcrib.indexers.readers.base import kind_of

__all__ = ["in_words", "parameters"]

MAX_SHOWN = 20
MAX_CHARS = 200
NOT_IN_SHORT = "see its schema"

ARTICLES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def in_words(error: ValidationError) -> Iterator[str]:
    """An error of the schema library as lines: where, what is wrong, what is allowed."""
    # Of alternatives that all failed, the one that came nearest says most.
    inner = cast("Any", exceptions).best_match(iter([error])) or error
    place = _place(inner.absolute_path)
    rule = {
        "required": _missing,
        "additionalProperties": _unknown,
        "type": _mistyped,
        "enum": _unlisted,
        "anyOf": _alternatives,
        "oneOf": _alternatives,
    }.get(str(inner.validator))
    lines = rule(inner) if rule else [_cut(str(inner.message))]
    for line in lines:
        yield f"{place}: {line}"


def parameters(schema: Mapping[str, Any]) -> str:
    """What a tool takes, in one line: names, types, and which are required."""
    known, required = _mapping(schema.get("properties")), schema.get("required")
    needed = set(cast("list[Any]", required)) if isinstance(required, list) else set[Any]()
    order = sorted(known, key=lambda name: name not in needed)
    shown = [
        f"{name} ({_taken(known[name])}{', required' if name in needed else ''})"
        for name in order[:MAX_SHOWN]
    ]
    if len(order) > MAX_SHOWN:
        shown.append(f"and {len(order) - MAX_SHOWN} more")
    return ", ".join(shown) or "no arguments"


def _missing(error: ValidationError) -> list[str]:
    given, known = _mapping(error.instance), _mapping(_mapping(error.schema).get("properties"))
    strange = [name for name in given if name not in known]
    lines: list[str] = []
    for name in filter(lambda name: name not in given, cast("list[str]", error.validator_value)):
        near = get_close_matches(name, strange, n=1)
        hint = f"; you gave {near[0]!r}, which it does not know" if near else ""
        lines.append(f"{name!r} is missing ({_taken(known.get(name))}){hint}")
    return lines


def _unknown(error: ValidationError) -> list[str]:
    schema = _mapping(error.schema)
    known = list(_mapping(schema.get("properties")))
    allowed = f"it knows {_listed(known)}" if known else "it takes none"
    lines: list[str] = []
    for name in filter(lambda name: name not in known, _mapping(error.instance)):
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        lines.append(f"there is no property {_cut(name)!r}; {hint}{allowed}")
    return lines


def _mistyped(error: ValidationError) -> list[str]:
    return [f"must be {_types(error.validator_value)}, not {_seen(error.instance)}"]


def _alternatives(error: ValidationError) -> list[str]:
    taken = _taken({"anyOf": error.validator_value})
    if taken == NOT_IN_SHORT:
        return [_cut(str(error.message))]
    return [f"must be {taken}, not {_seen(error.instance)}"]


def _unlisted(error: ValidationError) -> list[str]:
    allowed = cast("list[Any]", error.validator_value)
    texts = [value for value in allowed if isinstance(value, str)]
    given = error.instance
    near = get_close_matches(given, texts, n=1) if isinstance(given, str) else []
    hint = f"; did you mean {_json(near[0])}?" if near else ""
    return [f"must be one of {_listed(allowed, _json)}, not {_seen(given)}{hint}"]


def _taken(schema: Any) -> str:
    """What a parameter takes, in a few words."""
    described = _mapping(schema)
    if isinstance(values := described.get("enum"), list):
        return f"one of {_listed(cast('list[Any]', values), _json)}"
    if "type" in described:
        return _types(described["type"])
    options = described.get("anyOf") or described.get("oneOf")
    if isinstance(options, list):
        kinds = [_mapping(option).get("type") for option in cast("list[Any]", options)]
        if kinds and all(isinstance(kind, str) for kind in kinds):
            return _types(kinds)
    return NOT_IN_SHORT if described else "anything"


def _types(named: Any) -> str:
    kinds = cast("list[Any]", named) if isinstance(named, list) else [named]
    return " or ".join(ARTICLES.get(str(kind), str(kind)) for kind in kinds)


def _seen(value: Any) -> str:
    """What was given, in a few words."""
    if isinstance(value, bool) or value is None:
        return _json(value)
    shown = f" {_json(value)}" if isinstance(value, str | int | float) else ""
    return f"{kind_of(value)}{shown}"


def _place(path: Iterable[str | int]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return steps.removeprefix(".") or "arguments"


def _listed(values: list[Any], word: Any = repr) -> str:
    shown = ", ".join(word(value) for value in values[:MAX_SHOWN])
    return f"{shown} and {len(values) - MAX_SHOWN} more" if len(values) > MAX_SHOWN else shown


def _json(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
