"""The shipped model laid out as fastembed wants a local folder, so that no network is needed."""

from __future__ import annotations

import json
from pathlib import Path

from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS

__all__ = ["SHIPPED", "lay_out"]

SHIPPED = MODELS / DEFAULT_MODEL


def lay_out(folder: Path, graph: str = "model.onnx") -> Path:
    """Make a folder that `fastembed:./folder` can name; returns it."""
    (folder / graph).parent.mkdir(parents=True, exist_ok=True)
    (folder / graph).symlink_to(SHIPPED / "model.onnx")
    (folder / "tokenizer.json").symlink_to(SHIPPED / "tokenizer.json")
    tokenizer = {"model_max_length": 256, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder
