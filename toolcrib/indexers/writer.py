"""Writer: drafts into the store, page by page, and what lexical vectors rest on beside them."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter

from toolcrib.encoders.base import DenseEncoder, FloatArray, PageEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import Draft, shared_prefix
from toolcrib.records import IndexProgress
from toolcrib.store.base import Point, Record, Store, point_id
from toolcrib.store.filters import SCOPE_FIELDS

__all__ = [
    "PAGE",
    "LexicalContext",
    "Listener",
    "ListenerScope",
    "Writer",
    "ignore",
    "scope_group",
    "shared_prefixes",
    "unheard",
]

# -- the lexical context ---------------------------------------------------------------------------

Prefixes: TypeAlias = Mapping[str, tuple[str, ...]]
"""By `scope_group`."""


@dataclass(frozen=True, slots=True)
class LexicalContext:
    """Kept with the index, in its small document under `lexical`.

    `average`: the length that the vectors are weighed by, 0 for an empty index. `prefixes`: the
    name terms that a group's tools share. `stale`: groups whose vectors still rest on older
    values; `all_stale`: all vectors do.
    """

    average: float = 0.0
    prefixes: Prefixes = field(default_factory=dict[str, tuple[str, ...]])
    stale: frozenset[str] = frozenset()
    all_stale: bool = False

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> LexicalContext:
        """Read it from the index's small document."""
        return _CONTEXT.validate_python(meta.get("lexical", {}))

    def as_meta(self) -> dict[str, Any]:
        """The entry of the small document."""
        return {**_CONTEXT.dump_python(self, mode="json"), "stale": sorted(self.stale)}

    def with_prefixes(self, prefixes: Prefixes, kept: Collection[str]) -> LexicalContext:
        """Take over new prefixes; where they differ, groups of `kept` tools become stale."""
        moved = {g for g in set(kept) if self.prefixes.get(g, ()) != prefixes.get(g, ())}
        return replace(self, prefixes=prefixes, stale=self.stale | moved)

    def with_average(self, average: float) -> LexicalContext:
        """Weigh by this length; an index of an earlier version has one of its own."""
        older = self.average not in (0, average)
        return replace(self, average=average, all_stale=self.all_stale or older)


_CONTEXT = TypeAdapter(LexicalContext)


def scope_group(fields: Mapping[str, Any]) -> str:
    """What a tool has in common with those that are in a caller's reach whenever it is.

    `fields` are a tool's payload, or its part that scopes go by.
    """
    listed = ("tags", "safety_tags")
    values = [sorted(fields[n]) if n in listed else fields[n] for n in SCOPE_FIELDS]
    return json.dumps(values)


def shared_prefixes(
    names: Iterable[tuple[str, str]], lexical: LexicalEncoder
) -> dict[str, tuple[str, ...]]:
    """The shared name prefix of each group that has one, from (group, name) pairs."""
    by_group: defaultdict[str, list[list[str]]] = defaultdict(list)
    for group, name in names:
        by_group[group].append(lexical.terms(name))
    found = {group: shared_prefix(terms) for group, terms in by_group.items()}
    return {group: prefix for group, prefix in found.items() if prefix}


# -- writing ---------------------------------------------------------------------------------------

PAGE = 128
"""Things encoded and written together: half a second of encoding, so progress is seen to move."""

READ_CHARS, TEXT_CHARS = 1_500, 120
"""Of a text so many characters are read; to encode one takes as long as so many more."""

_Item = TypeVar("_Item")

Listener: TypeAlias = Callable[[IndexProgress], None]
"""Who hears how far a run is."""


def ignore(_progress: IndexProgress) -> None:
    """Listen to nothing: the default."""


ListenerScope: TypeAlias = Callable[[], AbstractContextManager[Listener]]
"""Opens a listener for one run, and closes it with the run."""


def unheard() -> AbstractContextManager[Listener]:
    """Open a listener to nothing."""
    return nullcontext(ignore)


