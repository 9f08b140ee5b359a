"""Tools in the words of those who call them: MCP, OpenAI, Anthropic, code, our own JSON.

Two ways lead to a provider. Either the few tools of a turn are handed over as they are (`openai`,
`anthropic`); or all are, marked as deferred, and the provider asks us for those of a turn
(`anthropic-deferred` and `tool_reference`, `openai-namespaces`). A tool has the same name in every
list, whatever else is in it: prompt caches hold, and an earlier call in a conversation still means
the same tool.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

from toolcrib.errors import QueryError
from toolcrib.integrations.declarations import is_function_name, python_stub, typescript
from toolcrib.records import ToolSpec
from toolcrib.records.definitions import parameters_schema, signature, summary
from toolcrib.records.tools import default_id

__all__ = [
    "FORMATS",
    "RESERVED_NAMES",
    "SOURCES",
    "export",
    "named_ids",
    "provider_name",
]


class OwnTool(StrEnum):
    """Tools of toolcrib's own, which a model gets beside those of an index."""

    FIND_TOOLS = "find_tools"
    DESCRIBE_TOOLS = "describe_tools"
    CALL_TOOL = "call_tool"
    CHECK_TOOLS = "check_tools"
    FIND_KNOWLEDGE = "find_knowledge"
    FIND_SKILLS = "find_skills"
    READ_SKILL = "read_skill"


RESERVED_NAMES: frozenset[str] = frozenset(OwnTool)
"""Names that no tool of an index gets."""

_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]+")
_PLAIN = re.compile(r"(?!_)[a-zA-Z0-9_-]+(?<!_)")
MAX_NAME = 64
"""Both providers accept names of `[a-zA-Z0-9_-]{1,64}` only."""

DIGEST_CHARS = 12
"""Characters that tell names apart which would else be the same: among a million tools, two have
the same digest once in 500 times, and then they are refused."""

_DIGESTED = re.compile(rf"_[0-9a-f]{{{DIGEST_CHARS}}}\Z")


def export(
    tools: Iterable[ToolSpec], format: str, *, enriched: bool = False
) -> list[dict[str, Any]]:
    """Definitions ready to hand to a model; one a tool, or one a server where tools are grouped.

    A description is what the tool's author wrote; if `enriched`, followed by the purpose that an
    enrichment has.

    In a provider's format a tool is there once, as `provider_name` says; in a namespace its
    server's name is left out. `mcp` has tools as their servers list them.

    A skill is in no provider's format.

    Raises:
        QueryError: there is no such format, or two tools would have one name in it.
    """
    named = _named_tools(tools, format)
    if enriched:
        named = [(name, _told_more(tool)) for name, tool in named]
    return FORMATS[format][0](named)


def _named_tools(tools: Iterable[ToolSpec], format: str) -> list[_NamedTool]:
    """The tools that a provider can be handed, with their names; a skill cannot be called."""
    if format not in FORMATS:
        raise QueryError(f"there is no format {format!r}; known are {', '.join(FORMATS)}")
    naming = FORMATS[format][1]
    if naming is _own_name:
        has_skills = format in {"signature", "json"}
        return [(tool.name, tool) for tool in tools if has_skills or tool.kind == "tool"]
    named: dict[str, ToolSpec] = {}
    for tool in tools:
        if tool.kind == "tool" and named.setdefault(name := naming(tool), tool) != tool:
            raise QueryError(
                f"the tools {named[name].id!r} and {tool.id!r} would both be called {name!r}: "
                "leave one out, or give it another id"
            )
    return list(named.items())


def _told_more(tool: ToolSpec) -> ToolSpec:
    if not tool.enrichment or not tool.enrichment.purpose:
        return tool
    told = f"{tool.description}\n\n{tool.enrichment.purpose}".strip()
    return tool.model_copy(update={"description": told})


def named_ids(tools: Iterable[ToolSpec], format: str) -> dict[str, str]:
    """Which tool's id the names in `export` stand for; in a namespace `namespace.name` does.

    Tools' own names may be of several; such a name is left out.

    Raises:
        QueryError: as `export`.
    """
    named = _named_tools(tools, format)
    count = Counter(name for name, _ in named)
    return {name: tool.id for name, tool in named if count[name] == 1}


# -- names -------------------------------------------------------------------------------------


def provider_name(tool: ToolSpec) -> str:
    """The tool's name for every provider: `server__name`, or the name alone without a server.

    A digest of the id stands behind a name that is cut, holds what providers do not accept,
    or could be another tool's.
    """
    return _exact_or_digest(tool, tool.server, tool.name)


def _own_name(tool: ToolSpec) -> str:
    return tool.name


def _name_in_namespace(tool: ToolSpec) -> str:
    """`namespace.name`; the name alone without a server."""
    name = _exact_or_digest(tool, tool.name)
    return f"{_namespace(tool.server)}.{name}" if tool.server else name


def _exact_or_digest(tool: ToolSpec, *parts: str) -> str:
    given = [part for part in parts if part]
    name = "__".join(given)
    has_usual_id = tool.id == default_id(tool.server, tool.name)
    return name if has_usual_id and _is_exact(given) else _with_digest(name, tool.id)


