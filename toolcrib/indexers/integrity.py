"""Integrity: compares stored points with a new encoding of their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeAlias

from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import Draft
from toolcrib.store.base import LegQuery, Record, Store, point_id
from toolcrib.store.filters import HasId

RECORDS_PER_PAGE = 64

MIN_COSINE = 0.98
"""Least cosine of two encodings of a text; padding in a batch changes the cosine by less."""

Discrepancy: TypeAlias = tuple[str, str]
"""Id of a tool or passage, and the fault of its point."""


def find_faults(
    store: Store, dense: DenseEncoder, lexical: LexicalEncoder, redraft: Callable[[Record], Draft]
) -> Iterator[Discrepancy]:
    """Encode the texts of all points again, and yield the stored points that differ.

    `redraft` makes the draft of a stored payload.
    """
    records = store.scroll()
    while page := list(islice(records, RECORDS_PER_PAGE)):
        drafts: list[tuple[Record, Draft]] = []
        for record in page:
            named = str(record.payload.get("id", record.id))
            try:
                made = redraft(record)
            except (ValueError, KeyError, TypeError) as error:
                yield named, f"cannot be read: {type(error).__name__}"
                continue
            names = sorted({*made.payload, *record.payload})
            wrong = [n for n in names if made.payload.get(n) != record.payload.get(n)]
            if wrong or record.id != point_id(made.id):
                yield named, f"differs from its text: {', '.join(wrong) or 'its number'}"
            else:
                drafts.append((record, made))
        yield from _wrong_vectors(store, dense, lexical, drafts)


def _wrong_vectors(
    store: Store, dense: DenseEncoder, lexical: LexicalEncoder, drafts: list[tuple[Record, Draft]]
) -> Iterator[Discrepancy]:
    vectors = dense.encode_documents([made.texts[0] for _, made in drafts])
    for (record, made), vector in zip(drafts, vectors, strict=True):
        alone = HasId(frozenset({record.id}))
        words = lexical.encode_document(made.counts, 0.0)
        near, worded = store.search(
            [LegQuery("dense", vector, 1, where=alone), LegQuery("lexical", words, 1, where=alone)]
        )
        if not near or near[0].score < MIN_COSINE:
            yield made.id, "its vector is not that of its text"
        elif words.indices.size and not worded:
            yield made.id, "its words are not those of its text"
