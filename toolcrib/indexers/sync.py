"""Sync: one diff for tools and one for passages; new items are encoded, equal items skipped.

A run may be killed at any moment. First, shared name prefixes are written, with a mark on groups
whose vectors use older prefixes; then points page by page, durable when reported; then removals are
done; last, the lexical vectors of marked groups are renewed and the marks removed. The next run
finishes marked groups. A run reads only the stored items of its entries, unless it prunes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from toolcrib.encoders.base import DenseEncoder, SparseVector
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import QueryError, SourceError, SpecError, StoreError
from toolcrib.indexers.points import (
    PASSAGE_TERMS,
    TOOL_TERMS,
    Draft,
    FieldWeights,
    digest_of,
    draft,
    draft_passage,
    lexical_counts,
    shared_prefix,
)
from toolcrib.indexers.writer import ITEMS_PER_PAGE, Listener, Writer, ignore
from toolcrib.records import IndexReport, Passage, Refusal, ToolSpec
from toolcrib.store.base import Store, pages, point_id
from toolcrib.store.filters import SCOPE_FIELDS, And, AnyOf, Equals, Filter, HasId, Or
from toolcrib.store.payload import ENRICHED_FIELD, read_tool
from toolcrib.text import count_of

# -- the difference --------------------------------------------------------------------------------

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Plan(Generic[_Item]):
    """Items that were read, by id, and the fate of each id in the store."""

    items: dict[str, _Item] = field(default_factory=dict[str, _Item])
    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    refused: list[Refusal] = field(default_factory=list[Refusal])
    copies: list[Refusal] = field(default_factory=list[Refusal])

    def compare(
        self,
        known: Mapping[str, _StoredTool | _StoredPassage],
        digest: Callable[[_Item], str],
        sources: Mapping[str, str],
    ) -> None:
        """Sort the items into added, changed and unchanged.

        An item with the point number of another id is refused, as it would overwrite that point.
        """
        owners = {point_id(item_id): item_id for item_id in known}
        for item_id, item in self.items.items():
            owner = owners.setdefault(point_id(item_id), item_id)
            if owner != item_id:
                reason = f"has the same number as {owner!r}; give it another name"
                self.refused.append(Refusal(sources[item_id], item_id, reason))
            elif item_id not in known:
                self.added.append(item_id)
            elif known[item_id].digest != digest(item):
                self.changed.append(item_id)
            else:
                self.unchanged.append(item_id)

    def prepare_all(
        self, prepare: Callable[[_Item], _Result], place: Callable[[_Item], tuple[str, str]]
    ) -> list[_Result]:
        """Prepare the items to write; refuse items with texts that no store can keep.

        `place` is the source and the place of an item.
        """
        made: list[_Result] = []
        for ids in (self.added, self.changed):
            for item_id in list(ids):
                try:
                    made.append(prepare(self.items[item_id]))
                except SpecError as error:
                    ids.remove(item_id)
                    self.refused.append(Refusal(*place(self.items[item_id]), str(error)))
        return made

    def prune(self, gone: Iterable[str], thing: str, known: Collection[str] = ()) -> None:
        """Plan to remove the ids that no source has, unless a refused entry may stand for one.

        A refusal whose place is `known`, a tool or document that sources have, stands for no other.
        """
        doomed = sorted(gone)
        unknown = [each for each in self.refused if each.place not in known]
        if doomed and unknown:
            self.refused.append(refused_prune(len(doomed), thing, len(unknown)))
        else:
            self.removed.extend(doomed)

    def report(self) -> IndexReport:
        names = ("added", "changed", "removed", "unchanged", "refused", "copies")
        return IndexReport(**{name: tuple(getattr(self, name)) for name in names})


def refused_prune(gone: int, thing: str, refused: int) -> Refusal:
    """Refusal to remove what is gone from the sources, beside other refusals."""
    kept = f"{count_of(gone, thing)} in no source, but kept"
    why = f"{count_of(refused, 'refusal')} may stand for what is missing"
    return Refusal("--prune", "", f"{kept}: {why}; mend what was refused, and prune again")


# -- sources ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadSources:
    """Entries with their sources, read before a store is opened."""

    entries: Sequence[tuple[str, ToolSpec | Passage | Refusal]]

    @property
    def only_refusals(self) -> tuple[Refusal, ...] | None:
        """All entries if all are refusals; else None."""
        refused = tuple(item for _, item in self.entries if isinstance(item, Refusal))
        return refused if refused and len(refused) == len(self.entries) else None


def require_entries(entries: Sequence[_Result], *, prune: bool = False) -> Sequence[_Result]:
    """Return the entries, unless all of them are refusals, or none is left for `prune`.

    Raises:
        QueryError: `prune` is set and there is no entry, so that everything would be removed.
        SourceError: all entries are refused; with the first reason.
    """
    if prune and not entries:
        danger = "prune removes everything that no source has, and there is nothing in the sources"
        raise QueryError(f"{danger}; name a source with an entry, or remove by id")
    refused = ReadSources(cast("Any", entries)).only_refusals
    if refused is None:
        return entries
    first, *more = refused
    others = f" (and {len(more)} more refused)" if more else ""
    raise SourceError(first.source, first.place, f"{first.reason}{others}; nothing was indexed")


# -- name prefixes ---------------------------------------------------------------------------------

LEXICAL_META_PREFIX = "lexical/"
"""Prefix of the entries of the store's metadata with one group each."""


