"""FastMCP's `BM25SearchTransform`: what an MCP client sees of a server with tool search."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.peers.names import unique_names
from toolcrib.encoders.base import DenseEncoder
from toolcrib.evaluation.systems.base import Baseline
from toolcrib.evaluation.systems.bm25 import parameters
from toolcrib.records import ToolSpec


class FastMcpBm25(Baseline):
    """A server in this process whose `search_tools` is called; nothing leaves the process.

    It returns the tools that share a word with the query, in order and without scores: the
    score here is 1 / place. It cannot be searched where an event loop already runs.
    """

    name = "fastmcp-bm25"
    package = "fastmcp"
    modules = ("fastmcp",)

    def __init__(self, encoder: DenseEncoder) -> None:
        super().__init__(encoder)
        self._runner: asyncio.Runner | None = None
        self._server: Any = None
        self._depth = 0
        self._ids: dict[str, str] = {}

    def _build(self, tools: Sequence[ToolSpec]) -> None:
        from fastmcp import FastMCP
        from fastmcp.server.transforms.search import BM25SearchTransform
        from fastmcp.tools.base import Tool

        # A name with a space is measured all the same; a warning of five lines each helps nobody.
        logging.getLogger("mcp.shared.tool_name_validation").setLevel(logging.ERROR)
        names = unique_names(tools)
        self._ids = {name: spec.id for name, spec in zip(names, tools, strict=True)}
        self._server = FastMCP("tools")
        for name, spec in zip(names, tools, strict=True):
            described = spec.description or None
            tool = Tool(name=name, description=described, parameters=_schema(spec))
            self._server.add_tool(tool)
        self._server.add_transform(
            # Its default of five results is too few to measure; the serialiser cuts them.
            BM25SearchTransform(max_results=len(tools), search_result_serializer=self._names),
        )
        self._runner = asyncio.Runner()

    def _names(self, tools: Sequence[Any]) -> list[dict[str, str]]:
        return [{"name": tool.name} for tool in tools[: self._depth]]

    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        if self._runner is None:
            return ()
        self._depth = depth
        called = self._runner.run(self._server.call_tool("search_tools", {"query": query}))
        found = called.structured_content["result"]
        return ((self._ids[each["name"]], 1 / place) for place, each in enumerate(found, start=1))

    def close(self) -> None:
        """Drop the server and close its event loop."""
        super().close()
        if self._runner is not None:
            self._runner.close()
        self._runner, self._server, self._ids = None, None, {}


def _schema(spec: ToolSpec) -> dict[str, Any]:
    # What its search reads of a schema, in a form that no malformed one can upset.
    described = {name: {"description": said} for name, said in parameters(spec)}
    return {"type": "object", "properties": described}
