"""Misspelt queries: how well tools are found with the spelling corrected, and without that.

    python benchmarks/spelling.py DATA/tools/metatool DATA/tools/seal-tools ... [--split dev]

Two words of each query get a slip of the keyboard, drawn at random: a letter left out (40 %), two
letters swapped, a neighbouring key or a letter twice (20 % each). The first letter stays, and words
of less than five letters. Figures are nDCG@10 in percent.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from toolcrib import Settings
from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.runner import evaluate
from toolcrib.evaluation.systems.ours import OwnSystems
from toolcrib.retrieval.spelling import Speller

SEED, SLIPS = 0, 2
ROWS = "qwertyuiop", "asdfghjkl", "zxcvbnm"
NEIGHBOURS = {key: row[place - 1] for row in ROWS for place, key in enumerate(row)}
WORD = re.compile(r"[A-Za-z]{5,}")


def slip(word: str, draw: random.Random) -> str:
    """The word with one slip."""
    at, kind = draw.randrange(1, len(word) - 1), draw.random()
    if kind < 0.4:
        return word[:at] + word[at + 1 :]
    if kind < 0.6:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    letter = NEIGHBOURS.get(word[at].lower(), "e") if kind < 0.8 else word[at] * 2
    return word[:at] + letter + word[at + 1 :]


def misspell(text: str, draw: random.Random) -> str:
    """The text with slips in some of its longer words."""
    places = [found.span() for found in WORD.finditer(text)]
    for start, end in sorted(draw.sample(places, min(SLIPS, len(places))), reverse=True):
        text = text[:start] + slip(text[start:end], draw) + text[end:]
    return text


@contextmanager
def uncorrected() -> Iterator[None]:
    """Searches that leave the spelling as it is."""
    corrections = Speller.corrections
    Speller.corrections = lambda *_: {}
    try:
        yield
    finally:
        Speller.corrections = corrections


def ndcg(data: DataSet, split: str, limit: int) -> float:
    """nDCG@10 of toolcrib, in percent."""
    own = OwnSystems(Settings())
    systems = {"toolcrib": lambda: own.make("toolcrib")}
    found = evaluate([data], systems, ks=(10,), split=split, limit=limit, seed=SEED)
    own.close()
    return 100 * found.sets[data.name].systems["toolcrib"].measures["ndcg@10"].mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int, default=200)
    options = parser.parse_args()
    for folder in options.sets:
        data, draw = load(str(folder)), random.Random(SEED)
        queries = (replace(query, text=misspell(query.text, draw)) for query in data.queries)
        figures = list[str]()
        for each in (data, replace(data, queries=tuple(queries))):
            with uncorrected():
                before = ndcg(each, options.split, options.limit)
            figures.append(f"{before:.1f} -> {ndcg(each, options.split, options.limit):.1f}")
        print(f"{data.name}: as written {figures[0]}, misspelt {figures[1]}", flush=True)


if __name__ == "__main__":
    main()