def scope_group(fields: Mapping[str, Any]) -> str:
    """Key of a group: tools that are equal in all scope fields; empty without a server.

    `fields` are a tool's payload, or its scope fields.
    """
    if not fields["server"]:
        return ""
    listed = ("tags", "safety_tags")
    values = [sorted(fields[n]) if n in listed else fields[n] for n in SCOPE_FIELDS]
    return json.dumps(values)


def in_groups(groups: Iterable[str]) -> Filter:
    """Filter that matches the tools of these groups, and also tools with more tags."""

    def in_group(group: str) -> Filter:
        pairs = zip(SCOPE_FIELDS, json.loads(group), strict=True)
        listed = ((n, one) for n, v in pairs for one in (v if n.endswith("tags") else [v]))
        return And(*(Equals(name, value) for name, value in listed if value))

    return Or(*map(in_group, groups))


def shared_prefixes(
    names: Iterable[tuple[str, str]], lexical: LexicalEncoder
) -> dict[str, tuple[str, ...]]:
    """Shared name prefix of each group that has one, from (group, name) pairs."""
    by_group: defaultdict[str, list[list[str]]] = defaultdict(list)
    for group, name in names:
        by_group[group].append(lexical.terms(name))
    found = {group: shared_prefix(terms) for group, terms in by_group.items() if group}
    return {group: prefix for group, prefix in found.items() if prefix}


@dataclass(frozen=True, slots=True)
class NamePrefixes:
    """Prefixes by group, kept in the metadata of the index.

    `stale`: groups with vectors that use an older prefix.
    """

    prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    stale: frozenset[str] = frozenset()

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> NamePrefixes:
        """Read the prefixes from the store's metadata."""
        start = LEXICAL_META_PREFIX
        kept = {k.removeprefix(start): v for k, v in meta.items() if k.startswith(start)}
        return cls(
            {group: tuple(each["prefix"]) for group, each in kept.items() if each["prefix"]},
            frozenset(group for group, each in kept.items() if each["stale"]),
        )

    def changes_since(self, before: NamePrefixes) -> dict[str, Any]:
        """Entries of the metadata that differ from those of `before`; None removes an entry."""
        own, old = self.entries(), before.entries()
        changed = {key: entry for key, entry in own.items() if entry != old.get(key)}
        return dict.fromkeys(old.keys() - own.keys()) | changed

    def entries(self) -> dict[str, Any]:
        """Entries of the metadata."""
        return {
            LEXICAL_META_PREFIX + g: {"prefix": list(self.of(g)), "stale": g in self.stale}
            for g in sorted({*self.prefixes, *self.stale})
        }

    def of(self, group: str) -> tuple[str, ...]:
        """Prefix of a group; empty if its tools share none."""
        return self.prefixes.get(group, ())


# -- tools -----------------------------------------------------------------------------------------

