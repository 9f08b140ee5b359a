"""Lexical encoder: terms to BM25 weights as sparse vectors, with the engine's IDF.

A document's weight for a term is BM25's saturated term frequency (Robertson and Zaragoza 2009),

    tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average_length)),

a query's weight is the term's count, and the engine multiplies each product by
`ln(1 + (N - n + 0.5) / (n + 0.5))`. `rank-bm25` uses the same saturation with an IDF of
`ln((N - n + 0.5) / (n + 0.5))`, with a floor for negative values: very frequent terms weigh a
little here, and a constant there. All else is equal.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from toolcrib.encoders.base import SparseVector
from toolcrib.errors import SettingsError
from toolcrib.records.codec import settings_section
from toolcrib.text import STEMMED_LANGUAGES, TOKENS_VERSION, tokenise


@settings_section
class LexicalSettings:
    """Settings of terms and weights; part of the index identity.

    `k1` saturates term frequency, `b` corrects for length, `language` is a Snowball stemmer's name
    or "none".

    Raises:
        SettingsError: there is no such stemmer.
    """

    k1: Annotated[float, Field(ge=0)] = 1.5
    b: Annotated[float, Field(ge=0, le=1)] = 0.75
    language: str = "english"

    def __post_init__(self) -> None:
        if self.language not in STEMMED_LANGUAGES:
            raise SettingsError(
                f"lexical.language is {self.language!r}; known are {', '.join(STEMMED_LANGUAGES)}"
            )


class LexicalEncoder:
    """Turns terms into sparse vectors whose inner product is BM25 without the IDF."""

    def __init__(self, settings: LexicalSettings | None = None) -> None:
        self.settings = settings or LexicalSettings()

    @property
    def name(self) -> str:
        """Identity of tokens and weights."""
        s = self.settings
        return f"bm25-t{TOKENS_VERSION}-{s.language}-k{s.k1:g}-b{s.b:g}"

    def terms(self, text: str) -> list[str]:
        """The index terms of a text, in order, with repeats."""
        return tokenise(text, self.settings.language)

    def encode_document(self, counts: Mapping[str, float], average_length: float) -> SparseVector:
        """BM25 weights of a document given its term frequencies (which may be field-weighted).

        `average_length` is the mean over the corpus of the sum of a document's frequencies; 0, for
        an unknown corpus, switches the correction for length off.
        """
        k1, b = self.settings.k1, self.settings.b
        length = sum(counts.values())
        norm = k1 * (1 - b + b * length / average_length) if average_length else k1
        return _sparse((term, tf * (k1 + 1) / (tf + norm)) for term, tf in counts.items())

    def encode_query(self, text: str) -> SparseVector:
        """A query's weights: how often each term occurs."""
        return self.encode_terms(self.terms(text))

    def encode_terms(self, terms: Iterable[str]) -> SparseVector:
        """Weights of a query whose terms are known."""
        return _sparse(Counter(terms).items())


def _sparse(weights: Iterable[tuple[str, float]]) -> SparseVector:
    # Two terms may share one of the 2^32 dimensions: their weights are added, as the engine does
    # not allow an index twice.
    merged: dict[int, float] = {}
    for term, weight in weights:
        slot = zlib.crc32(term.encode("utf-8", "surrogatepass"))
        merged[slot] = merged.get(slot, 0.0) + weight
    slots = sorted(merged)
    return SparseVector(
        np.array(slots, dtype=np.uint32),
        np.array([merged[slot] for slot in slots], dtype=np.float32),
    )
