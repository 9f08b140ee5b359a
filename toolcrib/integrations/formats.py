"""Tools in the words of those who call them: MCP, OpenAI, Anthropic, signatures, our own JSON.

Two ways lead to a provider. Either the few tools of a turn are handed over as they are (`openai`,
`anthropic`), named as briefly as can be; or all are, marked as deferred, and the provider asks us
for those of a turn (`anthropic-deferred` and `tool_reference`, `openai-namespaces`). Then a tool
must be called the same in every answer, whatever else is in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from toolcrib.errors import QueryError
from toolcrib.indexers.readers.base import is_object
from toolcrib.records import ToolSpec
from toolcrib.records.tools import default_id

__all__ = [
    "FORMATS",
    "MAX_NAME",
    "accepted",
    "export",
    "named_ids",
    "signature",
    "summary",
    "with_digest",
]

_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]+")
_PLAIN = re.compile(r"(?!_)[a-zA-Z0-9_-]+(?<!_)")
MAX_NAME = 64
"""Both providers accept names of `[a-zA-Z0-9_-]{1,64}` only."""

DIGEST = 8
"""Characters that tell names apart which would else be the same."""


def export(
    tools: Iterable[ToolSpec], format: str, *, enriched: bool = False
) -> list[dict[str, Any]]:
    """Definitions ready to hand to a model; one a tool, or one a server where tools are grouped.

    A description is what the tool's author wrote; if `enriched`, followed by the purpose that an
    enrichment has.

    What a provider does not accept in a name becomes `_`. In `openai` and `anthropic` two tools
    of one name get their server's in front; in the formats for deferred tools names depend on
    nothing but the tool.

    Raises:
        QueryError: there is no such format.
    """
    if format not in FORMATS:
        raise QueryError(f"there is no format {format!r}; known are {', '.join(FORMATS)}")
    return FORMATS[format][0]([_told_more(tool) for tool in tools] if enriched else list(tools))


def _told_more(tool: ToolSpec) -> ToolSpec:
    if not tool.enrichment or not tool.enrichment.purpose:
        return tool
    told = f"{tool.description}\n\n{tool.enrichment.purpose}".strip()
    return tool.model_copy(update={"description": told})


def named_ids(tools: Iterable[ToolSpec], format: str) -> dict[str, str]:
    """Which tool's id the names in `export` stand for; in a namespace `namespace.name` does.

    Tools' own names may be of several; such a name is left out.
    """
    chosen = list(tools)
    names = FORMATS[format][1](chosen)
    return {
        name: tool.id
        for name, tool in zip(names, chosen, strict=True)
        if FORMATS[format][1] is not _own_names or names.count(name) == 1
    }


# -- names -------------------------------------------------------------------------------------


def _own_names(tools: Sequence[ToolSpec]) -> list[str]:
    return [tool.name for tool in tools]


def _brief_names(tools: Sequence[ToolSpec]) -> list[str]:
    """As short as they can be among these tools."""
    plain = [_named(tool.name) for tool in tools]
    names = [
        name if plain.count(name) == 1 else _named(f"{tool.server}_{tool.name}")
        for tool, name in zip(tools, plain, strict=True)
    ]
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            suffix = f"_{seen[name]}"
            names[place] = name[: MAX_NAME - len(suffix)] + suffix
    return names


def _lasting_names(tools: Sequence[ToolSpec]) -> list[str]:
    """The same whatever else there is: `server__name`, with a digest where that says too little."""
    return [_lasting(tool, tool.server, tool.name) for tool in tools]


def _names_in_namespaces(tools: Sequence[ToolSpec]) -> list[str]:
    """`namespace.name`; the name alone without a server."""
    return [
        f"{_namespace(tool.server)}.{_lasting(tool, tool.name)}"
        if tool.server
        else _lasting(tool, tool.name)
        for tool in tools
    ]


def _lasting(tool: ToolSpec, *parts: str) -> str:
    given = [part for part in parts if part]
    name = "__".join(given)
    is_told_apart = all(_PLAIN.fullmatch(part) and "__" not in part for part in given)
    if is_told_apart and len(name) <= MAX_NAME and tool.id == default_id(tool.server, tool.name):
        return name
    return with_digest(_named(name), tool.id)


def _namespace(server: str) -> str:
    is_accepted = _PLAIN.fullmatch(server) and len(server) <= MAX_NAME
    return server if is_accepted else with_digest(_named(server), server)


def with_digest(name: str, of: str, chars: int = DIGEST) -> str:
    """A name told apart by the first `chars` characters of a digest of `of`."""
    digest = hashlib.blake2b(of.encode("utf-8", "surrogatepass"), digest_size=chars // 2)
    return f"{name[: MAX_NAME - chars - 1]}_{digest.hexdigest()}"


def accepted(text: str) -> str:
    """The text with what providers do not accept in a name as `_`; empty where nothing is left."""
    return _NOT_ALLOWED.sub("_", text).strip("_")


def _named(name: str) -> str:
    return accepted(name)[:MAX_NAME] or "tool"


# -- definitions -------------------------------------------------------------------------------


def _schema(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "object", "properties": {}, **tool.input_schema}


def _mcp(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": _schema(tool),
            **({"outputSchema": tool.output_schema} if tool.output_schema else {}),
            **({"annotations": tool.annotations} if tool.annotations else {}),
        }
        for tool in tools
    ]


def _openai(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """As Chat Completions takes functions."""
    return [
        {"type": "function", "function": _function(tool, name)}
        for tool, name in zip(tools, _brief_names(tools), strict=True)
    ]


def _openai_namespaces(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """As the Responses API takes deferred functions, and what a search of ours has found."""
    shown: dict[tuple[str, str], dict[str, Any]] = {}
    for tool in tools:
        definition = _function(tool, _lasting(tool, tool.name))
        function = {"type": "function", **definition, "defer_loading": True}
        if not tool.server:
            shown["tool", tool.id] = function
            continue
        name = _namespace(tool.server)
        described = {"name": name, "description": f"Tools of {tool.server}."}
        shown.setdefault(("server", name), {"type": "namespace", **described, "tools": []})
        shown["server", name]["tools"].append(function)
    return list(shown.values())


def _function(tool: ToolSpec, name: str) -> dict[str, Any]:
    return {"name": name, "description": tool.description, "parameters": _schema(tool)}


def _anthropic(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [_anthropic_tool(*each) for each in zip(tools, _brief_names(tools), strict=True)]


def _anthropic_deferred(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """What is handed over once, for `tool_reference` to refer to."""
    named = zip(tools, _lasting_names(tools), strict=True)
    return [{**_anthropic_tool(*each), "defer_loading": True} for each in named]


def _anthropic_tool(tool: ToolSpec, name: str) -> dict[str, Any]:
    return {"name": name, "description": tool.description, "input_schema": _schema(tool)}


def _tool_reference(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The content of a `tool_result` that loads deferred tools."""
    return [{"type": "tool_reference", "tool_name": name} for name in _lasting_names(tools)]


