"""Parsing of JSON, YAML and TOML: strict, with bounded depth and alias expansion."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, cast

import yaml
from pydantic_core import from_json
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

MAX_DOCUMENT_DEPTH = 200
"""Deeper nesting is refused: real schemas are flatter, and recursion would overflow."""

MAX_ALIASED_NODES = 1_000_000
"""Most nodes that YAML aliases may add; a few lines could add billions."""


def decode(content: bytes) -> str:
    """Decode UTF-8 without a leading byte order mark; raises ValueError with the position."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte 0x{content[error.start]:02x} at position {error.start:,}"
        raise ValueError(f"not UTF-8: {found}; save the file as UTF-8") from None


def parse_json(text: str, *, allow_inf_nan: bool = False) -> Any:
    """Parse one JSON value; raises ValueError with reason, line and column."""
    try:
        return from_json(text, allow_inf_nan=allow_inf_nan)
    except ValueError as error:
        reason = str(error)
        if reason.startswith("recursion limit exceeded"):
            reason = f"nested deeper than {MAX_DOCUMENT_DEPTH} levels"
        raise ValueError(f"not valid JSON: {reason}") from None


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_unique_json(text: str) -> Any:
    """Parse as `parse_json`; raises ValueError also for a key with two values in one object.

    NaN and half of a surrogate pair stay, so that they cost only the tool that holds them.
    """
    whole = _SURROGATE.sub(r"\\ue0", text)
    value = parse_json(whole, allow_inf_nan=True)
    json.loads(text, object_pairs_hook=_require_one_value, parse_int=str, parse_float=str)
    return value if whole == text else json.loads(text)


def _require_one_value(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs) and (twice := [key for key, each in pairs if found[key] != each]):
        raise ValueError(f"the key {twice[0]!r} comes again with another value, which replaces it")
    return found


def parse_toml(text: str) -> Any:
    """Parse a TOML document; raises ValueError with reason, line and column."""
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ValueError(f"not valid TOML: {error}") from None


def parse_yaml(text: str) -> Any:
    """Parse one YAML document, with scalars as in YAML 1.2 (`no` is text, not false).

    Raises ValueError with reason, line and column; also for nesting deeper than
    `MAX_DOCUMENT_DEPTH`, and aliases that contain themselves or add more than `MAX_ALIASED_NODES`.
    """
    try:
        # The check reads events, at a seventh of the cost of loading: deep nesting (which overflows
        # libyaml's C stack) and aliases are harmless there.
        _Expansion().measure(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 -- it builds plain data only
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"not valid YAML: {_yaml_reason(error)}") from None


_FIELD = re.compile(r"^([\w-]+):(?!\S)(.*(?:\n(?:[ \t-].*)?)*)$|^#.*$", re.MULTILINE)
"""Field of front matter with the lines that belong to it, or a comment."""


def parse_front_matter(text: str) -> Any:
    """Parse as YAML, else field by field: people write `title: Spindle: run-in`.

    A field that is no YAML by itself is text.
    """
    try:
        return parse_yaml(text)
    except ValueError:
        if _FIELD.sub("", text).strip():
            raise
    fields: dict[str, Any] = {}
    for found in filter(lambda each: each[1], _FIELD.finditer(text)):
        try:
            fields |= parse_yaml(found[0])
        except ValueError:
            fields[found[1]] = " ".join(found[2].split())
    return fields


