"""Export of a trained model to a folder that toolcrib runs, and reading its weights back."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from toolcrib.encoders.onnx import BundledEncoder, BundledReranker, read_card
from toolcrib.encoders.registry import import_onnxruntime
from toolcrib.errors import EncoderError, TrainingError
from toolcrib.training import import_train
from toolcrib.training.data import TrainingData

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A BERT as plain arrays: `tensors` by name, number of heads, and the tokenizer's JSON."""

    tensors: Mapping[str, NDArray[np.float32]]
    heads: int
    tokenizer: bytes


def read_weights(folder: Path) -> Weights:
    """Read a folder of `train_encoder`, or any folder of a BERT in the hub's format."""
    load = import_train("safetensors.numpy").load_file
    config = json.loads((folder / "config.json").read_bytes())
    tensors: dict[str, NDArray[np.float32]] = {
        name.removeprefix("bert."): value.astype(np.float32)
        for name, value in load(folder / "model.safetensors").items()
    }
    heads = int(config["num_attention_heads"])
    return Weights(tensors, heads, (folder / "tokenizer.json").read_bytes())


def export(
    weights: Weights,
    out: Path,
    card: Mapping[str, Any],
    *,
    quantised: bool = True,
    texts: Sequence[str] = (),
) -> None:
    """Write `model.onnx`, `tokenizer.json` and `card.json`; the same bytes for the same weights.

    `card` holds at least `name` and `max_tokens`. The package's texts and `texts` are run to find
    the ranges of activations: add examples of other languages than English.
    """
    graph = import_train("toolcrib.training.onnx_graph")
    tokenizer: Any = import_train("tokenizers").Tokenizer.from_buffer(weights.tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    model, plain = graph.build(weights.tensors, weights.heads, None)
    if quantised:
        feeds = _feeds(tokenizer, int(card["max_tokens"]), texts)
        ranges = _activation_ranges(model, plain.taps, feeds)
        model, _ = graph.build(weights.tensors, weights.heads, ranges)
    out.mkdir(parents=True, exist_ok=True)
    files = {
        "model.onnx": model.SerializeToString(deterministic=True),
        "tokenizer.json": tokenizer.to_str().encode(),
    }
    for file, content in files.items():
        (out / file).write_bytes(content)
    written = {
        **card,
        "dimensions": int(weights.tensors["embeddings.LayerNorm.weight"].shape[0]),
        "pad_token_id": tokenizer.token_to_id("[PAD]"),
        "inputs": [value.name for value in model.graph.input],
        "outputs": [value.name for value in model.graph.output],
        "onnxruntime": ">=1.20",
        "sha256": {file: hashlib.sha256(content).hexdigest() for file, content in files.items()},
    }
    _write_card(out, written)


def add_to_card(folder: Path, facts: Mapping[str, Any]) -> None:
    """Add facts to a model's card."""
    _write_card(folder, {**json.loads((folder / "card.json").read_bytes()), **facts})


def _write_card(folder: Path, card: Mapping[str, Any]) -> None:
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    (folder / "card.json").write_text(text, encoding="utf-8")


def _activation_ranges(
    model: Any, taps: Mapping[str, str], feeds: Iterator[NDArray[np.int64]]
) -> Any:
    """Run the float graph over token rows; lowest and highest activation of each channel."""
    onnx = import_train("onnx")
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    value = onnx.helper.make_tensor_value_info
    tapped.graph.output.extend(value(tap, onnx.TensorProto.FLOAT, None) for tap in taps.values())
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the same sums in the same order
    session = onnxruntime.InferenceSession(
        tapped.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    ranges: dict[str, tuple[Any, Any]] = {}
    for ids in feeds:
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        for site, found in zip(taps, session.run(list(taps.values()), inputs), strict=True):
            rows = np.concatenate(np.asarray(found))
            low, high = ranges.get(site, (rows[0], rows[0]))
            ranges[site] = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return ranges


def _feeds(tokenizer: Any, max_tokens: int, more: Sequence[str]) -> Iterator[NDArray[np.int64]]:
    """Token rows: lines of the calibration file and `more`, all lines joined, and single words."""
    file = resources.files("toolcrib.training").joinpath("calibration.txt")
    lines = file.read_text(encoding="utf-8").splitlines()
    ids: list[list[int]] = [tokenizer.encode(line).ids for line in [*lines, *more]]
    start, end = ids[0][0], ids[0][-1]
    body = [token for line in ids for token in line[1:-1]]
    width = max_tokens - 2
    windows = [body[at : at + width] for at in range(0, len(body), width)]
    for row in [*ids, *([start, *window, end] for window in windows)]:
        yield np.array([row], dtype=np.int64)
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    words = sorted(token for word, token in vocabulary.items() if word.isalpha())
    for at in range(0, len(words), 64):
        yield np.array([[start, token, end] for token in words[at : at + 64]], dtype=np.int64)


WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"
POSITION_EMBEDDINGS = "embeddings.position_embeddings.weight"
SEGMENT_EMBEDDINGS = "embeddings.token_type_embeddings.weight"


def restore(folder: Path, *, projected: bool = False) -> Weights:
    """The float weights of a model folder that `export` wrote, int8 or float.

    Only the rounding to 8 bits is lost, so training needs no download. `projected` also reads the
    projection of a model that was trained to give another encoder's vectors.

    Raises:
        EncoderError: the folder has no model that `export` wrote.
    """
    onnx = import_train("onnx")
    try:
        model = onnx.load(str(folder / "model.onnx"))
        tokenizer = (folder / "tokenizer.json").read_bytes()
    except Exception as error:  # protobuf's own classes share no base
        raise EncoderError(f"{folder} cannot be read as a model: {error}") from error
    found: dict[str, Any] = {
        value.name: onnx.numpy_helper.to_array(value) for value in model.graph.initializer
    }
    if "projection.w" in found and not projected:
        raise EncoderError(
            f"{folder} was trained to give another encoder's vectors, by a projection that "
            "training would lose; train from that encoder instead (--base)"
        )
    try:
        tensors, heads = _tensors(found), _heads(model)
    except (KeyError, StopIteration) as error:
        raise EncoderError(
            f"{folder / 'model.onnx'} was not written by toolcrib ({error} is not in it); train "
            "from a folder or hub name of sentence-transformers instead (--base)"
        ) from error
    return Weights(tensors, heads, tokenizer)


def check_base(base: str, tokens: int, layers: int = 1) -> None:
    """Check before training that a folder or hub name is a BERT that can be exported.

    The base must read at least `tokens` tokens, and have at least `layers` layers.

    Raises:
        TrainingError: the base cannot be read, is no such BERT, or is too small.
    """
    transformers = import_train("transformers")
    try:
        config: Any = transformers.AutoConfig.from_pretrained(base)
    except (OSError, ValueError) as error:
        raise TrainingError(f"the base {base} cannot be read: {error}") from error
    kind = (config.model_type, getattr(config, "hidden_act", ""))
    if kind != ("bert", "gelu"):
        raise TrainingError(
            f"the base {base} is of the kind {' with '.join(kind)}; only BERT with gelu can be "
            "exported, such as all-MiniLM-L6-v2, bge-small-en-v1.5 or e5-small-v2"
        )
    if config.max_position_embeddings < tokens or config.num_hidden_layers < layers:
        raise TrainingError(
            f"the base {base} reads {config.max_position_embeddings} tokens in "
            f"{config.num_hidden_layers} layers; {tokens} and {layers} are needed"
        )


def write_for_training(weights: Weights, folder: Path) -> None:
    """Write the weights as a folder for sentence-transformers."""
    transformers = import_train("transformers")
    torch = import_train("torch")
    words = weights.tensors[WORD_EMBEDDINGS]
    config = transformers.BertConfig(
        vocab_size=words.shape[0],
        hidden_size=words.shape[1],
        num_hidden_layers=import_train("toolcrib.training.onnx_graph").layers(weights.tensors),
        num_attention_heads=weights.heads,
        intermediate_size=len(weights.tensors["encoder.layer.0.intermediate.dense.weight"]),
        max_position_embeddings=len(weights.tensors[POSITION_EMBEDDINGS]),
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in weights.tensors.items()}
    model.load_state_dict(tensors, strict=False)
    model.save_pretrained(str(folder))
    file = folder / "tokenizer.json"
    file.write_bytes(weights.tokenizer)
    special = {
        f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")
    }
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file), **special)
    tokenizer.save_pretrained(str(folder))


