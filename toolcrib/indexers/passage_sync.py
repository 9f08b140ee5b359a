"""Documents brought up to date in one collection: what has not changed is not encoded again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import SpecError
from toolcrib.indexers.lexical_context import LexicalContext
from toolcrib.indexers.passages import digest_of, draft_passage, passage_counts
from toolcrib.indexers.plan import Plan
from toolcrib.indexers.writing import Listener, Writer, ignore
from toolcrib.records import IndexReport, Passage, Refusal
from toolcrib.store.base import Record, Store
from toolcrib.store.payload import read_passage

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
        plan = _diff(entries, known)
        drafts = plan.prepared(lambda passage: draft_passage(passage, self._lexical), _unkept)
        _plan_removals(plan, known, prune)
        touched = {*plan.changed, *plan.removed}
        kept = [each.length for id_, each in known.items() if id_ not in touched]
        before = LexicalContext.from_meta(self._store.read_meta())
        context = before.with_lengths(kept, [draft.length for draft in drafts])

        def counts(record: Record) -> Mapping[str, float]:
            return passage_counts(read_passage(record.payload), self._lexical)

        self._writer.apply(drafts, plan.removed, (before, context), counts, progress)
        return plan.report()

    def _known(self) -> dict[str, _Known]:
        fields = ("id", "digest", "collection", "document", "length")
        return {
            record.payload["id"]: _Known(**{f: record.payload[f] for f in fields[1:]})
            for record in self._store.scroll(fields=fields)
        }


def _diff(entries: Iterable[PassageEntry], known: Mapping[str, _Known]) -> Plan[Passage]:
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


def _plan_removals(plan: Plan[Passage], known: Mapping[str, _Known], prune: str | None) -> None:
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
