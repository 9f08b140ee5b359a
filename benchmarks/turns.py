"""Whole turns, measured: how the project's own labelled turns are read and routed.

    python benchmarks/turns.py --out benchmarks/results/turns.json
    python benchmarks/turns.py --cuts --split dev    # precision and recall of tools
    python benchmarks/turns.py --fit     # the route's constants, on train and dev

The registry and the collections of data/ are indexed as a user would; data/turns.jsonl is asked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from corpora import rows
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from toolcrib import Crib, Decision, Route, Turn
from toolcrib.router import router
from toolcrib.router.route import RouteEvidence, choose_route
from toolcrib.settings import load_settings

DATA = Path(__file__).parent.parent / "data"
ROUTES_WITH_TOOL, ROUTES_WITH_TEXT = ("tools", "both"), ("knowledge", "both")
FIELDS = ("intent", "domain", "urgency", "sensitivity", "smalltalk")


@dataclass(frozen=True, slots=True)
class Asked:
    """A labelled turn, and what was decided for it."""

    labels: Mapping[str, Any]
    split: str
    tags: tuple[str, ...]
    decision: Decision


def ask(splits: Iterable[str]) -> list[Asked]:
    """Route the turns of some splits over the project's own tools and documents."""
    with own_crib() as crib:
        return [
            Asked(row["labels"], row["split"], tuple(row["tags"]), crib.route(turn_of(row)))
            for row in rows_of(splits)
        ]


@contextmanager
def own_crib() -> Iterator[Crib]:
    with Crib.open(":memory:", settings=load_settings()) as crib:
        crib.index_tools(DATA / "registry", f"{DATA}/registry/home_tools.py:TOOLS")
        for folder in sorted(each for each in (DATA / "collections").iterdir() if each.is_dir()):
            crib.index_docs(folder, collection=folder.name)
        yield crib


def rows_of(splits: Iterable[str]) -> list[dict[str, Any]]:
    return [row for row in rows(DATA / "turns.jsonl") if row["split"] in splits]


def turn_of(row: Mapping[str, Any]) -> Turn:
    fields = {name: row[name] for name in ("text", "history", "attachments") if name in row}
    return Turn.model_validate(fields)


def accuracy(pairs: Sequence[tuple[Any, Any]]) -> float:
    return float(np.mean([right == told for right, told in pairs]))


