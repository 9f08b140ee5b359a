"""fastembed models, by their names or from local folders: ONNX, without torch."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from toolcrib.encoders.base import (
    DenseEncoder,
    FloatArray,
    Reranker,
    finite_scores,
    readable,
    readable_all,
    unit_rows,
)
from toolcrib.encoders.registry import (
    LoadOnce,
    ModelName,
    import_onnxruntime,
    load_package,
    open_session,
)
from toolcrib.errors import EncoderError, nearest
from toolcrib.extras import require_extra

BATCH_TEXTS = 8
"""Larger batches pad more, and were slower on two cores."""

GRAPHS = ("model.onnx", "onnx/model.onnx")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
POOLED_OUTPUT = "sentence_embedding"

_POOLING = {
    "cls": "CLS",
    "pooling_mode_cls_token": "CLS",
    "mean": "MEAN",
    "pooling_mode_mean_tokens": "MEAN",
    "lasttoken": "LAST_TOKEN",
    "pooling_mode_lasttoken": "LAST_TOKEN",
}
"""fastembed's name for each pooling in sentence-transformers' `1_Pooling/config.json`."""


class _FastEmbed:
    """A model of fastembed, by its name or folder, loaded once."""

    _purpose: ClassVar[str]

    def __init__(self, model: str, threads: int = 0) -> None:
        self._model = ModelName("fastembed", model)
        require_extra("fastembed", f"the {self._purpose} {self._model.spelling}", "fastembed")
        self._threads = threads or None
        self._load_once = LoadOnce(self._load)

    @classmethod
    def from_setting(cls, model: str, threads: int) -> Self:
        return cls(model, threads)

    @property
    def name(self) -> str:
        return self._model.identity

    def _kind(self) -> Any:
        """The library's class that lists and opens such models."""
        raise NotImplementedError

    def _pooling(self, _graph: Path) -> dict[str, Any]:
        """Options of a folder's graph, beside its path."""
        return {}

    def _load(self) -> Any:
        kind, folder = self._kind(), self._model.folder
        if folder is None:
            return open_named(kind, self._model, self._threads)
        file = _graph_file(folder)
        # The library opens only listed models, whose names it compares without case.
        name = self.name.lower()
        if not any(entry["model"] == name for entry in kind.list_supported_models()):
            source = _descriptions().ModelSource(hf=name)
            options = self._pooling(folder / file)
            kind.add_custom_model(model=name, sources=source, model_file=file, **options)
        try:
            return kind(name, specific_model_path=str(folder), threads=self._threads)
        except Exception as error:  # errors of onnxruntime and tokenizers share no base class
            raise EncoderError(f"{folder} cannot be loaded: {error}") from error

    def _run(self, method: str, *texts: Any) -> list[Any]:
        loaded = self._load_once()
        try:
            return list(getattr(loaded, method)(*texts, batch_size=BATCH_TEXTS))
        except Exception as error:  # onnxruntime's errors share no base class
            raise EncoderError(f"{self._model.spelling} cannot be run: {error}") from error


class FastEmbedEncoder(_FastEmbed, DenseEncoder):
    """A `DenseEncoder` over `fastembed.TextEmbedding`; extra `fastembed`.

    `model` is a name from fastembed's list (`BAAI/bge-small-en-v1.5`), downloaded at its first
    use, or a folder (`./my-model`) with `model.onnx` (or `onnx/model.onnx`), `tokenizer.json`
    and `tokenizer_config.json`. `threads`: cores of a run; 0 means all. Downloads are kept in
    fastembed's own folder (`FASTEMBED_CACHE_PATH`).

    Raises:
        SettingsError: no model is named.
        MissingExtraError: fastembed is not installed.
        EncoderError: the named folder does not exist.
    """

    _purpose = "encoder"

    def __init__(self, model: str, threads: int = 0) -> None:
        super().__init__(model, threads)
        folder = self._model.folder
        self._query_prompt, self._document_prompt = _prompts_of(folder) if folder else ("", "")
        self._width = LoadOnce(self._measure)

    @property
    def dimensions(self) -> int:
        """Length of every vector: from fastembed's list, or measured for a folder."""
        return self._width()

    def encode_query(self, text: str) -> FloatArray:
        vectors = self._run("query_embed", [self._query_prompt + readable(text)])
        return unit_rows(vectors, 1, self.dimensions, self.name)[0]

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        documents = [self._document_prompt + text for text in readable_all(texts)]
        if not documents:
            return np.empty((0, self.dimensions), dtype=np.float32)
        # Texts of similar length run together, so that batches need little padding.
        order = sorted(range(len(documents)), key=lambda row: len(documents[row]))
        found = self._run("passage_embed", [documents[row] for row in order])
        vectors = np.empty((len(documents), self.dimensions), dtype=np.float32)
        vectors[order] = unit_rows(found, len(documents), self.dimensions, self.name)
        return vectors

    def _kind(self) -> Any:
        return load_package("fastembed", self._model.spelling).TextEmbedding

    def _pooling(self, graph: Path) -> dict[str, Any]:
        pooling, output = _pooling_of(graph, self._model.folder or Path())
        return {
            "pooling": _descriptions().PoolingType(pooling),
            "normalization": True,
            "dim": 1,  # required, and unused: the output has its own width
            **({"output_name": output} if output else {}),
        }

    def _measure(self) -> int:
        if self._model.folder is None:
            return _listed_model(self._kind(), self._model)["dim"]
        return len(self._run("query_embed", ["dimensions"])[0])


