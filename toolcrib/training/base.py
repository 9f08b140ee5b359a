"""Where training starts: the bundled model's weights, read back from its int8 graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.errors import EncoderError, TrainingError
from toolcrib.training.export import Weights
from toolcrib.extras import import_extra

__all__ = ["check_base", "restore", "write_for_training"]

FEATURE = "training from the bundled model"
WORDS, POSITIONS = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"


def restore(folder: Path) -> Weights:
    """The float weights of a model folder that `export` wrote, int8 or float.

    Rounding to 8 bits is all that is lost, so training needs no download.

    Raises:
        EncoderError: the folder holds no such model.
        MissingExtraError: the extra `train` is not installed.
    """
    onnx = import_extra("onnx", FEATURE, "train")
    try:
        model = onnx.load(str(folder / "model.onnx"))
        tokenizer = (folder / "tokenizer.json").read_bytes()
    except Exception as error:  # protobuf's own classes share no base
        raise EncoderError(f"{folder} cannot be read as a model: {error}") from error
    found: dict[str, Any] = {
        value.name: onnx.numpy_helper.to_array(value) for value in model.graph.initializer
    }
    try:
        tensors, heads = _tensors(found), _heads(model)
    except (KeyError, StopIteration) as error:
        raise EncoderError(
            f"{folder / 'model.onnx'} was not written by toolcrib ({error} is not in it); train "
            "from a folder or hub name of sentence-transformers instead (--base)",
        ) from error
    return Weights(tensors, heads, tokenizer)


def check_base(base: str, tokens: int, layers: int = 1) -> None:
    """See that a folder or hub name is a BERT that can be exported, before it is trained.

    `tokens` is how many it must read, `layers` how many it must have.

    Raises:
        TrainingError: it cannot be read, or is of another kind or too small.
        MissingExtraError: the extra `train` is not installed.
    """
    transformers = import_extra("transformers", FEATURE, "train")
    try:
        config: Any = transformers.AutoConfig.from_pretrained(base)
    except (OSError, ValueError) as error:
        raise TrainingError(f"the base {base} cannot be read: {error}") from error
    kind = (config.model_type, getattr(config, "hidden_act", ""))
    if kind != ("bert", "gelu"):
        raise TrainingError(
            f"the base {base} is of the kind {' with '.join(kind)}; what is exported is BERT "
            "with gelu, such as all-MiniLM-L6-v2, bge-small-en-v1.5 or e5-small-v2",
        )
    if config.max_position_embeddings < tokens or config.num_hidden_layers < layers:
        raise TrainingError(
            f"the base {base} reads {config.max_position_embeddings} tokens in "
            f"{config.num_hidden_layers} layers; {tokens} and {layers} are needed",
        )


def write_for_training(weights: Weights, folder: Path) -> None:
    """Write the weights as the folder that sentence-transformers opens.

    Raises:
        MissingExtraError: the extra `train` is not installed.
    """
    transformers = import_extra("transformers", FEATURE, "train")
    torch = import_extra("torch", FEATURE, "train")
    words, positions = weights.tensors[WORDS], weights.tensors[POSITIONS]
    up = weights.tensors["encoder.layer.0.intermediate.dense.weight"]
    config = transformers.BertConfig(
        vocab_size=words.shape[0],
        hidden_size=words.shape[1],
        num_hidden_layers=import_extra("toolcrib.training.graph", FEATURE, "train").layers(weights.tensors),
        num_attention_heads=weights.heads,
        intermediate_size=up.shape[0],
        max_position_embeddings=positions.shape[0],
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in weights.tensors.items()}
    model.load_state_dict(tensors, strict=False)
    model.save_pretrained(str(folder))
    (folder / "tokenizer.json").write_bytes(weights.tokenizer)
    named = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        cls_token="[CLS]",  # noqa: S106 a token of text
        mask_token="[MASK]",  # noqa: S106
        **named,
    )
    tokenizer.save_pretrained(str(folder))


def _heads(model: Any) -> int:
    node = next(n for n in model.graph.node if n.op_type in ("Attention", "QAttention"))
    return int(next(a.i for a in node.attribute if a.name == "num_heads"))


def _tensors(found: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """BERT's names and forms for the graph's constants."""
    words = found["words"].astype(np.float32) * found.get("scales", np.float32(1))
    positions: NDArray[np.float32] = found["positions"]
    # The one token type is added to the positions already.
    types = np.zeros((2, words.shape[1]), dtype=np.float32)
    tensors: dict[str, NDArray[np.float32]] = {WORDS: words, POSITIONS: positions, TYPES: types}
    kept = ("embeddings.LayerNorm", "encoder.layer")
    tensors |= {name: value for name, value in found.items() if name.startswith(kept)}
    number = 0
    while f"{number}.attention.w" in found:
        to = f"encoder.layer.{number}"
        queries = np.split(_weight(found, f"{number}.attention"), 3, axis=1)
        offsets = np.split(found[f"{number}.attention.bias"], 3)
        for part, weight, offset in zip(("query", "key", "value"), queries, offsets, strict=True):
            tensors[f"{to}.attention.self.{part}.weight"] = weight.T
            tensors[f"{to}.attention.self.{part}.bias"] = offset
        for site, name in (
            ("out", "attention.output.dense"),
            ("up", "intermediate.dense"),
            ("down", "output.dense"),
        ):
            tensors[f"{to}.{name}.weight"] = _weight(found, f"{number}.{site}").T
            tensors[f"{to}.{name}.bias"] = found[f"{number}.{site}.bias"]
        number += 1
    return {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}


def _weight(found: dict[str, Any], site: str) -> NDArray[np.float32]:
    """A linear layer's weight [inputs, outputs], as it was before it was quantised."""
    weight = found[f"{site}.w"]
    if f"{site}.w_scale" not in found:
        return weight
    factors = found[f"{site}.smooth"]
    return weight.astype(np.float32) * found[f"{site}.w_scale"] * factors[:, None]
