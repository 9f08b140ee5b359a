"""Sync: one diff for tools and one for passages; what is new is encoded, what is equal left alone.

The order of writes makes every moment safe to die in. The lexical context (shared prefixes) is
written first, with a mark on what still rests on an older one; then points
page by page, each durable when reported; then removals; then the marked points' lexical vectors
are weighed anew and the mark goes. A run that finds a mark finishes that work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import SourceError, SpecError
from toolcrib.indexers.points import (
    PASSAGE_TERMS,
    TOOL_TERMS,
    FieldWeights,
    digest_of,
    draft,
    draft_passage,
    lexical_counts,
    passage_counts,
)
from toolcrib.indexers.writer import (
    PAGE,
    LexicalContext,
    Listener,
    Writer,
    ignore,
    scope_group,
    shared_prefixes,
)
from toolcrib.records import IndexReport, Passage, Refusal, ToolSpec
from toolcrib.store.base import Record, Store, point_id
from toolcrib.store.filters import SCOPE_FIELDS, YIELDS_FIELD
from toolcrib.store.payload import ENRICHED_FIELD, read_passage, read_tool

__all__ = ["Entry", "PassageEntry", "PassageSync", "ReadSources", "Screen", "ToolSync", "readable"]

# -- the difference --------------------------------------------------------------------------------

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")

_WHY_KEPT = {
    "tools": "entries were refused and may stand for them",
    "passages": "sources were refused and may hold them",
}


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store already holds of one thing."""

    digest: str


@dataclass(slots=True)
class _Plan(Generic[_Item]):
    """What was read, by id, and what each id is to the store."""

    items: dict[str, _Item] = field(default_factory=dict[str, _Item])
    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    refused: list[Refusal] = field(default_factory=list[Refusal])
    copies: list[Refusal] = field(default_factory=list[Refusal])

    def compare(
        self,
        known: Mapping[str, _Known],
        digest: Callable[[_Item], str],
        source_of: Callable[[str], str],
    ) -> None:
        """Tell what is new, changed and unchanged to a store.

        What has the number of another id would take its place, and is refused.
        """
        owners = {point_id(item_id): item_id for item_id in known}
        for item_id, item in self.items.items():
            owner = owners.setdefault(point_id(item_id), item_id)
            if owner != item_id:
                reason = f"has the same number as {owner!r}; give it another name"
                self.refused.append(Refusal(source_of(item_id), item_id, reason))
            elif item_id not in known:
                self.added.append(item_id)
            elif known[item_id].digest != digest(item):
                self.changed.append(item_id)
            else:
                self.unchanged.append(item_id)

    def prepared(
        self, prepare: Callable[[_Item], _Made], refusal: Callable[[_Item, SpecError], Refusal]
    ) -> list[_Made]:
        """Prepare what must be written; a text that cannot be kept is refused here."""
        made: list[_Made] = []
        for ids in (self.added, self.changed):
            for item_id in list(ids):
                try:
                    made.append(prepare(self.items[item_id]))
                except SpecError as error:
                    ids.remove(item_id)
                    self.refused.append(refusal(self.items[item_id], error))
        return made

    def prune(self, gone: Iterable[str], things: Literal["tools", "passages"]) -> None:
        """Remove what no source names, unless anything is refused."""
        doomed = sorted(gone)
        if doomed and self.refused:
            reason = (
                f"{len(doomed)} {things} are in no source, but were kept: "
                f"{len(self.refused)} {_WHY_KEPT[things]}; mend those and prune again"
            )
            self.refused.append(Refusal("--prune", "", reason))
        else:
            self.removed.extend(doomed)

    def report(self) -> IndexReport:
        """What the run did."""
        ids = map(tuple, (self.added, self.changed, self.removed, self.unchanged))
        return IndexReport(*ids, refused=tuple(self.refused), copies=tuple(self.copies))


# -- sources ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadSources:
    """What sources held, with where each came from: read before anything is opened for it."""

    entries: Sequence[tuple[str, ToolSpec | Passage | Refusal]]

    @property
    def refused(self) -> tuple[Refusal, ...] | None:
        """The refusals, where there is nothing else to take; None where there is."""
        refused = tuple(item for _, item in self.entries if isinstance(item, Refusal))
        return refused if refused and len(refused) == len(self.entries) else None


def readable(entries: Sequence[_Made]) -> Sequence[_Made]:
    """The entries, of which at least one can be taken, or which are none at all.

    Raises:
        SourceError: all are refused; the first says why.
    """
    refused = ReadSources(cast("Any", entries)).refused
    if refused is None:
        return entries
    first, *more = refused
    told = f" (and {len(more)} more refused)" if more else ""
    raise SourceError(first.source, first.place, f"{first.reason}{told}; nothing was indexed")