Entry: TypeAlias = tuple[str, ToolSpec | Refusal]
"""Source of a tool, and the tool or the reason why it is refused."""

Screen: TypeAlias = Callable[[Iterable[Entry]], list[Entry]]
"""Function that replaces entries by refusals, or leaves them out, if they may not be indexed."""


class _StoredTool(NamedTuple):
    digest: str
    kind: str
    server: str
    name: str
    group: str
    enriched: bool


_StoredTools: TypeAlias = Mapping[str, _StoredTool]


def _stored_tools(store: Store, filters: Iterable[Filter | None]) -> dict[str, _StoredTool]:
    """Stored tools that match one of the filters, by id."""
    fields = ("id", "kind", "digest", "name", ENRICHED_FIELD, *SCOPE_FIELDS)
    payloads = (r.payload for where in filters for r in store.scroll(where, fields))
    return {
        p["id"]: _StoredTool(
            _state(p["digest"], p["safety_tags"]),
            p["kind"],
            p["server"],
            p["name"],
            scope_group(p),
            ENRICHED_FIELD in p,
        )
        for p in payloads
    }


def is_current(store: Store, specs: Sequence[ToolSpec], where: Filter) -> bool:
    """True if the stored tools that match a filter are these, and no run was interrupted."""
    given = {spec.id: _as_stored(spec) for spec in specs}
    found = _stored_tools(store, [where])
    return found == given and not NamePrefixes.from_meta(store.read_meta()).stale


IDS_PER_REQUEST, GROUPS_PER_REQUEST = 1_000, 64

MAX_SETTLING_PASSES = 10
"""Most checks for tools of other processes; a process that still writes then checks last."""


def _with_ids(ids: Iterable[str]) -> Iterator[Filter]:
    """Filters for the points of these ids, and of other ids with the same numbers."""
    numbers = sorted({point_id(item_id) for item_id in ids})
    return (HasId(frozenset(page)) for page in pages(numbers, IDS_PER_REQUEST))


def _state(digest: str, safety_tags: Iterable[str]) -> str:
    """Digest and safety tags, as the digest lacks tags that follow from annotations."""
    return " ".join((digest, *sorted(safety_tags)))


def _group(spec: ToolSpec) -> str:
    fields = {name: getattr(spec, name) for name in SCOPE_FIELDS}
    return scope_group({**fields, "safety_tags": spec.all_safety_tags})


def _as_stored(spec: ToolSpec) -> _StoredTool:
    """Tool in the form in which `_stored_tools` will read it."""
    digest = _state(spec.digest, spec.all_safety_tags)
    enriched = bool(spec.enrichment)
    return _StoredTool(digest, spec.kind, spec.server, spec.name, _group(spec), enriched)


def _tools_of_groups(store: Store, groups: Collection[str]) -> dict[str, _StoredTool]:
    filters = map(in_groups, pages(sorted(groups), GROUPS_PER_REQUEST))
    return {i: tool for i, tool in _stored_tools(store, filters).items() if tool.group in groups}