def _heads(model: Any) -> int:
    node = next(n for n in model.graph.node if n.op_type in ("Attention", "QAttention"))
    return int(next(a.i for a in node.attribute if a.name == "num_heads"))


def _tensors(found: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """The graph's constants with BERT's names and shapes."""
    words = found["words"].astype(np.float32) * found.get("scales", np.float32(1))
    # The graph adds its only token type to the positions.
    types = np.zeros((2, words.shape[1]), dtype=np.float32)
    tensors: dict[str, NDArray[np.float32]] = {
        WORD_EMBEDDINGS: words,
        POSITION_EMBEDDINGS: found["positions"],
        SEGMENT_EMBEDDINGS: types,
    }
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
    if "projection.w" in found:
        tensors["projection.weight"] = found["projection.w"].T
        tensors["projection.bias"] = found["projection.b"]
    return {name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}


def _weight(found: dict[str, Any], site: str) -> NDArray[np.float32]:
    """A linear layer's weight [inputs, outputs], dequantised."""
    weight = found[f"{site}.w"]
    if f"{site}.w_scale" not in found:
        return weight
    factors = found[f"{site}.smooth"]
    return weight.astype(np.float32) * found[f"{site}.w_scale"] * factors[:, None]


AGREEMENT_TEXTS = 100
MIN_AGREEMENT = 0.98
"""Least mean cosine of the vectors, or correlation of the scores."""


def export_agreeing(
    kind: Literal["encoder", "reranker"],
    trained: Path,
    out: Path,
    card: Mapping[str, Any],
    data: TrainingData,
) -> dict[str, float]:
    """Export to int8, or in full precision if int8 changes the model too much."""
    weights = read_weights(trained)
    export(weights, out, card)
    try:
        return agreement(kind, trained, out, data)
    except TrainingError:
        logger.warning("int8 changes this model too much; it is exported in full precision")
    export(weights, out, card, quantised=False)
    return agreement(kind, trained, out, data)


def agreement(
    kind: Literal["encoder", "reranker"], trained: Path, exported: Path, data: TrainingData
) -> dict[str, float]:
    """Run both models on training texts: mean and least cosine, or correlation of the scores.

    Raises:
        TrainingError: the models differ too much to trust the export.
    """
    found = (_encoders if kind == "encoder" else _rerankers)(trained, exported, data)
    figure = next(iter(found.values()))
    if not figure >= MIN_AGREEMENT:
        raise TrainingError(
            f"the exported model does not agree with the trained one ({found}); the trained "
            f"weights are in {trained}, and can be used as sentence-transformers:{trained}"
        )
    return found


def _encoders(trained: Path, exported: Path, data: TrainingData) -> dict[str, float]:
    examples = data.examples[:AGREEMENT_TEXTS]
    texts = [text for e in examples for text in (e.query, data.documents[e.positive])]
    st = import_train("sentence_transformers")
    model: Any = st.SentenceTransformer(str(trained))
    model.max_seq_length = read_card(exported).max_tokens
    expected = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    encoder = BundledEncoder(exported)
    cosines = (encoder.encode_documents(texts) * expected).sum(axis=1)
    return {"cosine_mean": float(cosines.mean()), "cosine_min": float(cosines.min())}


def _rerankers(trained: Path, exported: Path, data: TrainingData) -> dict[str, float]:
    ce = import_train("sentence_transformers.cross_encoder")
    model: Any = ce.CrossEncoder(str(trained))
    model.tokenizer.model_input_names = ["input_ids", "attention_mask"]
    model.max_seq_length = read_card(exported).max_tokens
    reranker = BundledReranker(exported)
    torch = import_train("torch")
    expected: list[float] = []
    given: list[float] = []
    for example in data.examples[:AGREEMENT_TEXTS]:
        texts = [data.documents[place] for place in (example.positive, *example.negatives)]
        pairs = [(example.query, text) for text in texts]
        logits = model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        expected += [float(logit) for logit in logits]
        given += [float(score) for score in reranker.score(example.query, texts)]
    return {"correlation": float(np.corrcoef(expected, given)[0, 1])}