def _signatures(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """One line a tool, for a prompt; a model that needs more asks for the tool's schema."""
    return [
        {"id": tool.id, "signature": signature(tool), "description": summary(tool)}
        for tool in tools
    ]


def _json(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [tool.model_dump(mode="json", exclude_defaults=True) for tool in tools]


# -- signatures --------------------------------------------------------------------------------

MAX_OPTIONAL = 12
"""Optional parameters that are named; required ones all are."""

MAX_VALUES, MAX_VALUE_CHARS = 6, 24
MAX_DEPTH = 3
"""How far objects, lists, alternatives and references are followed into one another."""

MAX_SUMMARY = 160

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_MORE = "…"


def signature(tool: ToolSpec) -> str:
    """`name(required: type, optional?: type)`.

    Types are those of TypeScript, but for `integer`. Enumerations beyond six values, objects in
    objects, and optional parameters beyond twelve are cut with an ellipsis; required ones never.
    """
    types = _Types(tool.input_schema)
    return f"{tool.name}({types.fields(tool.input_schema, 0)})"


def summary(tool: ToolSpec) -> str:
    """The first sentence of a description, at most 160 characters."""
    lines = tool.description.strip().splitlines()
    first = _SENTENCE_END.split(" ".join(lines[0].split()), 1)[0] if lines else ""
    return first if len(first) <= MAX_SUMMARY else first[: MAX_SUMMARY - 1].rstrip() + _MORE


class _Types:
    """The types of one schema, whose `$defs` its references name."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema

    def fields(self, schema: Mapping[str, Any], depth: int) -> str:
        known = schema.get("properties")
        properties = known if is_object(known) else {}
        given = schema.get("required")
        required = [str(each) for each in cast("list[Any]", given)] if _is_list(given) else []
        optional = [name for name in properties if name not in required]
        shown = [f"{_key(name)}: {self.type(properties.get(name), depth)}" for name in required]
        shown += [
            f"{_key(name)}?: {self.type(properties[name], depth)}"
            for name in optional[:MAX_OPTIONAL]
        ]
        if len(optional) > MAX_OPTIONAL:
            shown.append(_MORE)
        return ", ".join(shown)

    def type(self, schema: Any, depth: int) -> str:
        if not is_object(schema) or not schema:
            return "any"
        if depth > MAX_DEPTH:
            return str(schema.get("type", "any"))
        for word in ("enum", "const"):
            if word in schema:
                values = schema[word] if word == "enum" else [schema[word]]
                return _values(cast("list[Any]", values)) if _is_list(values) else "any"
        if isinstance(reference := schema.get("$ref"), str):
            return self.type(self._named(reference), depth + 1)
        for word in ("anyOf", "oneOf"):
            if _is_list(options := schema.get(word)):
                return _union([self.type(each, depth + 1) for each in cast("list[Any]", options)])
        kinds: Any = schema.get("type", "object" if "properties" in schema else "any")
        named = cast("list[Any]", kinds) if _is_list(kinds) else [kinds]
        return _union([self._plain(str(kind), schema, depth) for kind in named])

    def _plain(self, kind: str, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "array":
            item = self.type(schema.get("items"), depth + 1)
            return f"({item})[]" if " | " in item else f"{item}[]"
        if kind == "object" and schema.get("properties"):
            return f"{{{self.fields(schema, depth + 1)}}}"
        return kind

    def _named(self, reference: str) -> Any:
        found: Any = self._root
        if not reference.startswith("#/"):
            return None
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if is_object(found) else None
        return found


def _values(values: Sequence[Any]) -> str:
    shown = [text if len(text := _literal(value)) <= MAX_VALUE_CHARS else _MORE for value in values]
    return _union([*shown[:MAX_VALUES], *([_MORE] if len(shown) > MAX_VALUES else [])])


def _union(types: Sequence[str]) -> str:
    """One of several; null says only that a parameter may be left out."""
    told = [each for each in dict.fromkeys(types) if each != "null"]
    return " | ".join(told) or "null"


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else _literal(name)


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


# -- formats -----------------------------------------------------------------------------------

_Names: TypeAlias = Callable[[Sequence[ToolSpec]], list[str]]
_Definitions: TypeAlias = Callable[[Sequence[ToolSpec]], list[dict[str, Any]]]

FORMATS: dict[str, tuple[_Definitions, _Names]] = {
    "mcp": (_mcp, _own_names),
    "openai": (_openai, _brief_names),
    "openai-namespaces": (_openai_namespaces, _names_in_namespaces),
    "anthropic": (_anthropic, _brief_names),
    "anthropic-deferred": (_anthropic_deferred, _lasting_names),
    "tool_reference": (_tool_reference, _lasting_names),
    "signature": (_signatures, _own_names),
    "json": (_json, _own_names),
}
"""How a format writes tools, and how it names them."""
