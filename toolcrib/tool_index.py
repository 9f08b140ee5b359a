"""Tool index: stores tools, finds them by a query, and holds the calibration of its ranking."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import (
    IndexMismatchError,
    UnknownToolError,
    nearest,
    require_text,
    require_texts,
    require_type,
)
from toolcrib.fingerprint import calibration_fingerprint, mismatch_message, tool_fingerprint
from toolcrib.indexers.points import Draft, draft, layout
from toolcrib.records import FindResult, Scope, ToolLinks, ToolSpec
from toolcrib.records.answers import FilterEffect
from toolcrib.retrieval.assembly import arrange, widen_for_budget
from toolcrib.retrieval.calibration import (
    CALIBRATION_KEY,
    Calibration,
    lexical_calibration,
    load_calibration,
    save_calibration,
    usable_calibration,
)
from toolcrib.retrieval.examples import ExampleHead, ExampleHeads
from toolcrib.retrieval.gate import MAX_SET_TOOLS, Assessor
from toolcrib.retrieval.hybrid import HybridRetriever
from toolcrib.retrieval.learned import NO_LEARNED_DATA, UseData
from toolcrib.retrieval.options import SearchOptions, text_to_search
from toolcrib.retrieval.prerequisites import links_of
from toolcrib.retrieval.rerank import ToolRerankers, tool_reranker
from toolcrib.settings import Settings
from toolcrib.store.base import Identity, Record, Store, StoreInfo, point_id
from toolcrib.store.filters import Filter, all_of, from_scope, matches, parts_by_reason, validate
from toolcrib.store.payload import FACET_FIELDS, count_facets, only_tools, read_tool, tool_payload

if TYPE_CHECKING:
    from toolcrib.indexers.enrichment import Enrichments
    from toolcrib.indexers.integrity import Discrepancy
    from toolcrib.indexers.readers.registry import ToolSource
    from toolcrib.indexers.sync import Screen
    from toolcrib.indexers.writer import Listener
    from toolcrib.records import Facets, IndexReport
    from toolcrib.records.reports import ToolReadiness, Unready
    from toolcrib.store.copier import Copier

_MAX_COMPARED_IDS = 20_000
"""Ids compared with an unknown id for the nearest names; takes a tenth of a second."""


class ToolIndex:
    """Tools of a store, indexed and found by queries. Safe for several threads.

    `version` grows with every change of the tools, of the calibration or of learned examples; a
    change of the latter two also renews the `retriever`.
    """

    def __init__(
        self,
        store: Store,
        dense: DenseEncoder,
        settings: Settings,
        *,
        reranker: ToolRerankers | None = None,
    ) -> None:
        self.store = store
        self.dense = dense
        self.settings = settings
        self.reranker = reranker
        self._versions = count(1)
        self.version = 0
        self._lexical = LexicalEncoder(settings.lexical)
        self._fingerprint = tool_fingerprint(dense, self._lexical, settings)
        self._writing = threading.Lock()
        self.is_closed = False
        self._heads = ExampleHeads(store)
        self._learned_from_use = NO_LEARNED_DATA
        self.use_calibration(usable_calibration(store, self.calibration_fingerprint()))

    # -- tools in ----------------------------------------------------------------------------

    def index(
        self,
        *sources: ToolSource,
        server: str | None = None,
        format: str | None = None,
        prune: bool = False,
        screen: Screen | None = None,
        overlays: Sequence[str | Path] = (),
        enrichments: Sequence[str | Path | Enrichments] = (),
        progress: Listener | None = None,
    ) -> IndexReport:
        """Bring the index up to date with the sources, as `Crib.index_tools`."""
        from toolcrib.indexers.enrichment import prepare_entries
        from toolcrib.indexers.readers.registry import tool_entries
        from toolcrib.indexers.sync import ToolSync, require_entries
        from toolcrib.indexers.writer import ignore

        read = [entry for source in sources for entry in tool_entries(source, server, format)]
        found, dropped = prepare_entries(
            require_entries(read, prune=prune), screen, overlays, enrichments
        )
        passed = {entry.id for _, entry in found if isinstance(entry, ToolSpec)}
        ids = sorted(passed)
        held = [e for _, e in read if isinstance(e, ToolSpec) and e.id not in passed]
        try:
            with self._writing:
                self._write_fingerprint()
                sync = ToolSync(self.store, self.dense, self._lexical, self.settings.fields)
                report = sync.run(
                    found,
                    held=held,
                    prune=prune,
                    prune_server=server,
                    progress=progress or ignore,
                )
                ids = [*report.added, *report.changed, *report.removed]
                return replace(report, dropped=dropped)
        finally:
            self._heads.forget([point_id(tool_id) for tool_id in ids])
            self.version = next(self._versions)

    def remove(self, *ids: str) -> None:
        """Remove tools by id, as `Crib.remove_tools`."""
        with self._writing:
            points = [point_id(self.get(tool_id).id) for tool_id in ids]
            self.store.delete(points)
            self._heads.forget(points)
            self.version = next(self._versions)

    # -- tools out ---------------------------------------------------------------------------

    def find(self, query: str | None, options: SearchOptions | None = None) -> FindResult:
        """Tools that fit a query, best first, as `Crib.find_tools`."""
        given, own = options or SearchOptions(), self.settings.tools
        least = own.least if given.least is None and given.gate else given.least
        coverage = own.coverage if given.coverage is None else given.coverage
        options = replace(given, least=least, coverage=coverage)
        query, unlimited = text_to_search(query, options), widen_for_budget(options)
        read = dict[int, Record]()
        found = self.retriever.find(query, unlimited, read=read)
        found = self.retriever.complete(found, unlimited, read)
        if options.explain and options.where is not None:
            found = replace(found, filtered=self._filter_effect(query, options, options.where))
        return arrange(found, options)

    def _filter_effect(
        self, query: str | None, options: SearchOptions, where: Filter
    ) -> FilterEffect:
        """Count the tools, found without the filter in the same scope, that the filter excludes."""
        plain = SearchOptions(MAX_SET_TOOLS, options.scope, gate=False, needs=options.needs)
        hits = self.retriever.find(query, plain).tools
        found = [(point_id(hit.id), tool_payload(hit.tool)) for hit in hits]
        left_out = sum(not matches(where, *each) for each in found)
        parts = parts_by_reason(where)
        lacking = Counter(lack for lack, part in parts for x in found if not matches(part, *x))
        return FilterEffect(len(found), left_out, dict(lacking.most_common()))

    def get(self, tool_id: str, *, scope: Scope | None = None) -> ToolSpec:
        """Specification of a tool, as `Crib.get_tool`."""
        require_text(tool_id, "id")
        for record in self.store.retrieve([point_id(tool_id)]):
            if record.payload["id"] == tool_id and _is_within(scope, record.payload):
                return read_tool(record.payload)
        compared = islice(self.store.scroll(from_scope(scope), ("id",)), _MAX_COMPARED_IDS)
        raise UnknownToolError(tool_id, nearest(tool_id, (r.payload["id"] for r in compared)))

    def by_name(self, name: str, *, scope: Scope | None = None) -> ToolSpec | None:
        """Specification of the only tool in scope with a name, in any of the name's spellings."""
        found = only_tools((name,), lambda where: self.scroll(scope=scope, where=where))
        return found.get(name)

    def readiness(
        self,
        ids: Iterable[str],
        *,
        scope: Scope | None = None,
        granted: Scope | None = None,
        held: Iterable[ToolSpec] = (),
    ) -> tuple[ToolReadiness, ...]:
        """Readiness of tools for a call, as `Crib.check_tools`.

        A tool that is not `granted` is unknown; a granted tool outside of `scope` is out of scope.
        """
        from toolcrib.records.reports import ToolReadiness

        wanted = dict.fromkeys(ids)
        require_texts(wanted, "ids")
        back = {spec.id: tool_payload(spec) for spec in held}
        records = self.store.retrieve(list(map(point_id, wanted)))
        kept = {record.payload["id"]: record.payload for record in records}

        def reason(tool_id: str) -> Unready | None:
            payload = kept.get(tool_id) or back.get(tool_id)
            if payload is None or not _is_within(granted, payload):
                return "unknown"
            if not _is_within(scope, payload):
                return "out_of_scope"
            if tool_id not in kept:
                return "quarantined"
            return "disabled" if payload["enabled"] == "false" else None

        return tuple(ToolReadiness.of(tool_id, reason(tool_id)) for tool_id in wanted)

    def links(self, tool_id: str, *, scope: Scope | None = None) -> ToolLinks:
        """Links between a tool and other tools in scope, as `Crib.tool_links`."""
        self.get(tool_id, scope=scope)
        return links_of(self.store, tool_id, from_scope(scope), self._learned_from_use.goes_with)

    def scroll(
        self,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        after: str | None = None,
    ) -> Iterator[ToolSpec]:
        """All tools in scope, disabled tools too, as `Crib.list_tools`."""
        require_type(after, str | None, "id `after`", "a text")
        if where is not None:
            validate(where)
        first = None if after is None else point_id(after)
        allowed = all_of(from_scope(scope), where)
        for record in self.store.scroll(allowed, ("spec",), after=first):
            yield read_tool(record.payload)

    def settings_warnings(self) -> Iterator[str]:
        """Warning about `gate.fallback`, if that tool is unknown or disabled and tools exist."""
        general = self.settings.gate.fallback
        if general is None or next(iter(self.store.scroll(fields=("id",))), None) is None:
            return
        try:
            if not self.get(general).enabled:
                yield f"gate.fallback: the tool {general!r} is disabled"
        except UnknownToolError as error:
            yield f"gate.fallback: {error}"

    def facets(self, *, scope: Scope | None = None) -> Facets:
        """Number of tools in scope by server, category, tag and sensitivity."""
        records = self.store.scroll(from_scope(scope), FACET_FIELDS)
        return count_facets(record.payload for record in records)

    # -- ranking and calibration -------------------------------------------------------------

    def example_head(self) -> ExampleHead | None:
        """Head over the examples of all tools; None if there are too few examples."""
        return self._heads.head(None)

    def calibration_fingerprint(self) -> Identity:
        """Models and settings whose scores a calibration maps."""
        return calibration_fingerprint(self._fingerprint, self.dense, self.settings, self.reranker)

    def calibration(self) -> Calibration | None:
        """Calibration of the index: its own, else the shipped calibration if it applies.

        Raises:
            CalibrationError: the index's own calibration is damaged or for other models.
        """
        return load_calibration(self.store, self.calibration_fingerprint())

    def save_calibration(self, calibration: Calibration | None) -> None:
        """Store a calibration with the index and use it; None restores the shipped calibration.

        Raises:
            CalibrationError: the calibration was made for other models or settings.
        """
        with self._writing:
            save_calibration(self.store, self.calibration_fingerprint(), calibration)
        self.use_calibration(usable_calibration(self.store, self.calibration_fingerprint()))

    def use_calibration(self, calibration: Calibration | None) -> None:
        """Use this calibration until the index is closed; None gives no confidence."""
        lexical = lexical_calibration(calibration, self.calibration_fingerprint())
        self._assessor = Assessor(
            self.store, self.settings.gate, calibration, lexical, examples=self._heads
        )
        self._renew_retriever()

    def use_learned(self, known: UseData) -> None:
        """Re-order answers by these learned examples, in place of earlier ones."""
        if known != NO_LEARNED_DATA or self._learned_from_use != NO_LEARNED_DATA:
            self._learned_from_use = known
            self._renew_retriever()

    def _renew_retriever(self) -> None:
        self.retriever = HybridRetriever(
            self.store,
            self.dense,
            self._lexical,
            self.settings.fusion,
            reranker=tool_reranker(self.reranker, self.settings.rerank),
            assessor=self._assessor,
            learned=self._learned_from_use,
        )
        self.version = next(self._versions)

    # -- the index ---------------------------------------------------------------------------

    def faults(self) -> Iterator[Discrepancy]:
        """Stored tools that differ from a new encoding of their specifications; encodes all."""
        from toolcrib.indexers.integrity import find_faults
        from toolcrib.indexers.sync import NamePrefixes, scope_group

        prefixes = NamePrefixes.from_meta(self.store.read_meta())

        def redraft(record: Record) -> Draft:
            prefix = prefixes.of(scope_group(record.payload))
            return draft(read_tool(record.payload), self._lexical, self.settings.fields, prefix)

        return find_faults(self.store, self.dense, self._lexical, redraft)

    def info(self) -> tuple[StoreInfo, Identity]:
        """Description of the store, and the fingerprint of its index."""
        return self.store.info(), dict(self._fingerprint)

    def claim(self, *, rebuild: bool = False, progress: Listener | None = None) -> None:
        """Check the fingerprint of the index, or write that of a new index.

        `rebuild` encodes the index anew.
        """
        if rebuild and "identity" in self.store.read_meta():
            copy = tool_copier(self.dense, self.settings, progress)
            with self.store.renew(layout(self.dense.dimensions), copy) as beside:
                copy(self.store, beside)
            self._heads.forget()
        self.check()
        self._write_fingerprint()

    def check(self) -> None:
        """Check the fingerprint of the index; an index without a fingerprint passes.

        Raises:
            IndexMismatchError: other models, settings or format made the index.
        """
        found = self.store.read_meta().get("identity", self._fingerprint)
        if found != self._fingerprint:
            raise IndexMismatchError(mismatch_message(found, self._fingerprint))

    def refresh(self) -> None:
        """Read fingerprint, examples and calibration again after another process's write."""
        self.check()
        self._heads.forget()
        self.use_calibration(usable_calibration(self.store, self.calibration_fingerprint()))

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        self.is_closed = True
        self.store.close()

    def _write_fingerprint(self) -> None:
        if "identity" not in self.store.read_meta():
            self.store.write_meta({"identity": self._fingerprint})


def _is_within(scope: Scope | None, payload: Mapping[str, Any]) -> bool:
    where = from_scope(scope)
    return where is None or matches(where, point_id(payload["id"]), payload)


def tool_copier(
    dense: DenseEncoder, settings: Settings, progress: Listener | None = None
) -> Copier[ToolSpec]:
    """Copier of all tools of a store, encoded anew."""
    from toolcrib.indexers.sync import ToolSync
    from toolcrib.indexers.writer import ignore
    from toolcrib.store.copier import Copier

    lexical = LexicalEncoder(settings.lexical)
    identity = {"identity": tool_fingerprint(dense, lexical, settings)}

    def write(target: Store, specs: list[tuple[str, ToolSpec]]) -> IndexReport:
        sync = ToolSync(target, dense, lexical, settings.fields)
        return sync.run(specs, progress=progress or ignore)

    def convert(entries: Mapping[str, Any]) -> dict[str, Any]:
        # The calibration is copied too: if it no longer applies, loading it says why.
        return identity | {k: value for k, value in entries.items() if k == CALIBRATION_KEY}

    return Copier(read_tool, lambda payload: payload["id"], write, convert)
