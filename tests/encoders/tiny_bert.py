"""Tiny BERTs of random weights, as arrays and as model folders, made in a tenth of a second.

`random_weights` gives what `toolcrib.training` takes; `make_encoder` and `make_reranker` write
folders that `BundledEncoder` and `BundledReranker` run. The same arguments give the same model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER
from toolcrib.training.export import Weights, export

SHIPPED = MODELS_FOLDER / DEFAULT_MODEL

SPREAD = 0.5
"""Wide enough for random weights to tell texts apart."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a BERT is; `words` of the shipped vocabulary are kept, the commonest ones."""

    layers: int = 2
    width: int = 64
    heads: int = 2
    intermediate: int = 128
    tokens: int = 128
    words: int = 4_000


SMALL = Shape()


def random_weights(shape: Shape = SMALL, *, cross_encoder: bool = False, seed: int = 7) -> Weights:
    """A BERT by the names that it has on the hub; a cross-encoder has a pooler and a classifier."""
    sizes = _embeddings(shape)
    for number in range(shape.layers):
        sizes |= _layer(shape, f"encoder.layer.{number}")
    if cross_encoder:
        sizes |= _linear("pooler.dense", shape.width, shape.width)
        sizes |= _linear("classifier", 1, shape.width)
    chance = np.random.default_rng(seed)
    tensors = {
        name: chance.normal(0, SPREAD, size).astype(np.float32) for name, size in sizes.items()
    }
    for name, tensor in tensors.items():
        if "LayerNorm" in name:
            tensor[:] = name.endswith("weight")
    return Weights(tensors, shape.heads, _tokenizer(shape.words))


def make_encoder(
    folder: Path, shape: Shape = SMALL, *, name: str = "tiny", quantised: bool = False
) -> Path:
    """Write an encoder that gives vectors of `shape.width`; returns its folder."""
    card = {"name": name, "max_tokens": shape.tokens}
    export(random_weights(shape), folder, card, quantised=quantised)
    return folder


def make_reranker(
    folder: Path, shape: Shape = SMALL, *, name: str = "tiny", quantised: bool = False
) -> Path:
    """Write a cross-encoder; returns its folder."""
    card = {"name": name, "max_tokens": shape.tokens}
    export(random_weights(shape, cross_encoder=True), folder, card, quantised=quantised)
    return folder


Sizes = dict[str, tuple[int, ...]]


def _embeddings(shape: Shape) -> Sizes:
    rows = {"word": shape.words, "position": shape.tokens, "token_type": 2}
    tables = {f"embeddings.{what}_embeddings.weight": (n, shape.width) for what, n in rows.items()}
    return tables | _norm("embeddings.LayerNorm", shape.width)


def _layer(shape: Shape, source: str) -> Sizes:
    width, wide = shape.width, shape.intermediate
    return {
        **_linear(f"{source}.attention.self.query", width, width),
        **_linear(f"{source}.attention.self.key", width, width),
        **_linear(f"{source}.attention.self.value", width, width),
        **_linear(f"{source}.attention.output.dense", width, width),
        **_norm(f"{source}.attention.output.LayerNorm", width),
        **_linear(f"{source}.intermediate.dense", wide, width),
        **_linear(f"{source}.output.dense", width, wide),
        **_norm(f"{source}.output.LayerNorm", width),
    }


def _linear(source: str, outputs: int, inputs: int) -> Sizes:
    return {f"{source}.weight": (outputs, inputs), f"{source}.bias": (outputs,)}


def _norm(source: str, width: int) -> Sizes:
    return {f"{source}.weight": (width,), f"{source}.bias": (width,)}


def _tokenizer(words: int) -> bytes:
    """The shipped tokenizer with the first words of its vocabulary; the others are unknown."""
    tokenizer = json.loads((SHIPPED / "tokenizer.json").read_bytes())
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {word: at for word, at in vocabulary.items() if at < words}
    return json.dumps(tokenizer).encode()
