"""JSON Schema: walks schemas apart from data, and replaces `$ref`s by their targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from typing import Any
from urllib.parse import unquote

from toolcrib.indexers.readers.base import is_list, is_object
from toolcrib.records.codec import list_of, object_of

# -- schemas as trees ------------------------------------------------------------------------------

DEFINITIONS = ("$defs", "definitions")

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", *DEFINITIONS})
"""Keywords whose keys are names, not keywords."""

DATA_KEYWORDS = frozenset({"example", "examples", "default", "enum", "const"})
"""Keywords whose content is data, even if it looks like a schema."""


def map_schemas(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Copy a schema, with `change` applied to each schema in it, inner schemas first."""
    if is_list(value):
        return [map_schemas(item, change) for item in value]
    if not is_object(value):
        return value
    return change(_map_keywords(value, partial(map_schemas, change=change)))


def _map_keywords(schema: dict[str, Any], copy: Callable[[Any], Any]) -> dict[str, Any]:
    """Copy a schema's keywords, with their values copied by `copy`; data stays as it is."""
    copied: dict[str, Any] = {}
    for key, value in schema.items():
        if key in DATA_KEYWORDS:
            copied[key] = value
        elif key in SCHEMA_MAPS and is_object(value):
            copied[key] = {name: copy(item) for name, item in value.items()}
        else:
            copied[key] = copy(value)
    return copied


# -- references ------------------------------------------------------------------------------------

MAX_REFERENCE_DEPTH = 8
"""Most nested references that are written out; deeper references are cut."""

MAX_WRITTEN_OUT_VALUES = 2_000
"""Most values of a written out schema; a larger schema is written out less deeply."""

MAX_OWN_VALUES = 100_000
"""Most values of a schema without its references; a larger schema is refused."""

MAX_SCHEMA_DEPTH = 100
"""Deeper schemas are refused, before they overflow the interpreter's stack."""

UNIONS = ("oneOf", "anyOf")
"""Keywords of alternatives, whose lists cannot be joined with other lists of alternatives."""

SELF_REFERENCES = ("$recursiveRef", "$dynamicRef")
"""References to the schema that contains them, or to a schema around it."""

OBJECT_WORDS = frozenset({"properties", "additionalProperties", "required", "allOf", "$ref"})
"""Keywords of objects' schemas, which often have no type; a reference mostly leads to one."""

SCALAR_TYPES = ("string", "integer", "number", "boolean")

MAX_CHAIN = 50
"""Most references that lead to references in a row; a longer chain is a circle."""


class _TooLargeError(ValueError):
    """The schema has too many values if it is written out this deeply."""


