"""Anthropic integration: `tools=` for a turn, and a search for tools whose loading is deferred."""

from __future__ import annotations

from typing import cast

from toolcrib.errors import MissingExtraError

try:
    from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
except ImportError as missing:
    raise MissingExtraError("tools for Anthropic's models", "anthropic") from missing

from toolcrib.integrations.formats import export, named_ids
from toolcrib.integrations.selection import (
    SEARCH_DESCRIPTION,
    SEARCH_PARAMETERS,
    AnyCrib,
    tools_wanted,
)
from toolcrib.records import Scope, Turn

SEARCH_TOOL_NAME = "find_tools"
"""Name of the tool that searches the deferred tools."""

NO_TOOL_FITS = "No tool here fits. Say in other words what the tool must do, or go on without one."


def turn_tools(
    crib: AnyCrib, turn: Turn | str, *, k: int | None = None
) -> tuple[list[ToolParam], dict[str, str]]:
    """Return the `tools=` of a turn, and the ids by their names.

    Raises:
        StoreError: a store does not answer.
    """
    tools = [hit.tool for hit in crib.route(turn, k=k).tools.tools]
    return cast("list[ToolParam]", export(tools, "anthropic")), named_ids(tools, "anthropic")


def deferred_tools(
    crib: AnyCrib, *, scope: Scope | None = None
) -> tuple[list[ToolParam], dict[str, str]]:
    """Return all enabled tools in reach as deferred tools after the search tool, and their ids.

    The list is the same at every request, so that a prompt cache holds. Tools of your own may be
    added.

    Raises:
        StoreError: the store does not answer.
    """
    tools = sorted(
        (tool for tool in crib.list_tools(scope=scope) if tool.enabled), key=lambda tool: tool.id
    )
    search = {"name": SEARCH_TOOL_NAME, "description": SEARCH_DESCRIPTION}
    search_tool = {**search, "input_schema": dict(SEARCH_PARAMETERS)}
    listed = [search_tool, *export(tools, "anthropic-deferred")]
    return cast("list[ToolParam]", listed), named_ids(tools, "anthropic-deferred")


def search_result(
    crib: AnyCrib, call: ToolUseBlock, *, k: int = 5, scope: Scope | None = None
) -> ToolResultBlockParam | None:
    """Answer a call of the search with a `tool_result`; None for a call of another tool.

    Raises:
        StoreError: the store does not answer.
    """
    if call.name != SEARCH_TOOL_NAME:
        return None
    tools = tools_wanted(crib, call.input, k=k, scope=scope)
    content = export(tools, "tool_reference") or [{"type": "text", "text": NO_TOOL_FITS}]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    return cast("ToolResultBlockParam", result)
