"""The tools of a crib: in, out, and how sure their ranking is."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Literal

from toolcrib import wiring
from toolcrib.encoders.base import DenseEncoder, FloatArray, Reranker
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import IndexMismatchError, UnknownToolError
from toolcrib.identity import calibration_identity, difference, index_identity
from toolcrib.indexers.points import layout
from toolcrib.indexers.readers.registry import ToolSource, tool_entries
from toolcrib.indexers.sync import ToolSync
from toolcrib.indexers.writer import Listener, ignore
from toolcrib.rebuilding import copy_tools
from toolcrib.records import Facets, FindResult, IndexReport, Scope, ToolSpec
from toolcrib.retrieval.calibration import (
    Calibration,
    Head,
    load_calibration,
    save_calibration,
    usable_calibration,
)
from toolcrib.retrieval.gate import Assessor
from toolcrib.retrieval.hybrid import Evidence, HybridRetriever
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.settings import Settings
from toolcrib.store.base import Identity, Store, point_id
from toolcrib.store.filters import Filter, all_of, from_scope, matches, validate
from toolcrib.store.payload import FACETS, count_facets, read_tool

__all__ = ["ToolCounter"]

MAX_NEAREST = 20_000
"""Ids that are looked through for one like an unknown one: a tenth of a second's work."""


