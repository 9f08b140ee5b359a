"""One diff drives it all: what is new is encoded, what is equal is left alone.

The order of writes makes every moment safe to die in. The lexical context (average length,
shared prefixes) is written first, with a mark on what still rests on an older one; then points
page by page, each durable when reported; then removals; then the marked points' lexical vectors
are weighed anew and the mark goes. A run that finds a mark finishes that work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.protocols import DenseEncoder, SparseVector
from toolcrib.errors import SpecError
from toolcrib.indexers.lexical_context import LexicalContext, shared_prefixes
from toolcrib.indexers.points import Draft, draft
from toolcrib.indexers.render import FieldWeights, lexical_counts
from toolcrib.indexers.writing import PAGE, Writer, ignore, pages
from toolcrib.records import IndexProgress, IndexReport, Refusal, ToolSpec
from toolcrib.store.payload import read_tool
from toolcrib.store.protocol import Store, point_id

__all__ = ["Entry", "ToolSync"]

Entry: TypeAlias = tuple[str, ToolSpec | Refusal]
"""Where something came from, and what it is."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store already holds of one tool."""

    digest: str
    server: str
    name: str
    length: float


@dataclass(slots=True)
class _Plan:
    """The difference between what was read and what the store holds."""

    specs: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    refused: list[Refusal] = field(default_factory=list[Refusal])


class ToolSync:
    """Brings a store up to date with what readers yield."""

    def __init__(
        self,
        store: Store,
        dense: DenseEncoder,
        lexical: LexicalEncoder,
        weights: FieldWeights,
    ) -> None:
        self._store = store
        self._writer = Writer(store, dense, lexical)
        self._lexical = lexical
        self._weights = weights

    def run(
        self,
        entries: Iterable[Entry],
        *,
        prune: bool = False,
        prune_server: str | None = None,
        progress: Callable[[IndexProgress], None] = ignore,
    ) -> IndexReport:
        """Write what is new or changed and report every id.

        `prune` also removes tools that no entry names (of `prune_server` only, when given), but
        nothing while anything is refused: what could not be read may well stand for them.
        `progress` is called after each page, when its tools are durable.

        Raises:
            StoreError: the store refused; what was reported before is durable.
        """
        known = self._known()
        plan = _diff(entries, known)
        if prune:
            _plan_removals(plan, known, prune_server)
        before = LexicalContext.from_meta(self._store.read_meta())
        touched = {*plan.changed, *plan.removed}
        kept = [k for tool_id, k in known.items() if tool_id not in touched]
        prefixes = self._prefixes(kept, plan.specs.values())
        context = before.with_prefixes(prefixes, {k.server for k in kept})
        drafts = self._drafts(plan, context)
        context = context.with_lengths([k.length for k in kept], [d.length for d in drafts])
        if context != before:
            self._save(context)
        self._writer.write(drafts, context.average, progress)
        self._store.delete([point_id(tool_id) for tool_id in plan.removed])
        if context.stale or context.all_stale:
            self._reweigh(context, fresh={d.id for d in drafts})
            self._save(context.renewed())
        progress(IndexProgress(len(drafts), len(drafts), stage="optimise"))
        self._store.optimise()
        return IndexReport(
            tuple(plan.added),
            tuple(plan.changed),
            tuple(plan.removed),
            tuple(plan.unchanged),
            tuple(plan.refused),
        )

    def _known(self) -> dict[str, _Known]:
        fields = ("id", "digest", "server", "name", "length")
        return {
            record.payload["id"]: _Known(**{f: record.payload[f] for f in fields[1:]})
            for record in self._store.scroll(fields=fields)
        }

    def _prefixes(
        self,
        kept: Iterable[_Known],
        specs: Iterable[ToolSpec],
    ) -> dict[str, tuple[str, ...]]:
        named = {(tool.server, tool.name) for tools in (kept, specs) for tool in tools}
        return shared_prefixes(sorted(named), self._lexical)

    def _drafts(self, plan: _Plan, context: LexicalContext) -> list[Draft]:
        """Prepare what must be written; a text that cannot be kept is refused here."""
        drafts: list[Draft] = []
        for ids in (plan.added, plan.changed):
            for tool_id in list(ids):
                spec = plan.specs[tool_id]
                prefix = context.prefixes.get(spec.server, ())
                try:
                    drafts.append(draft(spec, self._lexical, self._weights, prefix))
                except SpecError as error:
                    ids.remove(tool_id)
                    plan.refused.append(Refusal("", tool_id, str(error)))
        return drafts

    def _reweigh(self, context: LexicalContext, fresh: set[str]) -> None:
        """Renew the lexical vectors of stale points; needs no dense encoding."""
        stale = (
            record
            for record in self._store.scroll(fields=("id", "server", "spec"))
            if record.payload["id"] not in fresh and context.is_stale(record.payload["server"])
        )
        for page in pages(list(stale), PAGE):
            vectors: dict[int, SparseVector] = {}
            for record in page:
                spec = read_tool(record.payload)
                prefix = context.prefixes.get(spec.server, ())
                counts = lexical_counts(spec, self._lexical, self._weights, prefix)
                vectors[record.id] = self._lexical.encode_document(counts, context.average)
            self._store.set_sparse("lexical", vectors)

    def _save(self, context: LexicalContext) -> None:
        self._store.write_meta({**self._store.read_meta(), "lexical": context.as_meta()})


def _diff(entries: Iterable[Entry], known: Mapping[str, _Known]) -> _Plan:
    plan = _Plan()
    origin: dict[str, str] = {}
    for source, item in entries:
        if isinstance(item, Refusal):
            plan.refused.append(item)
        elif (twin := plan.specs.get(item.id)) is None:
            plan.specs[item.id] = item
            origin[item.id] = source
        elif twin.digest != item.digest:
            reason = (
                f"the id {item.id!r} already stands for a different tool in {origin[item.id]}; "
                "give one of them another name, server or id"
            )
            plan.refused.append(Refusal(source, item.id, reason))
    for tool_id, spec in plan.specs.items():
        if tool_id not in known:
            plan.added.append(tool_id)
        elif known[tool_id].digest != spec.digest:
            plan.changed.append(tool_id)
        else:
            plan.unchanged.append(tool_id)
    return plan


def _plan_removals(plan: _Plan, known: Mapping[str, _Known], server: str | None) -> None:
    gone = [
        tool_id
        for tool_id, kept in known.items()
        if tool_id not in plan.specs and server in (None, kept.server)
    ]
    if gone and plan.refused:
        reason = (
            f"{len(gone)} tools are in no source, but were kept: {len(plan.refused)} entries were "
            "refused and may stand for them; mend those and prune again"
        )
        plan.refused.append(Refusal("--prune", "", reason))
    else:
        plan.removed.extend(sorted(gone))
