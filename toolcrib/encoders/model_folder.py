"""A model folder: `model.onnx`, `tokenizer.json` and `card.json`, run straight on onnxruntime.

fastembed could run the same files; it costs 1.2 s of imports where this costs 0.2 s.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toolcrib.encoders.loading import DIGEST_DIGITS, import_onnxruntime
from toolcrib.encoders.base import FloatArray
from toolcrib.errors import EncoderError

if TYPE_CHECKING:
    import tokenizers

__all__ = ["MODELS", "Card", "Model", "open_model", "read_card", "usable_cores"]

MIN_TOKENS = 3
"""A text's first and last mark, and something between them."""

MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True, slots=True)
class Card:
    """What `card.json` says of a model; `digest` is the SHA-256 of its weights."""

    name: str
    dimensions: int
    max_tokens: int
    digest: str

    @property
    def identity(self) -> str:
        """The model's name and the first digits of its weights' digest."""
        return f"{self.name}@{self.digest[:DIGEST_DIGITS]}"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model that is loaded: its tokenizer, which truncates, and its onnxruntime session."""

    folder: Path
    tokenizer: tokenizers.Tokenizer
    session: Any
    outputs: frozenset[str]

    def gives(self, output: str) -> bool:
        """Whether the graph has this output."""
        return output in self.outputs

    def run(self, tokens: Sequence[int], outputs: Sequence[str]) -> list[FloatArray]:
        """What the graph gives for one text's tokens, each with a first dimension of 1.

        Raises:
            EncoderError: it cannot be run.
        """
        ids = np.array([tokens], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        try:
            return self.session.run(outputs, feeds)
        except Exception as error:  # onnxruntime's own classes share no base
            raise EncoderError(f"{self.folder / 'model.onnx'} cannot be run: {error}") from error


def open_model(folder: Path, card: Card) -> Model:
    """Load tokenizer and graph.

    Raises:
        EncoderError: one of the files cannot be loaded.
    """
    session = _open_session(folder / "model.onnx")
    outputs = frozenset(str(output.name) for output in session.get_outputs())
    tokenizer = _open_tokenizer(folder / "tokenizer.json", card.max_tokens)
    return Model(folder, tokenizer, session, outputs)


def read_card(folder: Path) -> Card:
    """Read `card.json`.

    Raises:
        EncoderError: it cannot be read, or lacks something.
    """
    path = folder / "card.json"
    try:
        card: dict[str, Any] = json.loads(path.read_bytes())
        read = Card(
            name=str(card["name"]),
            dimensions=int(card["dimensions"]),
            max_tokens=int(card["max_tokens"]),
            digest=str(card["sha256"]["model.onnx"]),
        )
    except (OSError, ValueError, OverflowError) as error:
        raise EncoderError(
            f"{folder} is not a model folder: card.json cannot be read ({error}); "
            "it must hold card.json, model.onnx and tokenizer.json",
        ) from error
    except (KeyError, TypeError) as error:
        raise EncoderError(
            f"{path} lacks something or has it in another form ({error}); it must hold name, "
            "dimensions, max_tokens and sha256 with model.onnx",
        ) from error
    if read.dimensions < 1 or read.max_tokens < MIN_TOKENS:
        raise EncoderError(
            f"{path} says {read.dimensions} dimensions and {read.max_tokens} tokens; at least 1 "
            f"and {MIN_TOKENS} are needed",
        )
    return read


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
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    # One thread a run: a short query gains nothing from a second, which spins between nodes.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own classes share no base
        raise EncoderError(f"{path} cannot be loaded: {error}") from error


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
