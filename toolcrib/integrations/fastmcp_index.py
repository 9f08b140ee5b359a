"""An index of the tools that a FastMCP server shows, which follows what it shows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from fastmcp.tools.base import Tool

from toolcrib.crib import Crib
from toolcrib.indexers.readers.mcp import tool_specs
from toolcrib.records import FindResult, ToolSpec
from toolcrib.settings import Settings
from toolcrib.store.base import point_id
from toolcrib.store.filters import HasId

__all__ = ["VisibleTools"]

SPARE = 1000
"""Tools that nobody sees at the moment, yet that are kept: one caller's view hides another's."""


class VisibleTools:
    """Finds tools among those that are handed in; safe for several threads.

    Callers may see different tools, and of one name different versions, so a tool stands in
    the index under its name and digest, and each search is narrowed to what its caller sees.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._crib: Crib | None = None
        self._lock = threading.Lock()
        self._read: dict[str, tuple[Tool, ToolSpec]] = {}
        self._kept: OrderedDict[str, None] = OrderedDict()

    def find(self, tools: Sequence[Tool], query: str, k: int) -> FindResult:
        """The tools among these that fit a query; a hit's `name` is the tool's.

        Raises:
            QueryError: a query without words.
        """
        with self._lock:
            specs = [spec for tool in tools if (spec := self._spec(tool)) is not None]
            crib = self._synced(specs)
        seen = HasId(frozenset(point_id(spec.id) for spec in specs))
        return crib.find_tools(query, k, where=None if len(specs) == len(self._kept) else seen)

    def close(self) -> None:
        """Let go of the index."""
        with self._lock:
            if self._crib is not None:
                self._crib.close()
            self._crib = None
            self._kept.clear()

    def _synced(self, specs: list[ToolSpec]) -> Crib:
        """The index with these tools in it."""
        if self._crib is None:
            self._crib = Crib.open(":memory:", settings=self._settings)
        new = [spec for spec in specs if spec.id not in self._kept]
        if new:
            self._crib.index_tools(new)
        for spec in specs:
            self._kept[spec.id] = None
            self._kept.move_to_end(spec.id)
        self._forget(2 * len(specs) + SPARE)
        return self._crib

    def _forget(self, most: int) -> None:
        assert self._crib is not None
        oldest = list(self._kept)[: max(0, len(self._kept) - most)]
        if oldest:
            self._crib.remove_tools(*oldest)
        for tool_id in oldest:
            del self._kept[tool_id]

    def _spec(self, tool: Tool) -> ToolSpec | None:
        """The tool as we know it; None for one whose description cannot be read."""
        last = self._read.get(tool.name)
        if last is not None and _is_same(last[0], tool):
            return last[1]
        described = tool.to_mcp_tool().model_dump(mode="json", by_alias=True, exclude_none=True)
        for spec in tool_specs("FastMCP", "tools", [described], ""):
            if isinstance(spec, ToolSpec):
                known = spec.model_copy(update={"id": f"{spec.name}@{spec.digest}"})
                self._read[tool.name] = (tool, known)
                return known
        return None


def _is_same(kept: Tool, tool: Tool) -> bool:
    """Whether two tools read alike. A server may make its tools anew for every listing."""
    return kept is tool or (
        kept.description == tool.description
        and kept.parameters == tool.parameters
        and kept.output_schema == tool.output_schema
        and (kept.title, kept.version, kept.tags) == (tool.title, tool.version, tool.tags)
        and kept.annotations == tool.annotations
        and kept.meta == tool.meta
    )
