"""One diff drives it all: what is new is encoded, what is equal is left alone.

The order of writes makes every moment safe to die in. The lexical context (average length,
shared prefixes) is written first, with a mark on what still rests on an older one; then points
page by page, each durable when reported; then removals; then the marked points' lexical vectors
are weighed anew and the mark goes. A run that finds a mark finishes that work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.lexical_context import LexicalContext, shared_prefixes
from toolcrib.indexers.plan import Plan
from toolcrib.indexers.points import draft
from toolcrib.indexers.render import FieldWeights, lexical_counts
from toolcrib.indexers.writing import Listener, Writer, ignore
from toolcrib.records import IndexReport, Refusal, ToolSpec
from toolcrib.store.base import Record, Store
from toolcrib.store.payload import read_tool

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
        progress: Listener = ignore,
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
        prefixes = self._prefixes(kept, plan.items.values())
        context = before.with_prefixes(prefixes, {k.server for k in kept})
        drafts = plan.prepared(
            lambda spec: draft(spec, self._lexical, self._weights, prefixes.get(spec.server, ())),
            lambda spec, error: Refusal("", spec.id, str(error)),
        )
        context = context.with_lengths([k.length for k in kept], [d.length for d in drafts])

        def counts(record: Record) -> Mapping[str, float]:
            spec = read_tool(record.payload)
            prefix = prefixes.get(spec.server, ())
            return lexical_counts(spec, self._lexical, self._weights, prefix)

        self._writer.apply(drafts, plan.removed, (before, context), counts, progress)
        return plan.report()

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


def _diff(entries: Iterable[Entry], known: Mapping[str, _Known]) -> Plan[ToolSpec]:
    plan = Plan[ToolSpec]()
    origin: dict[str, str] = {}
    for source, item in entries:
        if isinstance(item, Refusal):
            plan.refused.append(item)
        elif (twin := plan.items.get(item.id)) is None:
            plan.items[item.id] = item
            origin[item.id] = source
        elif twin.digest != item.digest:
            reason = (
                f"the id {item.id!r} already stands for a different tool in {origin[item.id]}; "
                "give one of them another name, server or id"
            )
            plan.refused.append(Refusal(source, item.id, reason))
    plan.compare({tool_id: kept.digest for tool_id, kept in known.items()}, _digest)
    return plan


def _plan_removals(plan: Plan[ToolSpec], known: Mapping[str, _Known], server: str | None) -> None:
    gone = [
        tool_id
        for tool_id, kept in known.items()
        if tool_id not in plan.items and server in (None, kept.server)
    ]
    reason = (
        f"{len(gone)} tools are in no source, but were kept: {len(plan.refused)} entries were "
        "refused and may stand for them; mend those and prune again"
    )
    plan.prune(gone, reason)


def _digest(spec: ToolSpec) -> str:
    return spec.digest