# -- tools -----------------------------------------------------------------------------------------


Entry: TypeAlias = tuple[str, ToolSpec | Refusal]

Screen: TypeAlias = Callable[[Iterable[Entry]], list[Entry]]
"""What of the entries may come in: those that may not come back as refusals."""
"""Where something came from, and what it is."""


@dataclass(frozen=True, slots=True)
class _KnownTool(_Known):
    kind: str
    server: str
    name: str
    group: str
    enriched: bool


LATER_FIELDS = frozenset({"kind", YIELDS_FIELD})
"""What every tool has, and none that an earlier version wrote: such tools are written anew."""


def _known_tools(store: Store) -> dict[str, _KnownTool]:
    fields = ("id", "digest", "name", ENRICHED_FIELD, *LATER_FIELDS, *SCOPE_FIELDS)
    payloads = (record.payload for record in store.scroll(fields=fields))
    return {
        p["id"]: _KnownTool(
            _state(p["digest"], p["safety_tags"]) if p.keys() >= LATER_FIELDS else "",
            p.get("kind", "tool"),
            p["server"],
            p["name"],
            scope_group(p),
            ENRICHED_FIELD in p,
        )
        for p in payloads
    }


def _state(digest: str, safety_tags: Iterable[str]) -> str:
    """What tells whether a tool is as it was: an earlier version read no tags from annotations."""
    return " ".join((digest, *sorted(safety_tags)))


def _group(spec: ToolSpec) -> str:
    return scope_group({name: getattr(spec, name) for name in SCOPE_FIELDS})