class FastEmbedReranker(_FastEmbed, Reranker):
    """A `Reranker` over fastembed's `TextCrossEncoder`; extra `fastembed`.

    `model` is a name from its list (`Xenova/ms-marco-MiniLM-L-6-v2`) or a folder; `threads` and
    the errors are those of `FastEmbedEncoder`.
    """

    _purpose = "reranker"

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        question, documents = readable(query), readable_all(texts)
        scores = self._run("rerank", question, documents) if documents else []
        return finite_scores(scores, len(documents), self.name)

    def _kind(self) -> Any:
        load_package("fastembed", self._model.spelling)
        return importlib.import_module("fastembed.rerank.cross_encoder").TextCrossEncoder


def _descriptions() -> Any:
    return importlib.import_module("fastembed.common.model_description")


def open_named(kind: Any, model: ModelName, threads: int | None) -> Any:
    """Open a model of fastembed's list (`kind`: the class that lists it); download it if needed."""
    source: str | None = _listed_model(kind, model)["sources"]["hf"]
    loguru: Any = load_package("loguru", model.spelling)
    hub: Any = load_package("huggingface_hub", model.spelling)
    loguru.logger.disable("fastembed")  # it logs an error for what is only not there yet
    try:
        return kind(model.model, threads=threads, local_files_only=True)
    except Exception:  # noqa: BLE001, S110 -- fastembed has no class for "not in the cache"
        pass
    finally:
        loguru.logger.enable("fastembed")
    try:
        if source is not None:
            # Without a network fastembed would retry for 39 seconds before it fails.
            hub.model_info(source, timeout=10)
        return kind(model.model, threads=threads)
    except Exception as error:
        raise EncoderError(
            f"{model.spelling} is not on this machine and cannot be fetched ({error}). Without "
            "a network, copy the model's folder from another machine and name it as "
            "fastembed:./FOLDER, or use the encoder that ships with toolcrib: bundled"
        ) from error


def _listed_model(kind: Any, model: ModelName) -> dict[str, Any]:
    listed: list[dict[str, Any]] = kind.list_supported_models()
    for entry in listed:
        if entry["model"].lower() == model.model.lower():
            return entry
    near = nearest(model.model, (entry["model"] for entry in listed))
    hint = f"did you mean {', '.join(map(repr, near))}? " if near else ""
    raise EncoderError(
        f"fastembed has no model {model.model!r}; {hint}"
        "for a folder, give its path: fastembed:./FOLDER"
    )


def _graph_file(folder: Path) -> str:
    """The graph's path within the folder, after a check for the files that fastembed reads."""
    graph = next((name for name in GRAPHS if (folder / name).is_file()), "")
    missing = [] if graph else [" or ".join(GRAPHS)]
    missing += [name for name in TOKENIZER_FILES if not (folder / name).is_file()]
    if missing:
        is_ours = (folder / "card.json").is_file()
        hint = f"; name a folder with a card.json as bundled:{folder}" if is_ours else ""
        raise EncoderError(f"{folder} is no fastembed model: it has no {', '.join(missing)}{hint}")
    return graph


def _prompts_of(folder: Path) -> tuple[str, str]:
    """Prompts of a query and of a document, from sentence-transformers' settings."""
    settings = _settings(folder / "config_sentence_transformers.json")
    prompts: dict[str, str] = settings.get("prompts") or {}
    document = prompts.get("document", prompts.get("passage", ""))
    return prompts.get("query", ""), document


def _pooling_of(graph: Path, folder: Path) -> tuple[str, str]:
    """Name of the pooling for fastembed, and the output to read, empty for the first."""
    outputs = _outputs(graph)
    if outputs[0][1] == 2:  # noqa: PLR2004 [texts, dimensions]
        return "DISABLED", ""
    if any(name == POOLED_OUTPUT for name, _ in outputs):
        return "DISABLED", POOLED_OUTPUT
    config = folder / "1_Pooling" / "config.json"
    settings = _settings(config)
    stated = settings.get("pooling_mode")
    modes = [stated] if stated else [key for key, value in settings.items() if value is True]
    known = [_POOLING[mode] for mode in modes if isinstance(mode, str) and mode in _POOLING]
    if len(known) != 1 or len(modes) != 1:
        raise EncoderError(
            f"{graph} gives one vector for each token, and {config} names no pooling of these "
            "vectors; set pooling_mode there to mean, cls or lasttoken, or export the model with "
            f"an output named {POOLED_OUTPUT}"
        )
    return known[0], ""


def _outputs(path: Path) -> list[tuple[str, int]]:
    """Name and number of axes of each output of a graph."""
    unoptimised = import_onnxruntime().GraphOptimizationLevel.ORT_DISABLE_ALL
    graph = open_session(path, graph_optimization_level=unoptimised)
    return [(output.name, len(output.shape or ())) for output in graph.get_outputs()]


def _settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_bytes()))
    except ValueError as error:
        raise EncoderError(f"{path} cannot be read: {error}") from error
