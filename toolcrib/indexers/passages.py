"""A passage as a stored point, and what the encoders read of it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import SpecError
from toolcrib.indexers.render import MAX_CHARS, clean
from toolcrib.records import Passage
from toolcrib.store.base import Layout, Point, point_id
from toolcrib.store.payload import passage_payload

__all__ = ["PassageDraft", "digest_of", "draft_passage", "passage_counts", "passage_layout"]

PASSAGE_VERSION = 1
"""Raise it when what is read of a passage changes: indexes of another version are refused."""


def passage_layout(dimensions: int) -> Layout:
    """The named vectors of a passage: its text, its words."""
    return Layout(dense={"dense": dimensions}, multi={}, sparse=("lexical",))


@dataclass(frozen=True, slots=True, eq=False)
class PassageDraft:
    """A passage on its way into the store, before its text is encoded."""

    passage: Passage
    payload: Mapping[str, Any]
    counts: Mapping[str, float]
    text: str
    rows: int = 1

    @property
    def id(self) -> str:
        """The passage's id."""
        return self.passage.id

    @property
    def length(self) -> float:
        """Number of terms."""
        return self.payload["length"]

    def texts(self) -> list[str]:
        """What the dense encoder reads: the headings, then the text."""
        return [self.text]

    def point(self, vectors: FloatArray, lexical: LexicalEncoder, average: float) -> Point:
        """The finished point; `vectors`: float32 [1, d]."""
        return Point(
            id=point_id(self.id),
            payload=self.payload,
            dense={"dense": vectors[0]},
            sparse={"lexical": lexical.encode_document(self.counts, average)},
        )


def draft_passage(passage: Passage, lexical: LexicalEncoder) -> PassageDraft:
    """Prepare a passage.

    Raises:
        SpecError: it holds text that no store can keep.
    """
    for text in (passage.document, passage.text, *passage.title):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SpecError("holds half a character (a lone surrogate); mend the text") from error
    counts = passage_counts(passage, lexical)
    payload = passage_payload(passage, sum(counts.values()), digest_of(passage))
    return PassageDraft(passage, payload, counts, _text(passage))


def passage_counts(passage: Passage, lexical: LexicalEncoder) -> Mapping[str, float]:
    """Term frequencies of headings and text."""
    counts: Counter[str] = Counter(lexical.terms(clean(" ".join(passage.title))))
    counts.update(lexical.terms(clean(passage.text[:MAX_CHARS])))
    return counts


def digest_of(passage: Passage) -> str:
    """Hex digest of everything in a passage; equal means "left alone"."""
    parts = [passage.id, passage.title, passage.text, passage.start]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _text(passage: Passage) -> str:
    headings, text = " › ".join(passage.title), passage.text[:MAX_CHARS]
    return clean(f"{headings}: {text}" if headings else text)