class ToolSync:
    """Brings a store of tools up to date with the entries of readers."""

    def __init__(
        self, store: Store, dense: DenseEncoder, lexical: LexicalEncoder, weights: FieldWeights
    ) -> None:
        self._store = store
        self._writer = Writer(store, dense, lexical, TOOL_TERMS)
        self._lexical = lexical
        self._weights = weights

    def run(
        self,
        entries: Iterable[Entry],
        *,
        held: Sequence[ToolSpec] = (),
        prune: bool = False,
        prune_server: str | None = None,
        progress: Listener = ignore,
    ) -> IndexReport:
        """Write new and changed tools, and report every id.

        Indexed versions of `held` tools are removed. `prune` also removes tools without an entry
        (only of `prune_server`, if given), and lets a skill take such a tool's id, or the reverse.
        Nothing is pruned if an entry is refused that may be one of these tools. `progress` is
        called after each page, when its tools are durable.
        """
        entries = list(entries)
        ids = [item.id for _, item in entries if isinstance(item, ToolSpec)]
        ids += [spec.id for spec in held]
        known = _stored_tools(self._store, [None] if prune else _with_ids(ids))
        withdrawn = {i.id for i in held if i.id in known and known[i.id].kind == i.kind}
        found = self._with_enrichments(entries, known)
        listed = {(item.id, item.kind) for _, item in found if isinstance(item, ToolSpec)}
        gone = {
            tool_id
            for tool_id, tool in known.items()
            if prune and prune_server in (None, tool.server) and (tool_id, tool.kind) not in listed
        }
        plan = _diff(found, known, gone)
        plan.removed.extend(sorted(withdrawn))
        if prune:
            listed_ids = {spec.id for spec in held} | plan.items.keys()
            plan.prune(gone - listed_ids, "tool", listed_ids)
        else:
            # All tools of the groups that this run reads or writes.
            groups = {tool.group for tool in known.values()} | set(map(_group, plan.items.values()))
            known = _tools_of_groups(self._store, groups - {""}) | known
        before = NamePrefixes.from_meta(self._store.read_meta())
        prefixes = self._prefixes(before, plan, known)
        drafts = plan.prepare_all(
            lambda spec: draft(spec, self._lexical, self._weights, prefixes.of(_group(spec))),
            lambda spec: ("", spec.id),
        )
        self._store.write_meta(prefixes.changes_since(before))
        self._writer.apply(drafts, plan.removed, progress)
        if prefixes.stale:
            self._renew_lexical_vectors(prefixes, drafts)
        if self._store.is_remote:
            self._settle(known, plan)
        self._store.optimise()
        return plan.report()

    def _settle(self, before: _StoredTools, plan: _Plan[ToolSpec]) -> None:
        """Renew the groups that other processes wrote to during a run, until there are none.

        Each run checks after its last write, so the last of simultaneous runs sees all tools.
        """
        expected = {i: each for i, each in before.items() if i not in plan.removed}
        written = (plan.items[tool_id] for tool_id in (*plan.added, *plan.changed))
        expected |= {spec.id: _as_stored(spec) for spec in written}
        groups = {each.group for each in (*before.values(), *expected.values())} - {""}
        for _ in range(MAX_SETTLING_PASSES):
            found = _tools_of_groups(self._store, groups)
            others = set(found.items()) ^ {e for e in expected.items() if e[1].group in groups}
            moved = {each.group for _, each in others}
            if not moved:
                return
            names = {(each.group, each.name) for each in found.values() if each.group in moved}
            shared = shared_prefixes(sorted(names), self._lexical)
            prefixes = NamePrefixes(shared, frozenset(moved))
            self._store.write_meta(prefixes.changes_since(NamePrefixes()))
            self._renew_lexical_vectors(prefixes, ())
            expected = found

    def _prefixes(
        self, before: NamePrefixes, plan: _Plan[ToolSpec], known: _StoredTools
    ) -> NamePrefixes:
        """Prefixes after a run; `known` has all tools of the affected groups."""
        touched = {*plan.changed, *plan.removed}
        kept = [tool for tool_id, tool in known.items() if tool_id not in touched]
        written = [plan.items[tool_id] for tool_id in (*plan.added, *plan.changed)]
        names = {(tool.group, tool.name) for tool in kept}
        names |= {(_group(spec), spec.name) for spec in written}
        groups = {tool.group for tool in known.values()} | {group for group, _ in names}
        shared = shared_prefixes(sorted(names), self._lexical)
        others = {group: prefix for group, prefix in before.prefixes.items() if group not in groups}
        moved = {group for group in groups if before.of(group) != shared.get(group, ())}
        # A changed group whose tools are kept becomes stale.
        stale = before.stale | (moved & {tool.group for tool in kept})
        return NamePrefixes({**others, **shared}, stale)

    def _renew_lexical_vectors(self, prefixes: NamePrefixes, drafts: Sequence[Draft]) -> None:
        """Renew the lexical vectors of stale groups without dense encoding; remove their marks."""
        fresh = {draft.id for draft in drafts}
        groups = pages(sorted(prefixes.stale), GROUPS_PER_REQUEST)
        stale = {
            record.id: record.payload
            for where in map(in_groups, groups)
            for record in self._store.scroll(where)
            if record.payload["id"] not in fresh and scope_group(record.payload) in prefixes.stale
        }
        for page in pages(list(stale), ITEMS_PER_PAGE):
            vectors = {number: self._lexical_vector(stale[number], prefixes) for number in page}
            self._set_vectors(vectors)
        renewed = NamePrefixes(prefixes.prefixes)
        self._store.write_meta(renewed.changes_since(prefixes))

    def _set_vectors(self, vectors: Mapping[int, SparseVector]) -> None:
        """Replace lexical vectors, except of tools that another process removes meanwhile."""
        try:
            self._store.set_sparse("lexical", vectors)
        except StoreError:
            there = {record.id for record in self._store.retrieve(list(vectors))}
            if len(there) == len(vectors):
                raise
            self._store.set_sparse("lexical", {i: vectors[i] for i in there})

    def _lexical_vector(self, payload: Mapping[str, Any], prefixes: NamePrefixes) -> SparseVector:
        prefix = prefixes.of(scope_group(payload))
        counts = lexical_counts(read_tool(payload), self._lexical, self._weights, prefix)
        return self._lexical.encode_document(counts, TOOL_TERMS)

    def _with_enrichments(self, entries: Sequence[Entry], known: _StoredTools) -> list[Entry]:
        """Entries, each tool with its own enrichment, else with the stored enrichment.

        A stored enrichment for another version of the tool is dropped. An empty own enrichment
        removes the stored enrichment.
        """
        bare = [i.id for _, i in entries if isinstance(i, ToolSpec) and i.enrichment is None]
        asked = [point_id(i) for i in bare if i in known and known[i].enriched]
        retrieved = map(self._store.retrieve, pages(asked, ITEMS_PER_PAGE))
        specs = [read_tool(record.payload) for records in retrieved for record in records]
        held = {spec.id: spec for spec in specs}
        return [(source, _keep_enrichment(item, held)) for source, item in entries]


