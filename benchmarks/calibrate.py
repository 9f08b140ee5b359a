"""What `toolcrib calibrate` is worth on sets that have unanswerable queries of their own.

    python benchmarks/calibrate.py --data DATA --out benchmarks/results/calibrate.json

Fitted on the development split, measured on the test split, beside the calibration that ships
and the best single scores: the best cosine of the dense leg, the best BM25 of the lexical one.
Intents get ten of their training queries as examples.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib import Crib, Settings
from toolcrib.evaluation.calibrate import LabelledEvidence, gather_evidence, learn
from toolcrib.evaluation.dataset import DataSet, LabelledQuery, with_shots
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.measures import gate_measures
from toolcrib.retrieval.calibration import FEATURES, Calibration, default_calibration

SETS = ("tools/metatool", "intents/banking77-oos", "intents/clinc150")
SINGLE = {"best cosine": "top_dense", "best BM25": "top_lexical"}
SHOTS = 10
SEED = 0


def some(data: DataSet, split: str, most: int | None) -> list[LabelledQuery]:
    """Up to so many queries of each kind, answerable and not."""
    queries = list(data.split(split))
    random.Random(SEED).shuffle(queries)
    kinds = ([q for q in queries if q.answerable], [q for q in queries if not q.answerable])
    return [query for kind in kinds for query in kind[:most]]


def measure(
    evidence: list[LabelledEvidence],
    confidence: list[float],
    threshold: float | None = None,
    first: list[float] | None = None,
) -> dict[str, float]:
    """All gate measures, and what is accepted from a threshold on."""
    sure = np.array(confidence)
    right = np.array([one.first_is_right for one in evidence])
    able = np.array([one.answerable for one in evidence])
    found = gate_measures(sure, right, able, None if first is None else np.array(first))
    if threshold is not None:
        accepted = sure >= threshold
        found |= {
            "accepted": float(accepted.mean()),
            "accepted_precision": float(right[accepted].mean()),
        }
    return {name: round(value, 4) for name, value in found.items()}


def judged(evidence: list[LabelledEvidence], by: Calibration) -> dict[str, float]:
    sure = [by.confidence(one.features, one.about) or 0.0 for one in evidence]
    first = [
        float(by.probabilities(one.features, p)[0]) for one, p in zip(evidence, sure, strict=True)
    ]
    return measure(evidence, sure, by.threshold, first)


def shown(crib: Crib, queries: list[LabelledQuery], **how: Any) -> list[LabelledEvidence]:
    """Evidence of the queries as they are."""
    return [one for one in gather_evidence(crib, queries, **how) if not one.hidden]


def rows(data: DataSet, most: int) -> dict[str, dict[str, float]]:
    """The measures of every way to judge a set's test queries."""
    with Crib.open(":memory:", settings=Settings()) as crib:
        crib.index_tools(data.tools)
        fitted = learn(crib, some(data, "dev", None), seed=SEED).calibration
        test = some(data, "test", most)
        plain = shown(crib, test)
        own = plain if fitted.head is None else shown(crib, test, head=fitted.head)
        by_words = shown(crib, test, words=True)
    shipped, lexical = default_calibration(), fitted.lexical
    assert shipped.lexical is not None
    assert lexical is not None
    found = {
        name: measure(plain, [float(one.features[0, FEATURES.index(column)]) for one in plain])
        for name, column in SINGLE.items()
    }
    # A score is no probability, even where it is between 0 and 1.
    found = {
        n: {k: v for k, v in row.items() if k not in ("ece", "brier")} for n, row in found.items()
    }
    return found | {
        "shipped": judged(plain, shipped),
        "calibrated": judged(own, fitted),
        "shipped, by words": judged(by_words, shipped.lexical),
        "calibrated, by words": judged(by_words, lexical),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--most", type=int, default=1200, help="test queries of each kind")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    sets: dict[str, Any] = {}
    for name in chosen.sets:
        data = load(str(chosen.data / name))
        sets[Path(name).name] = rows(with_shots(data, SHOTS, SEED), chosen.most)
        for way, row in sets[Path(name).name].items():
            print(f"{name:22s} {way:22s}", row, flush=True)
    if chosen.out:
        command = f"python benchmarks/calibrate.py --data DATA --sets {' '.join(chosen.sets)}"
        text = json.dumps({"command": command, "sets": sets}, indent=1)
        chosen.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