@dataclass
class _Walk:
    """State and limits of one attempt to write a schema out."""

    max_references: int
    max_values: int
    following: list[str]
    values: int = 0
    was_shortened: bool = False

    def count(self, depth: int) -> None:
        if depth > MAX_SCHEMA_DEPTH:
            raise ValueError(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels")
        self.values += 1
        if self.values > self.max_values:
            raise _TooLargeError(f"the schema has more than {self.max_values:,} values")


class References:
    """Follows and writes out the references of one parsed document.

    References are inlined, since some providers refuse `$defs` in a tool's schema, and readers of
    a schema's words should find them in place. Recursive and large schemas are cut:
    {"type": "object", "description": "Pet (recursive)"}, which every provider accepts and a model
    understands. A schema's own definitions are dropped after inlining. `follow` and `write_out`
    raise ValueError for a reference to another document, to nothing, or in a circle.

    `prepare` changes each schema before it is copied.
    """

    def __init__(
        self,
        document: dict[str, Any],
        prepare: Callable[[dict[str, Any]], dict[str, Any]] = lambda schema: schema,
    ) -> None:
        self._document = document
        self._prepare = prepare
        self._scopes: list[dict[str, Any]] = []

    def follow(self, value: Any) -> Any:
        """Target of `value` if it is a reference, else `value` itself.

        Keywords beside a `$ref` apply too: see `_with_siblings`.
        """
        siblings: list[dict[str, Any]] = []
        for _ in range(MAX_CHAIN):
            if not is_reference(value):
                return reduce(_with_siblings, reversed(siblings), value)
            siblings.append({key: each for key, each in value.items() if key != "$ref"})
            value = self._look_up(value["$ref"])
        raise ValueError(f"$ref {value['$ref']!r} leads in a circle")

    def write_out(self, schema: Any) -> Any:
        """Copy `schema` with references replaced by their targets.

        Also raises ValueError for schemas deeper than `MAX_SCHEMA_DEPTH`.
        """
        top = [schema["$ref"] if is_reference(schema) else "#"]
        self._scopes = [schema] if is_object(schema) else []
        schema = self.follow(schema)
        walk = _Walk(0, MAX_OWN_VALUES, top)
        copy = self._copy(schema, walk, 0)
        # From shallow to deep, as the cost of each attempt is bounded by its size.
        while walk.was_shortened and walk.max_references < MAX_REFERENCE_DEPTH:
            walk = _Walk(walk.max_references + 1, MAX_WRITTEN_OUT_VALUES, top)
            try:
                copy = self._copy(schema, walk, 0)
            except _TooLargeError:
                break
        return copy

    def _look_up(self, reference: str) -> Any:
        if not reference.startswith("#"):
            way_out = "bundle all files into one first (for example with `redocly bundle`)"
            raise ValueError(f"$ref {reference!r} leads to another file; {way_out}")
        start, *steps = reference[1:].split("/")
        keys = [
            unquote(step).replace("~1", "/").replace("~0", "~")
            for step in ([start, *steps] if start else steps)
        ]
        missing = ""
        for root in (self._document, *reversed(self._scopes)):
            target: Any = root
            for key in keys:
                target = _child_value(target, key)
                if target is None:
                    missing = missing or key
                    break
            else:
                return target
        raise ValueError(f"$ref {reference!r} leads nowhere: there is no {missing!r}")

    def _copy(self, value: Any, walk: _Walk, depth: int) -> Any:
        walk.count(depth)
        if is_list(value):
            return [self._copy(item, walk, depth + 1) for item in value]
        if not is_object(value):
            return value
        if is_reference(value):
            return self._copy_target(value, walk, depth)
        if any(isinstance(value.get(key), str) for key in SELF_REFERENCES):
            return _placeholder(walk.following[-1], "recursive", {"$ref": ""}, value)
        value = self._prepare(value)
        own = {key: each for key, each in value.items() if key not in DEFINITIONS}
        self._scopes.append(value)
        copy = _map_keywords(own, partial(self._copy, walk=walk, depth=depth + 1))
        self._scopes.pop()
        return copy

    def _copy_target(self, schema: dict[str, Any], walk: _Walk, depth: int) -> Any:
        reference: str = schema["$ref"]
        # Followed even if it is then cut, so that a broken reference is always an error.
        target = self.follow(schema)
        if reference in walk.following:
            return _placeholder(reference, "recursive", target, schema)
        is_scalar = is_object(target) and target.get("type") in SCALAR_TYPES
        if len(walk.following) > walk.max_references and not is_scalar:
            walk.was_shortened = True
            return _placeholder(reference, "shortened", target, schema)
        walk.following.append(reference)
        copy = self._copy(target, walk, depth + 1)
        walk.following.pop()
        return copy


def is_reference(value: Any) -> bool:
    """True if `value` is a reference; a property may be called `$ref` too."""
    return is_object(value) and isinstance(value.get("$ref"), str)


def _with_siblings(target: Any, siblings: dict[str, Any]) -> Any:
    """Schema with the keywords of a `$ref`'s target and of its siblings.

    Maps and lists of both are joined; for a keyword with a single value, the sibling wins.
    """
    if not (siblings and is_object(target)):
        return target
    both = {**target, **siblings}
    parts = [*list_of(target.get("allOf")), *list_of(siblings.get("allOf"))]
    for key in (key for key in target if key in siblings and key != "allOf"):
        first, second = target[key], siblings[key]
        if key in SCHEMA_MAPS and is_object(first) and is_object(second):
            both[key] = _with_names(first, second)
        elif key == "required" and is_list(first) and is_list(second):
            both[key] = [*first, *(name for name in second if name not in first)]
        elif key in UNIONS and first != second:
            parts.append({key: first})
    return {**both, "allOf": parts} if parts else both


def _with_names(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Join two maps of schemas; for a name in both maps, both schemas apply."""
    shared = {name for name in first.keys() & second.keys() if first[name] != second[name]}
    return {**first, **second, **{n: {"allOf": [first[n], second[n]]} for n in sorted(shared)}}


def _child_value(value: Any, key: str) -> Any:
    if is_object(value):
        return value.get(key)
    # By comparing text, as int() refuses thousands of digits.
    return next((item for index, item in enumerate(list_of(value)) if str(index) == key), None)


def _placeholder(reference: str, why: str, target: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """Schema in place of a cut target; it keeps the description beside the reference."""
    name, beside = unquote(reference.rpartition("/")[2]), schema.get("description")
    text = f"{beside} " if isinstance(beside, str) else ""
    cut: dict[str, Any] = {"description": f"{text}{name} ({why})"}
    if kinds := _types(object_of(target)):
        cut = {"type": kinds[0] if len(kinds) == 1 else kinds, **cut}
    # OpenAI refuses an array without items.
    return cut | ({"items": {}} if "array" in kinds else {})


def _types(schema: dict[str, Any]) -> list[str]:
    """Types of a schema's values, or of its alternatives; empty for values of any type."""
    if (kind := schema.get("type")) is not None:
        return [each for each in list_of(kind) or [kind] if isinstance(each, str)]
    options = [_types(object_of(each)) for word in UNIONS for each in list_of(schema.get(word))]
    if not options:
        return [] if OBJECT_WORDS.isdisjoint(schema) else ["object"]
    return list(dict.fromkeys(chain.from_iterable(options))) if all(options) else []
