"""Arguments of a call, checked against the tool's schema, without network and in bounded time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from functools import cache, partial
from itertools import islice
from time import monotonic
from typing import Any, cast

import re2  # pyright: ignore[reportMissingTypeStubs]
from jsonschema import Draft202012Validator, SchemaError, exceptions, validators
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from toolcrib.caches import BoundedMap, cached_texts
from toolcrib.indexers.readers.base import kind_of
from toolcrib.indexers.readers.json_schema import map_schemas
from toolcrib.records.codec import is_object, list_of, object_of
from toolcrib.text import shorten

CHECK_TIMEOUT_S = 0.25
"""Longest check of a call, as a schema can take unlimited time. After it the server decides."""

MAX_CHECKED_SCHEMA_CHARS = 200_000
MAX_CACHED_SCHEMA_CHARS, SCHEMA_CHARS = 2_000_000, 2_000
"""Size of all cached checkers, and of a checker without its schema's text, in units of 10 bytes."""

MAX_ERRORS = 5
MAX_COMPARED_NAMES = 100
"""Unknown properties among which a missing one is looked for."""

MAX_UNIQUE_ITEMS = 1_000
MAX_LISTED_VALUES = 20
MAX_FAULT_CHARS = 200

UNCHECKED_KEYWORDS = frozenset({"patternProperties", "unevaluatedProperties", "unevaluatedItems"})
"""Rare keywords that are not checked, as their work cannot be bounded."""

TYPE_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}

_until: ContextVar[float] = ContextVar("until")


class _TooLongError(Exception):
    """The time for a check is over."""


def argument_errors(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], whole: str = "arguments"
) -> tuple[str, ...]:
    """Faults of the arguments, a line each; empty if the arguments fit.

    `whole` is the place of a fault of no single argument. Also empty if the schema is invalid,
    takes too long, or refers to another document: then the server decides.
    """
    text = json.dumps(schema, default=str)
    checker = _CHECKERS.get_or_make(text, partial(_checker, text))
    if checker is None:
        return ()
    _until.set(monotonic() + CHECK_TIMEOUT_S)
    try:
        found = islice(checker.iter_errors(arguments), 10 * MAX_ERRORS)
        lines = (line for error in found for line in _error_lines(error, whole))
        return tuple(islice(_distinct(lines), MAX_ERRORS))
    except (_TooLongError, Unresolvable, RecursionError, TypeError, ValueError, KeyError):
        return ()


def _distinct(lines: Iterable[str]) -> Iterator[str]:
    """Each line once; a line is not made before it is wanted."""
    met = set[str]()
    for line in lines:
        if line not in met:
            met.add(line)
            yield line


def _checker(text: str) -> Validator | None:
    """Validator of a schema; None for a schema that cannot be used."""
    if len(text) > MAX_CHECKED_SCHEMA_CHARS:
        return None
    try:
        schema = map_schemas(json.loads(text), _without_unchecked)
        draft = validators.validator_for(schema, default=Draft202012Validator)
        draft.check_schema(schema)
    except (SchemaError, Unresolvable, RecursionError, AttributeError, TypeError, ValueError):
        return None
    # An empty registry resolves only references within the schema.
    registry = cast("Any", Registry)()
    return cast("Any", _with_timeout(draft))(schema, registry=registry)


_CHECKERS: BoundedMap[str, Validator | None] = BoundedMap(
    MAX_CACHED_SCHEMA_CHARS, lambda text, _: SCHEMA_CHARS + len(text)
)


def _without_unchecked(schema: dict[str, Any]) -> dict[str, Any]:
    if not UNCHECKED_KEYWORDS & schema.keys():
        return schema
    others = {"additionalProperties"} if "patternProperties" in schema else set[str]()
    return {key: value for key, value in schema.items() if key not in UNCHECKED_KEYWORDS | others}


@cache
def _with_timeout(draft: type[Validator]) -> type[Validator]:
    """Validator class of a draft whose rules check the time first."""
    rules = cast("dict[str, Callable[..., Any]]", cast("Any", draft).VALIDATORS)

    def unique(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, list) and len(cast("list[Any]", instance)) > MAX_UNIQUE_ITEMS:
            return None
        return rules["uniqueItems"](validator, value, instance, schema)

    timed = {
        name: _check_time_first(rule)
        for name, rule in {**rules, "pattern": _pattern, "uniqueItems": unique}.items()
    }
    return cast("Any", validators).extend(draft, timed)


def _check_time_first(rule: Callable[..., Any]) -> Callable[..., Any]:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if monotonic() > _until.get():
            raise _TooLongError
        return rule(validator, value, instance, schema)

    return check


# -- patterns ------------------------------------------------------------------------------------

MAX_PATTERN_TEXT_CHARS = 2_000
MAX_PATTERN_BYTES = 1 << 18
"""Size of a compiled pattern: RE2's work is at most this times the text length, 0.1 s."""

_CHARACTER_CLASS = re.compile(r"\\[wWdDsSbB]")
"""Classes that mean only ASCII in RE2, but more in many servers' engines."""


