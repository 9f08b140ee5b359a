"""Encoder registry: the runtimes of models that settings can name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime: its module in this folder, its classes there, and its optional package.

    Each class has a `from_setting(model, threads)`: `model` is the text after `KIND:`, and
    `threads` the cores that a run may use (0: all).
    """

    module: str
    encoder: str
    reranker: str | None = None
    package: str | None = None


RUNTIMES: dict[str, Runtime] = {
    "bundled": Runtime("onnx", "BundledEncoder", "BundledReranker"),
    "deterministic": Runtime("fake", "DeterministicEncoder"),
    "fastembed": Runtime("fastembed", "FastEmbedEncoder", "FastEmbedReranker", "fastembed"),
    "sentence-transformers": Runtime(
        "sentence_transformers",
        "SentenceTransformersEncoder",
        "SentenceTransformersReranker",
        "sentence-transformers",
    ),
}


def open_encoder(spelled: str, threads: int) -> DenseEncoder:
    """Open the encoder that `KIND` or `KIND:MODEL` names; heavy packages are imported only here.

    Raises:
        SettingsError: there is no such kind, or its model is missing.
        MissingExtraError: its extra is not installed.
    """
    classes = {kind: runtime.encoder for kind, runtime in RUNTIMES.items()}
    return _open("encoder.dense", classes, spelled, threads)


def open_reranker(spelled: str, threads: int) -> Reranker:
    """Open the reranker that `KIND:MODEL` names.

    Raises:
        SettingsError, MissingExtraError: as `open_encoder`.
    """
    classes = {kind: each.reranker for kind, each in RUNTIMES.items() if each.reranker}
    return _open("encoder.reranker", classes, spelled, threads)


def _open(setting: str, classes: Mapping[str, str], spelled: str, threads: int) -> Any:
    kind, _, model = spelled.partition(":")
    if kind not in classes:
        raise SettingsError(f"{setting}: there is no kind {kind!r}; known are {', '.join(classes)}")
    module = import_module(f"toolcrib.encoders.{RUNTIMES[kind].module}")
    return getattr(module, classes[kind]).from_setting(model, threads)
