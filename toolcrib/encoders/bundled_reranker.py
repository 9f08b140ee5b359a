"""A cross-encoder from a model folder, as `toolcrib train reranker` makes it: int8 ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from toolcrib.encoders.base import finite_scores, readable, readable_all
from toolcrib.encoders.loading import LoadOnce
from toolcrib.encoders.onnx import open_model, read_card, usable_cores
from toolcrib.encoders.base import FloatArray

__all__ = ["BundledReranker"]


class BundledReranker:
    """A `Reranker` from a folder with `model.onnx`, `tokenizer.json` and `card.json`.

    The graph takes `input_ids` and `attention_mask` (int64 [1, tokens]) of a query and a text,
    and gives `logit` (float32 [1]). Every pair runs alone, on one core, and several run on
    `threads` cores at once (0: all that this process may use): nothing is padded.

    Raises:
        EncoderError: `card.json` cannot be read or lacks something.
    """

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self._folder = folder
        self._threads = threads or usable_cores()
        self._card = read_card(self._folder)
        self._model = LoadOnce(lambda: open_model(self._folder, self._card))

    @property
    def name(self) -> str:
        """The model's name and the first digits of its weights' digest."""
        return self._card.identity

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """The model's logit for each text: float32 [n], any scale, higher is better.

        Raises:
            TypeError: the query or one of the texts is no text.
            EncoderError: the model cannot be loaded, or gives no usable score.
        """
        question, documents = readable(query), readable_all(texts)
        if len(documents) <= 1 or self._threads == 1:
            scores = [self._score(question, text) for text in documents]
        else:
            with ThreadPoolExecutor(self._threads, "toolcrib-rerank") as pool:
                scores = list(pool.map(partial(self._score, question), documents))
        return finite_scores(scores, len(documents), self.name)

    def _score(self, query: str, text: str) -> float:
        model = self._model()
        (logits,) = model.run(model.tokenizer.encode(query, text).ids, ["logit"])
        return float(logits[0])
