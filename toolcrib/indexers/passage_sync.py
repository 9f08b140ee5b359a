"""Documents brought up to date in one collection: what has not changed is not encoded again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.protocols import DenseEncoder, SparseVector
from toolcrib.errors import SpecError
from toolcrib.indexers.lexical_context import LexicalContext
from toolcrib.indexers.passages import PassageDraft, digest_of, draft_passage, passage_counts
from toolcrib.indexers.writing import PAGE, Writer, ignore, pages
from toolcrib.records import IndexProgress, IndexReport, Passage, Refusal
from toolcrib.store.payload import read_passage
from toolcrib.store.protocol import Store, point_id

__all__ = ["PassageEntry", "PassageSync"]

PassageEntry: TypeAlias = tuple[str, Passage | Refusal]
"""Where something came from, and what it is."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store already holds of one passage."""

    digest: str
    collection: str
    document: str
    length: float


@dataclass(slots=True)
class _Plan:
    """The difference between what was read and what the store holds."""

    passages: dict[str, Passage] = field(default_factory=dict[str, Passage])
    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    refused: list[Refusal] = field(default_factory=list[Refusal])


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
        progress: Callable[[IndexProgress], None] = ignore,
    ) -> IndexReport:
        """Write what is new or changed and report every id.

        What is left over of a document that became shorter goes. `prune` names a collection of
        which documents that no entry names go too, but none while anything is refused.

        Raises:
            StoreError: the store refused; what was reported before is durable.
        """
        known = self._known()
        plan = _diff(entries, known)
        drafts = self._drafts(plan)
        _plan_removals(plan, known, prune)
        touched = {*plan.changed, *plan.removed}
        kept = [each.length for id_, each in known.items() if id_ not in touched]
        before = LexicalContext.from_meta(self._store.read_meta())
        context = before.with_lengths(kept, [draft.length for draft in drafts])
        if context != before:
            self._save(context)
        self._writer.write(drafts, context.average, progress)
        self._store.delete([point_id(passage_id) for passage_id in plan.removed])
        if context.all_stale:
            self._reweigh(context, fresh={draft.id for draft in drafts})
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
        fields = ("id", "digest", "collection", "document", "length")
        return {
            record.payload["id"]: _Known(**{f: record.payload[f] for f in fields[1:]})
            for record in self._store.scroll(fields=fields)
        }

    def _drafts(self, plan: _Plan) -> list[PassageDraft]:
        """Prepare what must be written; a text that cannot be kept is refused here."""
        drafts: list[PassageDraft] = []
        for ids in (plan.added, plan.changed):
            for passage_id in list(ids):
                passage = plan.passages[passage_id]
                try:
                    drafts.append(draft_passage(passage, self._lexical))
                except SpecError as error:
                    ids.remove(passage_id)
                    place = f"part {passage.position + 1}"
                    plan.refused.append(Refusal(passage.document, place, str(error)))
        return drafts

    def _reweigh(self, context: LexicalContext, fresh: set[str]) -> None:
        """Renew the lexical vectors of the others; needs no dense encoding."""
        stale = [r for r in self._store.scroll() if r.payload["id"] not in fresh]
        for page in pages(stale, PAGE):
            vectors: dict[int, SparseVector] = {}
            for record in page:
                counts = passage_counts(read_passage(record.payload), self._lexical)
                vectors[record.id] = self._lexical.encode_document(counts, context.average)
            self._store.set_sparse("lexical", vectors)

    def _save(self, context: LexicalContext) -> None:
        self._store.write_meta({**self._store.read_meta(), "lexical": context.as_meta()})


def _diff(entries: Iterable[PassageEntry], known: Mapping[str, _Known]) -> _Plan:
    plan = _Plan()
    origin: dict[tuple[str, str], str] = {}
    for source, item in entries:
        if isinstance(item, Refusal):
            plan.refused.append(item)
            continue
        first = origin.setdefault((item.collection, item.document), source)
        if item.id not in plan.passages and source == first:
            plan.passages[item.id] = item
        elif plan.passages.get(item.id) != item:
            reason = (
                f"{item.document!r} already stands for another document, from {first}; "
                "rename one of them, or give it another collection"
            )
            plan.refused.append(Refusal(source, f"part {item.position + 1}", reason))
    for passage_id, passage in plan.passages.items():
        if passage_id not in known:
            plan.added.append(passage_id)
        elif known[passage_id].digest != digest_of(passage):
            plan.changed.append(passage_id)
        else:
            plan.unchanged.append(passage_id)
    return plan


def _plan_removals(plan: _Plan, known: Mapping[str, _Known], prune: str | None) -> None:
    """Leftovers of documents that were read again, and documents that no source names."""
    read = {(each.collection, each.document) for each in plan.passages.values()}
    gone: list[str] = []
    for passage_id, kept in known.items():
        if passage_id in plan.passages:
            continue
        if (kept.collection, kept.document) in read:
            plan.removed.append(passage_id)
        elif kept.collection == prune:
            gone.append(passage_id)
    if gone and plan.refused:
        reason = (
            f"{len(gone)} passages are in no source, but were kept: {len(plan.refused)} sources "
            "were refused and may hold them; mend those and prune again"
        )
        plan.refused.append(Refusal("--prune", "", reason))
    else:
        plan.removed.extend(gone)
    plan.removed.sort()