class ToolCounter:
    """A counter of tools: put them in, ask for those that fit. Safe for several threads."""

    def __init__(
        self,
        store: Store,
        dense: DenseEncoder,
        settings: Settings,
        *,
        reranker: Reranker | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._dense = dense
        self._lexical = LexicalEncoder(settings.lexical)
        self._reranker = reranker or wiring.make_reranker(settings)
        self._identity = index_identity(dense, self._lexical, settings)
        self._writing = threading.Lock()
        self._signed = False
        self._sync = ToolSync(store, dense, self._lexical, settings.fields)
        self.use_calibration(usable_calibration(self._store, self.calibration_identity()))

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
        found = [entry for source in sources for entry in tool_entries(source, server, format)]
        try:
            with self._writing:
                self._sign()
                return self._sync.run(
                    found,
                    prune=prune,
                    prune_server=server,
                    progress=progress or ignore,
                )
        finally:
            self._changed(tools=True)

    def remove_tools(self, *ids: str) -> None:
        """Remove tools by id.

        Raises:
            UnknownToolError: there is no such tool; none is removed then.
        """
        with self._writing:
            for tool_id in ids:
                self.get_tool(tool_id)
            self._store.delete([point_id(tool_id) for tool_id in ids])
        self._changed(tools=True)

    # -- tools out ---------------------------------------------------------------------------

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
        """The `k` tools that fit the query best, ranked; none when the gate finds none to fit.

        `scope` is what the caller may use; `where` narrows further. Both hold inside every
        leg; only the scope decides over which tools word frequencies are counted. `explain`
        adds what each leg contributed and which words matched nothing. Without `gate` the
        verdict is given, but nothing is withheld for it. With `k="auto"` come as many tools as
        hold all that are needed with the probability `coverage`, if the query is like those
        that `calibrate` saw.

        Raises:
            QueryError: an empty query, an impossible `k`, or an unknown field in `where`.
            CalibrationError: `k="auto"` or the gate asks what no calibration tells.
            StoreError: the store does not answer.
        """
        return self._retriever.find(
            query,
            k,
            scope=scope,
            where=where,
            explain=explain,
            gate=gate,
            coverage=coverage,
        )

    def get_tool(self, tool_id: str, *, scope: Scope | None = None) -> ToolSpec:
        """The specification with this id; what a scope does not allow is as unknown as the rest.

        Raises:
            UnknownToolError: there is none; the nearest ids are named.
        """
        allowed = from_scope(scope)
        for record in self._store.retrieve([point_id(tool_id)]):
            if allowed is None or matches(allowed, record.id, record.payload):
                return read_tool(record.payload)
        some = islice(self._store.scroll(allowed, ("id",)), MAX_NEAREST)
        known = [record.payload["id"] for record in some]
        raise UnknownToolError(tool_id, tuple(get_close_matches(tool_id, known, n=3)))

    def list_tools(
        self,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        after: str | None = None,
    ) -> Iterator[ToolSpec]:
        """Every tool in reach, disabled ones too, in an order of the store's own.

        `after` begins behind the tool of this id, which need not be there any more.
        """
        if where is not None:
            validate(where)
        first = None if after is None else point_id(after)
        allowed = all_of(from_scope(scope), where)
        for record in self._store.scroll(allowed, ("spec",), after=first):
            yield read_tool(record.payload)

    def facets(self, *, scope: Scope | None = None) -> Facets:
        """How many tools there are in reach, by server, category, tag and sensitivity."""
        return count_facets(
            record.payload for record in self._store.scroll(from_scope(scope), FACETS)
        )

    # -- calibration -------------------------------------------------------------------------

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """The dense vectors of documents, as the index has them: float32 [n, dimensions]."""
        return self._dense.encode_documents(texts)

    def encode_query(self, text: str) -> EncodedQuery:
        """A query ready for the legs; `find_tools` and its like do this themselves."""
        return self._retriever.encode(text)

    def evidence(
        self, query: str, *, where: Filter | None = None, head: Head | None = None
    ) -> Evidence:
        """What is known of the ranking of a query, with this head; `calibrate` learns from it.

        Raises:
            QueryError, StoreError: as `find_tools`.
        """
        return self._retriever.evidence(query, where=where, head=head)

    def calibration_identity(self) -> Identity:
        """The models and settings whose scores a calibration maps."""
        return calibration_identity(self._identity, self._settings, self._reranker)

    def calibration(self) -> Calibration | None:
        """The calibration of the index: its own, or the shipped one where it holds.

        Raises:
            CalibrationError: its own is damaged or for other models, and so is not used.
        """
        return load_calibration(self._store, self.calibration_identity())

    def save_calibration(self, calibration: Calibration | None) -> None:
        """Keep a calibration beside the index and judge by it; None goes back to the shipped one.

        Raises:
            CalibrationError: it was made for other models or settings.
        """
        with self._writing:
            save_calibration(self._store, self.calibration_identity(), calibration)
        self.use_calibration(usable_calibration(self._store, self.calibration_identity()))

    def use_calibration(self, calibration: Calibration | None) -> None:
        """Judge by this calibration until the crib is closed; None gives no confidence."""
        self._retriever = HybridRetriever(
            self._store,
            self._dense,
            self._lexical,
            self._settings.fusion,
            reranker=self._reranker,
            rerank_settings=self._settings.rerank,
            assessor=Assessor(self._store, self._settings.gate, calibration),
        )
        self._changed(tools=False)

    def refresh(self) -> None:
        """Look again at what another process may have changed.

        Raises:
            IndexMismatchError: it built the index anew, by other models.
        """
        self.check_index()
        self.use_calibration(usable_calibration(self._store, self.calibration_identity()))
        self._changed(tools=True)

    def _changed(self, *, tools: bool) -> None:
        """Hear that tools, or only what judges them, have changed."""

    # -- the index ---------------------------------------------------------------------------

    def _claim(self, *, rebuild: bool, progress: Listener | None) -> None:
        """Check that the index is ours to use, or make it so."""
        if rebuild and "identity" in self._store.read_meta():
            self._rebuild(progress)
        self.check_index()
        self._sign()

    def check_index(self) -> None:
        """See whether the index is one of ours; one that nobody wrote to is anybody's.

        Raises:
            IndexMismatchError: other models, settings or format made it.
        """
        found = self._store.read_meta().get("identity", self._identity)
        if found != self._identity:
            raise IndexMismatchError(difference(found, self._identity))

    def _sign(self) -> None:
        """Say in a new index what its points are made with."""
        if not self._signed:
            meta = self._store.read_meta()
            if "identity" not in meta:
                self._store.write_meta({**meta, "identity": self._identity})
            self._signed = True

    def _rebuild(self, progress: Listener | None) -> None:
        """Encode every tool again into a store beside, and swap it in."""
        with self._store.renew(layout(self._dense.dimensions)) as beside:
            copy_tools(self._store, beside, self._dense, self._settings, progress)
