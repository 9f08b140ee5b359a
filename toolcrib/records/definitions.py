"""Definition of a tool for a model: names, signatures, schemas, and estimated tokens."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Literal, TypeAlias, cast, get_args

from toolcrib.records.codec import is_object, list_of, object_of
from toolcrib.records.tools import ToolSpec, default_id

DefinitionForm: TypeAlias = Literal["schema", "signature"]
"""Form of a tool for a model: the whole schema, or a signature in one line."""

DefinitionFormat: TypeAlias = Literal[
    "mcp",
    "openai",
    "openai-namespaces",
    "anthropic",
    "anthropic-deferred",
    "tool_reference",
    "signature",
    "typescript",
    "python-stub",
]
"""Format of definitions for a model."""

FORMAT_NAMES: tuple[str, ...] = (*get_args(DefinitionFormat), "json")
"""Formats of definitions, which `integrations.formats` writes."""

CHARS_A_TOKEN = 4
"""Characters a token in English prose; code and other scripts have fewer."""

CHARS_A_MARK = 3
"""Characters a token in JSON: 2.7 by WordPiece, more by byte-pair vocabularies."""


def estimated_tokens(text: str, chars: int = CHARS_A_TOKEN) -> int:
    """Estimate the tokens that a language model reads in a text; at least one."""
    return max(1, len(text) // chars)


def definition_tokens(tool: ToolSpec, form: DefinitionForm) -> int:
    """Estimate the tokens of a tool in an answer: one for three characters of compact JSON."""
    written = in_short(tool)
    if form == "schema":
        written |= {"description": tool.description, "parameters": parameters_schema(tool)}
    text = json.dumps(written, ensure_ascii=False, separators=(",", ":"), default=str)
    return estimated_tokens(text, CHARS_A_MARK)


def in_short(tool: ToolSpec) -> dict[str, Any]:
    """A tool's signature in parts: name, parameters, and a summary in one line."""
    about = {"parameters": parameters(tool), "description": summary(tool)}
    return {"name": tool.name} | {key: text for key, text in about.items() if text}


def parameters_schema(tool: ToolSpec) -> dict[str, Any]:
    """The schema of a tool's parameters, always with the type `object`."""
    return {"type": "object", "properties": {}, **tool.input_schema}


# -- signatures --------------------------------------------------------------------------------

MAX_OPTIONAL_PARAMETERS = 12
"""Optional parameters that a signature names; it names all required parameters."""

MAX_SIGNATURE_VALUES, MAX_SIGNATURE_VALUE_CHARS = 6, 24
MAX_SIGNATURE_DEPTH = 3
"""Depth to which objects, lists, alternatives and references are followed."""

MAX_CHARS, MAX_NODES = 2_000, 10_000
"""Characters of a signature, and nodes of a schema read for it; references multiply both."""

