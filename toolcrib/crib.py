"""The face: what a library user holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Self, TypeAlias

from toolcrib import wiring
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.protocols import DenseEncoder
from toolcrib.errors import IndexMismatchError, UnknownToolError
from toolcrib.indexers.points import layout
from toolcrib.indexers.render import RENDER_VERSION
from toolcrib.indexers.sources import ToolSource, entries
from toolcrib.indexers.sync import ToolSync, ignore
from toolcrib.records import FindResult, IndexProgress, IndexReport, Scope, ToolSpec
from toolcrib.retrieval.hybrid import HybridRetriever
from toolcrib.settings import Settings, load_settings
from toolcrib.store.filters import Filter, all_of, from_scope, validate
from toolcrib.store.payload import read_tool
from toolcrib.store.protocol import Identity, Store, StoreInfo, point_id

__all__ = ["Crib"]

FORMAT_VERSION = 1
"""Raise it when points are laid out in another way: indexes of another format are refused."""

Listener: TypeAlias = Callable[[IndexProgress], None]


class Crib:
    """A counter of tools: put them in, ask for those that fit.

    Safe to use from several threads; one process at a time holds a folder. Use as a context
    manager, or call `close`.
    """

    def __init__(self, store: Store, dense: DenseEncoder, settings: Settings) -> None:
        lexical = LexicalEncoder(settings.lexical)
        self._settings = settings
        self._store = store
        self._dense = dense
        self._lexical = lexical
        self._identity = _identity(dense, lexical, settings)
        self._writing = threading.Lock()
        self._sync = ToolSync(store, dense, lexical, settings.fields)
        self._retriever = HybridRetriever(
            store,
            dense,
            lexical,
            settings.fusion,
            reranker=wiring.make_reranker(settings),
            rerank_settings=settings.rerank,
        )

    @classmethod
    def open(
        cls,
        location: str | Path | None = None,
        *,
        settings: Settings | None = None,
        rebuild: bool = False,
        progress: Listener | None = None,
    ) -> Self:
        """Open a folder (made if missing), a Qdrant server's URL, or `:memory:`.

        `location` defaults to the settings' `store`. `rebuild` renews the index
        beside the old one, which is swapped out at the end; `progress` hears how far that is.

        Raises:
            StoreLockedError: another process has the folder open.
            StoreUnavailableError: the server does not answer.
            IndexMismatchError: other models, settings or format made the index.
        """
        settings = settings or load_settings()
        dense = wiring.make_dense(settings)
        where = str(location if location is not None else settings.store)
        store = wiring.open_store(where, layout(dense.dimensions), settings)
        try:
            crib = cls(store, dense, settings)
            crib._claim(rebuild=rebuild, progress=progress)
        except BaseException:
            store.close()
            raise
        return crib

    # -- tools in ----------------------------------------------------------------------------

    def index_tools(
        self,
        *sources: ToolSource,
        server: str | None = None,
        format: str | None = None,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """Bring the index up to date with the sources; what is unchanged is not encoded again.

        `server` overrides every tool's server. `format` forces a reader. `prune` removes
        tools that no source names (of `server` only, when given). Wrong entries are
        refused in the report, and never keep the good ones out.

        Raises:
            StoreError: the store refused; tools reported to `progress` before are durable.
        """
        found = [entry for source in sources for entry in entries(source, server, format)]
        with self._writing:
            return self._sync.run(
                found,
                prune=prune,
                prune_server=server,
                progress=progress or ignore,
            )

    def remove_tools(self, *ids: str) -> None:
        """Remove tools by id.

        Raises:
            UnknownToolError: there is no such tool; none is removed then.
        """
        with self._writing:
            for tool_id in ids:
                self.get_tool(tool_id)
            self._store.delete([point_id(tool_id) for tool_id in ids])

    # -- tools out ---------------------------------------------------------------------------

    def find_tools(
        self,
        query: str,
        k: int = 5,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        explain: bool = False,
    ) -> FindResult:
        """The `k` tools that fit the query best, ranked.

        `scope` is what the caller may use; `where` narrows further. Both hold inside every
        leg; only the scope decides over which tools word frequencies are counted. `explain`
        adds what each leg contributed and which words matched nothing.

        Raises:
            QueryError: the query is empty, `k` < 1, or `where` names an unknown field.
            StoreError: the store does not answer.
        """
        return self._retriever.find(query, k, scope=scope, where=where, explain=explain)

    def get_tool(self, tool_id: str) -> ToolSpec:
        """The specification with this id.

        Raises:
            UnknownToolError: there is none; the nearest ids are named.
        """
        records = self._store.retrieve([point_id(tool_id)])
        if not records:
            known = [record.payload["id"] for record in self._store.scroll(fields=("id",))]
            raise UnknownToolError(tool_id, tuple(get_close_matches(tool_id, known, n=3)))
        return read_tool(records[0].payload)

    def list_tools(
        self,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
    ) -> Iterator[ToolSpec]:
        """Every tool in reach, disabled ones too, in no particular order."""
        if where is not None:
            validate(where)
        for record in self._store.scroll(all_of(from_scope(scope), where), ("spec",)):
            yield read_tool(record.payload)

    # -- asynchronous twins ------------------------------------------------------------------

    async def aindex_tools(
        self,
        *sources: ToolSource,
        server: str | None = None,
        format: str | None = None,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """As `index_tools`, in a thread; `progress` is called from that thread."""
        return await asyncio.to_thread(
            self.index_tools,
            *sources,
            server=server,
            format=format,
            prune=prune,
            progress=progress,
        )

    async def afind_tools(
        self,
        query: str,
        k: int = 5,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        explain: bool = False,
    ) -> FindResult:
        """As `find_tools`, in a thread, so that the event loop goes on."""
        return await asyncio.to_thread(
            self.find_tools,
            query,
            k,
            scope=scope,
            where=where,
            explain=explain,
        )

    # -- life --------------------------------------------------------------------------------

    def info(self) -> tuple[StoreInfo, Identity]:
        """What the store is, and by what its index was built."""
        return self._store.info(), dict(self._identity)

    def close(self) -> None:
        """Flush and let go of the store; a second call does nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await asyncio.to_thread(self.close)

    def _claim(self, *, rebuild: bool, progress: Listener | None) -> None:
        """Check that the index is ours to use, or make it so."""
        meta = self._store.read_meta()
        found = meta.get("identity")
        if found is None:
            self._store.write_meta({**meta, "identity": self._identity})
        elif found != self._identity and not rebuild:
            raise IndexMismatchError(_difference(found, self._identity))
        elif rebuild:
            self._rebuild(progress)

    def _rebuild(self, progress: Listener | None) -> None:
        """Encode every tool again into a store beside, and swap it in."""
        specs = [("the index", read_tool(r.payload)) for r in self._store.scroll(fields=("spec",))]
        with self._store.renew(layout(self._dense.dimensions)) as beside:
            beside.write_meta({"identity": self._identity})
            sync = ToolSync(beside, self._dense, self._lexical, self._settings.fields)
            sync.run(specs, progress=progress or ignore)


def _identity(dense: DenseEncoder, lexical: LexicalEncoder, settings: Settings) -> Identity:
    return {
        "format": FORMAT_VERSION,
        "dense": dense.name,
        "dimensions": dense.dimensions,
        "lexical": lexical.name,
        "fields": {"version": RENDER_VERSION, **asdict(settings.fields)},
    }


def _difference(found: Identity, wanted: Identity) -> str:
    differing = [
        f"{key} {found.get(key)!r}, now {wanted.get(key)!r}"
        for key in sorted({*found, *wanted})
        if found.get(key) != wanted.get(key)
    ]
    return (
        f"the index was built with {'; '.join(differing)}; build it anew with "
        "`toolcrib index --rebuild`, or go back to those settings"
    )
