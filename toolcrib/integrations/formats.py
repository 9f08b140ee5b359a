"""Tools in the words of those who call them: MCP, OpenAI, Anthropic, and our own JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from toolcrib.errors import QueryError
from toolcrib.records import ToolSpec

__all__ = ["FORMATS", "export"]

_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]+")
MAX_NAME = 64
"""Both providers accept names of `[a-zA-Z0-9_-]{1,64}` only."""


def export(tools: Iterable[ToolSpec], format: str) -> list[dict[str, Any]]:
    """Definitions ready to hand to a model.

    Two tools of one name get their server's name in front; what a provider does not accept in
    a name becomes `_`.

    Raises:
        QueryError: there is no such format.
    """
    if format not in FORMATS:
        raise QueryError(f"there is no format {format!r}; known are {', '.join(FORMATS)}")
    chosen = list(tools)
    return [FORMATS[format](tool, name) for tool, name in zip(chosen, _names(chosen), strict=True)]


def _names(tools: list[ToolSpec]) -> list[str]:
    plain = [_accepted(tool.name) for tool in tools]
    names = [
        name if plain.count(name) == 1 else _accepted(f"{tool.server}_{tool.name}")
        for tool, name in zip(tools, plain, strict=True)
    ]
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            suffix = f"_{seen[name]}"
            names[place] = name[: MAX_NAME - len(suffix)] + suffix
    return names


def _accepted(name: str) -> str:
    return _NOT_ALLOWED.sub("_", name).strip("_")[:MAX_NAME] or "tool"


def _schema(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "object", "properties": {}, **tool.input_schema}


def _mcp(tool: ToolSpec, _name: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": _schema(tool),
    }
    if tool.output_schema:
        shown["outputSchema"] = tool.output_schema
    return shown | ({"annotations": tool.annotations} if tool.annotations else {})


def _openai(tool: ToolSpec, name: str) -> dict[str, Any]:
    function = {"name": name, "description": tool.description, "parameters": _schema(tool)}
    return {"type": "function", "function": function}


def _anthropic(tool: ToolSpec, name: str) -> dict[str, Any]:
    return {"name": name, "description": tool.description, "input_schema": _schema(tool)}


def _json(tool: ToolSpec, _name: str) -> dict[str, Any]:
    return tool.model_dump(mode="json", exclude_defaults=True)


FORMATS: dict[str, Callable[[ToolSpec, str], dict[str, Any]]] = {
    "mcp": _mcp,
    "openai": _openai,
    "anthropic": _anthropic,
    "json": _json,
}