MAX_SUMMARY = 160

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_WRAPPED_LINE = re.compile(r"(?<![.!?:;|>\s])[ \t\r]*\n[ \t]*(?=[a-z])(?![\w.-]*+ ?[:=(-])")
"""End of a line within a sentence: the next line begins in lower case, and names no parameter."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_MORE = "…"


def signature(tool: ToolSpec) -> str:
    """`name(required: type, optional?: type)`.

    Types are those of TypeScript, and `integer`. An ellipsis replaces values of an enumeration
    beyond six, objects in objects, optional parameters beyond twelve, and types beyond about 2,000
    characters. The names of required parameters are always there.
    """
    return f"{tool.name}({parameters(tool)})"


def parameters(tool: ToolSpec) -> str:
    """Parameters of a signature, without the brackets."""
    return SchemaTypes(tool.input_schema).parameters()


def summary(tool: ToolSpec) -> str:
    """The first sentence of a description, at most 160 characters."""
    text = _WRAPPED_LINE.sub(" ", tool.description.strip())
    line = " ".join(text.split("\n", 1)[0].split())
    first = _SENTENCE_END.split(line, 1)[0]
    return first if len(first) <= MAX_SUMMARY else first[: MAX_SUMMARY - 1].rstrip() + _MORE


class SchemaTypes:
    """Types of one schema as text of at most `max_chars`.

    References name the schema's own `$defs`. Subclasses write other languages.
    """

    any, null = "any", "null"
    cut = rest = _MORE
    """Mark of an omitted type, and of omitted parameters."""

    max_chars, max_optional = MAX_CHARS, MAX_OPTIONAL_PARAMETERS

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._chars, self._nodes = self.max_chars, MAX_NODES
        self._reference_types: dict[tuple[str, int], str] = {}

    def parameters(self) -> str:
        """Parameters of the schema; of a root with alternatives, their union, never empty."""
        merged, _ = self._merge(self._root)
        fields = self.fields(merged, 0)
        options = _options(merged)
        if fields:
            is_partial = any(is_object(e) and e.keys() & {"$ref", "properties"} for e in options)
            return f"{fields}, {self.rest}" if is_partial else fields
        union = self.union([self.type(each, 1) for each in options]) if options else ""
        if "{" in union:
            return union
        return self.rest if options or "$ref" in merged else ""

    def fields(self, schema: Mapping[str, Any], depth: int) -> str:
        """The properties of an object, the required ones first."""
        properties = object_of(schema.get("properties"))
        required = dict.fromkeys(map(str, list_of(schema.get("required"))), "")
        optional = dict.fromkeys((name for name in properties if name not in required), "?")
        if depth:
            self._nodes -= len(required) + len(optional)
        shown: list[str] = []
        for name, mark in (*required.items(), *islice(optional.items(), self.max_optional)):
            key = f"{self.key(name)}{mark}: "
            if (depth or mark) and (self._is_full or len(key) > self._chars):
                break
            self._chars -= len(key)
            shown.append(f"{key}{self.type(properties.get(name), depth)}")
        more = [self.rest] if len(shown) < len(required) + len(optional) else []
        return ", ".join([*shown, *more])

    @property
    def _is_full(self) -> bool:
        return self._chars < 0 or self._nodes < 0

    def _fit(self, text: str) -> str:
        """The text if there is room, else the mark of an omitted type."""
        self._chars -= len(text)
        return self.cut if self._chars < 0 else text

    def type(self, schema: Any, depth: int) -> str:
        """Type of a schema at a depth within other schemas."""
        self._nodes -= 1
        if self._is_full:
            return self.cut
        if not is_object(schema) or not schema:
            return self._fit(self.any)
        for word in ("enum", "const"):
            if word in schema and depth <= MAX_SIGNATURE_DEPTH:
                values = list_of(schema[word]) if word == "enum" else [schema[word]]
                return self._fit(self.values(values) if values else self.any)
        return self._composite(schema, depth)

    def _composite(self, schema: Mapping[str, Any], depth: int) -> str:
        """Type of a schema with references, alternatives or parts."""
        if depth <= MAX_SIGNATURE_DEPTH:
            if list_of(schema.get("allOf")):
                merged, size = self._merge(schema)
                self._nodes -= size
                return self.type(merged, depth + 1)
            if isinstance(reference := schema.get("$ref"), str):
                return self._reference(reference, depth + 1)
            if (options := _options(schema)) and not schema.get("properties"):
                return self.union([self.type(each, depth + 1) for each in options])
        kinds: Any = schema.get("type", "object" if "properties" in schema else "any")
        return self.union(
            [self._plain(str(kind), schema, depth) for kind in list_of(kinds) or [kinds]]
        )

    def _reference(self, reference: str, depth: int) -> str:
        """Type that a reference names, computed once per depth."""
        known = self._reference_types.get((reference, depth))
        if known is not None:
            return self._fit(known)
        found = self._reference_types[reference, depth] = self.type(self._resolve(reference), depth)
        return found

    def _merge(self, schema: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """Merge a schema with its references and parts, its own keys first; also its size."""
        merged: dict[str, Any] = {}
        properties: dict[str, Any] = {}
        required: list[Any] = []
        parts: list[Any] = [schema]
        seen: set[int] = set()
        for part in parts:
            if not is_object(part) or id(part) in seen:
                continue
            seen.add(id(part))
            rest = dict(part)
            if (named := self._resolve(str(rest.get("$ref")))) is not None:
                parts.append(named)
                del rest["$ref"]
            parts += list_of(rest.pop("allOf", None))
            required += list_of(rest.pop("required", None))
            known = rest.pop("properties", None)
            for each, into in ((known, properties), (rest, merged)):
                for key, value in object_of(each).items():
                    into.setdefault(key, value)
        if properties:
            merged["properties"] = properties
        return merged | {"required": required}, len(parts) + len(properties) + len(required)

    def _plain(self, kind: str, schema: Mapping[str, Any], depth: int) -> str:
        if depth <= MAX_SIGNATURE_DEPTH and kind == "array":
            return self.array(self.type(schema.get("items"), depth + 1))
        if depth <= MAX_SIGNATURE_DEPTH and kind == "object" and schema.get("properties"):
            return self.object(schema, depth + 1)
        return self._fit(self.kind(kind))

    def kind(self, name: str) -> str:
        """A type of JSON Schema by its name."""
        return name

    def array(self, item: str) -> str:
        """A list of items of a type."""
        return f"({item})[]" if " | " in item else f"{item}[]"

    def object(self, schema: Mapping[str, Any], depth: int) -> str:
        """An object with properties."""
        return f"{{{self.fields(schema, depth)}}}"

    def key(self, name: str) -> str:
        """A property's name."""
        return name if _IDENTIFIER.fullmatch(name) else _literal(name)

    def values(self, values: Sequence[Any]) -> str:
        """One of several values."""
        shown = [_short(value) for value in values[:MAX_SIGNATURE_VALUES]]
        return self.union([*shown, *([_MORE] if len(values) > MAX_SIGNATURE_VALUES else [])])

    def union(self, types: Sequence[str]) -> str:
        """Union of types without null, which only marks a parameter as optional."""
        kept = [each for each in dict.fromkeys(types) if each != self.null]
        return " | ".join(kept) or self.null

    def _resolve(self, reference: str) -> Any:
        found: Any = self._root
        if not reference.startswith("#/"):
            return None
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if is_object(found) else None
        return found


