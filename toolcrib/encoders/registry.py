"""Encoder registry: the runtimes that settings can name, and the loading of models."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.errors import EncoderError, SettingsError


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime: its module in this folder, its classes there, and its optional package.

    Each class has a `from_setting(model, threads)`: `model` is the text after `KIND:`, and
    `threads` the number of cores (0: all).
    """

    module: str
    encoder: str
    reranker: str | None = None
    package: str | None = None


RUNTIMES: dict[str, Runtime] = {
    "bundled": Runtime("onnx", "BundledEncoder", "BundledReranker"),
    "multilingual": Runtime("onnx", "MultilingualEncoder", package="toolcrib-multilingual"),
    "deterministic": Runtime("fake", "DeterministicEncoder"),
    "fastembed": Runtime("fastembed", "FastEmbedEncoder", "FastEmbedReranker", "fastembed"),
    "sentence-transformers": Runtime(
        "sentence_transformers",
        "SentenceTransformersEncoder",
        "SentenceTransformersReranker",
        "sentence-transformers",
    ),
}


def open_encoder(spelling: str, threads: int) -> DenseEncoder:
    """Open the encoder that `KIND` or `KIND:MODEL` names; heavy packages are imported only here.

    Raises:
        SettingsError: the kind is unknown, or no model is named.
        MissingExtraError: the extra of the kind is not installed.
    """
    classes = {kind: runtime.encoder for kind, runtime in RUNTIMES.items()}
    return _open("encoder.dense", classes, spelling, threads)


def open_reranker(spelling: str, threads: int) -> Reranker:
    """Open the reranker that `KIND:MODEL` names.

    Raises:
        SettingsError, MissingExtraError: as `open_encoder`.
    """
    classes = {kind: each.reranker for kind, each in RUNTIMES.items() if each.reranker}
    return _open("encoder.reranker", classes, spelling, threads)


def _open(setting: str, classes: Mapping[str, str], spelling: str, threads: int) -> Any:
    kind, _, model = spelling.partition(":")
    if kind not in classes:
        raise SettingsError(f"{setting}: there is no kind {kind!r}; known are {', '.join(classes)}")
    module = import_module(f"toolcrib.encoders.{RUNTIMES[kind].module}")
    return getattr(module, classes[kind]).from_setting(model, threads)


# -- loading ---------------------------------------------------------------------------------


Resource = TypeVar("Resource")

DIGEST_DIGITS = 12


class LoadOnce(Generic[Resource]):
    """A costly object, made once at its first use; after a failure the next use tries again."""

    def __init__(self, make: Callable[[], Resource]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._resources: list[Resource] = []

    def __call__(self) -> Resource:
        """The object; raises the exception of `make`."""
        if not self._resources:
            with self._lock:
                if not self._resources:
                    self._resources.append(self._make())
        return self._resources[0]


def import_onnxruntime() -> Any:
    """Import onnxruntime with its telemetry switched off, unless the user chose otherwise.

    Its telemetry writes a database into the user's cache, to be sent to a server.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return import_module("onnxruntime")


def open_session(path: Path, **chosen: Any) -> Any:
    """Open a graph on the processor; `chosen` are fields of its session's options."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    for name, value in chosen.items():
        setattr(options, name, value)
    try:
        return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own classes share no base
        raise EncoderError(f"{path} cannot be loaded: {error}") from error


def load_package(package: str, feature: str) -> Any:
    """Import an installed package."""
    try:
        # The package may import onnxruntime, whose telemetry must be switched off before.
        import_onnxruntime()
        return import_module(package)
    except Exception as error:  # a broken native library raises OSError, an old one anything
        raise EncoderError(
            f"{feature}: the package {package!r} is installed but cannot be imported ({error}); "
            "install it anew"
        ) from error


class ModelName:
    """A model as the settings name it: a name that its library knows, or a local folder.

    Texts that begin with `.`, `/` or `~` are folders; all other texts are names, even if a folder
    of that name exists.

    Raises:
        SettingsError: no model is named.
        EncoderError: the named folder does not exist.
    """

    def __init__(self, kind: str, model: str) -> None:
        if not model:
            raise SettingsError(f"{kind}: names no model; write {kind}:NAME or {kind}:./FOLDER")
        self._kind = kind
        self.model = model
        self.spelling = f"{kind}:{model}"
        self.folder = Path(model).expanduser() if model.startswith((".", "/", "~")) else None
        if self.folder is not None and not self.folder.is_dir():
            raise EncoderError(f"{self.spelling}: there is no folder {self.folder}")
        self.location = model if self.folder is None else str(self.folder)

    @cached_property
    def identity(self) -> str:
        """Full name of a library's model; for a folder, its name and the digest of its content.

        If a hub changes the weights of a name, the identity stays: this is not noticed.
        """
        if self.folder is None:
            return self.spelling
        return f"{self._kind}:{self.folder.resolve().name}@{_digest(self.folder)}"


_MODEL_SUFFIXES = {".bin", ".json", ".model", ".onnx", ".onnx_data", ".safetensors", ".txt"}


def _digest(folder: Path) -> str:
    """The first digits of a SHA-256 over every file that can change a vector."""
    total = hashlib.sha256()
    suffixes = _MODEL_SUFFIXES
    files = (path for path in folder.rglob("*") if path.suffix in suffixes and path.is_file())
    for path in sorted(files):
        total.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:DIGEST_DIGITS]