def _pattern(_validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not matches_pattern(pattern, instance):
        yield ValidationError(f"must match the pattern {pattern}")


def matches_pattern(pattern: str, text: str) -> bool:
    """True if the text has the pattern, or if only the server can decide.

    The engine is RE2: a short pattern can take a backtracking engine years, and `regex`, which has
    a timeout, takes a minute to compile `((a*){5000}){5000}`.
    """
    compiled = _compile(pattern)
    if compiled is None or len(text) > MAX_PATTERN_TEXT_CHARS:
        return True
    if not text.isascii() and _CHARACTER_CLASS.search(pattern):
        return True
    return compiled.search(text) is not None


@cached_texts(256, MAX_PATTERN_TEXT_CHARS)
def _compile(pattern: str) -> Any:
    engine = cast("Any", re2)
    options = engine.Options()
    options.max_mem, options.log_errors = MAX_PATTERN_BYTES, False
    try:
        return engine.compile(pattern, options)
    except (engine.error, UnicodeEncodeError):
        # Only the server knows other dialects of regular expressions.
        return None


# -- errors that a model can correct -------------------------------------------------------


def _error_lines(error: ValidationError, whole: str) -> Iterator[str]:
    # If all alternatives failed, the nearest alternative gives the most useful error.
    inner = cast("Any", exceptions).best_match(iter([error])) or error
    place = _place(inner.absolute_path) or whole
    for line in _lines(inner):
        yield f"{place}: {line}"


def _place(path: Iterable[str | int]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return steps.removeprefix(".")


def _lines(error: Any) -> Iterator[str]:
    given, value, known = error.instance, error.validator_value, _properties(error.schema)
    match error.validator:
        case "required":
            yield from _missing_property_lines(error, known)
        case "additionalProperties":
            allowed = f"it knows {_list_words(known, repr)}" if known else "it takes none"
            for name in (name for name in given if name not in known):
                near = get_close_matches(str(name), known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                yield f"there is no property {shorten(name, MAX_FAULT_CHARS)!r}; {hint}{allowed}"
        case "enum":
            texts = [each for each in value if isinstance(each, str)]
            near = get_close_matches(str(given), texts, n=1)
            hint = f"; did you mean {_json(near[0])}?" if near else ""
            yield f"must be one of {_list_words(value)}, not {_value_words(given)}{hint}"
        case "anyOf" | "oneOf" if alternatives := _alternatives(error.context):
            yield shorten(alternatives, MAX_FAULT_CHARS)
        case "type" | "anyOf" | "oneOf" if (
            kind := _type_words({error.validator: value})
        ) != _UNKNOWN_TYPE:
            yield f"must be {kind}, not {_value_words(given)}"
        case _:
            yield shorten(str(error.message), MAX_FAULT_CHARS)


def _missing_property_lines(error: Any, known: Mapping[str, Any]) -> Iterator[str]:
    given = error.instance
    if error.parent is not None and not error.relative_path:
        # An alternative may leave types to the schema around it.
        known = {**_properties(error.parent.schema), **known}
    unknown = list(islice((each for each in given if each not in known), MAX_COMPARED_NAMES))
    for name in (name for name in error.validator_value if name not in given):
        near = get_close_matches(name, unknown, n=1)
        hint = f"; you gave {near[0]!r}, which it does not know" if near else ""
        yield f"{name!r} is missing ({_type_words(known.get(name))}){hint}"


def _alternatives(errors: Sequence[Any]) -> str:
    """Faults of a value by alternative, if the alternative has the value's type; may be empty."""
    if not errors:
        return "fits several alternatives of its schema, and must fit only one"
    faults: dict[str | int, dict[str, None]] = {}
    others = (each for each in errors if each.validator == "type" and not each.relative_path)
    other = {each.relative_schema_path[0] for each in others}
    for error in errors:
        if (alternative := error.relative_schema_path[0]) not in other:
            place = _place(error.relative_path)
            lines = (f"{place}: {line}" if place else line for line in _lines(error))
            faults.setdefault(alternative, {}).update(dict.fromkeys(lines))
    return ", or ".join(dict.fromkeys(" and ".join(lines) for lines in faults.values()))


def describe_parameters(schema: Mapping[str, Any]) -> str:
    """Describe parameters in one line: names, types, and which are required."""
    known, needed = _properties(schema), list_of(schema.get("required"))
    order = sorted(known, key=lambda name: name not in needed)

    def describe(name: str) -> str:
        return f"{name} ({_type_words(known[name])}{', required' if name in needed else ''})"

    return _list_words(order, describe) or "no arguments"


_UNKNOWN_TYPE = "see its schema"


def _type_words(schema: Any) -> str:
    if not is_object(schema) or not schema:
        return "anything"
    if isinstance(values := schema.get("enum"), list):
        return f"one of {_list_words(cast('list[Any]', values))}"
    kinds: Any = schema.get("type")
    if kinds is None:
        options = list_of(schema.get("anyOf") or schema.get("oneOf"))
        kinds = [object_of(each).get("type") for each in options]
        if not kinds or not all(isinstance(kind, str) for kind in kinds):
            return _UNKNOWN_TYPE
    named = cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]
    return " or ".join(dict.fromkeys(TYPE_WORDS.get(str(kind), str(kind)) for kind in named))


def _value_words(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return _json(value)
    text = f" {_json(value)}" if isinstance(value, str | int | float) else ""
    return f"{kind_of(value)}{text}"


def _properties(schema: Any) -> dict[str, Any]:
    return object_of(object_of(schema).get("properties"))


def _list_words(values: Any, word: Callable[[Any], str] | None = None) -> str:
    every = list(values)
    shown = ", ".join((word or _json)(value) for value in every[:MAX_LISTED_VALUES])
    more = len(every) - MAX_LISTED_VALUES
    return f"{shown} and {more} more" if more > 0 else shown


def _json(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), MAX_FAULT_CHARS)
