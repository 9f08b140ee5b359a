"""Writer: encodes drafts and writes them into the store, page by page."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from toolcrib.encoders.base import DenseEncoder, FloatArray, unit_rows
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import Draft
from toolcrib.records import IndexProgress
from toolcrib.store.base import Store, pages, point_id

ITEMS_PER_PAGE = 128
"""Items encoded and written together: half a second between two progress reports."""

MAX_ENCODED_TEXT_CHARS, TEXT_OVERHEAD_CHARS = 1_500, 120
"""Characters of a text that are encoded, and the fixed cost of a text in characters."""

Listener: TypeAlias = Callable[[IndexProgress], None]


def ignore(_progress: IndexProgress) -> None:
    """Ignore progress; the default listener."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Encodes and writes drafts; `terms` is the average length of a text for BM25."""

    store: Store
    dense: DenseEncoder
    lexical: LexicalEncoder
    terms: float

    def apply(self, drafts: Sequence[Draft], removed: Iterable[str], progress: Listener) -> None:
        """Write drafts, then delete the ids in `removed`."""
        done, worked, work = 0, 0, sum(map(_encoding_chars, drafts))
        progress(IndexProgress(done, len(drafts)))
        # Texts of similar length are encoded together, as padding slows an encoder down.
        ordered = sorted(drafts, key=lambda draft: (len(draft.texts[0]), draft.id))
        for page, vectors in self._encode_pages(ordered):
            ends = np.cumsum([len(each.texts) for each in page])
            pairs = zip(page, np.split(vectors, ends[:-1]), strict=True)
            self.store.upsert([each.point(own, self.lexical, self.terms) for each, own in pairs])
            done, worked = done + len(page), worked + sum(map(_encoding_chars, page))
            ids = tuple(each.id for each in page)
            progress(IndexProgress(done, len(drafts), ids, share=worked / work))
        progress(IndexProgress(done, len(drafts), stage="optimise", share=1.0))
        self.store.delete([point_id(item_id) for item_id in removed])

    def _encode_pages(
        self, drafts: Sequence[Draft]
    ) -> Iterator[tuple[Sequence[Draft], FloatArray]]:
        """Drafts with their vectors, page by page; the next page is encoded during a write."""
        with ThreadPoolExecutor(1, "toolcrib-ahead") as ahead:
            pending: deque[tuple[Sequence[Draft], Future[FloatArray]]] = deque()
            for page in pages(drafts, ITEMS_PER_PAGE):
                texts = [text for draft in page for text in draft.texts]
                pending.append((page, ahead.submit(self._encode, texts)))
                if len(pending) > 1:
                    ready, vectors = pending.popleft()
                    yield ready, vectors.result()
            for ready, vectors in pending:
                yield ready, vectors.result()

    def _encode(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of texts; an encoder of the caller may give another number of rows."""
        vectors = self.dense.encode_documents(texts)
        return unit_rows(vectors, len(texts), self.dense.dimensions, self.dense.name)


def _encoding_chars(draft: Draft) -> int:
    """Cost of encoding a draft, in characters, measured with the bundled encoder."""
    return sum(min(len(text), MAX_ENCODED_TEXT_CHARS) + TEXT_OVERHEAD_CHARS for text in draft.texts)
