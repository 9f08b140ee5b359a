"""The encoder that ships in the package: int8 ONNX, no network."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from toolcrib.encoders.base import readable, readable_all, unit_rows
from toolcrib.encoders.onnx import clauses
from toolcrib.encoders.loading import LoadOnce
from toolcrib.encoders.onnx import MODELS, open_model, read_card, usable_cores
from toolcrib.encoders.base import FloatArray

__all__ = ["DEFAULT_MODEL", "BundledEncoder"]

DEFAULT_MODEL = "toolcrib-encoder"
VECTOR, TOKENS = "sentence_embedding", "token_embeddings"
MIN_CLAUSES = 2
MIN_TOKENS = 3


class BundledEncoder:
    """A `DenseEncoder` from a folder with `model.onnx`, `tokenizer.json` and `card.json`.

    The graph takes `input_ids` and `attention_mask` (int64 [1, tokens]) and gives
    `sentence_embedding` (float32 [1, dimensions]); where it gives `token_embeddings` (float32
    [1, tokens, dimensions]) too, queries of several clauses are seen clause by clause.

    Every text runs alone, on one core, and several texts run on `threads` cores at once (0: all
    that this process may use). Nothing is padded, and no vector can depend on its neighbours,
    as it does where int8 is scaled by a whole batch: a tool that is indexed again gets the
    vector that it had. Against padded batches this costs a little where texts are short, and
    gains much where they are long.

    Raises:
        EncoderError: `card.json` cannot be read or lacks something.
    """

    def __init__(self, folder: Path | None = None, threads: int = 0) -> None:
        self._folder = folder or MODELS / DEFAULT_MODEL
        self._threads = threads or usable_cores()
        self._card = read_card(self._folder)
        self._model = LoadOnce(lambda: open_model(self._folder, self._card))

    @property
    def name(self) -> str:
        """The model's name and the first digits of its weights' digest."""
        return self._card.identity

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return self._card.dimensions

    def encode_query(self, text: str) -> FloatArray:
        """Encode one query: float32 [dimensions], L2-normalised.

        Raises:
            TypeError: it is no text.
            EncoderError: the model cannot be loaded, or gives no usable vector.
        """
        return self._encode(readable(text))

    def encode_clauses(self, text: str) -> FloatArray:
        """Encode a query and its clauses: float32 [1 + clauses, dimensions], L2-normalised.

        All come of one pass: a clause's vector is the mean of its tokens as the whole query
        shapes them (late chunking, Guenther et al. 2024). One clause alone has no second row.

        Raises:
            TypeError: it is no text.
            EncoderError: the model cannot be loaded, or gives no usable vector.
        """
        query = readable(text)
        spans, model = clauses(query), self._model()
        if len(spans) < MIN_CLAUSES or not model.gives(TOKENS):
            return self._encode(query)[np.newaxis]
        encoded = model.tokenizer.encode(query)
        whole, tokens = model.run(encoded.ids, [VECTOR, TOKENS])
        pooled = [tokens[0, rows].mean(axis=0) for rows in _rows(encoded.offsets, spans)]
        if len(pooled) < MIN_CLAUSES:
            pooled = []
        rows = np.vstack([whole, *pooled])
        return unit_rows(rows, len(rows), self.dimensions, self.name)

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        """Encode documents in their order: float32 [n, dimensions], rows L2-normalised.

        Raises:
            TypeError: it is no list of texts.
            EncoderError: the model cannot be loaded, or gives no usable vector.
        """
        documents = readable_all(texts)
        vectors = np.empty((len(documents), self.dimensions), dtype=np.float32)
        if len(documents) == 1 or self._threads == 1:
            encoded = map(self._encode, documents)
        else:
            with ThreadPoolExecutor(self._threads, "toolcrib-encode") as pool:
                encoded = pool.map(self._encode, documents)
        for row, vector in enumerate(encoded):
            vectors[row] = vector
        return vectors

    def _encode(self, text: str) -> FloatArray:
        model = self._model()
        (vectors,) = model.run(model.tokenizer.encode(text).ids, [VECTOR])
        return unit_rows(vectors, 1, self.dimensions, self.name)[0]


def _rows(offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The tokens of each clause; those of next to no tokens, such as `Hi,`, are left out."""
    inside = range(1, len(offsets) - 1)  # the first and the last are marks, not text
    found = [
        [token for token in inside if start <= offsets[token][0] and offsets[token][1] <= end]
        for start, end in spans
    ]
    return [rows for rows in found if len(rows) >= MIN_TOKENS]