class Writer:
    """Encodes and writes what is prepared, and tells how far it is."""

    def __init__(self, store: Store, dense: DenseEncoder, lexical: LexicalEncoder) -> None:
        self._store = store
        self._dense = dense
        self._lexical = lexical

    def apply(
        self,
        drafts: Sequence[Draft],
        removed: Iterable[str],
        contexts: tuple[LexicalContext, LexicalContext],
        counts: Callable[[Record], Mapping[str, float]],
        progress: Listener,
    ) -> None:
        """Bring the store from one lexical context to the next, safe to die at any moment.

        The next context is kept first, with its mark on what is stale; then drafts are written,
        then what is `removed` (by id) goes; then stale points are weighed anew, by the
        `counts` of their payloads, and the mark goes.

        Raises:
            StoreError: the store refused; what was reported before is durable.
        """
        before, context = contexts
        if context != before:
            self._keep(context)
        self._write(drafts, context.average, progress)
        progress(IndexProgress(len(drafts), len(drafts), stage="optimise", share=1.0))
        self._store.delete([point_id(item_id) for item_id in removed])
        if context.stale or context.all_stale:
            self._reweigh(context, {draft.id for draft in drafts}, counts)
            self._keep(replace(context, stale=frozenset(), all_stale=False))
        self._store.optimise()

    def _write(self, drafts: Sequence[Draft], average: float, progress: Listener) -> None:
        """Write all; `average` is the mean length that lexical vectors are weighed by."""
        done, worked, work = 0, 0, sum(map(_work, drafts))
        progress(IndexProgress(done, len(drafts)))
        # Texts of like length are encoded together: padding is what slows an encoder down.
        ordered = sorted(drafts, key=lambda draft: (len(draft.texts[0]), draft.id))
        for page, vectors in self._encoded(ordered):
            points: list[Point] = []
            start = 0
            for each in page:
                end = start + len(each.texts)
                points.append(each.point(vectors[start:end], self._lexical, average))
                start = end
            self._store.upsert(points)
            done += len(page)
            worked += sum(map(_work, page))
            ids = tuple(each.id for each in page)
            progress(IndexProgress(done, len(drafts), ids, share=worked / work))

    def _reweigh(
        self,
        context: LexicalContext,
        fresh: set[str],
        counts: Callable[[Record], Mapping[str, float]],
    ) -> None:
        """Renew the lexical vectors of stale points; needs no dense encoding."""
        stale = [
            record
            for record in self._store.scroll()
            if record.payload["id"] not in fresh
            and (context.all_stale or scope_group(record.payload) in context.stale)
        ]
        for page in _pages(stale, PAGE):
            vectors = {
                record.id: self._lexical.encode_document(counts(record), context.average)
                for record in page
            }
            self._store.set_sparse("lexical", vectors)

    def _keep(self, context: LexicalContext) -> None:
        self._store.write_meta({**self._store.read_meta(), "lexical": context.as_meta()})

    def _encoded(self, drafts: Sequence[Draft]) -> Iterator[tuple[Sequence[Draft], FloatArray]]:
        """The drafts page by page with their vectors, in the order in which these are made."""
        pages = list(_pages(drafts, PAGE))
        texts = ([text for each in page for text in each.texts] for page in pages)
        dense = self._dense
        encode = dense.encode_pages if isinstance(dense, PageEncoder) else self._one_ahead
        for number, vectors in encode(texts):
            yield pages[number], vectors

    def _one_ahead(self, pages: Iterable[Sequence[str]]) -> Iterator[tuple[int, FloatArray]]:
        """Encode one page ahead of the writing, so that neither waits for the other."""
        with ThreadPoolExecutor(1, "toolcrib-ahead") as ahead:
            coming: deque[tuple[int, Future[FloatArray]]] = deque()
            for number, texts in enumerate(pages):
                coming.append((number, ahead.submit(self._dense.encode_documents, texts)))
                if len(coming) > 1:
                    ready, vectors = coming.popleft()
                    yield ready, vectors.result()
            for ready, vectors in coming:
                yield ready, vectors.result()


def _work(draft: Draft) -> int:
    """What it takes to encode it, in characters, as measured with the bundled encoder."""
    return sum(min(len(text), READ_CHARS) + TEXT_CHARS for text in draft.texts)


def _pages(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """The items in runs of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
