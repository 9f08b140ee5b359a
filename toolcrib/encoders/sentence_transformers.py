"""sentence-transformers models, by their names or from local folders: torch, also on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from toolcrib.encoders.base import (
    DenseEncoder,
    FloatArray,
    Reranker,
    finite_scores,
    readable,
    readable_all,
    unit_rows,
)
from toolcrib.encoders.registry import LoadOnce, ModelName, load_package
from toolcrib.errors import EncoderError
from toolcrib.extras import require_extra

PACKAGE = "sentence_transformers"
EXTRA = "sentence-transformers"

BATCH_TEXTS = 32
"""Texts in a batch; the library itself sorts them by length."""


class _SentenceTransformers:
    """A model of one of the library's classes, by its name or folder, loaded once."""

    _purpose: ClassVar[str]
    _kind: ClassVar[str]

    def __init__(self, model: str, device: str | None = None) -> None:
        self._model = ModelName(EXTRA, model)
        require_extra(PACKAGE, f"the {self._purpose} {self._model.spelling}", EXTRA)
        self._load_once = LoadOnce(lambda: self._load(device))

    @classmethod
    def from_setting(cls, model: str, _threads: int) -> Self:
        """Open a model on the best device of this machine."""
        return cls(model)

    @property
    def name(self) -> str:
        return self._model.identity

    def _load(self, device: str | None) -> Any:
        library = load_package(PACKAGE, self._model.spelling)
        loader = getattr(library, self._kind)
        if self._kind == "SentenceTransformer" and not hasattr(loader, "encode_query"):
            raise EncoderError(
                f"{self._model.spelling}: sentence-transformers has version {library.__version__}; "
                f"5 or later is needed: pip install 'toolcrib[{EXTRA}]'"
            )
        try:
            return loader(self._model.location, device=device)
        except Exception as error:
            raise EncoderError(
                f"{self._model.spelling} cannot be loaded or fetched ({error}). Without a network, "
                f"copy the model's folder from another machine and name it as {EXTRA}:./FOLDER, or "
                "use the encoder that ships with toolcrib: bundled"
            ) from error

    def _run(self, method: str, texts: Sequence[Any], **options: Any) -> Any:
        run = getattr(self._load_once(), method)
        try:
            return run(texts, show_progress_bar=False, convert_to_numpy=True, **options)
        except Exception as error:  # torch, CUDA and the model's own code may raise anything
            raise EncoderError(f"{self._model.spelling} cannot be run: {error}") from error


class SentenceTransformersEncoder(_SentenceTransformers, DenseEncoder):
    """A `DenseEncoder` over `sentence_transformers.SentenceTransformer` (5 or later).

    `model` is a name on the hub or a folder (`./my-model`). The model's own prompts for queries
    and documents are used. `device`: `cpu`, `cuda` or `mps`; by default the best of the machine.
    Needs the extra `sentence-transformers`.

    Raises:
        SettingsError: no model is named.
        MissingExtraError: sentence-transformers is not installed.
        EncoderError: the named folder does not exist.
    """

    _purpose, _kind = "encoder", "SentenceTransformer"

    def __init__(self, model: str, device: str | None = None) -> None:
        super().__init__(model, device)
        self._width = LoadOnce(lambda: int(self._vectors("encode_query", [""]).shape[-1]))

    @property
    def dimensions(self) -> int:
        """Length of every vector, measured: not every model states it."""
        return self._width()

    def encode_query(self, text: str) -> FloatArray:
        vectors = self._vectors("encode_query", [readable(text)])
        return unit_rows(vectors, 1, self.dimensions, self.name)[0]

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        documents = readable_all(texts)
        if not documents:
            return np.empty((0, self.dimensions), dtype=np.float32)
        vectors = self._vectors("encode_document", documents)
        return unit_rows(vectors, len(documents), self.dimensions, self.name)

    def _vectors(self, method: str, texts: list[str]) -> Any:
        return self._run(method, texts, batch_size=BATCH_TEXTS, normalize_embeddings=True)


class SentenceTransformersReranker(_SentenceTransformers, Reranker):
    """A `Reranker` over `sentence_transformers.CrossEncoder`; extra `sentence-transformers`.

    `model`, `device` and the errors are those of `SentenceTransformersEncoder`.
    """

    _purpose, _kind = "reranker", "CrossEncoder"

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        question, documents = readable(query), readable_all(texts)
        if not documents:
            return np.empty(0, dtype=np.float32)
        pairs = [(question, document) for document in documents]
        # By default the library applies a sigmoid, and `rerank` applies its own: two in a row
        # would give only scores from 0.5 to 0.73.
        scores = self._run("predict", pairs, activation_fn=_identity)
        return finite_scores(scores, len(documents), self.name)


def _identity(logits: Any) -> Any:
    return logits
