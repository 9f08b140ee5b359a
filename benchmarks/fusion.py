"""How the fusion defaults were chosen: nDCG@10 of every candidate on development splits.

`python benchmarks/fusion.py --data FOLDER [--json OUT]`, where FOLDER holds one folder a data set,
each with `tools.jsonl` and `queries.jsonl`. Test splits are never read.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.indexers.points import FieldWeights, dense_text, lexical_counts
from toolcrib.indexers.sync import shared_prefixes
from toolcrib.records import ToolSpec

SPLITS = {
    "metatool": "dev",
    "toollens": "dev",
    "seal-tools": "dev",
    "ultratool-en": "dev",
    "mcp-zero": "dev",
    "mcp-flow": "dev",
    "toollinkos": "dev",
    "apibench": "train",
}
"""Sets with queries that are not for testing; apibench has no development split."""

QUERIES_A_SET = 300
DEPTH = 10

Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Evidence:
    """One data set: scores [queries, tools] of both legs and of each query's best clause.

    And each query's graded tools.
    """

    dense: Scores
    clauses: Scores
    lexical: Scores
    relevant: list[dict[int, float]]


def gather(folder: Path, split: str, encoder: BundledEncoder) -> Evidence:
    tools = [spec(json.loads(line)) for line in (folder / "tools.jsonl").open()]
    texts, relevant = questions(folder, split, tools)
    vectors = encoder.encode_documents([dense_text(tool) for tool in tools])
    encoded = [encoder.encode_clauses(text) for text in texts]
    dense = np.array([rows[0] @ vectors.T for rows in encoded])
    parts = [(rows[1:] if len(rows) > 1 else rows) @ vectors.T for rows in encoded]
    clauses = np.array([part.max(axis=0) for part in parts])
    return Evidence(dense, clauses, bm25(tools, texts), relevant)


def questions(
    folder: Path, split: str, tools: list[ToolSpec]
) -> tuple[list[str], list[dict[int, float]]]:
    """At most 300 queries of a split that something answers, and the grades by tool's place."""
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open()]
    queries = [q for q in queries if q["split"] == split and q["relevant"]]
    random.Random(0).shuffle(queries)
    queries = queries[:QUERIES_A_SET]
    places = {tool.id: place for place, tool in enumerate(tools)}
    relevant = [{places[i]: g for i, g in q["relevant"].items() if i in places} for q in queries]
    return [query["text"] for query in queries], relevant


def spec(fields: dict[str, Any]) -> ToolSpec:
    """A tool without its examples."""
    known = {k: v for k, v in fields.items() if k in ToolSpec.model_fields and v is not None}
    return ToolSpec.model_validate(known | {"success_examples": ()})


def bm25(tools: list[ToolSpec], queries: list[str]) -> Scores:
    """Score every tool with the engine's formula, all in memory."""
    encoder = LexicalEncoder()
    prefixes = shared_prefixes([(tool.server, tool.name) for tool in tools], encoder)
    counts = [
        lexical_counts(tool, encoder, FieldWeights(), prefixes.get(tool.server, ()))
        for tool in tools
    ]
    average = float(np.mean([sum(count.values()) for count in counts]))
    postings: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    for place, count in enumerate(counts):
        vector = encoder.encode_document(count, average)
        for term, weight in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
            postings[term].append((place, weight))
    scores = np.zeros((len(queries), len(tools)), dtype=np.float32)
    for row, query in enumerate(queries):
        vector = encoder.encode_query(query)
        for term, times in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
            found = postings.get(term, [])
            idf = math.log(1 + (len(tools) - len(found) + 0.5) / (len(found) + 0.5))
            for place, weight in found:
                scores[row, place] += times * idf * weight
    return scores


def ndcg(scores: Scores, relevant: list[dict[int, float]]) -> float:
    """Mean nDCG@10 with linear gains; ties are broken by place."""
    total = 0.0
    for row, grades in zip(scores, relevant, strict=True):
        best = np.argsort(-row, kind="stable")[:DEPTH].tolist()
        gain = sum(grades.get(place, 0) / math.log2(rank + 2) for rank, place in enumerate(best))
        ideal = sorted(grades.values(), reverse=True)[:DEPTH]
        total += gain / sum(grade / math.log2(rank + 2) for rank, grade in enumerate(ideal))
    return total / len(relevant)


def ranks(scores: Scores) -> Scores:
    return np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1).astype(np.float32) + 1


def saturated(weight: float, scale: float, share: float) -> Callable[[Evidence], Scores]:
    def fuse(e: Evidence) -> Scores:
        dense = e.dense + share * (e.clauses - e.dense)
        return weight * dense + (1 - weight) * (1 - np.exp(-e.lexical / scale))

    return fuse


def by_maximum(weight: float) -> Callable[[Evidence], Scores]:
    def fuse(e: Evidence) -> Scores:
        best = np.maximum(e.lexical.max(axis=1, keepdims=True), 1e-9)
        low = e.dense.min(axis=1, keepdims=True)
        span = e.dense.max(axis=1, keepdims=True) - low
        return weight * (e.dense - low) / span + (1 - weight) * e.lexical / best

    return fuse


CANDIDATES: dict[str, Callable[[Evidence], Scores]] = {
    "dense alone": lambda e: e.dense,
    "best clause alone": lambda e: e.clauses,
    "both alone, half and half": lambda e: 0.5 * e.dense + 0.5 * e.clauses,
    "lexical alone": lambda e: e.lexical,
    "reciprocal rank, k=60": lambda e: 1 / (60 + ranks(e.dense)) + 1 / (60 + ranks(e.lexical)),
    **{f"query's own minimum and maximum, {w}": by_maximum(w) for w in (0.4, 0.5, 0.6, 0.7)},
    **{
        f"cosine and 1-exp(-bm25/{scale}), {weight:.2f}, clauses {share}": saturated(
            weight, scale, share
        )
        for scale in (60, 100)
        for weight in (0.25, 1 / 3, 0.4, 0.45, 0.5)
        for share in (0, 0.5, 1)
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    encoder = BundledEncoder()
    evidence = {name: gather(options.data / name, split, encoder) for name, split in SPLITS.items()}
    table: dict[str, dict[str, float]] = {}
    for label, fuse in CANDIDATES.items():
        row = {n: round(100 * ndcg(fuse(e), e.relevant), 2) for n, e in evidence.items()}
        table[label] = {"macro": round(sum(row.values()) / len(row), 2), **row}
        print(f"{label:42s} {table[label]['macro']:6.2f}")
    if options.json:
        found = {
            "command": "python benchmarks/fusion.py --data DATA --json OUT",
            "measure": "nDCG@10, percent; up to 300 queries a set, seed 0",
            "splits": SPLITS,
            "queries": {name: len(e.relevant) for name, e in evidence.items()},
            "ndcg@10": table,
        }
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
