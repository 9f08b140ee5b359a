"""Anthropic integration: `tools=` for a turn, and a search for tools whose loading is deferred."""

from __future__ import annotations

from typing import cast

from toolcrib.errors import MissingExtraError

try:
    from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
except ImportError as missing:
    raise MissingExtraError("tools for Anthropic's models", "anthropic") from missing

from toolcrib.integrations.formats import export, named_ids
from toolcrib.integrations.selection import SEARCH_SAYS, SEARCH_TAKES, AnyCrib, tools_wanted
from toolcrib.records import Scope, Turn

SEARCH = "find_tools"
"""The name of the tool that searches the deferred ones."""

NOTHING = "No tool here fits. Say in other words what the tool must do, or go on without one."


def turn_tools(
    crib: AnyCrib, turn: Turn | str, *, k: int | None = None
) -> tuple[list[ToolParam], dict[str, str]]:
    """The `tools=` of a turn, and the ids that their names stand for.

    Raises:
        StoreError: a store does not answer.
    """
    tools = [hit.tool for hit in crib.route(turn, k=k).tools.tools]
    return cast("list[ToolParam]", export(tools, "anthropic")), named_ids(tools, "anthropic")


def deferred_tools(
    crib: AnyCrib, *, scope: Scope | None = None
) -> tuple[list[ToolParam], dict[str, str]]:
    """All enabled tools in reach as deferred ones, behind the tool that searches them, and ids.

    The list is the same at every request, so that a prompt cache holds. Tools of your own may
    stand beside them.

    Raises:
        StoreError: the store does not answer.
    """
    tools = sorted(
        (tool for tool in crib.list_tools(scope=scope) if tool.enabled), key=lambda tool: tool.id
    )
    search = {"name": SEARCH, "description": SEARCH_SAYS, "input_schema": dict(SEARCH_TAKES)}
    listed = [search, *export(tools, "anthropic-deferred")]
    return cast("list[ToolParam]", listed), named_ids(tools, "anthropic-deferred")


def search_result(
    crib: AnyCrib, call: ToolUseBlock, *, k: int = 5, scope: Scope | None = None
) -> ToolResultBlockParam | None:
    """The `tool_result` for a call of the search; None for one of another tool.

    Raises:
        StoreError: the store does not answer.
    """
    if call.name != SEARCH:
        return None
    tools = tools_wanted(crib, call.input, k=k, scope=scope)
    content = export(tools, "tool_reference") or [{"type": "text", "text": NOTHING}]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    return cast("ToolResultBlockParam", result)
