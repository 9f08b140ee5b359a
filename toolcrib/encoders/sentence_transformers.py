"""Any sentence-transformers model, by its name or from a local folder: torch, also on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toolcrib.encoders.base import readable, readable_all, unit_rows
from toolcrib.encoders.loading import LoadOnce, ModelName, import_extra, require_extra
from toolcrib.encoders.base import FloatArray
from toolcrib.errors import EncoderError

__all__ = ["BATCH", "PACKAGE", "SentenceTransformersEncoder", "open_model"]

PACKAGE = "sentence_transformers"
EXTRA = "sentence-transformers"

BATCH = 32
"""Texts a run, which the library sorts by length itself."""


class SentenceTransformersEncoder:
    """A `DenseEncoder` over `sentence_transformers.SentenceTransformer` (5 or later).

    `model` is a name on the hub or a folder (`./my-model`). The model's own prompts for queries
    and documents are used. `device`: `cpu`, `cuda`, `mps`; the best there is without it.
    Needs the extra `sentence-transformers`.

    Raises:
        SettingsError: no model is named.
        MissingExtraError: sentence-transformers is not installed.
        EncoderError: a folder is named that is not there.
    """

    def __init__(self, model: str, device: str | None = None) -> None:
        self._model = ModelName(EXTRA, model)
        require_extra(PACKAGE, f"the encoder {self._model.spelled}", EXTRA)
        self._loaded = LoadOnce(
            lambda: open_model("SentenceTransformer", self._model, device=device),
        )
        self._width = LoadOnce(lambda: int(self._run("encode_query", [""]).shape[-1]))

    @property
    def name(self) -> str:
        """The model's name, or its folder's with the digest of its files."""
        return self._model.identity

    @property
    def dimensions(self) -> int:
        """Length of every vector, measured: not every model states it.

        Raises:
            EncoderError: the model cannot be loaded.
        """
        return self._width()

    def encode_query(self, text: str) -> FloatArray:
        """Encode one query (the model's `encode_query`): float32 [dimensions], L2-normalised.

        Raises:
            TypeError: it is no text.
            EncoderError: the model cannot be loaded or fetched, or gives no usable vector.
        """
        vectors = self._run("encode_query", [readable(text)])
        return unit_rows(vectors, 1, self.dimensions, self.name)[0]

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        """Encode documents (`encode_document`) in their order: float32 [n, dimensions], unit rows.

        Raises:
            TypeError: it is no list of texts.
            EncoderError: the model cannot be loaded or fetched, or gives no usable vector.
        """
        documents = readable_all(texts)
        if not documents:
            return np.empty((0, self.dimensions), dtype=np.float32)
        vectors = self._run("encode_document", documents)
        return unit_rows(vectors, len(documents), self.dimensions, self.name)

    def _run(self, method: str, texts: list[str]) -> Any:
        model = self._loaded()
        try:
            return getattr(model, method)(
                texts,
                batch_size=BATCH,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
        except Exception as error:  # torch, a CUDA driver or the model's own code: anything
            raise EncoderError(f"{self._model.spelled} cannot encode: {error}") from error


def open_model(kind: str, model: ModelName, **options: Any) -> Any:
    """Load a model by one of the library's classes, fetching it if needed.

    Raises:
        EncoderError: it is older than 5, the model is not here and cannot be fetched, or
            cannot be loaded.
    """
    library: Any = import_extra(PACKAGE, model.spelled)
    loader = getattr(library, kind)
    if kind == "SentenceTransformer" and not hasattr(loader, "encode_query"):
        raise EncoderError(
            f"{model.spelled}: sentence-transformers is {library.__version__}, and 5 or later is "
            f"needed: pip install 'toolcrib[{EXTRA}]'",
        )
    try:
        return loader(model.location, **options)
    except Exception as error:
        raise EncoderError(
            f"{model.spelled} cannot be loaded or fetched ({error}). Without a network, copy its "
            f"folder from a machine that has it and name it as {EXTRA}:./FOLDER, or use the "
            "encoder that ships with toolcrib: bundled",
        ) from error