def _is_exact(parts: Sequence[str]) -> bool:
    """True if providers accept the joined parts, and no others are joined or digested to them."""
    name = "__".join(parts)
    if len(name) > MAX_NAME or name in RESERVED_NAMES or _DIGESTED.search(name):
        return False
    return all(_PLAIN.fullmatch(part) and "__" not in part for part in parts)


def _function_name(tool: ToolSpec) -> str:
    """The same whatever else there is, and a function's in any language."""
    name = provider_name(tool)
    if is_function_name(name):
        return name
    plain = name.replace("-", "_")
    return _with_digest(plain if is_function_name(plain) else f"tool_{plain}", tool.id)


def _namespace(server: str) -> str:
    return server if _is_exact([server]) else _with_digest(server, server)


def _with_digest(name: str, of: str) -> str:
    digest = hashlib.blake2b(of.encode("utf-8", "surrogatepass"), digest_size=DIGEST_CHARS // 2)
    accepted = _NOT_ALLOWED.sub("_", name).strip("_")[: MAX_NAME - DIGEST_CHARS - 1]
    return f"{accepted or 'tool'}_{digest.hexdigest()}"


# -- definitions -------------------------------------------------------------------------------


_NamedTool: TypeAlias = tuple[str, ToolSpec]
_NamedTools: TypeAlias = Sequence[_NamedTool]
_Definitions: TypeAlias = Callable[[_NamedTools], list[dict[str, Any]]]


def _mcp(tools: _NamedTools) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "description": tool.description,
            "inputSchema": parameters_schema(tool),
            **({"outputSchema": tool.output_schema} if tool.output_schema else {}),
            **({"annotations": tool.annotations} if tool.annotations else {}),
        }
        for name, tool in tools
    ]


def _openai(tools: _NamedTools) -> list[dict[str, Any]]:
    """As Chat Completions takes functions."""
    return [{"type": "function", "function": _function(tool, name)} for name, tool in tools]


def _openai_namespaces(tools: _NamedTools) -> list[dict[str, Any]]:
    """As the Responses API takes deferred functions, and what a search of ours has found."""
    shown: dict[tuple[str, str], dict[str, Any]] = {}
    for whole, tool in tools:
        namespace, _, name = whole.rpartition(".")
        function = {"type": "function", **_function(tool, name), "defer_loading": True}
        if not namespace:
            shown["tool", name] = function
            continue
        described = {"name": namespace, "description": f"Tools of {tool.server}."}
        shown.setdefault(("server", namespace), {"type": "namespace", **described, "tools": []})
        shown["server", namespace]["tools"].append(function)
    return list(shown.values())


def _function(tool: ToolSpec, name: str) -> dict[str, Any]:
    return {"name": name, "description": tool.description, "parameters": parameters_schema(tool)}


def _anthropic(tools: _NamedTools) -> list[dict[str, Any]]:
    return [
        {"name": name, "description": tool.description, "input_schema": parameters_schema(tool)}
        for name, tool in tools
    ]


def _anthropic_deferred(tools: _NamedTools) -> list[dict[str, Any]]:
    """Definition that is handed over once, for `tool_reference` to refer to."""
    return [{**each, "defer_loading": True} for each in _anthropic(tools)]


def _tool_reference(tools: _NamedTools) -> list[dict[str, Any]]:
    """The content of a `tool_result` that loads deferred tools."""
    return [{"type": "tool_reference", "tool_name": name} for name, _ in tools]


def _signatures(tools: _NamedTools) -> list[dict[str, Any]]:
    """One line a tool, for a prompt; a model that needs more asks for the tool's schema."""
    return [
        {"id": tool.id, "description": summary(tool)}
        | ({"signature": signature(tool)} if tool.kind == "tool" else {"kind": tool.kind})
        for _, tool in tools
    ]


def _declared(write: Callable[[ToolSpec, str], str]) -> _Definitions:
    """Functions for code that a model writes."""

    def shown(tools: _NamedTools) -> list[dict[str, Any]]:
        return [
            {"id": tool.id, "name": name, "declaration": write(tool, name)} for name, tool in tools
        ]

    return shown


def _json(tools: _NamedTools) -> list[dict[str, Any]]:
    return [tool.model_dump(mode="json", exclude_defaults=True) for _, tool in tools]


# -- formats -----------------------------------------------------------------------------------

FORMATS: dict[str, tuple[_Definitions, Callable[[ToolSpec], str]]] = {
    "mcp": (_mcp, _own_name),
    "openai": (_openai, provider_name),
    "openai-namespaces": (_openai_namespaces, _name_in_namespace),
    "anthropic": (_anthropic, provider_name),
    "anthropic-deferred": (_anthropic_deferred, provider_name),
    "tool_reference": (_tool_reference, provider_name),
    "signature": (_signatures, _own_name),
    "typescript": (_declared(typescript), _function_name),
    "python-stub": (_declared(python_stub), _function_name),
    "json": (_json, _own_name),
}
"""Writer of a format: its definitions of tools, and its name of a tool."""

SOURCES = {"typescript": "", "python-stub": "from typing import Any, Literal\n\n\n"}
"""Formats whose declarations together are a source, and what stands before them in it."""
