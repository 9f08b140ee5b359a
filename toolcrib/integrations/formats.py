"""Tools in the words of those who call them: MCP, OpenAI, Anthropic, code, our own JSON.

Two ways lead to a provider. Either the few tools of a turn are handed over as they are (`openai`,
`anthropic`), named as briefly as can be; or all are, marked as deferred, and the provider asks us
for those of a turn (`anthropic-deferred` and `tool_reference`, `openai-namespaces`). Then a tool
must be called the same in every answer, whatever else is in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from toolcrib.errors import QueryError
from toolcrib.integrations.declarations import is_function_name, python_stub, typescript
from toolcrib.records import ToolSpec
from toolcrib.records.definitions import parameters_schema, signature, summary
from toolcrib.records.tools import default_id

__all__ = [
    "FORMATS",
    "MAX_NAME",
    "SOURCES",
    "accepted",
    "export",
    "named_ids",
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

    A skill is in no provider's format.

    Raises:
        QueryError: there is no such format.
    """
    if format not in FORMATS:
        raise QueryError(f"there is no format {format!r}; known are {', '.join(FORMATS)}")
    chosen = _callable(tools, format)
    return FORMATS[format][0]([_told_more(tool) for tool in chosen] if enriched else chosen)


def _callable(tools: Iterable[ToolSpec], format: str) -> list[ToolSpec]:
    """The tools that a provider can be handed: a skill is read, and cannot be called."""
    return [tool for tool in tools if tool.kind == "tool" or format in {"signature", "json"}]


def _told_more(tool: ToolSpec) -> ToolSpec:
    if not tool.enrichment or not tool.enrichment.purpose:
        return tool
    told = f"{tool.description}\n\n{tool.enrichment.purpose}".strip()
    return tool.model_copy(update={"description": told})


def named_ids(tools: Iterable[ToolSpec], format: str) -> dict[str, str]:
    """Which tool's id the names in `export` stand for; in a namespace `namespace.name` does.

    Tools' own names may be of several; such a name is left out.
    """
    chosen = _callable(tools, format)
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


def _function_names(tools: Sequence[ToolSpec]) -> list[str]:
    """The same whatever else there is, and a function's in any language."""
    return [
        _function_name(tool, name) for tool, name in zip(tools, _lasting_names(tools), strict=True)
    ]


def _function_name(tool: ToolSpec, lasting: str) -> str:
    if is_function_name(lasting):
        return lasting
    plain = lasting.replace("-", "_")
    return with_digest(plain if is_function_name(plain) else f"tool_{plain}", tool.id)


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


def _mcp(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": parameters_schema(tool),
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
    return {"name": name, "description": tool.description, "parameters": parameters_schema(tool)}


def _anthropic(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [_anthropic_tool(*each) for each in zip(tools, _brief_names(tools), strict=True)]


def _anthropic_deferred(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """What is handed over once, for `tool_reference` to refer to."""
    named = zip(tools, _lasting_names(tools), strict=True)
    return [{**_anthropic_tool(*each), "defer_loading": True} for each in named]


def _anthropic_tool(tool: ToolSpec, name: str) -> dict[str, Any]:
    return {"name": name, "description": tool.description, "input_schema": parameters_schema(tool)}


def _tool_reference(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The content of a `tool_result` that loads deferred tools."""
    return [{"type": "tool_reference", "tool_name": name} for name in _lasting_names(tools)]


def _signatures(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """One line a tool, for a prompt; a model that needs more asks for the tool's schema."""
    return [
        {"id": tool.id, "description": summary(tool)}
        | ({"signature": signature(tool)} if tool.kind == "tool" else {"kind": tool.kind})
        for tool in tools
    ]


def _declared(
    write: Callable[[ToolSpec, str], str],
) -> Callable[[Sequence[ToolSpec]], list[dict[str, Any]]]:
    """Functions for code that a model writes."""

    def shown(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return [
            {"id": tool.id, "name": name, "declaration": write(tool, name)}
            for tool, name in zip(tools, _function_names(tools), strict=True)
        ]

    return shown


def _json(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [tool.model_dump(mode="json", exclude_defaults=True) for tool in tools]


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
    "typescript": (_declared(typescript), _function_names),
    "python-stub": (_declared(python_stub), _function_names),
    "json": (_json, _own_names),
}
"""How a format writes tools, and how it names them."""

SOURCES = {"typescript": "", "python-stub": "from typing import Any, Literal\n\n\n"}
"""Formats whose declarations together are a source, and what stands before them in it."""
