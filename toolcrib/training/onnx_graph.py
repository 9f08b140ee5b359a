"""ONNX graph of a small BERT, float or int8, written node by node (extra `train`).

It is not traced from a framework, so no exporter's version can change it. Three measures keep the
int8 vectors near the float vectors; docs/explanation/models.md has the figures:

- outlier channels of the activations are scaled down, and the matching weights up;
- activations have fixed ranges, so a text's vector does not depend on its batch;
- weights are scaled so that no pair of products overflows 16 bits (see `quantise_weights`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from toolcrib.encoders.base import FloatArray

EPSILON = 1e-12
OPSET, IR_VERSION, CONTRIB = 20, 10, "com.microsoft"
INPUTS = ("input_ids", "attention_mask")
OUTPUTS = ("sentence_embedding", "token_embeddings")
LOGIT, POOLER, CLASSIFIER_HEAD = "logit", "pooler.dense", "classifier"
"""Output of a cross-encoder, and its weights beside the encoder's own."""

PROJECTION = "projection"
"""Optional linear map of the token vectors to another encoder's space."""

RANGE_MARGIN = 1.05
"""Factor on the range of the activations seen in calibration."""

SMOOTHING_STRENGTH = 0.7
"""Exponent by which outlier channels are scaled down: 0 not at all, 1 to the median."""

Ranges = dict[str, tuple[FloatArray, FloatArray]]
"""Lowest and highest activation of each channel, by site (the input of a linear layer)."""


@dataclass
class Graph:
    """An ONNX graph under construction; `taps` names the input tensor of each site."""

    weights: Mapping[str, FloatArray]
    heads: int
    ranges: Ranges | None = None
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    taps: dict[str, str] = field(default_factory=dict[str, str])

    def const(self, name: str, value: Any) -> str:
        """Add a constant and return its name."""
        self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def add(self, op: str, inputs: list[str], output: str = "", domain: str = "", **kw: Any) -> str:
        """Add a node with one output and return the output's name."""
        output = output or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], f"n_{output}", None, domain, **kw))
        return output