def _options(schema: Mapping[str, Any]) -> list[Any]:
    return list_of(schema.get("anyOf")) or list_of(schema.get("oneOf"))


def _short(value: Any) -> str:
    if (
        isinstance(value, str | list | dict)
        and len(cast("list[Any]", value)) > MAX_SIGNATURE_VALUE_CHARS
    ):
        return _MORE
    return text if len(text := _literal(value)) <= MAX_SIGNATURE_VALUE_CHARS else _MORE


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- names of tools at providers ---------------------------------------------------------------


class OwnTool(StrEnum):
    """Tools of toolcrib's own, which a model gets beside those of an index."""

    FIND_TOOLS = "find_tools"
    DESCRIBE_TOOLS = "describe_tools"
    CALL_TOOL = "call_tool"
    CALL_TOOL_READ = "call_tool_read"
    CALL_TOOL_WRITE = "call_tool_write"
    CALL_TOOL_DESTRUCTIVE = "call_tool_destructive"
    CHECK_TOOLS = "check_tools"
    FIND_KNOWLEDGE = "find_knowledge"
    FIND_SKILLS = "find_skills"
    READ_SKILL = "read_skill"


RESERVED_NAMES: frozenset[str] = frozenset(OwnTool)
"""Names that no tool of an index gets."""

MAX_PROVIDER_NAME_CHARS, DIGEST_CHARS = 64, 12

MIN_SERVER_CHARS = 16
"""Length to which a server's name may be cut for the name of its tool."""


def with_digest(name: str, of: str) -> str:
    """Name in characters that providers accept, with a digest of `of` that makes it unique."""
    digest = hashlib.blake2b(of.encode("utf-8", "surrogatepass"), digest_size=DIGEST_CHARS // 2)
    accepted = _NOT_ALLOWED.sub("_", name).strip("_")
    if not accepted[:1].isalpha():
        accepted = f"tool_{accepted}".strip("_")
    return f"{accepted[: MAX_PROVIDER_NAME_CHARS - DIGEST_CHARS - 1]}_{digest.hexdigest()}"


_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]+")
_PLAIN = re.compile(r"(?!_)[a-zA-Z0-9_-]+(?<!_)")
_DIGEST_SUFFIX = re.compile(rf"_[0-9a-f]{{{DIGEST_CHARS}}}\Z")


def provider_name(tool: ToolSpec) -> str:
    """The tool's name for every provider: `server__name`, or the name alone without a server.

    A digest of the id is added if the name is cut, has characters that providers refuse, or could
    be another tool's.
    """
    return _exact_or_digest(tool, tool.server, tool.name)


def name_in_namespace(tool: ToolSpec) -> str:
    """`namespace.name`; the name alone without a server."""
    name = _exact_or_digest(tool, tool.name)
    return f"{namespace_of(tool.server)}.{name}" if tool.server else name


def _exact_or_digest(tool: ToolSpec, *parts: str) -> str:
    given = [part for part in parts if part]
    if tool.id == default_id(tool.server, tool.name) and _is_exact(given):
        return "__".join(given)
    # Of `github.com/owner/repository/filesystem` the end tells most, and the tool's name stays.
    *servers, own = given
    room = MAX_PROVIDER_NAME_CHARS - DIGEST_CHARS - len("tool____") - len(own)
    ends = (each if len(each) <= room else each.rpartition("/")[2] for each in servers)
    kept = (each[-max(MIN_SERVER_CHARS, room) :] for each in ends)
    return with_digest("__".join([*kept, own]), tool.id)


def _is_exact(parts: Sequence[str]) -> bool:
    """True if providers accept the joined parts, and no other parts give the same name."""
    name = "__".join(parts)
    if len(name) > MAX_PROVIDER_NAME_CHARS or name in RESERVED_NAMES or _DIGEST_SUFFIX.search(name):
        return False
    if not name[0].isalpha():  # Gemini refuses such a name.
        return False
    return all(_PLAIN.fullmatch(part) and "__" not in part for part in parts)


def may_name_another(name: str) -> bool:
    """True for a tool's own name that could be another tool's id, or its name for providers."""
    return "/" in name or "__" in name or _DIGEST_SUFFIX.search(name) is not None


def namespace_of(server: str) -> str:
    """Namespace of a server's tools: its name, with a digest where providers refuse the name."""
    return server if _is_exact([server]) else with_digest(server, server)
