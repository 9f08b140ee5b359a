"""Arguments of a call, checked against the tool's schema: no network, and never for long."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
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
from toolcrib.indexers.readers.base import is_object, kind_of
from toolcrib.indexers.readers.json_schema import rewritten
from toolcrib.records.codec import list_of, object_of

__all__ = ["argument_errors", "describe_parameters", "matches_pattern"]

PATIENCE_S = 0.25
"""A schema can be made to be worked on for ever; what takes longer is left to the server."""

MAX_SCHEMA_CHARS = 200_000
MAX_CACHED_SCHEMA_CHARS, SCHEMA_CHARS = 2_000_000, 2_000
"""What cached checkers may have, and what each counts beside its schema's text: ten bytes each."""

MAX_ERRORS = 5
MAX_UNIQUE_ITEMS = 1_000
MAX_SHOWN = 20
MAX_CHARS = 200

LEFT_OUT = frozenset({"patternProperties", "unevaluatedProperties", "unevaluatedItems"})
"""Keywords that are worked on outside of our reach, and that hardly any tool has."""

WORDS = {
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
    """The time for checking is over."""


def argument_errors(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], whole: str = "arguments"
) -> tuple[str, ...]:
    """What is wrong with the arguments, a line each; none where they fit.

    `whole` is what they are called where no single one is meant. None too where the schema is no
    valid one, is more than can be checked in short time, or refers to another document: then the
    server has the only word.
    """
    text = json.dumps(schema, default=str)
    checker = _CHECKERS.get_or_make(text, partial(_checker, text))
    if checker is None:
        return ()
    _until.set(monotonic() + PATIENCE_S)
    try:
        found = islice(checker.iter_errors(arguments), 10 * MAX_ERRORS)
        lines = [line for error in found for line in _in_words(error, whole)]
    except (_TooLongError, Unresolvable, RecursionError, TypeError, ValueError, KeyError):
        return ()
    return tuple(dict.fromkeys(lines))[:MAX_ERRORS]


def _checker(text: str) -> Validator | None:
    """What checks by this schema; None where it is of no use."""
    if len(text) > MAX_SCHEMA_CHARS:
        return None
    try:
        schema = rewritten(json.loads(text), _reduced)
        draft = _draft(schema)
        draft.check_schema(schema)
    except (SchemaError, Unresolvable, RecursionError, TypeError, ValueError):
        return None
    # An empty registry finds what stands in the schema itself and nothing else.
    registry = cast("Any", Registry)()
    return cast("Any", _bounded(draft))(schema, registry=registry)


_CHECKERS: BoundedMap[str, Validator | None] = BoundedMap(
    MAX_CACHED_SCHEMA_CHARS, lambda text, _: SCHEMA_CHARS + len(text)
)


def _draft(schema: Any) -> type[Validator]:
    """The draft that a schema names; without a name that is one, the newest."""
    if not is_object(schema) or not isinstance(schema.get("$schema"), str):
        return Draft202012Validator
    return validators.validator_for(schema, default=Draft202012Validator)


