"""Deterministic encoder: hashed bags of character trigrams, without a model."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from toolcrib.encoders.base import DenseEncoder, FloatArray, readable, readable_all, unit_rows
from toolcrib.errors import SettingsError


class DeterministicEncoder(DenseEncoder):
    """A `DenseEncoder` for tests, and for users who want no model.

    Texts with the same character trigrams are near, whatever their meaning.
    `encoded_documents` and `encoded_queries` count the texts that were encoded.

    Raises:
        SettingsError: `dimensions` is below one.
    """

    def __init__(self, dimensions: int = 64) -> None:
        if dimensions < 1:
            raise SettingsError(f"deterministic:{dimensions} must have at least one dimension")
        self._dimensions = dimensions
        self.encoded_documents = 0
        self.encoded_queries = 0

    @classmethod
    def from_setting(cls, model: str, _threads: int) -> DeterministicEncoder:
        """Make an encoder of `model` dimensions, if `model` is a number."""
        return cls(int(model)) if model else cls()

    @property
    def name(self) -> str:
        return f"deterministic-trigrams-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def encode_query(self, text: str) -> FloatArray:
        vector = self._encode([readable(text)])[0]
        self.encoded_queries += 1
        return vector

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        vectors = self._encode(readable_all(texts))
        self.encoded_documents += len(texts)
        return vectors

    def _encode(self, texts: list[str]) -> FloatArray:
        counts = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for row, text in zip(counts, texts, strict=True):
            padded = f"  {text.lower()} "
            for start in range(len(padded) - 2):
                row[zlib.crc32(padded[start : start + 3].encode()) % self._dimensions] += 1.0
        return unit_rows(counts, len(texts), self._dimensions, self.name)