def _keep_enrichment(item: ToolSpec | Refusal, held: Mapping[str, ToolSpec]) -> ToolSpec | Refusal:
    if isinstance(item, Refusal):
        return item
    enrichment, stored = item.enrichment, held.get(item.id)
    if enrichment is None and stored is not None and stored.enrichment:
        # The fields whose texts are in an enrichment prompt.
        fields = ("name", "server", "description", "input_schema", "output_schema")
        is_same = all(getattr(stored, each) == getattr(item, each) for each in fields)
        enrichment = stored.enrichment if is_same or stored.enrichment.digest is None else None
    return item.model_copy(update={"enrichment": enrichment or None})


def distinct_tools(entries: Sequence[Entry]) -> tuple[list[ToolSpec], list[Refusal]]:
    """Tools that an empty index takes, one for each id, and what it refuses."""
    plan = _diff(entries, {}, ())
    return list(plan.items.values()), plan.refused


def _diff(entries: Sequence[Entry], known: _StoredTools, gone: Collection[str]) -> _Plan[ToolSpec]:
    plan = _Plan[ToolSpec]()
    origin: dict[str, str] = {}
    if any(isinstance(item, Refusal) for _, item in entries):
        # A refused entry may be one of these tools.
        gone = ()
    for source, item in entries:
        if isinstance(item, Refusal):
            plan.refused.append(item)
            continue
        taken, way_out = "", "give one of them another name, server or id"
        held, first = known.get(item.id), plan.items.get(item.id)
        if held is not None and held.kind != item.kind and item.id not in gone:
            taken = f"{held.kind} in the index"
            way_out += f", or remove the {held.kind} with `toolcrib remove {item.id}`"
        elif first is None:
            plan.items[item.id], origin[item.id] = item, source
        elif first.digest != item.digest:
            taken = f"{first.kind} in {origin[item.id]}"
        else:
            reason = f"a copy of the {item.kind} in {origin[item.id]}"
            plan.copies.append(Refusal(source, item.id, reason))
        if taken:
            reason = f"the id {item.id!r} already stands for a different {taken}; {way_out}"
            plan.refused.append(Refusal(source, item.id, reason))
    plan.compare(known, lambda spec: _state(spec.digest, spec.all_safety_tags), origin)
    return plan


# -- passages --------------------------------------------------------------------------------------

