"""Which encoder and reranker the settings name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.errors import SettingsError
from toolcrib.settings import Settings

__all__ = ["make_dense", "make_reranker"]

Made = TypeVar("Made")


def make_dense(settings: Settings) -> DenseEncoder:
    """The dense encoder that the settings name.

    Raises:
        SettingsError: there is no such kind.
        MissingExtraError: its extra is not installed.
    """
    kind, _, model = settings.encoder.dense.partition(":")
    return _choose("encoder.dense", kind, _DENSE)(model, settings.encoder.threads)


def make_reranker(settings: Settings) -> Reranker | None:
    """The reranker that the settings name, if they name one.

    Raises:
        SettingsError: there is no such kind.
        MissingExtraError: its extra is not installed.
    """
    if settings.encoder.reranker is None:
        return None
    kind, _, model = settings.encoder.reranker.partition(":")
    return _choose("encoder.reranker", kind, _RERANKERS)(model, settings.encoder.threads)


def _bundled(model: str, threads: int) -> DenseEncoder:
    from toolcrib.encoders.onnx import BundledEncoder

    return BundledEncoder(Path(model) if model else None, threads)


def _deterministic(model: str, _threads: int) -> DenseEncoder:
    from toolcrib.encoders.fake import DeterministicEncoder

    return DeterministicEncoder(int(model)) if model else DeterministicEncoder()


def _fastembed(model: str, threads: int) -> DenseEncoder:
    from toolcrib.encoders.fastembed import FastEmbedEncoder

    return FastEmbedEncoder(model, threads)


def _sentence_transformers(model: str, _threads: int) -> DenseEncoder:
    from toolcrib.encoders.sentence_transformers import SentenceTransformersEncoder

    return SentenceTransformersEncoder(model)


def _bundled_reranker(model: str, threads: int) -> Reranker:
    from toolcrib.encoders.onnx import BundledReranker

    if not model:
        raise SettingsError(
            "encoder.reranker: no reranker ships; name a folder, as in bundled:./my-reranker",
        )
    return BundledReranker(Path(model), threads)


def _fastembed_reranker(model: str, threads: int) -> Reranker:
    from toolcrib.encoders.fastembed import FastEmbedReranker

    return FastEmbedReranker(model, threads)


def _sentence_transformers_reranker(model: str, _threads: int) -> Reranker:
    from toolcrib.encoders.sentence_transformers import SentenceTransformersReranker

    return SentenceTransformersReranker(model)


_DENSE: dict[str, Callable[[str, int], DenseEncoder]] = {
    "bundled": _bundled,
    "deterministic": _deterministic,
    "fastembed": _fastembed,
    "sentence-transformers": _sentence_transformers,
}

_RERANKERS: dict[str, Callable[[str, int], Reranker]] = {
    "bundled": _bundled_reranker,
    "fastembed": _fastembed_reranker,
    "sentence-transformers": _sentence_transformers_reranker,
}


def _choose(setting: str, kind: str, known: dict[str, Made]) -> Made:
    if kind not in known:
        kinds = ", ".join(known)
        raise SettingsError(f"{setting}: there is no kind {kind!r}; known are {kinds}")
    return known[kind]
