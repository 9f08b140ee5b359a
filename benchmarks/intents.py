"""Intents with out-of-scope queries, beside other routers and classifiers with the same vectors.

    python benchmarks/intents.py --data DATA/intents --out benchmarks/results/intents.json
    python benchmarks/intents.py --data DATA/intents --examples

The first is the classifier of turns beside semantic-router. Both get the same training utterances
of each intent (`--shots` an intent, 0 for all). semantic-router is also fitted on the development
split, out-of-scope queries included, with each of its aggregations and fifty thresholds, and what
is right most often there is kept; ours sees utterances alone. In-scope accuracy counts a rejected
query as wrong; out-of-scope recall is what was rejected.

With `--examples`, intents are tools and `Crib.find_tools` is asked, uncalibrated, beside
semantic-router with each of its aggregations and scikit-learn's logistic regression. All have
the same texts, each intent's examples and its name; no development split is read. Accuracy is of
the likeliest intent, of in-scope queries; AUROC is how well its score tells these from the others.
ECE is the calibration error of probabilities, over all queries; semantic-router's scores are none.
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
from corpora import rows
from rich.console import Console
from rich.table import Table

from toolcrib import Crib
from toolcrib.build import make_dense
from toolcrib.context.classifier import fit_classifier
from toolcrib.encoders.base import DenseEncoder
from toolcrib.evaluation.dataset import with_shots
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.measures import expected_error, reliability_bins
from toolcrib.records import ToolSpec
from toolcrib.settings import Settings

SETS = ("clinc150", "banking77-oos")
EXAMPLE_SETS = ("banking77", "banking77-oos", "clinc150", "hwu64")
EXAMPLES = Path(__file__).resolve().parent / "results" / "intents-examples.json"
EVERY = 10**6
INVERSE_PENALTIES = (1, 10, 100)
SEED = 0
THRESHOLDS = tuple(i / 50 for i in range(50))
AGGREGATIONS = ("mean", "max", "sum")
FIGURES = ("accuracy", "ece", "auroc")


@dataclass(frozen=True, slots=True)
class Query:
    """A labelled query; no intent means out of scope."""

    text: str
    split: str
    intent: str | None


def read(folder: Path) -> list[Query]:
    return [
        Query(row["text"], row["split"], next(iter(row["relevant"]), None))
        for row in rows(folder / "queries.jsonl")
    ]


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


def semantic_router(
    aggregation: str, said: Mapping[str, Sequence[str]], vectors: Mapping[str, Any]
) -> Any:
    """semantic-router as it comes, but for the aggregation, with these vectors of the texts."""
    from semantic_router import IndexedRouter, Route
    from semantic_router.encoders import DenseEncoder as TheirEncoder

    class Known(TheirEncoder):
        def __call__(self, docs: list[str]) -> list[list[float]]:
            return [vectors[text].tolist() for text in docs]

    made = [Route(name=name, utterances=list(texts)) for name, texts in said.items()]
    given: Any = aggregation
    return IndexedRouter(encoder=Known(name="known"), routes=made, aggregation=given)


def theirs(
    said: Sequence[Query], dev: Sequence[Query], vectors: Mapping[str, Any]
) -> Callable[[str], str | None]:
    of: dict[str, list[str]] = {name: [] for name in sorted(str(each.intent) for each in said)}
    for each in said:
        of[str(each.intent)].append(each.text)
    best: tuple[float, float, Any] | None = None
    for aggregation in AGGREGATIONS:
        router = semantic_router(aggregation, of, vectors)
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


Judged = tuple[str, float]
"""The likeliest intent and how sure of it."""


def crib(tools: Sequence[ToolSpec], asked: Sequence[str]) -> list[Judged]:
    with Crib.open(":memory:", settings=Settings()) as opened:
        opened.index_tools(tools)
        found = [opened.find_tools(text, 1, gate=False) for text in asked]
    return [(each.tools[0].id, each.confidence or 0.0) for each in found]


def routed(router: Any, text: str) -> Judged:
    choice = router(text, threshold=-1.0)
    return str(choice.name), float(choice.confidence)


def logistic(
    model: Any, said: Mapping[str, Sequence[str]], vectors: Mapping[str, Any], asked: Sequence[str]
) -> list[Judged]:
    labels = [name for name, texts in said.items() for _ in texts]
    model.fit(np.stack([vectors[text] for texts in said.values() for text in texts]), labels)
    likely = model.predict_proba(np.stack([vectors[text] for text in asked]))
    return [(str(model.classes_[row.argmax()]), float(row.max())) for row in likely]


def of_examples(folder: Path, shots: int, most: int, dense: DenseEncoder) -> dict[str, Any]:
    """Accuracy and AUROC of every system on one set's test split."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    data = with_shots(load(str(folder)), shots or EVERY, SEED)
    queries = data.split("test")
    queries = queries[:: max(1, len(queries) // most)]
    asked = [query.text for query in queries]
    said = {
        tool.id: list(dict.fromkeys([*tool.success_examples, tool.description]))
        for tool in data.tools
    }
    texts = list(dict.fromkeys(text for each in said.values() for text in each))
    vectors = dict(zip(texts, dense.encode_documents(texts), strict=True))
    vectors |= {text: dense.encode_query(text) for text in asked}
    told = {"toolcrib": crib(data.tools, asked)}
    for inverse in INVERSE_PENALTIES:
        model = LogisticRegression(C=inverse, max_iter=1000)
        told[f"logistic regression, C={inverse}"] = logistic(model, said, vectors, asked)
    for aggregation in AGGREGATIONS:
        router = semantic_router(aggregation, said, vectors)
        told[f"semantic-router, {aggregation}"] = [routed(router, text) for text in asked]
    inside = np.array([query.answerable for query in queries])
    found: dict[str, Any] = {}
    for system, judged in told.items():
        right = [name in query.relevant for (name, _), query in zip(judged, queries, strict=True)]
        sure = [score for _, score in judged]
        found[system] = {"accuracy": round(float(np.array(right)[inside].mean()), 4)}
        if not system.startswith("semantic-router"):
            bins = reliability_bins(np.array(sure), np.array(right))
            found[system]["ece"] = round(expected_error(bins), 4)
        if not inside.all():
            found[system]["auroc"] = round(float(roc_auc_score(inside, sure)), 4)
    return {"queries": len(queries), "out of scope": int((~inside).sum()), "systems": found}


def examples(data: Path, shots: Sequence[int], most: int, out: Path) -> None:
    """Measure what examples alone are worth, and write it."""
    dense = make_dense(Settings())
    rows: list[dict[str, Any]] = []
    table = Table("set", "examples", "system", "accuracy", "ECE", "AUROC")
    for name in EXAMPLE_SETS:
        for each in shots:
            found = of_examples(data / name, each, most, dense)
            rows.append({"set": name, "examples": each or "all", **found})
            for system, figures in found["systems"].items():
                cells = [f"{figures[key]:.3f}" if key in figures else "" for key in FIGURES]
                table.add_row(name, str(each or "all"), system, *cells)
    Console().print(table)
    result = {
        "command": "python benchmarks/intents.py --data DATA/intents --examples",
        "rows": rows,
    }
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--shots", type=int, nargs="*", default=[10, 0])
    parser.add_argument("--most", type=int, default=1500, help="queries a set, evenly")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--examples", action="store_true", help="intents as tools with examples")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    if chosen.examples:
        examples(chosen.data, chosen.shots, chosen.most, chosen.out or EXAMPLES)
        return
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