class ToolSync:
    """Brings a store up to date with what readers yield."""

    def __init__(
        self, store: Store, dense: DenseEncoder, lexical: LexicalEncoder, weights: FieldWeights
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

        `prune` also removes tools that no entry names (of `prune_server` only, when given), and
        lets a skill take such a tool's id, or the reverse; but nothing while anything is refused:
        what could not be read may well stand for them.
        `progress` is called after each page, when its tools are durable.

        Raises:
            StoreError: the store refused; what was reported before is durable.
        """
        known = _known_tools(self._store)
        found = self._enriched(entries, known)
        listed = {(item.id, item.kind) for _, item in found if isinstance(item, ToolSpec)}
        gone = {
            tool_id
            for tool_id, tool in known.items()
            if prune and prune_server in (None, tool.server) and (tool_id, tool.kind) not in listed
        }
        plan = _diff(found, known, gone)
        if prune:
            plan.prune(gone - plan.items.keys(), "tools")
        before = LexicalContext.from_meta(self._store.read_meta())
        touched = {*plan.changed, *plan.removed}
        kept = [k for tool_id, k in known.items() if tool_id not in touched]
        named = {(tool.group, tool.name) for tool in kept if tool.server}
        named |= {(_group(spec), spec.name) for spec in plan.items.values() if spec.server}
        prefixes = shared_prefixes(sorted(named), self._lexical)
        context = before.with_prefixes(prefixes, {tool.group for tool in kept})
        context = context.with_average(TOOL_TERMS)
        drafts = plan.prepared(
            lambda spec: draft(spec, self._lexical, self._weights, prefixes.get(_group(spec), ())),
            lambda spec, error: Refusal("", spec.id, str(error)),
        )

        def counts(record: Record) -> Mapping[str, float]:
            prefix = prefixes.get(scope_group(record.payload), ())
            return lexical_counts(read_tool(record.payload), self._lexical, self._weights, prefix)

        self._writer.apply(drafts, plan.removed, (before, context), counts, progress)
        return plan.report()

    def _enriched(self, entries: Iterable[Entry], known: Mapping[str, _KnownTool]) -> list[Entry]:
        """The entries, each tool with the enrichment that it brings or that the store has of it.

        One that was written for another text is let go; an empty one says that there is none.
        """
        found = list(entries)
        specs = [item for _, item in found if isinstance(item, ToolSpec)]
        bare = [spec.id for spec in specs if spec.enrichment is None and spec.id in known]
        asked = [point_id(tool_id) for tool_id in bare if known[tool_id].enriched]
        pages = (asked[start : start + PAGE] for start in range(0, len(asked), PAGE))
        read = (
            read_tool(record.payload) for page in pages for record in self._store.retrieve(page)
        )
        held = {spec.id: spec for spec in read}
        return [
            (source, _with_enrichment(item, held.get(item.id)))
            if isinstance(item, ToolSpec)
            else (source, item)
            for source, item in found
        ]


def _with_enrichment(spec: ToolSpec, held: ToolSpec | None) -> ToolSpec:
    enrichment = spec.enrichment
    if enrichment is None and held is not None and held.enrichment:
        for_any = held.enrichment.digest is None
        enrichment = held.enrichment if for_any or _same_text(held, spec) else None
    return spec.model_copy(update={"enrichment": enrichment or None})


def _same_text(one: ToolSpec, other: ToolSpec) -> bool:
    """Whether a model that reads what they do reads the same of both."""
    fields = ("name", "server", "description", "input_schema", "output_schema")
    return all(getattr(one, field) == getattr(other, field) for field in fields)


def _diff(
    entries: Sequence[Entry], known: Mapping[str, _KnownTool], gone: Collection[str]
) -> _Plan[ToolSpec]:
    plan = _Plan[ToolSpec]()
    origin: dict[str, str] = {}
    if any(isinstance(item, Refusal) for _, item in entries):
        # What could not be read may well stand for them.
        gone = ()
    for source, item in entries:
        if isinstance(item, Refusal):
            plan.refused.append(item)
            continue
        taken, way_out = "", "give one of them another name, server or id"
        held = known.get(item.id)
        if held is not None and held.kind != item.kind and item.id not in gone:
            taken = f"{held.kind} in the index"
            way_out += f", or remove the {held.kind} with `toolcrib remove {item.id}`"
        elif (first := plan.items.setdefault(item.id, item)).digest != item.digest:
            taken = f"{first.kind} in {origin[item.id]}"
        elif item.id in origin:
            reason = f"a copy of the {item.kind} in {origin[item.id]}"
            plan.copies.append(Refusal(source, item.id, reason))
        else:
            origin[item.id] = source
        if taken:
            reason = f"the id {item.id!r} already stands for a different {taken}; {way_out}"
            plan.refused.append(Refusal(source, item.id, reason))
    plan.compare(
        known,
        lambda spec: _state(spec.digest, spec.all_safety_tags),
        lambda item_id: origin[item_id],
    )
    return plan


# -- passages --------------------------------------------------------------------------------------

PassageEntry: TypeAlias = tuple[str, Passage | Refusal]
"""Where something came from, and what it is."""


@dataclass(frozen=True, slots=True)
class _KnownPassage(_Known):
    collection: str
    document: str


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
        payloads = (
            record.payload
            for record in self._store.scroll(fields=("id", "digest", "collection", "document"))
        )
        known = {
            p["id"]: _KnownPassage(p["digest"], p["collection"], p["document"]) for p in payloads
        }
        plan = _diff_passages(entries, known)
        drafts = plan.prepared(
            lambda passage: draft_passage(passage, self._lexical),
            lambda passage, error: Refusal(
                passage.document, f"part {passage.position + 1}", str(error)
            ),
        )
        _plan_passage_removals(plan, known, prune)
        before = LexicalContext.from_meta(self._store.read_meta())
        context = before.with_average(PASSAGE_TERMS)

        self._writer.apply(
            drafts,
            plan.removed,
            (before, context),
            lambda record: passage_counts(read_passage(record.payload), self._lexical),
            progress,
        )
        return plan.report()


def _diff_passages(
    entries: Iterable[PassageEntry], known: Mapping[str, _KnownPassage]
) -> _Plan[Passage]:
    plan = _Plan[Passage]()
    origin: dict[tuple[str, str], str] = {}
    for source, item in entries:
        if isinstance(item, Refusal):
            plan.refused.append(item)
            continue
        first = origin.setdefault((item.collection, item.document), source)
        if item.id not in plan.items and source == first:
            plan.items[item.id] = item
        elif plan.items.get(item.id) == item:
            reason = f"a copy of the part of {item.document!r} from {first}"
            plan.copies.append(Refusal(source, f"part {item.position + 1}", reason))
        else:
            reason = (
                f"{item.document!r} already stands for another document, from {first}; "
                "rename one of them, or give it another collection"
            )
            plan.refused.append(Refusal(source, f"part {item.position + 1}", reason))
    plan.compare(known, digest_of, lambda item_id: plan.items[item_id].document)
    return plan


def _plan_passage_removals(
    plan: _Plan[Passage], known: Mapping[str, _KnownPassage], prune: str | None
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
    plan.prune(gone, "passages")
    plan.removed.sort()
