"""What the dense leg should read of a tool: nDCG@10 of every candidate on development splits.

`python benchmarks/fields.py --data FOLDER`, as benchmarks/fusion.py: the dense leg alone, and
fused with words as it ships. Test splits are never read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fusion import SPLITS, bm25, ndcg, questions, spec

from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.indexers.points import clean, dense_text
from toolcrib.records import ToolSpec
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.text import split_identifier


def name(tool: ToolSpec) -> str:
    return " ".join([tool.server, *split_identifier(tool.name)]).strip()


def parameters(tool: ToolSpec, *, described: bool) -> str:
    properties = tool.input_schema.get("properties") or {}
    told = [
        f"{' '.join(split_identifier(key))} {value.get('description', '') if described else ''}"
        for key, value in properties.items()
        if isinstance(value, dict)
    ]
    return "; ".join(told)


TEXTS: dict[str, Callable[[ToolSpec], str]] = {
    "as it ships: server, name, description": dense_text,
    "without the server": lambda t: dense_text(t.model_copy(update={"server": ""})),
    "and the category": lambda t: f"{dense_text(t)} ({t.category})",
    "and the parameters' names": lambda t: f"{dense_text(t)} {parameters(t, described=False)}",
    "and the parameters' descriptions": lambda t: (
        f"{dense_text(t)} {parameters(t, described=True)}"
    ),
    "its first 200 characters": lambda t: dense_text(t)[:200],
    "server and name alone": name,
}


def cut(vectors: FloatArray, dimensions: int) -> FloatArray:
    kept = vectors[:, :dimensions]
    return kept / np.linalg.norm(kept, axis=1, keepdims=True)


def cosines(queries: list[FloatArray], vectors: FloatArray) -> FloatArray:
    """Half the whole query's, half its best clause's: float32 [queries, tools]."""
    found: list[FloatArray] = []
    for rows in queries:
        each = rows @ vectors.T
        clauses = each[1:] if len(each) > 1 else each
        found.append(0.5 * each[0] + 0.5 * clauses.max(axis=0))
    return np.array(found)


def measured(folder: Path, split: str, encoder: BundledEncoder) -> dict[str, tuple[float, float]]:
    tools = [spec(json.loads(line)) for line in (folder / "tools.jsonl").open()]
    texts, relevant = questions(folder, split, tools)
    queries = [encoder.encode_clauses(text) for text in texts]
    weights = FusionWeights()
    words = weights.lexical * (1 - np.exp(-bm25(tools, texts) / weights.bm25_scale))
    encoded = {
        label: encoder.encode_documents([clean(text(tool)) for tool in tools])
        for label, text in TEXTS.items()
    }
    whole, named = next(iter(encoded.values())), encoded["server and name alone"]
    scores = {label: cosines(queries, vectors) for label, vectors in encoded.items()}
    first, second = cosines(queries, whole), cosines(queries, named)
    scores["two vectors, text and name: the better"] = np.maximum(first, second)
    scores["two vectors, 3/4 and 1/4"] = 0.75 * first + 0.25 * second
    for dimensions in (256, 128):
        shorter = [cut(rows, dimensions) for rows in queries]
        scores[f"its first {dimensions} dimensions"] = cosines(shorter, cut(whole, dimensions))
    return {
        label: (ndcg(dense, relevant), ndcg(weights.dense * dense + words, relevant))
        for label, dense in scores.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    encoder = BundledEncoder()
    found = [measured(options.data / name, split, encoder) for name, split in SPLITS.items()]
    print("| | dense | fused |\n| --- | --: | --: |")
    for label in found[0]:
        dense, fused = (100 * np.mean([one[label][leg] for one in found]) for leg in (0, 1))
        print(f"| {label} | {dense:.1f} | {fused:.1f} |")


if __name__ == "__main__":
    main()
