"""Put a model that `toolcrib train` made into the package, with its origin and licence.

    python scripts/ship_model.py toolcrib-encoder

The folder's name is the model's; what was there of that name is replaced. Passages belong to every
retraining: tests/test_knowledge_sample.py has the lower bound of the right collection first.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from export_base import CARD

from toolcrib.encoders.onnx import MODELS_FOLDER
from toolcrib.training.export import add_to_card

FILES = ("model.onnx", "tokenizer.json", "card.json")
CHANGED = "fine-tuned for tools, weights and activations quantised to int8"


def main() -> None:
    """Copy, and complete the card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    source: Path = parser.parse_args().folder
    target = MODELS_FOLDER / source.resolve().name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in FILES:
        shutil.copyfile(source / name, target / name)
    shutil.copyfile(Path(__file__).resolve().parents[1] / "LICENSE", target / "LICENSE")
    add_to_card(target, {**CARD, "changed": CHANGED})
    print(target, (target / "model.onnx").stat().st_size)


if __name__ == "__main__":
    main()
