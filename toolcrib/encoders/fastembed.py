"""Any fastembed model, by its name or from a local folder: ONNX, without torch."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib.encoders.base import readable, readable_all, unit_rows
from toolcrib.encoders.fastembed import open_folder, prompts_of
from toolcrib.encoders.loading import LoadOnce, ModelName, import_extra, require_extra
from toolcrib.encoders.base import FloatArray
from toolcrib.errors import EncoderError

__all__ = ["BATCH", "FastEmbedEncoder", "open_named"]

BATCH = 8
"""Texts a run: larger batches pad more, and were slower on two cores."""


class FastEmbedEncoder:
    """A `DenseEncoder` over `fastembed.TextEmbedding`; extra `fastembed`.

    `model` is a name from fastembed's list (`BAAI/bge-small-en-v1.5`), downloaded at its first
    use, or a folder (`./my-model`) with `model.onnx` (or `onnx/model.onnx`), `tokenizer.json`
    and `tokenizer_config.json`. `threads`: cores a run may use; 0 means all. `cache`: where
    downloads are kept; fastembed's own choice (`FASTEMBED_CACHE_PATH`) without it.

    Raises:
        SettingsError: no model is named.
        MissingExtraError: fastembed is not installed.
        EncoderError: a folder is named that is not there.
    """

    def __init__(self, model: str, threads: int = 0, cache: Path | None = None) -> None:
        self._model = ModelName("fastembed", model)
        require_extra("fastembed", f"the encoder {self._model.spelled}", "fastembed")
        self._options = {
            "threads": threads or None,
            "cache_dir": None if cache is None else str(cache),
        }
        folder = self._model.folder
        self._query_prompt, self._document_prompt = prompts_of(folder) if folder else ("", "")
        self._embedding = LoadOnce(self._load)
        self._width = LoadOnce(self._measure)

    @property
    def name(self) -> str:
        """The model's name, or its folder's with the digest of its files."""
        return self._model.identity

    @property
    def dimensions(self) -> int:
        """Length of every vector: from fastembed's list, or measured where there is a folder.

        Raises:
            EncoderError: fastembed has no such model, or a folder's model cannot be loaded.
        """
        return self._width()

    def encode_query(self, text: str) -> FloatArray:
        """Encode one query (`query_embed`): float32 [dimensions], L2-normalised.

        Raises:
            TypeError: it is no text.
            EncoderError: the model cannot be loaded or fetched, or gives no usable vector.
        """
        vectors = self._run("query_embed", [self._query_prompt + readable(text)])
        return unit_rows(vectors, 1, self.dimensions, self.name)[0]

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        """Encode documents (`passage_embed`) in their order: float32 [n, dimensions], unit rows.

        Raises:
            TypeError: it is no list of texts.
            EncoderError: the model cannot be loaded or fetched, or gives no usable vector.
        """
        documents = [self._document_prompt + text for text in readable_all(texts)]
        if not documents:
            return np.empty((0, self.dimensions), dtype=np.float32)
        # Texts of like length run together, so that little is padded.
        order = sorted(range(len(documents)), key=lambda row: len(documents[row]))
        found = self._run("passage_embed", [documents[row] for row in order])
        vectors = np.empty((len(documents), self.dimensions), dtype=np.float32)
        vectors[order] = unit_rows(found, len(documents), self.dimensions, self.name)
        return vectors

    def _run(self, method: str, texts: list[str]) -> list[Any]:
        embedding = self._embedding()
        try:
            return list(getattr(embedding, method)(texts, batch_size=BATCH))
        except Exception as error:  # onnxruntime's own classes share no base
            raise EncoderError(f"{self._model.spelled} cannot encode: {error}") from error

    def _load(self) -> Any:
        library: Any = import_extra("fastembed", self._model.spelled)
        if self._model.folder is not None:
            return open_folder(library, self._model, self._options)
        return open_named(library.TextEmbedding, self._model, self._options)

    def _measure(self) -> int:
        if self._model.folder is None:
            library: Any = import_extra("fastembed", self._model.spelled)
            return _listed(library.TextEmbedding, self._model)["dim"]
        return len(self._run("query_embed", ["dimensions"])[0])


def open_named(kind: Any, model: ModelName, options: dict[str, Any]) -> Any:
    """Open a model of fastembed's list (`kind`: the class that lists it), fetching it if needed.

    Raises:
        EncoderError: there is no such model, or it is not here and cannot be fetched.
    """
    source: str | None = _listed(kind, model)["sources"]["hf"]
    loguru: Any = import_extra("loguru", model.spelled)
    loguru.logger.disable("fastembed")  # it logs an error for what is only not there yet
    try:
        return kind(model.model, local_files_only=True, **options)
    except Exception:  # noqa: BLE001 fastembed has no class for "not in the cache"
        _check_reachable(source, model)
    finally:
        loguru.logger.enable("fastembed")
    try:
        return kind(model.model, **options)
    except Exception as error:
        raise _not_fetched(model, error) from error


def _check_reachable(source: str | None, model: ModelName) -> None:
    """Ask the hub once: fastembed would try for 39 seconds before it says the same."""
    if source is None:
        return
    hub: Any = import_extra("huggingface_hub", model.spelled)
    try:
        hub.model_info(source, timeout=10)
    except Exception as error:
        raise _not_fetched(model, error) from error


def _not_fetched(model: ModelName, error: Exception) -> EncoderError:
    return EncoderError(
        f"{model.spelled} is not on this machine and cannot be fetched ({error}). Without "
        "a network, copy its folder from a machine that has it and name it as "
        "fastembed:./FOLDER, or use the encoder that ships with toolcrib: bundled",
    )


def _listed(kind: Any, model: ModelName) -> dict[str, Any]:
    listed: list[dict[str, Any]] = kind.list_supported_models()
    for entry in listed:
        if entry["model"].lower() == model.model.lower():
            return entry
    near = difflib.get_close_matches(model.model, [entry["model"] for entry in listed], n=3)
    hint = f"did you mean {', '.join(map(repr, near))}? " if near else ""
    raise EncoderError(
        f"fastembed has no model {model.model!r}; {hint}"
        "a folder is named with its path: fastembed:./FOLDER",
    )
