"""What goes into a model and what comes out of it, checked alike for every encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toolcrib.encoders.base import FloatArray
from toolcrib.errors import EncoderError

__all__ = ["finite_scores", "readable", "readable_all", "unit_rows"]


def readable(text: str) -> str:
    """The text as any tokenizer can read it: halves of surrogate pairs are joined or replaced.

    JSON may bring them as lone halves, and a tokenizer in Rust refuses such a string.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] callers err
        raise TypeError(f"an encoder reads text, not {type(text).__name__}: {text!r:.80}")
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def readable_all(texts: Sequence[str]) -> list[str]:
    """Several texts, each as `readable` gives it, in their order.

    Raises:
        TypeError: it is one text, whose letters would be encoded one by one, or holds what
            is no text.
    """
    if isinstance(texts, str):
        raise TypeError(f"a list of texts is wanted, and this is one text: {texts!r:.80}")
    return [readable(text) for text in texts]


def unit_rows(vectors: Any, rows: int, dimensions: int, model: str) -> FloatArray:
    """A model's output as float32 [rows, dimensions], every row scaled to unit length.

    Raises:
        EncoderError: another shape, NaN or infinity, or a zero vector, which has no direction.
    """
    found = np.asarray(vectors, dtype=np.float32)
    if found.shape != (rows, dimensions):
        raise EncoderError(
            f"{model} gave an array of shape {found.shape} for {rows} texts; "
            f"wanted {(rows, dimensions)}: choose a model that gives one vector a text",
        )
    lengths = np.sqrt(np.einsum("ij,ij->i", found, found))
    usable = (lengths > 0) & (lengths < np.inf)
    if not usable.all():
        row = int(np.argmin(usable))
        fault = "a zero vector" if lengths[row] == 0 else "NaN, infinity or an overflow"
        raise EncoderError(f"{model} gave {fault} for text {row} of {rows}")
    return found / lengths[:, np.newaxis]


def finite_scores(scores: Any, count: int, model: str) -> FloatArray:
    """A reranker's output as float32 [count].

    Raises:
        EncoderError: another shape, NaN or infinity.
    """
    found = np.asarray(scores, dtype=np.float32)
    if found.shape != (count,):
        raise EncoderError(
            f"{model} gave an array of shape {found.shape} for {count} texts; wanted {(count,)}: "
            "a reranker has one output, and a classifier of several classes is none",
        )
    if not np.isfinite(found).all():
        raise EncoderError(f"{model} gave NaN or infinity for one of {count} texts")
    return found