def _yaml_reason(error: Exception) -> str:
    """Reason of an error of YAML, with line and column, without the text there."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    problem = error.problem or error.context or "cannot be parsed"
    if problem.startswith("but "):
        problem = f"{error.context} {problem}"
    mark = error.problem_mark or error.context_mark
    if mark and problem.startswith("exceeded maximum nesting"):
        # An error of libyaml, which reads ahead and so meets its own limit before ours.
        return f"nested deeper than {MAX_DOCUMENT_DEPTH} levels at line {mark.line + 1}"
    return f"{problem} at line {mark.line + 1} column {mark.column + 1}" if mark else problem


class _Expansion:
    """Counts, by events, the nodes of a document with its aliases written out."""

    def __init__(self) -> None:
        self._open_nodes: list[tuple[str | None, int]] = []
        self._sizes: dict[str | None, int] = {}
        self._aliased_nodes = 0
        self._size = 0

    def measure(self, text: str) -> None:
        """Raise ValueError if the document is too deep, or its aliases add too much."""
        events = cast("Iterator[yaml.Event]", yaml.parse(text, Loader=_Loader))  # pyright: ignore[reportUnknownMemberType]
        for event in events:
            if isinstance(event, yaml.CollectionStartEvent):
                if len(self._open_nodes) == MAX_DOCUMENT_DEPTH:
                    line = f"line {event.start_mark.line + 1}"
                    raise ValueError(f"nested deeper than {MAX_DOCUMENT_DEPTH} levels at {line}")
                self._open_nodes.append((event.anchor, self._size))
                self._sizes.pop(event.anchor, None)
                self._size += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = self._open_nodes.pop()
                self._sizes[anchor] = self._size - before
            elif isinstance(event, yaml.AliasEvent):
                self._follow(event)
            elif isinstance(event, yaml.ScalarEvent):
                self._size += 1
                self._sizes[event.anchor] = 1

    def _follow(self, event: yaml.AliasEvent) -> None:
        line, name = event.start_mark.line + 1, event.anchor
        if any(anchor == name for anchor, _ in self._open_nodes):
            raise ValueError(f"alias *{name} at line {line} contains itself")
        # The loader reports an alias without an anchor.
        size = self._sizes.get(name, 0)
        self._size += size
        self._aliased_nodes += size
        if self._aliased_nodes > MAX_ALIASED_NODES:
            most = f"{MAX_ALIASED_NODES:,} values; write them out or remove them"
            raise ValueError(f"aliases up to *{name} at line {line} stand for more than {most}")


if TYPE_CHECKING:
    _SafeLoader = yaml.SafeLoader
else:
    # Ten times as fast, if PyYAML was built with libyaml.
    _SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """Builds only plain data: mappings with text keys, lists, text, numbers, true, false, null."""

    def construct_mapping(self, node: Node, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        """Build a mapping with its keys as text (`200:` is "200")."""
        if not isinstance(node, MappingNode):
            raise ConstructorError(None, None, "expected a mapping", node.start_mark)
        _require_unique_keys(node)
        # Merged keys come first, so that own keys replace them.
        self.flatten_mapping(node)  # pyright: ignore[reportUnknownMemberType]
        mapping: dict[Hashable, Any] = {}
        for key, value in cast("list[tuple[Node, Node]]", node.value):
            if not isinstance(key, ScalarNode):
                raise ConstructorError(None, None, "a key must be text", key.start_mark)
            mapping[key.value] = cast("Any", self.construct_object(value, deep=deep))  # pyright: ignore[reportUnknownMemberType]
        return mapping


def _require_unique_keys(node: MappingNode) -> None:
    """Raise for a key that a mapping has twice, as the last would replace all others."""
    lines: dict[str, int] = {}
    for key, _ in cast("list[tuple[Node, Node]]", node.value):
        if not isinstance(key, ScalarNode) or key.tag.endswith(":merge"):
            continue
        if key.value in lines:
            problem = f"the key {key.value!r} of line {lines[key.value]} comes again"
            raise ConstructorError(None, None, problem, key.start_mark)
        lines[key.value] = key.start_mark.line + 1


# YAML 1.1 reads `no` as false, 2024-01-01 as a date and 12:30 as 750, which nobody means here.
_SCALARS = {
    "null": (("", *"~nN"), r"~|null|Null|NULL|"),
    "bool": ("tTfF", r"true|True|TRUE|false|False|FALSE"),
    "int": ("-+0123456789", r"[-+]?(0|[1-9]\d*)"),
    "float": ("-+.0123456789", r"[-+]?(\.\d+|(0|[1-9]\d*)(\.\d*)?)([eE][-+]?\d+)?"),
    "merge": ("<", r"<<"),
}
_Loader.yaml_implicit_resolvers = {}
for _kind, (_starts, _pattern) in _SCALARS.items():
    _whole = re.compile(rf"(?:{_pattern})\Z", re.ASCII)
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", _whole, [*_starts])  # pyright: ignore[reportUnknownMemberType]
_Loader.yaml_constructors = {
    tag: build
    for tag, build in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in {*_SCALARS, "str", "seq", "map"}
}
