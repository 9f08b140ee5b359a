"""A local folder as fastembed's custom model: which file, which output, how it is pooled."""

from __future__ import annotations

import hashlib
import importlib
import json
from pathlib import Path
from typing import Any

from toolcrib.encoders.loading import ModelName, import_onnxruntime
from toolcrib.errors import EncoderError

__all__ = ["model_file", "open_folder", "prompts_of", "registered_name"]

FILES_BESIDE = ("tokenizer.json", "tokenizer_config.json")
POOLED_OUTPUT = "sentence_embedding"

_POOLING = {
    "cls": "CLS",
    "pooling_mode_cls_token": "CLS",
    "mean": "MEAN",
    "pooling_mode_mean_tokens": "MEAN",
    "lasttoken": "LAST_TOKEN",
    "pooling_mode_lasttoken": "LAST_TOKEN",
}
"""What sentence-transformers' `1_Pooling/config.json` says, now or of old, as fastembed has it."""


def open_folder(library: Any, model: ModelName, options: dict[str, Any]) -> Any:
    """Open a folder's encoder as a `fastembed.TextEmbedding`.

    Raises:
        EncoderError: files are missing, cannot be loaded, or do not say how to pool.
    """
    folder = model.folder or Path()
    file = model_file(folder)
    pooling, output = _pooling(folder, file)
    name = registered_name(folder, file, pooling, output)
    models = importlib.import_module("fastembed.common.model_description")
    if not _is_registered(library.TextEmbedding, name):
        library.TextEmbedding.add_custom_model(
            model=name,
            pooling=models.PoolingType(pooling),
            normalization=True,
            sources=models.ModelSource(hf=name),
            dim=1,  # asked for, and used for nothing: the output has the width that it has
            model_file=file,
            **({"output_name": output} if output else {}),
        )
    try:
        return library.TextEmbedding(name, specific_model_path=str(folder), **options)
    except Exception as error:  # onnxruntime's and tokenizers' own classes share no base
        raise EncoderError(f"{folder} cannot be loaded: {error}") from error


def model_file(folder: Path) -> str:
    """Where the graph is, relative to the folder, once all that fastembed reads is there.

    Raises:
        EncoderError: something is missing.
    """
    graphs = [name for name in ("model.onnx", "onnx/model.onnx") if (folder / name).is_file()]
    missing = [name for name in FILES_BESIDE if not (folder / name).is_file()]
    if not graphs:
        missing.insert(0, "model.onnx (or onnx/model.onnx)")
    if missing:
        hint = ""
        if (folder / "card.json").is_file():
            hint = f"; a folder with a card.json is named as bundled:{folder}"
        raise EncoderError(f"{folder} is no fastembed model: it has no {', '.join(missing)}{hint}")
    return graphs[0]


def registered_name(folder: Path, *rest: str) -> str:
    """The name under which fastembed's list, which is one for the process, holds a folder."""
    key = "\n".join((str(folder.resolve()), *rest))
    return f"toolcrib/{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def prompts_of(folder: Path) -> tuple[str, str]:
    """What is set before a query and before a document, as sentence-transformers notes it.

    Raises:
        EncoderError: the file with the prompts cannot be read.
    """
    settings = _settings(folder / "config_sentence_transformers.json")
    prompts: dict[str, str] = settings.get("prompts") or {}
    document = prompts.get("document", prompts.get("passage", ""))
    return prompts.get("query", ""), document


def _is_registered(kind: Any, name: str) -> bool:
    return any(entry["model"] == name for entry in kind.list_supported_models())


def _pooling(folder: Path, file: str) -> tuple[str, str]:
    """The pooling in fastembed's words, and the output to name where it is not the first."""
    outputs = _outputs(folder / file)
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
            f"{folder / file} gives one vector a token, and {config} does not say whether to "
            "take their mean, the first or the last (pooling_mode: mean, cls or lasttoken); "
            f"write it there, or export the model with an output named {POOLED_OUTPUT}",
        )
    return known[0], ""


def _outputs(path: Path) -> list[tuple[str, int]]:
    """Names and numbers of axes of a graph's outputs, in their order."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        graph = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own classes share no base
        raise EncoderError(f"{path} cannot be loaded: {error}") from error
    return [(output.name, len(output.shape or ())) for output in graph.get_outputs()]


def _settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_bytes()))
    except ValueError as error:
        raise EncoderError(f"{path} cannot be read: {error}") from error
