"""The asynchronous twins of every call, over connections of the event loop's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from toolcrib.client import documents, indexing, tools, turns
from toolcrib.client.lines import AsyncLine
from toolcrib.client.parcels import packed_passages
from toolcrib.indexers.readers.registry import ToolSource
from toolcrib.indexers.writer import Listener
from toolcrib.records import (
    Collection,
    Context,
    Decision,
    Facets,
    FindResult,
    IndexReport,
    KnowledgeResult,
    Outcome,
    Passage,
    Scope,
    ToolHit,
    ToolSpec,
    Turn,
)
from toolcrib.store.base import Identity, StoreInfo
from toolcrib.store.filters import Filter

__all__ = ["AsyncTwins"]


class AsyncTwins:
    """What a remote crib does where it may not block: each as the method without its `a`."""

    _url: str
    _async_line: AsyncLine

    async def aindex_tools(
        self,
        *sources: ToolSource,
        server: str | None = None,
        format: str | None = None,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """As `index_tools`; sources are read in a thread, as they may be files or servers."""
        read = partial(indexing.read_sources, sources, server, format)
        packed = await asyncio.to_thread(read)
        steps = indexing.index_tools(packed, server=server, prune=prune, progress=progress)
        return await self._async_line.run(steps)

    async def aremove_tools(self, *ids: str) -> None:
        """As `remove_tools`."""
        await self._async_line.run(indexing.remove_tools(ids))

    async def afind_tools(self, query: str, k: int | Literal["auto"] = 5, **how: Any) -> FindResult:
        """As `find_tools`, with its keywords."""
        return await self._async_line.ask(tools.find_tools(query, k, **how))

    async def aget_tool(self, tool_id: str, *, scope: Scope | None = None) -> ToolSpec:
        """As `get_tool`."""
        return await self._async_line.run(tools.get_tool(tool_id, scope))

    async def alist_tools(
        self,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        after: str | None = None,
    ) -> AsyncIterator[ToolSpec]:
        """As `list_tools`, to go through with `async for`."""
        while True:
            page = await self._async_line.ask(tools.tools_page(scope, where, after))
            for tool in page.tools:
                yield tool
            if page.next is None:
                return
            after = page.next

    async def afacets(self, *, scope: Scope | None = None) -> Facets:
        """As `facets`."""
        return await self._async_line.run(tools.facets(scope))

    async def aindex_docs(
        self,
        *sources: str | Path,
        collection: str,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """As `index_docs`; sources are read in a thread."""
        packed = await asyncio.to_thread(documents.read_documents, sources, collection)
        pruned = collection if prune else None
        steps = documents.index_passages(packed, prune=pruned, progress=progress)
        return await self._async_line.run(steps)

    async def aindex_passages(
        self, passages: Iterable[Passage], *, progress: Listener | None = None
    ) -> IndexReport:
        """As `index_passages`."""
        packed = packed_passages(("", passage) for passage in passages)
        return await self._async_line.run(documents.index_passages(packed, progress=progress))

    async def aremove_docs(self, collection: str, *names: str) -> int:
        """As `remove_docs`."""
        return await self._async_line.run(documents.remove_docs(collection, names))

    async def aadd_collections(self, *collections: Collection) -> None:
        """As `add_collections`."""
        await self._async_line.ask(documents.add_collections(collections))

    async def alist_collections(
        self, *, scope: Scope | None = None
    ) -> list[tuple[Collection, int]]:
        """As `list_collections`."""
        return await self._async_line.run(documents.list_collections(scope))

    async def afind_knowledge(self, query: str, *, scope: Scope | None = None) -> KnowledgeResult:
        """As `find_knowledge`."""
        return await self._async_line.ask(turns.find_knowledge(query, scope=scope))

    async def adetect(self, turn: Turn | str) -> Context:
        """As `detect`."""
        return await self._async_line.ask(turns.detect(turn))

    async def aroute(self, turn: Turn | str, **how: Any) -> Decision:
        """As `route`, with its keywords."""
        return await self._async_line.ask(turns.route(turn, **how))

    async def aalternates(
        self, failed_tool: str, turn: Turn | str, *, decision_id: str | None = None, k: int = 3
    ) -> tuple[ToolHit, ...]:
        """As `alternates`."""
        call = turns.alternates(failed_tool, turn, decision_id=decision_id, k=k)
        return await self._async_line.ask(call)

    async def areport_outcome(
        self, decision_id: str, tool: str, outcome: Outcome, *, took_ms: float | None = None
    ) -> None:
        """As `report_outcome`."""
        call = turns.report_outcome(decision_id, tool, outcome, took_ms=took_ms)
        await self._async_line.ask(call)

    async def afeedback(self, decision_id: str, **said: Any) -> None:
        """As `feedback`."""
        await self._async_line.ask(turns.feedback(decision_id, **said))

    async def ainfo(self) -> tuple[StoreInfo, Identity]:
        """As `info`."""
        return await self._async_line.run(tools.info(self._url))
