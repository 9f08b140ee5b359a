"""Rerankers: a cross-encoder reads query and text together, dearer and better than two vectors."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib.encoders.base import finite_scores, readable, readable_all
from toolcrib.encoders.fastembed import BATCH, open_named
from toolcrib.encoders.fastembed import model_file, registered_name
from toolcrib.encoders.loading import LoadOnce, ModelName, import_extra, require_extra
from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.sentence_transformers import EXTRA, PACKAGE, open_model
from toolcrib.errors import EncoderError

__all__ = ["FastEmbedReranker", "SentenceTransformersReranker"]


class FastEmbedReranker:
    """A `Reranker` over fastembed's `TextCrossEncoder`; extra `fastembed`.

    `model` is a name from its list (`Xenova/ms-marco-MiniLM-L-6-v2`) or a folder (`./my-model`)
    with `model.onnx`, `tokenizer.json` and `tokenizer_config.json`. `threads`: cores a run may
    use; 0 means all.

    Raises:
        SettingsError: no model is named.
        MissingExtraError: fastembed is not installed.
        EncoderError: a folder is named that is not there.
    """

    def __init__(self, model: str, threads: int = 0, cache: Path | None = None) -> None:
        self._model = ModelName("fastembed", model)
        require_extra("fastembed", f"the reranker {self._model.spelled}", "fastembed")
        self._options = {
            "threads": threads or None,
            "cache_dir": None if cache is None else str(cache),
        }
        self._loaded = LoadOnce(self._load)

    @property
    def name(self) -> str:
        """The model's name, or its folder's with the digest of its files."""
        return self._model.identity

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """The model's logit for each text: float32 [n], any scale, higher is better.

        Raises:
            TypeError: the query or one of the texts is no text.
            EncoderError: the model cannot be loaded or fetched, or gives no usable score.
        """
        question, documents = readable(query), readable_all(texts)
        if not documents:
            return np.empty(0, dtype=np.float32)
        model = self._loaded()
        try:
            scores = list(model.rerank(question, documents, batch_size=BATCH))
        except Exception as error:  # onnxruntime's own classes share no base
            raise EncoderError(f"{self._model.spelled} cannot score: {error}") from error
        return finite_scores(scores, len(documents), self.name)

    def _load(self) -> Any:
        import_extra("fastembed", self._model.spelled)
        kind: Any = importlib.import_module("fastembed.rerank.cross_encoder").TextCrossEncoder
        if self._model.folder is None:
            return open_named(kind, self._model, self._options)
        return _open_folder(kind, self._model.folder, self._options)


class SentenceTransformersReranker:
    """A `Reranker` over `sentence_transformers.CrossEncoder`; extra `sentence-transformers`.

    `model` is a name on the hub or a folder (`./my-model`). `device`: `cpu`, `cuda`, `mps`; the
    best there is without it.

    Raises:
        SettingsError: no model is named.
        MissingExtraError: sentence-transformers is not installed.
        EncoderError: a folder is named that is not there.
    """

    def __init__(self, model: str, device: str | None = None) -> None:
        self._model = ModelName(EXTRA, model)
        require_extra(PACKAGE, f"the reranker {self._model.spelled}", EXTRA)
        self._loaded = LoadOnce(lambda: open_model("CrossEncoder", self._model, device=device))

    @property
    def name(self) -> str:
        """The model's name, or its folder's with the digest of its files."""
        return self._model.identity

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """The model's logit for each text: float32 [n], any scale, higher is better.

        Raises:
            TypeError: the query or one of the texts is no text.
            EncoderError: the model cannot be loaded or fetched, or gives no usable score.
        """
        question, documents = readable(query), readable_all(texts)
        if not documents:
            return np.empty(0, dtype=np.float32)
        model = self._loaded()
        try:
            scores = model.predict(
                [(question, document) for document in documents],
                show_progress_bar=False,
                # Models of one output are given a sigmoid unless told otherwise, and `rerank`
                # applies its own: two of them would leave nothing between 0.5 and 0.73.
                activation_fn=_as_it_is,
                convert_to_numpy=True,
            )
        except Exception as error:  # torch, a CUDA driver or the model's own code: anything
            raise EncoderError(f"{self._model.spelled} cannot score: {error}") from error
        return finite_scores(scores, len(documents), self.name)


def _as_it_is(logits: Any) -> Any:
    return logits


def _open_folder(kind: Any, folder: Path, options: dict[str, Any]) -> Any:
    file = model_file(folder)
    name = registered_name(folder, file)
    models = importlib.import_module("fastembed.common.model_description")
    if not any(entry["model"] == name for entry in kind.list_supported_models()):
        source = models.ModelSource(hf=name)
        kind.add_custom_model(model=name, sources=source, model_file=file)
    try:
        return kind(name, specific_model_path=str(folder), **options)
    except Exception as error:  # onnxruntime's and tokenizers' own classes share no base
        raise EncoderError(f"{folder} cannot be loaded: {error}") from error