def fields(asked: Sequence[Asked]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in FIELDS:
        right = [str(a.labels.get(name)) for a in asked]
        told = [str(getattr(a.decision.context, name)) for a in asked]
        macro = f1_score(right, told, labels=sorted(set(right)), average="macro")
        pairs = list(zip(right, told, strict=True))
        found[name] = {"accuracy": accuracy(pairs), "macro F1": float(macro)}
    return found


def routes(asked: Sequence[Asked]) -> dict[str, Any]:
    """Where turns went, the first collection, the tools, and what follow-ups were joined."""
    kinds = [(a.labels["route"], a.decision.route.kind) for a in asked]
    knowing = [a for a in asked if a.labels["collections"]]
    doing = [a for a in asked if a.labels["tools"]]
    first = [_first_collection(a.decision) in a.labels["collections"] for a in knowing]
    read = [_collections_read(a.decision) & set(a.labels["collections"]) for a in knowing]
    given = [{hit.id for hit in a.decision.tools.tools} & set(a.labels["tools"]) for a in doing]
    joined = [
        (a.labels["follow_up"] == "joined", any("follow-up:" in s for s in a.decision.signals))
        for a in asked
        if "follow_up" in a.labels
    ]
    return {
        "turns": len(asked),
        "route accuracy": accuracy(kinds),
        "by route": {
            kind: {"turns": len(own), "right": accuracy(own)}
            for kind in sorted({right for right, _ in kinds})
            if (own := [pair for pair in kinds if pair[0] == kind])
        },
        "knowledge accuracy": float(np.mean(first)),
        "passages of a right collection": float(np.mean([bool(each) for each in read])),
        "a right tool among those given": float(np.mean([bool(each) for each in given])),
        "follow-ups": accuracy(joined) if joined else None,
    }


def _first_collection(decision: Decision) -> str | None:
    found = decision.knowledge.collections
    return found[0].id if found else None


def _collections_read(decision: Decision) -> set[str]:
    return {hit.passage.collection for hit in decision.knowledge.passages}


def entities(asked: Sequence[Asked]) -> dict[str, Any]:
    """Exact spans of the turns that have them labelled, over all types and by type."""
    right: set[tuple[int, int, int, str]] = set()
    told: set[tuple[int, int, int, str]] = set()
    for number, each in enumerate(asked):
        if "entities" in each.labels:
            right |= {(number, *span) for span in map(tuple, each.labels["entities"])}
            found = each.decision.context.entities
            told |= {(number, e.start, e.end, e.type) for e in found}
    kinds = {span[-1] for span in right}
    told = {span for span in told if span[-1] in kinds}
    hits = len(right & told)
    return {"labelled": len(right), "recall": hits / len(right), "precision": hits / len(told)}


FIT_WEIGHTS = {"dev": 1.0, "train": 1.0, None: 0.3}
"""Weight of a turn by its split; those of data/routes.jsonl have none, and other shares."""


def fit() -> None:
    """Fit the two regressions of the route, and print them.

    On the development turns, which no classifier has seen, the training turns and
    data/routes.jsonl.
    """
    pairs = [
        pair
        for pair in _evidence()
        if pair[0]["labels"]["route"] != "none" and pair[1].context.smalltalk is None
    ]
    known = [evidence.features() for _, evidence in pairs]
    weights = [FIT_WEIGHTS[row.get("split")] for row, _ in pairs]
    for name, needed in (("TOOL_WEIGHTS", ROUTES_WITH_TOOL), ("TEXT_WEIGHTS", ROUTES_WITH_TEXT)):
        right = [row["labels"]["route"] in needed for row, _ in pairs]
        model = LogisticRegression(C=1.0, fit_intercept=False, max_iter=3000)
        model.fit(known, right, sample_weight=weights)
        print(f"{name} = {tuple(model.coef_[0].round(2).tolist())}")


def _evidence() -> list[tuple[dict[str, Any], RouteEvidence]]:
    """Turns to fit on, each with what is known of it."""
    seen: list[RouteEvidence] = []

    def watched(evidence: RouteEvidence) -> Route:
        seen.append(evidence)
        return choose_route(evidence)

    router.choose_route = watched
    pairs: list[tuple[dict[str, Any], RouteEvidence]] = []
    with own_crib() as crib:
        for row in (*rows(DATA / "routes.jsonl"), *rows_of(("train", "dev"))):
            seen.clear()
            crib.route(turn_of(row))
            pairs += [(row, each) for each in seen]
    return pairs


def measure(split: str) -> dict[str, Any]:
    asked = ask((split,))
    took = [a.decision.took_ms["total"] for a in asked]
    return {
        "split": split,
        **routes(asked),
        "fields": fields(asked),
        "entities": entities(asked),
        "hard": routes([a for a in asked if "hard" in a.tags]),
        "median ms": median(took),
    }


CUTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


def cut_tools(split: str) -> None:
    """Print precision and recall of the tools handed out, by `tools.least`."""
    asked = [each for each in ask((split,)) if each.labels["tools"]]
    wanted = sum(len(each.labels["tools"]) for each in asked)
    for least in CUTS:
        given = [
            (hit.id, each.labels["tools"])
            for each in asked
            for place, hit in enumerate(each.decision.tools.tools)
            if place == 0 or (hit.probability or 0.0) >= least
        ]
        right = sum(tool in tools for tool, tools in given)
        print(f"{least:4.2f}: precision {right / len(given):.3f}, recall {right / wanted:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", default="test")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--fit", action="store_true", help="print the route's constants")
    parser.add_argument("--cuts", action="store_true", help="tools handed out, by `tools.least`")
    chosen = parser.parse_args()
    if chosen.cuts:
        cut_tools(chosen.split)
        return
    if chosen.fit:
        fit()
        return
    found = measure(chosen.split)
    table = Table("what", "figure")
    for name in (
        "turns",
        "route accuracy",
        "knowledge accuracy",
        "passages of a right collection",
        "a right tool among those given",
    ):
        table.add_row(name, f"{found[name]:.3f}")
    table.add_row("follow-ups", f"{found['follow-ups']:.3f}")
    for name, values in found["fields"].items():
        table.add_row(name, f"accuracy {values['accuracy']:.3f}, macro F1 {values['macro F1']:.3f}")
    table.add_row("entities", json.dumps({k: round(v, 3) for k, v in found["entities"].items()}))
    table.add_row("by route", json.dumps(found["by route"]))
    Console().print(table)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