PassageEntry: TypeAlias = tuple[str, Passage | Refusal]
"""Source of a passage, and the passage or the reason why it is refused."""


class _StoredPassage(NamedTuple):
    digest: str
    collection: str
    document: str


DOCUMENTS_PER_REQUEST = 256


class PassageSync:
    """Brings a store of passages up to date with the entries of loaders."""

    def __init__(self, store: Store, dense: DenseEncoder, lexical: LexicalEncoder) -> None:
        self._store = store
        self._writer = Writer(store, dense, lexical, PASSAGE_TERMS)
        self._lexical = lexical

    def run(
        self,
        entries: Iterable[PassageEntry],
        *,
        prune: str | None = None,
        progress: Listener = ignore,
    ) -> IndexReport:
        """Write new and changed passages, and report every id.

        Parts that a document no longer has are removed. `prune` names a collection whose documents
        without an entry are removed too, unless a refused entry may stand for one. A refusal whose
        source and place are a document stands for that document alone.
        """
        entries = list(entries)
        known = self._stored_passages(entries, prune)
        plan = _diff_passages(entries, known)
        drafts = plan.prepare_all(
            lambda passage: draft_passage(passage, self._lexical),
            lambda passage: (passage.document, f"part {passage.position + 1}"),
        )
        _plan_passage_removals(plan, known, prune)
        self._writer.apply(drafts, plan.removed, progress)
        self._store.optimise()
        return plan.report()

    def _stored_passages(
        self, entries: Sequence[PassageEntry], pruned: str | None
    ) -> dict[str, _StoredPassage]:
        """Stored passages of the documents that were read, and of the collection to prune."""
        passages = [item for _, item in entries if isinstance(item, Passage)]
        documents = sorted({each.document for each in passages if each.collection != pruned})
        filters = [
            *_with_ids(each.id for each in passages),
            *(AnyOf("document", page) for page in pages(documents, DOCUMENTS_PER_REQUEST)),
            *([] if pruned is None else [Equals("collection", pruned)]),
        ]
        names = _StoredPassage._fields
        records = (r for where in filters for r in self._store.scroll(where, ("id", *names)))
        payloads = (record.payload for record in records)
        return {p["id"]: _StoredPassage._make(p[name] for name in names) for p in payloads}


def _diff_passages(
    entries: Iterable[PassageEntry], known: Mapping[str, _StoredPassage]
) -> _Plan[Passage]:
    plan = _Plan[Passage]()
    origin: dict[tuple[str, str], str] = {}
    for source, item in entries:
        if isinstance(item, Refusal):
            plan.refused.append(item)
            continue
        first = origin.setdefault((item.collection, item.document), source)
        place = f"part {item.position + 1}"
        if item.id not in plan.items and source == first:
            plan.items[item.id] = item
        elif plan.items.get(item.id) == item:
            reason = f"a copy of the part of {item.document!r} from {first}"
            if source == first:
                reason = f"this part of {item.document!r} is given twice; it is kept once"
            plan.copies.append(Refusal(source, place, reason))
        else:
            fault = (
                f"has another part with the position {item.position}; give each "
                "part of a document its position, and each document its name"
                if source == first
                else f"already stands for another document, from {first}; "
                "rename one of them, or give it another collection"
            )
            plan.refused.append(Refusal(source, place, f"{item.document!r} {fault}"))
    plan.compare(known, digest_of, {i: each.document for i, each in plan.items.items()})
    return plan


def _plan_passage_removals(
    plan: _Plan[Passage], known: Mapping[str, _StoredPassage], prune: str | None
) -> None:
    """Plan to remove parts that documents no longer have, and documents that no source has."""
    read = {(each.collection, each.document) for each in plan.items.values()}
    left = {i: each for i, each in known.items() if i not in plan.items}
    shortened = {i for i, each in left.items() if (each.collection, each.document) in read}
    refused = {each.place for each in plan.refused if each.source == each.place}
    gone = {
        i
        for i, each in left.items()
        if each.collection == prune and each.document not in refused and i not in shortened
    }
    plan.removed += shortened
    plan.prune(gone, "passage", refused)
    plan.removed.sort()
