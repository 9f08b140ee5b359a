"""Documents brought up to date in one collection: what has not changed is not encoded again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.protocols import DenseEncoder
from toolcrib.errors import SpecError
from toolcrib.indexers.points import (
    FieldWeights,
    digest_of,
    draft,
    draft_passage,
    lexical_counts,
    passage_counts,
)
from toolcrib.indexers.writer import LexicalContext, Listener, Writer, ignore, shared_prefixes
from toolcrib.records import IndexReport, Passage, Refusal, ToolSpec
from toolcrib.store.payload import read_passage, read_tool
from toolcrib.store.protocol import Record, Store

__all__ = ["Entry", "PassageEntry", "PassageSync", "Plan", "ToolSync"]

# -- the difference --------------------------------------------------------------------------------

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(slots=True)
class Plan(Generic[Item]):
    """What was read, by id, and what each id is to the store."""

    items: dict[str, Item] = field(default_factory=dict[str, Item])
    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    refused: list[Refusal] = field(default_factory=list[Refusal])

    def compare(self, known: Mapping[str, str], digest: Callable[[Item], str]) -> None:
        """Tell what is new, changed and unchanged; `known` are the store's digests by id."""
        for item_id, item in self.items.items():
            if item_id not in known:
                self.added.append(item_id)
            elif known[item_id] != digest(item):
                self.changed.append(item_id)
            else:
                self.unchanged.append(item_id)

    def prepared(
        self,
        prepare: Callable[[Item], Made],
        refusal: Callable[[Item, SpecError], Refusal],
    ) -> list[Made]:
        """Prepare what must be written; a text that cannot be kept is refused here."""
        made: list[Made] = []
        for ids in (self.added, self.changed):
            for item_id in list(ids):
                try:
                    made.append(prepare(self.items[item_id]))
                except SpecError as error:
                    ids.remove(item_id)
                    self.refused.append(refusal(self.items[item_id], error))
        return made

    def prune(self, gone: Iterable[str], reason: str) -> None:
        """Remove what no source names; while anything is refused, say `reason` instead."""
        doomed = sorted(gone)
        if doomed and self.refused:
            self.refused.append(Refusal("--prune", "", reason))
        else:
            self.removed.extend(doomed)

    def report(self) -> IndexReport:
        """What the run did."""
        return IndexReport(
            tuple(self.added),
            tuple(self.changed),
            tuple(self.removed),
            tuple(self.unchanged),
            tuple(self.refused),
        )


# -- tools -----------------------------------------------------------------------------------------

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


# -- passages --------------------------------------------------------------------------------------

PassageEntry: TypeAlias = tuple[str, Passage | Refusal]
"""Where something came from, and what it is."""


@dataclass(frozen=True, slots=True)
class _KnownPassage:
    """What the store already holds of one passage."""

    digest: str
    collection: str
    document: str
    length: float


class PassageSync:
    """Brings a store of passages up to date with what loaders yield."""

    def __init__(self, store: Store, dense: DenseEncoder, lexical: LexicalEncoder) -> None:
        self._store = store
        self._writer = Writer(store, dense, lexical)
        self._lexical = lexical

    def run(
        self,
        entries: Iterable[PassageEntry],
        *,
        prune: str | None = None,
        progress: Listener = ignore,
    ) -> IndexReport:
        """Write what is new or changed and report every id.

        What is left over of a document that became shorter goes. `prune` names a collection of
        which documents that no entry names go too, but none while anything is refused.

        Raises:
            StoreError: the store refused; what was reported before is durable.
        """
        known = self._known()
        plan = _diff_passages(entries, known)
        drafts = plan.prepared(lambda passage: draft_passage(passage, self._lexical), _unkept)
        _plan_passage_removals(plan, known, prune)
        touched = {*plan.changed, *plan.removed}
        kept = [each.length for id_, each in known.items() if id_ not in touched]
        before = LexicalContext.from_meta(self._store.read_meta())
        context = before.with_lengths(kept, [draft.length for draft in drafts])

        def counts(record: Record) -> Mapping[str, float]:
            return passage_counts(read_passage(record.payload), self._lexical)

        self._writer.apply(drafts, plan.removed, (before, context), counts, progress)
        return plan.report()

    def _known(self) -> dict[str, _KnownPassage]:
        fields = ("id", "digest", "collection", "document", "length")
        return {
            record.payload["id"]: _KnownPassage(**{f: record.payload[f] for f in fields[1:]})
            for record in self._store.scroll(fields=fields)
        }


def _diff_passages(
    entries: Iterable[PassageEntry], known: Mapping[str, _KnownPassage]
) -> Plan[Passage]:
    plan = Plan[Passage]()
    origin: dict[tuple[str, str], str] = {}
    for source, item in entries:
        if isinstance(item, Refusal):
            plan.refused.append(item)
            continue
        first = origin.setdefault((item.collection, item.document), source)
        if item.id not in plan.items and source == first:
            plan.items[item.id] = item
        elif plan.items.get(item.id) != item:
            reason = (
                f"{item.document!r} already stands for another document, from {first}; "
                "rename one of them, or give it another collection"
            )
            plan.refused.append(Refusal(source, f"part {item.position + 1}", reason))
    plan.compare({passage_id: kept.digest for passage_id, kept in known.items()}, digest_of)
    return plan


def _plan_passage_removals(
    plan: Plan[Passage], known: Mapping[str, _KnownPassage], prune: str | None
) -> None:
    """Leftovers of documents that were read again, and documents that no source names."""
    read = {(each.collection, each.document) for each in plan.items.values()}
    gone: list[str] = []
    for passage_id, kept in known.items():
        if passage_id in plan.items:
            continue
        if (kept.collection, kept.document) in read:
            plan.removed.append(passage_id)
        elif kept.collection == prune:
            gone.append(passage_id)
    reason = (
        f"{len(gone)} passages are in no source, but were kept: {len(plan.refused)} sources "
        "were refused and may hold them; mend those and prune again"
    )
    plan.prune(gone, reason)
    plan.removed.sort()


def _unkept(passage: Passage, error: SpecError) -> Refusal:
    return Refusal(passage.document, f"part {passage.position + 1}", str(error))
