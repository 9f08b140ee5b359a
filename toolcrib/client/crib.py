"""The face of a service: what `Crib` is, but somewhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from toolcrib.client import documents, indexing, tools, turns
from toolcrib.client.address import Address
from toolcrib.client.lines import AsyncLine, Line
from toolcrib.client.parcels import packed_passages
from toolcrib.client.twins import AsyncTwins
from toolcrib.client.wire import Manner, Wire
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
from toolcrib.router.recovery import RecoveryPolicy
from toolcrib.store.base import Identity, StoreInfo
from toolcrib.store.filters import Filter

__all__ = ["RemoteCrib"]


class RemoteCrib(AsyncTwins):
    """A crib behind a service's URL, with the methods and errors of one that is embedded.

    Sources of tools and documents are read on this side. `timeout_s` is for one attempt; up to
    `attempts` are made where that does no harm, with the pauses that the service asks for. Every
    call has an `a...` twin, and raises `ServiceError` or one below it where the service does not
    answer as it should. Safe for several threads and event loops. A context manager.

    Raises:
        SettingsError: `url` is no URL of a service, or a key cannot be one.
        MissingExtraError: the extra `client` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        namespace: str | None = None,
        timeout_s: float = 10.0,
        attempts: int = 4,
    ) -> None:
        address = Address.of(url, api_key, namespace)
        wire = Wire(address, Manner(timeout_s, attempts))
        self._url = address.url
        self._line = Line(wire)
        self._async_line = AsyncLine(wire)

    # -- tools -------------------------------------------------------------------------------

    def index_tools(
        self,
        *sources: ToolSource,
        server: str | None = None,
        format: str | None = None,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """As `Crib.index_tools`; what the service holds back for approval is refused, too."""
        packed = indexing.read_sources(sources, server, format)
        steps = indexing.index_tools(packed, server=server, prune=prune, progress=progress)
        return self._line.run(steps)

    def remove_tools(self, *ids: str) -> None:
        """As `Crib.remove_tools`."""
        self._line.run(indexing.remove_tools(ids))

    def find_tools(
        self,
        query: str,
        k: int | Literal["auto"] = 5,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        explain: bool = False,
        gate: bool = True,
        coverage: float = 0.95,
    ) -> FindResult:
        """As `Crib.find_tools`, within what the key allows; numbers have six decimals."""
        call = tools.find_tools(
            query, k, scope=scope, where=where, explain=explain, gate=gate, coverage=coverage
        )
        return self._line.ask(call)

    def get_tool(self, tool_id: str, *, scope: Scope | None = None) -> ToolSpec:
        """As `Crib.get_tool`."""
        return self._line.run(tools.get_tool(tool_id, scope))

    def list_tools(
        self,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        after: str | None = None,
    ) -> Iterator[ToolSpec]:
        """As `Crib.list_tools`, asked for in pages while they are gone through."""
        while True:
            page = self._line.ask(tools.tools_page(scope, where, after))
            yield from page.tools
            if page.next is None:
                return
            after = page.next

    def facets(self, *, scope: Scope | None = None) -> Facets:
        """As `Crib.facets`; with a scope, all tools in reach are listed for it."""
        return self._line.run(tools.facets(scope))

    # -- knowledge ---------------------------------------------------------------------------

    def index_docs(
        self,
        *sources: str | Path,
        collection: str,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """As `Crib.index_docs`; with `prune`, all goes in one request."""
        packed = documents.read_documents(sources, collection)
        pruned = collection if prune else None
        return self._line.run(documents.index_passages(packed, prune=pruned, progress=progress))

    def index_passages(
        self, passages: Iterable[Passage], *, progress: Listener | None = None
    ) -> IndexReport:
        """As `Crib.index_passages`."""
        packed = packed_passages(("", passage) for passage in passages)
        return self._line.run(documents.index_passages(packed, progress=progress))

    def remove_docs(self, collection: str, *names: str) -> int:
        """As `Crib.remove_docs`."""
        return self._line.run(documents.remove_docs(collection, names))

    def add_collections(self, *collections: Collection) -> None:
        """As `Crib.add_collections`."""
        self._line.ask(documents.add_collections(collections))

    def list_collections(self, *, scope: Scope | None = None) -> list[tuple[Collection, int]]:
        """As `Crib.list_collections`."""
        return self._line.run(documents.list_collections(scope))

    def find_knowledge(self, query: str, *, scope: Scope | None = None) -> KnowledgeResult:
        """As `Crib.find_knowledge`."""
        return self._line.ask(turns.find_knowledge(query, scope=scope))

    # -- turns -------------------------------------------------------------------------------

    def detect(self, turn: Turn | str) -> Context:
        """As `Crib.detect`."""
        return self._line.ask(turns.detect(turn))

    def route(
        self,
        turn: Turn | str,
        *,
        k: int | None = None,
        budget_ms: float | None = None,
        shown: Sequence[str] = (),
    ) -> Decision:
        """As `Crib.route`; the service's log says by which key."""
        return self._line.ask(turns.route(turn, k=k, budget_ms=budget_ms, shown=shown))

    def alternates(
        self, failed_tool: str, turn: Turn | str, *, decision_id: str | None = None, k: int = 3
    ) -> tuple[ToolHit, ...]:
        """As `Crib.alternates`."""
        return self._line.ask(turns.alternates(failed_tool, turn, decision_id=decision_id, k=k))

    def report_outcome(
        self, decision_id: str, tool: str, outcome: Outcome, *, took_ms: float | None = None
    ) -> None:
        """As `Crib.report_outcome`; not repeated where it may have got through."""
        self._line.ask(turns.report_outcome(decision_id, tool, outcome, took_ms=took_ms))

    def feedback(self, decision_id: str, **said: Any) -> None:
        """As `Crib.feedback`; not repeated where it may have got through."""
        self._line.ask(turns.feedback(decision_id, **said))

    @property
    def recovery(self) -> RecoveryPolicy:
        """What an agent's loop asks after a failed call; it never waits by itself."""
        return RecoveryPolicy()

    # -- life --------------------------------------------------------------------------------

    def info(self) -> tuple[StoreInfo, Identity]:
        """The service's engine, the tools in reach, its encoder and a digest of its index."""
        return self._line.run(tools.info(self._url))

    def close(self) -> None:
        """Let go of all connections; a second call does nothing."""
        self._line.close()
        self._async_line.close()

    async def aclose(self) -> None:
        """As `close`, and those of this event loop are gone when it returns."""
        self._line.close()
        await self._async_line.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"RemoteCrib({self._url!r})"
