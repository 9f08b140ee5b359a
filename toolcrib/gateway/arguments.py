"""Arguments held against a tool's schema before the call: no network, and never for long."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import islice
from time import monotonic
from typing import Any, cast

from jsonschema import Draft202012Validator, SchemaError, validators
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from toolcrib.gateway.faults import in_words
from toolcrib.gateway.patterns import matches_pattern
from toolcrib.indexers.readers.base import is_object
from toolcrib.indexers.readers.json_schema import rewritten

__all__ = ["faults"]

PATIENCE_S = 0.25
"""A schema can be made to be worked on for ever; what takes longer is left to the server."""

MAX_SCHEMA_CHARS = 200_000
MAX_FAULTS = 5
MAX_UNIQUE_ITEMS = 1_000

LEFT_OUT = frozenset({"patternProperties", "unevaluatedProperties", "unevaluatedItems"})
"""Keywords that are worked on outside of our reach, and that hardly any tool has."""

_until: ContextVar[float] = ContextVar("until")


class _TooLongError(Exception):
    """The time for checking is over."""


def faults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong with the arguments, a line each; none where they fit.

    None too where the schema is no valid one, is more than can be checked in short time, or
    refers to another document: then the server has the only word.
    """
    checker = _checker(json.dumps(schema, default=str))
    if checker is None:
        return ()
    _until.set(monotonic() + PATIENCE_S)
    try:
        found = checker.iter_errors(arguments)
        lines = [line for error in islice(found, 10 * MAX_FAULTS) for line in in_words(error)]
    except (_TooLongError, Unresolvable, RecursionError, TypeError, ValueError, KeyError):
        return ()
    return tuple(dict.fromkeys(lines))[:MAX_FAULTS]


@lru_cache(maxsize=512)
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
    checked = {**rules, "pattern": _pattern, "uniqueItems": _unique(rules["uniqueItems"])}
    timed = {name: _timed(rule) for name, rule in checked.items()}
    return cast("Any", validators).extend(draft, timed)


def _timed(rule: Callable[..., Any]) -> Callable[..., Any]:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if monotonic() > _until.get():
            raise _TooLongError
        return rule(validator, value, instance, schema)

    return check


def _pattern(_validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not matches_pattern(pattern, instance):
        yield ValidationError(f"must match the pattern {pattern}")


def _unique(rule: Callable[..., Any]) -> Callable[..., Any]:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, list) and len(cast("list[Any]", instance)) > MAX_UNIQUE_ITEMS:
            return None
        return rule(validator, value, instance, schema)

    return check
