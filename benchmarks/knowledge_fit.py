"""The constants of knowledge routing's first hop, fitted on train and development questions.

    python benchmarks/knowledge_fit.py --data DATA/knowledge

On the sets of benchmarks/knowledge.py and on the project's own turns, each as if it had as many
questions as the others, and as if half of them fitted nothing. Prints what stands in
toolcrib/router/knowledge.py.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from corpora import rows
from knowledge import SETS, Asked, Seen, first_hop, look, open_set, questions, ranked
from scipy.optimize import minimize

from toolcrib import Crib
from toolcrib.numerics import exclusive_probabilities
from toolcrib.router import knowledge
from toolcrib.settings import load_settings

OWN = "own"
DATA = Path(__file__).parent.parent / "data"
FITTED_ON = 650
"""Questions of a set that constants are fitted on."""


def own_turns() -> list[Asked]:
    """The project's turns that ask for knowledge, or that nothing fits."""
    return [
        Asked(row["text"], row["split"], frozenset(row["labels"]["collections"]), {}, OWN)
        for row in rows(DATA / "turns.jsonl")
        if row["labels"]["route"] in ("knowledge", "both", "general") and "history" not in row
    ]


def open_own() -> Crib:
    """The project's own collections, described as presets describe them."""
    crib = Crib.open(":memory:", settings=load_settings())
    for folder in sorted(each for each in (DATA / "collections").iterdir() if each.is_dir()):
        crib.index_docs(folder, collection=folder.name)
    return crib


def fit(data: Path) -> None:
    """Fit and print."""
    seen: list[tuple[Seen, float]] = []
    for name in (*SETS, OWN):
        with open_own() if name == OWN else open_set(data, name, examples=False) as crib:
            asked = own_turns() if name == OWN else questions(data, name)
            asked = [each for each in asked if each.split != "test"]
            looked = look(crib, asked[:: max(1, len(asked) // FITTED_ON)])
        answered = sum(bool(each.asked.collections) for each in looked)
        counts = {True: answered, False: len(looked) - answered}
        # As if every set had as many questions, and half of them fitted nothing.
        seen += [(each, 1 / counts[bool(each.asked.collections)]) for each in looked]
        print(name, len(looked), first_hop(looked))
    inside = [(each, weight) for each, weight in seen if each.asked.collections]

    def loss(weights: Any) -> float:
        total = 0.0
        for each, weight in inside:
            odds = {
                name: weights[0] * math.log(each.votes[name] + knowledge.SHARE_FLOOR)
                + weights[1] * each.similarity[name]
                for name in each.votes
            }
            shares = exclusive_probabilities(odds)
            right = sum(shares.get(name, 0.0) for name in each.asked.collections)
            total -= weight * math.log(right)
        return total

    share = minimize(loss, [1.2, 6.0], method="Nelder-Mead").x
    known = np.array([fit_features(each) for each, _ in seen])
    fits = np.array([bool(each.asked.collections) for each, _ in seen])
    weights = np.array([weight for _, weight in seen])
    design = np.column_stack([known, np.ones(len(known))])

    def unfit(w: Any) -> float:
        return float(
            (weights * np.logaddexp(0, np.where(fits, -1, 1) * (design @ w))).sum() + 1e-4 * (w @ w)
        )

    answer = minimize(unfit, np.zeros(design.shape[1]), method="BFGS").x
    print("SHARE", share.round(2), "FIT", answer.round(2))


def fit_features(each: Seen) -> tuple[float, ...]:
    first = ranked(each.shares)[0]
    mean = sum(each.scores) / len(each.scores)
    return each.scores[0], mean, each.votes[first], each.similarity[first]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    fit(parser.parse_args().data)


if __name__ == "__main__":
    main()
