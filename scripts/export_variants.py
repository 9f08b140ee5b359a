"""Make the int8 models that were tried and not shipped, for benchmarks/model_fidelity.py.

    python scripts/export_variants.py --float FLOAT --out DIR

FLOAT is what `export_minilm.py --float-out FLOAT` wrote.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import minilm_graph
import numpy as np
import onnx
from export_minilm import calibrate, read_source
from minilm_graph import CONTRIB, HEADS, Floats, Graph
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load
from tokenizers import Tokenizer

BLOCK = 32


def dynamic(source: Path, target: Path, **options: Any) -> None:
    """Quantise with onnxruntime's own tool: the range of each run's activations, as it comes."""
    kind = {"DefaultTensorType": onnx.TensorProto.FLOAT}
    quantize_dynamic(source, target, weight_type=QuantType.QInt8, extra_options=kind, **options)


def block_product(graph: Graph, x: str, site: str, weight: Floats) -> str:
    """Add x @ weight with 8-bit weights and activations, a scale for each block of 32."""
    inputs, outputs = weight.shape
    blocks = weight.T.reshape(outputs, inputs // BLOCK, BLOCK)
    scale = (np.abs(blocks).max(axis=2) / 127).astype(np.float32)
    values = (np.rint(blocks / scale[..., None]) + 128).astype(np.uint8)
    names = [graph.const(f"{site}.w", values), graph.const(f"{site}.w_scale", scale.reshape(-1))]
    sizes = {"K": inputs, "N": outputs, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
    return graph.add("MatMulNBits", [x, *names], domain=CONTRIB, **sizes)


def block_linear(graph: Graph, x: str, site: str, source: str) -> str:
    """Stand in for `minilm_graph.linear`."""
    bias = graph.const(f"{site}.bias", graph.weights[f"{source}.bias"])
    y = block_product(graph, x, site, graph.weights[f"{source}.weight"].T)
    return graph.add("Add", [y, bias])


def block_attention(graph: Graph, x: str, site: str, source: str, mask: str) -> str:
    """Stand in for `minilm_graph.attention`."""
    parts = [f"{source}.{name}" for name in ("query", "key", "value")]
    inputs = [block_product(graph, x, part, graph.weights[f"{part}.weight"].T) for part in parts]
    bias = np.concatenate([graph.weights[f"{part}.bias"] for part in parts])
    inputs += [graph.const(f"{site}.bias", bias), mask]
    return graph.add("MultiHeadAttention", inputs, domain=CONTRIB, num_heads=HEADS)


@contextmanager
def changed(**names: Any) -> Iterator[None]:
    """Change names of `minilm_graph` for a while."""
    kept = {name: getattr(minilm_graph, name) for name in names}
    minilm_graph.__dict__.update(names)
    yield
    minilm_graph.__dict__.update(kept)


def full_range(weight: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Quantise weights to all of int8: overflows on AVX2."""
    scale = (np.abs(weight).max(axis=0) / 127).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale


def static(source: Path, target: Path, **changes: Any) -> None:
    """Build the shipped graph with some names of `minilm_graph` changed."""
    weights: dict[str, Floats] = load(read_source()[1])
    plain, graph = minilm_graph.build(weights, None)
    ranges = calibrate(
        plain, graph.taps, Tokenizer.from_file(str(source.parent / "tokenizer.json"))
    )
    with changed(**changes):
        onnx.save(minilm_graph.build(weights, ranges)[0], target)


VARIANTS: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "dynamic-per-tensor": (dynamic, {}),
    "dynamic-per-channel": (dynamic, {"per_channel": True}),
    "dynamic-7-bit": (dynamic, {"per_channel": True, "reduce_range": True}),
    "static-unsmoothed": (static, {"STRENGTH": 0.0}),
    "static-smoothed-to-median": (static, {"STRENGTH": 1.0}),
    "static-full-range-weights": (static, {"quantise_weights": full_range}),
    "blocks-of-32": (static, {"linear": block_linear, "attention": block_attention}),
}


def main() -> None:
    """Write every variant into its own folder under `--out`."""
    parser = argparse.ArgumentParser(description="Make the int8 models that are not shipped.")
    parser.add_argument("--float", type=Path, required=True, dest="source")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    card = json.loads((arguments.source / "card.json").read_bytes())
    for name, (make, options) in VARIANTS.items():
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        make(arguments.source / "model.onnx", folder / "model.onnx", **options)
        shutil.copyfile(arguments.source / "tokenizer.json", folder / "tokenizer.json")
        text = json.dumps({**card, "name": name, "verified": None})
        (folder / "card.json").write_text(text, encoding="utf-8")
        print(name, (folder / "model.onnx").stat().st_size)


if __name__ == "__main__":
    main()
