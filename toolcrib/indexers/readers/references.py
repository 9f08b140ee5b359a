"""`$ref`s inside one document, written out: a schema that stands on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from toolcrib.indexers.readers.json_schema import DATA_KEYWORDS, SCHEMA_MAPS

__all__ = ["References", "UnresolvableError", "is_reference"]

MAX_REFERENCE_DEPTH = 8
"""How many references within references are written out before the rest is cut."""

MAX_VALUES = 2_000
"""A schema that grows beyond this many values is written out one reference less deep."""

MAX_OWN_VALUES = 100_000
"""A schema with more values of its own, nothing written out, is refused."""

MAX_NESTING = 100
"""Deeper schemas are refused, before the interpreter's stack refuses them."""

MAX_CHAIN = 50
"""A reference that leads to a reference, and so on; longer chains lead in a circle."""


class UnresolvableError(ValueError):
    """A `$ref` that cannot be followed, or a schema too deep to write out."""


class _TooLargeError(Exception):
    """The schema has more values than it may when written out this deep."""


@dataclass
class _Walk:
    """One attempt at writing a schema out: how deep it may follow, and how far it came."""

    max_references: int
    max_values: int
    following: list[str]
    values: int = 0
    was_shortened: bool = False

    def count(self, depth: int) -> None:
        """Take note of one more value, `depth` levels deep."""
        if depth > MAX_NESTING:
            raise UnresolvableError(f"the schema is nested deeper than {MAX_NESTING} levels")
        self.values += 1
        if self.values > self.max_values:
            raise _TooLargeError


class References:
    """Follows and writes out the references of one parsed document.

    Everything is inlined, since not every provider takes `$defs` in a tool's schema and
    what reads a schema for words should not have to look elsewhere for them. What does not
    end, or grows too large, is cut: {"type": "object", "description": "Pet (recursive)"},
    which every provider takes and a model understands. `follow` and `written_out` raise
    `UnresolvableError` for a reference that leads outside of the document, nowhere, or in a circle.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def follow(self, value: Any) -> Any:
        """Give what `value` stands for: itself, unless it is a reference.

        Keys beside the `$ref` (a description) win over what it leads to.
        """
        siblings: dict[str, Any] = {}
        for _ in range(MAX_CHAIN):
            if not is_reference(value):
                target = cast("dict[str, Any]", value)
                return {**target, **siblings} if siblings and isinstance(value, dict) else value
            siblings = {**{k: v for k, v in value.items() if k != "$ref"}, **siblings}
            value = self._look_up(value["$ref"])
        raise UnresolvableError(f"$ref {value['$ref']!r} leads in a circle")

    def written_out(self, schema: Any) -> Any:
        """Copy `schema` with the references in it replaced by what they lead to.

        Raises `UnresolvableError` also for what is deeper than `MAX_NESTING`.
        """
        top = [schema["$ref"] if is_reference(schema) else "#"]
        schema = self.follow(schema)
        walk = _Walk(0, MAX_OWN_VALUES, top)
        try:
            copy = self._copy(schema, walk, 0)
        except _TooLargeError:
            raise UnresolvableError(f"the schema has more than {MAX_OWN_VALUES:,} values") from None
        # From shallow to deep, as each try costs no more than what it may hold.
        while walk.was_shortened and walk.max_references < MAX_REFERENCE_DEPTH:
            walk = _Walk(walk.max_references + 1, MAX_VALUES, top)
            try:
                copy = self._copy(schema, walk, 0)
            except _TooLargeError:
                break
        return copy

    def _look_up(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise UnresolvableError(
                f"$ref {reference!r} leads to another file; bundle all files into one first "
                "(for example with `redocly bundle`)",
            )
        target: Any = self._document
        start, *steps = reference[1:].split("/")
        for step in [start, *steps] if start else steps:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            target = _child(target, key)
            if target is None:
                raise UnresolvableError(f"$ref {reference!r} leads nowhere: there is no {key!r}")
        return target

    def _copy(self, value: Any, walk: _Walk, depth: int) -> Any:
        walk.count(depth)
        if isinstance(value, list):
            return [self._copy(item, walk, depth + 1) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        schema = cast("dict[str, Any]", value)
        if is_reference(schema):
            return self._copy_target(schema, walk, depth)
        return {key: self._copy_keyword(key, item, walk, depth) for key, item in schema.items()}

    def _copy_keyword(self, key: str, value: Any, walk: _Walk, depth: int) -> Any:
        if key in DATA_KEYWORDS:
            return value
        if key in SCHEMA_MAPS and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            return {name: self._copy(item, walk, depth + 1) for name, item in named.items()}
        return self._copy(value, walk, depth + 1)

    def _copy_target(self, schema: dict[str, Any], walk: _Walk, depth: int) -> Any:
        reference: str = schema["$ref"]
        # Followed even where it is cut: one that leads nowhere is never passed over.
        target = self.follow(schema)
        if reference in walk.following:
            return _cut(reference, "recursive", target)
        if len(walk.following) > walk.max_references and not _is_scalar(target):
            walk.was_shortened = True
            return _cut(reference, "shortened", target)
        walk.following.append(reference)
        copy = self._copy(target, walk, depth + 1)
        walk.following.pop()
        return copy


def is_reference(value: Any) -> bool:
    """Whether `value` is an object with a `$ref`; a property may be called that as well."""
    return isinstance(value, dict) and isinstance(cast("dict[str, Any]", value).get("$ref"), str)


def _child(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(key)
    if isinstance(value, list) and key.isascii() and key.isdecimal():
        # By comparing text, as int() refuses thousands of digits.
        items = cast("list[Any]", value)
        return next((item for index, item in enumerate(items) if str(index) == key), None)
    return None


def _is_scalar(schema: Any) -> bool:
    kind = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    return kind in ("string", "integer", "number", "boolean")


def _cut(reference: str, why: str, target: Any) -> dict[str, Any]:
    cut: dict[str, Any] = {
        "type": "object",
        "description": f"{unquote(reference.rpartition('/')[2])} ({why})",
    }
    if isinstance(target, dict) and cast("dict[str, Any]", target).get("type") == "array":
        # An array without items is what OpenAI refuses.
        return {**cut, "type": "array", "items": {"type": "object"}}
    return cut
