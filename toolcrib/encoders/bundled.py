"""The encoder that ships in the package: int8 ONNX, straight on onnxruntime, no network.

fastembed could run the same files; it costs 1.2 s of imports where this costs 0.2 s.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toolcrib.encoders.checks import readable, readable_all, unit_rows
from toolcrib.encoders.loading import DIGEST_DIGITS, LoadOnce
from toolcrib.encoders.protocols import FloatArray
from toolcrib.errors import EncoderError

if TYPE_CHECKING:
    import tokenizers

__all__ = ["DEFAULT_MODEL", "BundledEncoder"]

MODELS = Path(__file__).parent / "models"
DEFAULT_MODEL = "all-MiniLM-L6-v2-int8"


@dataclass(frozen=True, slots=True)
class _Card:
    """What `card.json` says of a model; `digest` is the SHA-256 of its weights."""

    name: str
    dimensions: int
    max_tokens: int
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    tokenizer: tokenizers.Tokenizer
    session: Any


class BundledEncoder:
    """A `DenseEncoder` from a folder with `model.onnx`, `tokenizer.json` and `card.json`.

    The graph takes `input_ids` and `attention_mask` (int64 [1, tokens]) and gives
    `sentence_embedding` (float32 [1, dimensions]).

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
        self._threads = threads or _usable_cores()
        self._card = _read_card(self._folder)
        self._model = LoadOnce(self._load)

    @property
    def name(self) -> str:
        """The model's name and the first digits of its weights' digest."""
        return f"{self._card.name}@{self._card.digest[:DIGEST_DIGITS]}"

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
        ids = np.array([model.tokenizer.encode(text).ids], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        try:
            vectors = model.session.run(["sentence_embedding"], feeds)[0]
        except Exception as error:  # onnxruntime's own classes share no base
            raise EncoderError(f"{self._folder / 'model.onnx'} cannot be run: {error}") from error
        return unit_rows(vectors, 1, self.dimensions, self.name)[0]

    def _load(self) -> _Model:
        return _Model(
            _open_tokenizer(self._folder / "tokenizer.json", self._card.max_tokens),
            _open_session(self._folder / "model.onnx"),
        )


def _read_card(folder: Path) -> _Card:
    path = folder / "card.json"
    try:
        card: dict[str, Any] = json.loads(path.read_bytes())
        return _Card(
            name=str(card["name"]),
            dimensions=int(card["dimensions"]),
            max_tokens=int(card["max_tokens"]),
            digest=str(card["sha256"]["model.onnx"]),
        )
    except (OSError, ValueError) as error:
        raise EncoderError(
            f"{folder} is not a model folder: card.json cannot be read ({error}); "
            "it must hold card.json, model.onnx and tokenizer.json",
        ) from error
    except (KeyError, TypeError) as error:
        raise EncoderError(
            f"{path} lacks something or has it in another form ({error}); it must hold name, "
            "dimensions, max_tokens and sha256 with model.onnx",
        ) from error


def _open_tokenizer(path: Path, max_tokens: int) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer

    try:
        tokenizer: Any = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise EncoderError(f"{path} cannot be loaded: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _open_session(path: Path) -> Any:
    onnxruntime: Any = importlib.import_module("onnxruntime")  # it brings no types
    options = onnxruntime.SessionOptions()
    # One thread a run: a short query gains nothing from a second, which spins between nodes.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own classes share no base
        raise EncoderError(f"{path} cannot be loaded: {error}") from error


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
