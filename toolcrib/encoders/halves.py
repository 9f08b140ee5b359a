"""Vectors as text, for documents that hold nothing else: float16, base64."""

from __future__ import annotations

import base64

import numpy as np

from toolcrib.encoders.base import FloatArray

__all__ = ["from_text", "to_text"]


def to_text(vectors: FloatArray) -> str:
    """Rows of a matrix, one after the other, at half precision."""
    return base64.b64encode(vectors.astype("<f2").tobytes()).decode("ascii")


def from_text(text: str, dimensions: int) -> FloatArray:
    """The rows that `to_text` wrote: float32 [n, dimensions]."""
    raw = np.frombuffer(base64.b64decode(text), dtype="<f2")
    return raw.reshape(-1, dimensions).astype(np.float32)
