"""Prepared things into the store, page by page: encode, write, report what is durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeAlias, TypeVar

from toolcrib.encoders.base import DenseEncoder, FloatArray
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.lexical_context import LexicalContext
from toolcrib.records import IndexProgress
from toolcrib.store.base import Point, Record, Store, point_id

__all__ = ["PAGE", "Listener", "Prepared", "Writer", "ignore", "pages"]

PAGE = 128
"""Things encoded and written together: half a second of encoding, so progress is seen to move."""

Item = TypeVar("Item")

Listener: TypeAlias = Callable[[IndexProgress], None]
"""Who hears how far a run is."""


class Prepared(Protocol):
    """What can be written: its texts to encode, and the point that their vectors make of it."""

    @property
    def id(self) -> str:
        """The id of what is written."""
        ...

    @property
    def text(self) -> str:
        """The longest of its texts."""
        ...

    @property
    def rows(self) -> int:
        """How many texts `texts` gives."""
        ...

    def texts(self) -> list[str]:
        """Everything to encode."""
        ...

    def point(self, vectors: FloatArray, lexical: LexicalEncoder, average: float) -> Point:
        """The finished point; `vectors`: float32 [rows, d]."""
        ...


def ignore(_progress: IndexProgress) -> None:
    """Listen to nothing: the default."""


class Writer:
    """Encodes and writes what is prepared, and tells how far it is."""

    def __init__(self, store: Store, dense: DenseEncoder, lexical: LexicalEncoder) -> None:
        self._store = store
        self._dense = dense
        self._lexical = lexical

    def write(
        self,
        drafts: Sequence[Prepared],
        average: float,
        progress: Listener,
    ) -> None:
        """Write all; `average` is the mean length that lexical vectors are weighed by.

        Raises:
            StoreError: the store refused; what was reported before is durable.
        """
        done = 0
        progress(IndexProgress(done, len(drafts)))
        # Texts of like length are encoded together: padding is what slows an encoder down.
        ordered = sorted(drafts, key=lambda draft: (len(draft.text), draft.id))
        for page, vectors in self._encoded(ordered):
            points: list[Point] = []
            start = 0
            for each in page:
                rows = vectors[start : start + each.rows]
                points.append(each.point(rows, self._lexical, average))
                start += each.rows
            self._store.upsert(points)
            done += len(page)
            progress(IndexProgress(done, len(drafts), tuple(each.id for each in page)))

    def apply(
        self,
        drafts: Sequence[Prepared],
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
        self.write(drafts, context.average, progress)
        self._store.delete([point_id(item_id) for item_id in removed])
        if context.stale or context.all_stale:
            self._reweigh(context, {draft.id for draft in drafts}, counts)
            self._keep(context.renewed())
        progress(IndexProgress(len(drafts), len(drafts), stage="optimise"))
        self._store.optimise()

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
            and context.is_stale(record.payload.get("server", ""))
        ]
        for page in pages(stale, PAGE):
            vectors = {
                record.id: self._lexical.encode_document(counts(record), context.average)
                for record in page
            }
            self._store.set_sparse("lexical", vectors)

    def _keep(self, context: LexicalContext) -> None:
        self._store.write_meta({**self._store.read_meta(), "lexical": context.as_meta()})

    def _encoded(
        self, drafts: Sequence[Prepared]
    ) -> Iterator[tuple[Sequence[Prepared], FloatArray]]:
        """Encode page by page, one ahead of the writing, so that neither waits for the other."""
        with ThreadPoolExecutor(1, "toolcrib-ahead") as ahead:
            coming: deque[tuple[Sequence[Prepared], Future[FloatArray]]] = deque()
            for page in pages(drafts, PAGE):
                texts = [text for each in page for text in each.texts()]
                coming.append((page, ahead.submit(self._dense.encode_documents, texts)))
                if len(coming) > 1:
                    ready, vectors = coming.popleft()
                    yield ready, vectors.result()
            for ready, vectors in coming:
                yield ready, vectors.result()


def pages(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items in runs of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
