"""Intent routing with out-of-scope queries, beside semantic-router with the same encoder.

    python benchmarks/intents.py --data DATA/intents --out benchmarks/results/intents.json

Both get the same training utterances of each intent (`--shots` a intent, 0 for all) and the same
vectors. semantic-router is also fitted on the development split, out-of-scope queries included,
with each of its aggregations and fifty thresholds, and what is right most often there is kept;
ours sees utterances alone.
In-scope accuracy counts a rejected query as wrong; out-of-scope recall is what was rejected.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from toolcrib.build import make_dense
from toolcrib.router.context.classifier import fit_classifier
from toolcrib.settings import Settings

SETS = ("clinc150", "banking77-oos")
SEED = 0
THRESHOLDS = tuple(i / 50 for i in range(50))


@dataclass(frozen=True, slots=True)
class Query:
    """A labelled query; no intent means out of scope."""

    text: str
    split: str
    intent: str | None


def read(folder: Path) -> list[Query]:
    rows = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    return [Query(row["text"], row["split"], next(iter(row["relevant"]), None)) for row in rows]


def few(queries: Sequence[Query], shots: int) -> list[Query]:
    """So many training queries of each intent, chosen with a seed."""
    order = np.random.default_rng(SEED).permutation(len(queries))
    kept: dict[str, list[Query]] = {}
    for place in order:
        each = queries[place]
        if each.split == "train" and each.intent is not None:
            own = kept.setdefault(each.intent, [])
            if not shots or len(own) < shots:
                own.append(each)
    return [each for intent in sorted(kept) for each in kept[intent]]


def ours(said: Sequence[Query], vectors: Mapping[str, Any]) -> Callable[[str], str | None]:
    labels = sorted({str(each.intent) for each in said})
    owners = np.array([labels.index(str(each.intent)) for each in said], dtype=np.int64)
    model = fit_classifier(labels, np.stack([vectors[each.text] for each in said]), owners)
    return lambda text: model.predict(vectors[text]).label


def theirs(
    said: Sequence[Query], dev: Sequence[Query], vectors: Mapping[str, Any]
) -> Callable[[str], str | None]:
    from semantic_router import IndexedRouter, Route
    from semantic_router.encoders import DenseEncoder

    class Known(DenseEncoder):
        def __call__(self, docs: list[str]) -> list[list[float]]:
            return [vectors[text].tolist() for text in docs]

    intents = sorted({str(each.intent) for each in said})
    best: tuple[float, float, Any] | None = None
    for aggregation in ("mean", "max", "sum"):
        routes = [
            Route(name=name, utterances=[each.text for each in said if each.intent == name])
            for name in intents
        ]
        router = IndexedRouter(encoder=Known(name="known"), routes=routes, aggregation=aggregation)
        router.fit([each.text for each in dev], [each.intent for each in dev])
        told = [router(each.text, threshold=0.0) for each in dev]
        sure = np.array([choice.confidence for choice in told])
        right = np.array([c.name == each.intent for c, each in zip(told, dev, strict=True)])
        outside = np.array([each.intent is None for each in dev])
        for threshold in THRESHOLDS:
            accuracy = float(np.where(sure >= threshold, right, outside).mean())
            if best is None or accuracy > best[0]:
                best = (accuracy, threshold, router)
    assert best is not None
    _, threshold, chosen = best
    return lambda text: getattr(chosen(text, threshold=threshold), "name", None)


def score(route: Callable[[str], str | None], queries: Sequence[Query]) -> dict[str, float]:
    told = [(each.intent, route(each.text)) for each in queries]
    inside = [right == given for right, given in told if right is not None]
    outside = [given is None for right, given in told if right is None]
    return {
        "in-scope accuracy": float(np.mean(inside)),
        "out-of-scope recall": float(np.mean(outside)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--shots", type=int, nargs="*", default=[10, 0])
    parser.add_argument("--most", type=int, default=1500, help="queries a set, evenly")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    dense, found = make_dense(Settings()), []
    table = Table("set", "shots", "system", "in-scope accuracy", "out-of-scope recall")
    for name in SETS:
        queries = read(chosen.data / name)
        texts = list(dict.fromkeys(each.text for each in queries))
        vectors = dict(zip(texts, dense.encode_documents(texts), strict=True))
        asked = [each for each in queries if each.split == chosen.split]
        asked = asked[:: max(1, len(asked) // chosen.most)]
        dev = [each for each in queries if each.split == "dev"]
        dev = dev[:: max(1, len(dev) // chosen.most)]
        for shots in chosen.shots:
            said = few(queries, shots)
            systems = {"toolcrib": ours(said, vectors)}
            systems["semantic-router"] = theirs(said, dev, vectors)
            for system, route in systems.items():
                row = score(route, asked)
                found.append({"set": name, "shots": shots, "system": system} | row)
                table.add_row(
                    name, str(shots or "all"), system, *(f"{v:.3f}" for v in row.values())
                )
    Console().print(table)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
