"""Count how often agents call tools of each verb, and write toolcrib/retrieval/verbs.csv.

    python scripts/fit_verbs.py FOLDER

FOLDER has recorded runs, as `toolcrib eval --steps` reads them. A verb's figure is the log of its
share among the tools that runs call (each once a run) over its share among all tools, with one
call added to both counts. The verbs are those of the file; the empty one stands for all others.
"""

from __future__ import annotations

import csv
import math
import sys
from collections import Counter
from pathlib import Path

from toolcrib.evaluation.steps import load_runs
from toolcrib.retrieval import steps
from toolcrib.text import split_identifier


def main(folder: Path) -> None:
    """Rewrite the figures."""
    tools, runs = load_runs(folder)
    verbs = set(steps.verb_ratios())

    def verb(name: str) -> str:
        return next((w.lower() for w in split_identifier(name) if w.lower() in verbs), "")

    names = {tool.id: verb(tool.name) for tool in tools}
    every = Counter(names.values())
    called = Counter(names[tool] for run in runs for tool in set(run.tools))
    calls = called.total() / every.total()
    with Path(steps.__file__).with_name("verbs.csv").open("w", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("verb", "log_ratio"))
        for each in sorted(verbs):
            ratio = math.log((called[each] + 1) / (calls * every[each] + 1))
            out.writerow((each, f"{ratio:.2f}"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