def _reduced(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without what is not checked here."""
    if not LEFT_OUT & schema.keys():
        return schema
    others = {"additionalProperties"} if "patternProperties" in schema else set[str]()
    return {key: value for key, value in schema.items() if key not in LEFT_OUT | others}


@cache
def _bounded(draft: type[Validator]) -> type[Validator]:
    """A draft's rules, each of which looks at the time first."""
    rules = cast("dict[str, Callable[..., Any]]", cast("Any", draft).VALIDATORS)

    def unique(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, list) and len(cast("list[Any]", instance)) > MAX_UNIQUE_ITEMS:
            return None
        return rules["uniqueItems"](validator, value, instance, schema)

    timed = {
        name: _timed(rule)
        for name, rule in {**rules, "pattern": _pattern, "uniqueItems": unique}.items()
    }
    return cast("Any", validators).extend(draft, timed)


def _timed(rule: Callable[..., Any]) -> Callable[..., Any]:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if monotonic() > _until.get():
            raise _TooLongError
        return rule(validator, value, instance, schema)

    return check


# -- patterns ------------------------------------------------------------------------------------

MAX_TEXT_CHARS = 2_000
MAX_PATTERN_BYTES = 1 << 18
"""RE2 works for at most the text's length times the compiled pattern's: a tenth of a second."""

CLASSES = re.compile(r"\\[wWdDsSbB]")
"""For RE2 these are of ASCII alone; for many servers' engines of all letters."""


def _pattern(_validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not matches_pattern(pattern, instance):
        yield ValidationError(f"must match the pattern {pattern}")


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text; True where only the server can tell.

    Backtracking engines can be kept busy for years by a few characters, and `regex`, which has
    a time limit, compiles `((a*){5000}){5000}` for a minute, so the engine is RE2.
    """
    compiled = _compiled(pattern)
    if compiled is None or len(text) > MAX_TEXT_CHARS:
        return True
    if not text.isascii() and CLASSES.search(pattern):
        return True
    return compiled.search(text) is not None


@cached_texts(256, MAX_TEXT_CHARS)
def _compiled(pattern: str) -> Any:
    engine = cast("Any", re2)
    options = engine.Options()
    options.max_mem, options.log_errors = MAX_PATTERN_BYTES, False
    try:
        return engine.compile(pattern, options)
    except (engine.error, UnicodeEncodeError):
        # Other dialects of regular expressions are the server's own business.
        return None


# -- in words by which a model can mend them -------------------------------------------------------


def _in_words(error: ValidationError, whole: str) -> Iterator[str]:
    """An error of the schema library as lines: where, what is wrong, what is allowed."""
    # Of alternatives that all failed, the one that came nearest says most.
    inner = cast("Any", exceptions).best_match(iter([error])) or error
    steps = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in inner.absolute_path)
    place = steps.removeprefix(".") or whole
    for line in _lines(inner):
        yield f"{place}: {line}"


def _lines(error: Any) -> Iterator[str]:
    given, value, known = error.instance, error.validator_value, _properties(error.schema)
    match error.validator:
        case "required":
            for name in (name for name in value if name not in given):
                near = get_close_matches(name, [each for each in given if each not in known], n=1)
                hint = f"; you gave {near[0]!r}, which it does not know" if near else ""
                yield f"{name!r} is missing ({_taken(known.get(name))}){hint}"
        case "additionalProperties":
            allowed = f"it knows {_listed(known, repr)}" if known else "it takes none"
            for name in (name for name in given if name not in known):
                near = get_close_matches(str(name), known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                yield f"there is no property {_cut(name)!r}; {hint}{allowed}"
        case "enum":
            texts = [each for each in value if isinstance(each, str)]
            near = get_close_matches(str(given), texts, n=1)
            hint = f"; did you mean {_json(near[0])}?" if near else ""
            yield f"must be one of {_listed(value)}, not {_seen(given)}{hint}"
        case "type" | "anyOf" | "oneOf" if (taken := _taken({error.validator: value})) != UNSAID:
            yield f"must be {taken}, not {_seen(given)}"
        case _:
            yield _cut(str(error.message))


def describe_parameters(schema: Mapping[str, Any]) -> str:
    """What a tool takes, in one line: names, types, and which are required."""
    known, needed = _properties(schema), list_of(schema.get("required"))
    order = sorted(known, key=lambda name: name not in needed)

    def told(name: str) -> str:
        return f"{name} ({_taken(known[name])}{', required' if name in needed else ''})"

    return _listed(order, told) or "no arguments"


UNSAID = "see its schema"


def _taken(schema: Any) -> str:
    """What a parameter takes, in a few words."""
    if not is_object(schema) or not schema:
        return "anything"
    if isinstance(values := schema.get("enum"), list):
        return f"one of {_listed(cast('list[Any]', values))}"
    kinds: Any = schema.get("type")
    if kinds is None:
        options = list_of(schema.get("anyOf") or schema.get("oneOf"))
        kinds = [object_of(each).get("type") for each in options]
        if not kinds or not all(isinstance(kind, str) for kind in kinds):
            return UNSAID
    named = cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]
    return " or ".join(WORDS.get(str(kind), str(kind)) for kind in named)


def _seen(value: Any) -> str:
    """What was given, in a few words."""
    if isinstance(value, bool) or value is None:
        return _json(value)
    return (
        f"{kind_of(value)} {_json(value)}"
        if isinstance(value, str | int | float)
        else kind_of(value)
    )


def _properties(schema: Any) -> dict[str, Any]:
    return object_of(object_of(schema).get("properties"))


def _listed(values: Any, word: Callable[[Any], str] | None = None) -> str:
    every = list(values)
    shown = ", ".join((word or _json)(value) for value in every[:MAX_SHOWN])
    return f"{shown} and {len(every) - MAX_SHOWN} more" if len(every) > MAX_SHOWN else shown


def _json(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