def quantise_weights(weight: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Quantise [inputs, outputs] to int8 with one scale for each output.

    AVX2 adds two products of uint8 and int8 in 16 bits and saturates silently. A pair of
    neighbouring inputs is safe if its weights of one sign sum to at most 128 (255 * 128 < 2**15).
    The largest such sum gives the scale: never wrong, and far finer than 7-bit weights.
    """
    pairs = weight.reshape(-1, 2, weight.shape[1])
    sums = [np.maximum(sign * pairs, 0).sum(axis=1).max(axis=0) for sign in (1, -1)]
    largest = np.maximum(np.abs(weight).max(axis=0), np.maximum(*sums))
    scale = (largest / 127).astype(np.float32)
    scale[scale == 0] = 1  # nothing but zeros
    return np.rint(weight / scale).astype(np.int8), scale


def smoothing(low: FloatArray, high: FloatArray) -> FloatArray:
    """Divisors that bring outlier channels closer to the median channel, in steps of 2**(1/8)."""
    peak = np.maximum(high, -low)
    steps = np.rint(8 * SMOOTHING_STRENGTH * np.log2(np.maximum(peak / np.median(peak), 1)))
    return np.array([2.0 ** (step / 8) for step in steps.tolist()], dtype=np.float32)


def quantise_site(
    graph: Graph, x: str, site: str, weight: FloatArray
) -> tuple[list[str], list[str]]:
    """Add the uint8 form of `x` and the int8 weight; return [values, scale, zero point] of each."""
    assert graph.ranges is not None
    low, high = graph.ranges[site]
    divisors = smoothing(low, high)
    top = np.ceil(max((high / divisors).max(), 0) * RANGE_MARGIN * 64) / 64
    bottom = np.floor(min((low / divisors).min(), 0) * RANGE_MARGIN * 64) / 64
    scale = np.float32((top - bottom) / 255)
    zero = np.uint8(np.rint(-bottom / scale))
    x = graph.add("Mul", [x, graph.const(f"{site}.smooth", 1 / divisors)])
    names = [graph.const(f"{site}.x_scale", scale), graph.const(f"{site}.x_zero", zero)]
    inputs = [graph.add("QuantizeLinear", [x, *names]), *names]
    values, scales = quantise_weights(weight * divisors[:, None])
    named = {"w": values, "w_scale": scales, "w_zero": np.zeros(scales.shape, dtype=np.int8)}
    return inputs, [graph.const(f"{site}.{name}", value) for name, value in named.items()]


def linear(graph: Graph, x: str, site: str, source: str) -> str:
    """Add x @ weight + bias."""
    weight, bias = graph.weights[f"{source}.weight"].T, graph.weights[f"{source}.bias"]
    graph.taps[site] = x
    bias_name = graph.const(f"{site}.bias", bias)
    if graph.ranges is None:
        y = graph.add("MatMul", [x, graph.const(f"{site}.w", weight)])
        return graph.add("Add", [y, bias_name])
    (xq, xs, xz), (wq, ws, wz) = quantise_site(graph, x, site, weight)
    inputs = [xq, wq, xs, ws, xz, wz, bias_name]
    return graph.add("MatMulIntegerToFloat", inputs, domain=CONTRIB)


def attention(graph: Graph, x: str, site: str, source: str, mask: str) -> str:
    """Add multi-head self-attention, query, key and value in one product."""
    parts = [f"{source}.{name}" for name in ("query", "key", "value")]
    weight = np.concatenate([graph.weights[f"{part}.weight"].T for part in parts], axis=1)
    biases = [graph.weights[f"{part}.bias"] for part in parts]
    bias = graph.const(f"{site}.bias", np.concatenate(biases))
    graph.taps[site] = x
    if graph.ranges is None:
        inputs = [x, graph.const(f"{site}.w", weight), bias, mask]
        return graph.add("Attention", inputs, domain=CONTRIB, num_heads=graph.heads)
    (xq, xs, xz), (wq, ws, wz) = quantise_site(graph, x, site, weight)
    inputs = [xq, wq, bias, xs, ws, mask, xz, wz]
    return graph.add("QAttention", inputs, domain=CONTRIB, num_heads=graph.heads)


def normalise(graph: Graph, x: str, source: str, output: str = "") -> str:
    """Add a layer normalisation."""
    names = [f"{source}.weight", f"{source}.bias"]
    inputs = [x, *(graph.const(name, graph.weights[name]) for name in names)]
    return graph.add("LayerNormalization", inputs, output, axis=-1, epsilon=EPSILON)


def embed(graph: Graph) -> str:
    """Add the lookup of words and positions; in the int8 graph each word has its own scale."""
    source = "embeddings"
    words = graph.weights[f"{source}.word_embeddings.weight"]
    first_type = graph.weights[f"{source}.token_type_embeddings.weight"][0]
    positions = graph.weights[f"{source}.position_embeddings.weight"] + first_type
    if graph.ranges is None:
        x = graph.add("Gather", [graph.const("words", words), "input_ids"])
    else:
        scale = (np.abs(words).max(axis=1, keepdims=True) / 127).astype(np.float32)
        scale[scale == 0] = 1  # a word without a vector, as [PAD] often is
        values = graph.const("words", np.rint(words / scale).astype(np.int8))
        x = graph.add("Cast", [graph.add("Gather", [values, "input_ids"])], to=TensorProto.FLOAT)
        x = graph.add("Mul", [x, graph.add("Gather", [graph.const("scales", scale), "input_ids"])])
    length = graph.add("Shape", ["input_ids"], start=1, end=2)
    first = graph.const("first", np.array([0], dtype=np.int64))
    position = graph.add("Slice", [graph.const("positions", positions), first, length, first])
    return normalise(graph, graph.add("Add", [x, position]), f"{source}.LayerNorm")


def layer(graph: Graph, x: str, number: int, mask: str, output: str) -> str:
    """Add one transformer layer."""
    source = f"encoder.layer.{number}"
    y = attention(graph, x, f"{number}.attention", f"{source}.attention.self", mask)
    y = linear(graph, y, f"{number}.out", f"{source}.attention.output.dense")
    x = normalise(graph, graph.add("Add", [y, x]), f"{source}.attention.output.LayerNorm")
    y = linear(graph, x, f"{number}.up", f"{source}.intermediate.dense")
    y = linear(graph, graph.add("Gelu", [y]), f"{number}.down", f"{source}.output.dense")
    return normalise(graph, graph.add("Add", [y, x]), f"{source}.output.LayerNorm", output)


def layers(weights: Mapping[str, FloatArray]) -> int:
    """Number of layers of the weights."""
    return sum(name.endswith("attention.self.query.weight") for name in weights)


def build(
    weights: Mapping[str, FloatArray], heads: int, ranges: Ranges | None
) -> tuple[onnx.ModelProto, Graph]:
    """Write the whole graph: float where `ranges` is None, otherwise int8.

    With weights of a head the graph is a cross-encoder and gives only `logit` [batch]. Otherwise it
    gives the vectors of the text and of its tokens.
    """
    graph = Graph(weights, heads, ranges)
    mask = graph.add("Cast", ["attention_mask"], to=TensorProto.INT32)
    x, depth = embed(graph), layers(weights)
    is_projected = f"{PROJECTION}.weight" in weights
    for number in range(depth):
        is_last = number == depth - 1 and not is_projected
        x = layer(graph, x, number, mask, OUTPUTS[1] if is_last else "")
    if is_projected:
        x = product(graph, x, PROJECTION, OUTPUTS[1])
    shapes = logit(graph, x) if f"{CLASSIFIER_HEAD}.weight" in weights else vectors(graph, x)
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.INT64, ["batch", "tokens"]) for name in INPUTS]
    outputs = [value(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    proto = helper.make_graph(graph.nodes, "bert", inputs, outputs, initializer=graph.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    model = helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
    return model, graph


def vectors(graph: Graph, x: str) -> dict[str, list[Any]]:
    """Add the outputs of an encoder; return the shape of each output."""
    width = graph.weights["embeddings.LayerNorm.weight"].shape[0]
    # The sum over the tokens suffices: scaling to unit length cancels the mean's divisor.
    rows = graph.add("Cast", ["attention_mask"], to=TensorProto.FLOAT)
    axis = graph.const("axis", np.array([1], dtype=np.int64))
    pooled = graph.add("MatMul", [graph.add("Unsqueeze", [rows, axis]), x])
    graph.add("LpNormalization", [graph.add("Squeeze", [pooled, axis])], OUTPUTS[0], axis=-1, p=2)
    return {OUTPUTS[0]: ["batch", width], OUTPUTS[1]: ["batch", "tokens", width]}


def product(graph: Graph, x: str, source: str, output: str = "") -> str:
    """Add x @ weight + bias in float, as a single product costs little."""
    weight, bias = graph.weights[f"{source}.weight"], graph.weights[f"{source}.bias"]
    y = graph.add("MatMul", [x, graph.const(f"{source}.w", weight.T)])
    return graph.add("Add", [y, graph.const(f"{source}.b", bias)], output)


def logit(graph: Graph, x: str) -> dict[str, list[Any]]:
    """Add the head of a cross-encoder, on the first token; return the shape of its output."""
    first = graph.const("first_token", np.int64(0))
    start = graph.add("Gather", [x, first], axis=1)
    y = graph.add("Tanh", [product(graph, start, POOLER)])
    y = product(graph, y, CLASSIFIER_HEAD)
    last = graph.const("last_axis", np.array([1], dtype=np.int64))
    graph.add("Squeeze", [y, last], LOGIT)
    return {LOGIT: ["batch"]}
