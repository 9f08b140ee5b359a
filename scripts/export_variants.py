"""Make the int8 models that were tried and not shipped, for benchmarks/model_fidelity.py.

    python scripts/export_variants.py --float FLOAT --out DIR

FLOAT is what `export_base.py --float-out FLOAT` wrote.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from export_base import INT8, add_to_card, find_source
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic

from toolcrib.training import onnx_graph as written
from toolcrib.training.export import export, read_weights
from toolcrib.training.onnx_graph import CONTRIB, FloatArray, Graph, attention, linear

BLOCK = 32


def dynamic(source: Path, target: Path, **options: Any) -> None:
    """Quantise with onnxruntime's own tool: the range of each run's activations, as it comes."""
    target.mkdir(parents=True, exist_ok=True)
    for file in ("tokenizer.json", "card.json"):
        shutil.copyfile(source / file, target / file)
    kind, model = {"DefaultTensorType": onnx.TensorProto.FLOAT}, target / "model.onnx"
    quantize_dynamic(
        source / "model.onnx", model, weight_type=QuantType.QInt8, extra_options=kind, **options
    )
    digests = {
        file: hashlib.sha256((target / file).read_bytes()).hexdigest()
        for file in ("model.onnx", "tokenizer.json")
    }
    add_to_card(target, **{**INT8, "name": target.name}, verified=None, sha256=digests)


def block_product(graph: Graph, x: str, site: str, weight: FloatArray) -> str:
    """Add x @ weight with 8-bit weights and activations, a scale for each block of 32."""
    inputs, outputs = weight.shape
    blocks = weight.T.reshape(outputs, inputs // BLOCK, BLOCK)
    scale = (np.abs(blocks).max(axis=2) / 127).astype(np.float32)
    values = (np.rint(blocks / scale[..., None]) + 128).astype(np.uint8)
    names = [graph.const(f"{site}.w", values), graph.const(f"{site}.w_scale", scale.reshape(-1))]
    sizes = {"K": inputs, "N": outputs, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
    return graph.add("MatMulNBits", [x, *names], domain=CONTRIB, **sizes)


def block_linear(graph: Graph, x: str, site: str, source: str) -> str:
    """Stand in for `linear`; the float graph, which is calibrated, stays as it is."""
    if graph.ranges is None:
        return linear(graph, x, site, source)
    bias = graph.const(f"{site}.bias", graph.weights[f"{source}.bias"])
    y = block_product(graph, x, site, graph.weights[f"{source}.weight"].T)
    return graph.add("Add", [y, bias])


def block_attention(graph: Graph, x: str, site: str, source: str, mask: str) -> str:
    """Stand in for `attention`, in the same way."""
    if graph.ranges is None:
        return attention(graph, x, site, source, mask)
    parts = [f"{source}.{name}" for name in ("query", "key", "value")]
    inputs = [block_product(graph, x, part, graph.weights[f"{part}.weight"].T) for part in parts]
    bias = np.concatenate([graph.weights[f"{part}.bias"] for part in parts])
    inputs += [graph.const(f"{site}.bias", bias), mask]
    return graph.add("MultiHeadAttention", inputs, domain=CONTRIB, num_heads=graph.heads)


@contextmanager
def changed(**names: Any) -> Iterator[None]:
    """Change names of the graph's module for a while."""
    kept = {name: getattr(written, name) for name in names}
    written.__dict__.update(names)
    yield
    written.__dict__.update(kept)


def full_range(weight: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Quantise weights to all of int8: overflows on AVX2."""
    scale = (np.abs(weight).max(axis=0) / 127).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale


DYNAMIC: dict[str, dict[str, Any]] = {
    "dynamic-per-tensor": {},
    "dynamic-per-channel": {"per_channel": True},
    "dynamic-7-bit": {"per_channel": True, "reduce_range": True},
}
STATIC: dict[str, dict[str, Any]] = {
    "static-unsmoothed": {"STRENGTH": 0.0},
    "static-smoothed-to-median": {"STRENGTH": 1.0},
    "static-full-range-weights": {"quantise_weights": full_range},
    "blocks-of-32": {"linear": block_linear, "attention": block_attention},
}
"""The graph as it is, with some names of its module changed."""


def main() -> None:
    """Write every variant into its own folder under `--out`."""
    parser = argparse.ArgumentParser(description="Make the int8 models that are not shipped.")
    parser.add_argument("--float", type=Path, required=True, dest="source")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    for name, options in DYNAMIC.items():
        dynamic(arguments.source, arguments.out / name, **options)
    weights = read_weights(find_source())
    for name, changes in STATIC.items():
        with changed(**changes):
            export(weights, arguments.out / name, {**INT8, "name": name})
    for name in (*DYNAMIC, *STATIC):
        print(name, (arguments.out / name / "model.onnx").stat().st_size)


if __name__ == "__main__":
    main()
