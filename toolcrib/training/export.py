"""A trained model as a folder that toolcrib runs: int8 ONNX, tokenizer and card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.encoders.loading import import_onnxruntime
from toolcrib.extras import import_extra

__all__ = ["Weights", "add_to_card", "export", "read_weights"]

FEATURE = "the export of a model"
CALIBRATION = "calibration.txt"


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A BERT as plain arrays: `tensors` by their names in it, its heads, its tokenizer's JSON."""

    tensors: Mapping[str, NDArray[np.float32]]
    heads: int
    tokenizer: bytes


def read_weights(folder: Path) -> Weights:
    """Read what `train_encoder` wrote, or any folder of a BERT in the form of the hub."""
    load = import_extra("safetensors.numpy", FEATURE, "train").load_file
    config = json.loads((folder / "config.json").read_bytes())
    tensors: dict[str, NDArray[np.float32]] = {
        name.removeprefix("bert."): value.astype(np.float32)
        for name, value in load(folder / "model.safetensors").items()
    }
    return Weights(
        tensors, int(config["num_attention_heads"]), (folder / "tokenizer.json").read_bytes()
    )


def export(weights: Weights, out: Path, card: Mapping[str, Any], *, quantised: bool = True) -> None:
    """Write `model.onnx`, `tokenizer.json` and `card.json`; the same bytes for the same weights.

    `card` holds at least `name` and `max_tokens`.
    """
    graph = import_extra("toolcrib.training.graph", FEATURE, "train")
    tokenizer = _neutral(weights.tokenizer)
    model, plain = graph.build(weights.tensors, weights.heads, None)
    if quantised:
        ranges = _measured(model, plain.taps, tokenizer, int(card["max_tokens"]))
        model, _ = graph.build(weights.tensors, weights.heads, ranges)
    out.mkdir(parents=True, exist_ok=True)
    files = {
        "model.onnx": model.SerializeToString(deterministic=True),
        "tokenizer.json": tokenizer.to_str().encode(),
    }
    for file, content in files.items():
        (out / file).write_bytes(content)
    written = {
        **card,
        "dimensions": int(weights.tensors["embeddings.LayerNorm.weight"].shape[0]),
        "pad_token_id": tokenizer.token_to_id("[PAD]"),
        "inputs": [value.name for value in model.graph.input],
        "outputs": [value.name for value in model.graph.output],
        "onnxruntime": ">=1.20",
        "sha256": {file: hashlib.sha256(content).hexdigest() for file, content in files.items()},
    }
    _write_card(out, written)


def add_to_card(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write more into a model's card."""
    _write_card(folder, {**json.loads((folder / "card.json").read_bytes()), **facts})


def _write_card(folder: Path, card: Mapping[str, Any]) -> None:
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    (folder / "card.json").write_text(text, encoding="utf-8")


def _neutral(source: bytes) -> Any:
    """The tokenizer without the padding and truncation that it was saved with."""
    tokenizer: Any = import_extra("tokenizers", FEATURE, "train").Tokenizer.from_buffer(source)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _measured(model: Any, taps: Mapping[str, str], tokenizer: Any, max_tokens: int) -> Any:
    """Run the float graph over the calibration texts; lowest and highest of each channel."""
    onnx = import_extra("onnx", FEATURE, "train")
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    tapped.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in taps.values()
    )
    session = _session(tapped.SerializeToString())
    ranges: dict[str, tuple[Any, Any]] = {}
    for ids in _feeds(tokenizer, max_tokens):
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        for site, found in zip(taps, session.run(list(taps.values()), feeds), strict=True):
            rows = np.concatenate(np.asarray(found))
            low, high = ranges.get(site, (rows[0], rows[0]))
            ranges[site] = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return ranges


def _session(model: bytes) -> Any:
    """Open a model on the CPU, with one thread: the same sums in the same order."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _feeds(tokenizer: Any, max_tokens: int) -> Iterator[NDArray[np.int64]]:
    """Token rows: each line of the calibration file, all of them joined, each whole word alone."""
    text = resources.files("toolcrib.training").joinpath(CALIBRATION).read_text(encoding="utf-8")
    ids: list[list[int]] = [tokenizer.encode(line).ids for line in text.splitlines()]
    start, end = ids[0][0], ids[0][-1]
    body = [token for line in ids for token in line[1:-1]]
    width = max_tokens - 2
    windows = [body[at : at + width] for at in range(0, len(body), width)]
    for row in [*ids, *([start, *window, end] for window in windows)]:
        yield np.array([row], dtype=np.int64)
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    words = sorted(token for word, token in vocabulary.items() if word.isalpha())
    for at in range(0, len(words), 64):
        yield np.array([[start, token, end] for token in words[at : at + 64]], dtype=np.int64)
