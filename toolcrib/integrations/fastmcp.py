"""Our search for any FastMCP server: `mcp.add_transform(ToolcribSearchTransform())`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from toolcrib.errors import MissingExtraError, QueryError

try:
    from fastmcp.server.context import Context
    from fastmcp.server.transforms.search.base import BaseSearchTransform
    from fastmcp.tools.base import Tool, ToolResult
except ImportError as missing:
    raise MissingExtraError("the search of a FastMCP server", "gateway") from missing

from toolcrib.integrations.fastmcp_answers import (
    SEARCHES,
    definition,
    failure,
    found,
    unknown_tool,
)
from toolcrib.integrations.fastmcp_index import VisibleTools
from toolcrib.records import FindResult
from toolcrib.settings import Settings

__all__ = ["ToolcribSearchTransform"]

FIND = "find_tools"
CALL = "call_tool"
MAX_FOUND = 50

Query = Annotated[str, "What the tool must do, in a few words"]
Count = Annotated[int | None, "How many tools at most; leave it out for the usual number"]


class ToolcribSearchTransform(BaseSearchTransform):
    """Shows `find_tools` and `call_tool` in place of a server's long list of tools.

    What is searched are the tools that the caller may see, whatever hides the others: `auth`,
    visibility, middleware. They are indexed in memory when first searched; later only what
    changed is encoded again. `k` tools a search; those named in `always_visible` stay listed.
    """

    def __init__(
        self,
        *,
        k: int = 5,
        always_visible: Sequence[str] = (),
        settings: Settings | None = None,
    ) -> None:
        super().__init__(
            max_results=k,
            always_visible=list(always_visible),
            search_tool_name=FIND,
            call_tool_name=CALL,
        )
        self._index = VisibleTools(settings)
        self._search_tool = self._searching()
        self._calling_tool = self._calling()

    def close(self) -> None:
        """Let go of the index; a later search makes a new one."""
        self._index.close()

    # -- what is shown -----------------------------------------------------------------------

    def _make_search_tool(self) -> Tool:
        return self._search_tool

    def _make_call_tool(self) -> Tool:
        return self._calling_tool

    def _searching(self) -> Tool:
        async def find_tools(
            query: Query,
            k: Count = None,
            ctx: Context = None,  # type: ignore[assignment]  # FastMCP puts it in
        ) -> ToolResult:
            """Find tools by what they do. Answers with their names and arguments, best first.

            Use it before you say that something cannot be done. Then call the tool that fits
            by call_tool.
            """
            return await self._find(ctx, query, k)

        return Tool.from_function(fn=find_tools, name=FIND, annotations=SEARCHES)

    def _calling(self) -> Tool:
        async def call_tool(
            name: Annotated[str, "The tool's name, as find_tools gave it"],
            arguments: Annotated[dict[str, Any] | None, "What its inputSchema asks for"] = None,
            ctx: Context = None,  # type: ignore[assignment]  # FastMCP puts it in
        ) -> ToolResult:
            """Call a tool that find_tools has named."""
            return await self._call(ctx, name, arguments)

        return Tool.from_function(fn=call_tool, name=CALL)

    # -- what they do ------------------------------------------------------------------------

    async def _find(self, ctx: Context, query: str, k: int | None) -> ToolResult:
        """Search among what the caller may see."""
        tools = await self._get_visible_tools(ctx)
        try:
            result = await self._ranked(tools, query, k)
        except QueryError as error:
            return failure(f"{error}.")
        named = {tool.name: tool for tool in tools}
        return found(result, [_defined(named[hit.name]) for hit in result.tools])

    async def _call(self, ctx: Context, name: str, arguments: Mapping[str, Any] | None) -> Any:
        """Call what the caller may see; nothing else is there."""
        names = {tool.name for tool in await self.get_tool_catalog(ctx)}
        if name not in names:
            return unknown_tool(name, names, FIND)
        return await ctx.fastmcp.call_tool(name, dict(arguments or {}))

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        named = {tool.name: tool for tool in tools}
        return [named[hit.name] for hit in (await self._ranked(tools, query)).tools]

    async def _ranked(self, tools: Sequence[Tool], query: str, k: int | None = None) -> FindResult:
        most = min(max(1, k or self._max_results), MAX_FOUND)
        return await asyncio.to_thread(self._index.find, tools, query, most)


def _defined(tool: Tool) -> dict[str, Any]:
    described = tool.to_mcp_tool()
    return definition(described.model_dump(mode="json", by_alias=True, exclude_none=True))
