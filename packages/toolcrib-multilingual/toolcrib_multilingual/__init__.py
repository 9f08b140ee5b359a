"""Model folder of toolcrib's multilingual encoder, which toolcrib itself opens and runs."""

from pathlib import Path

FOLDER = Path(__file__).parent / "model"
"""Folder with `model.onnx`, `tokenizer.json`, `card.json`, `head.npz` and `lexicon.json`."""
