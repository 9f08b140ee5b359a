"""What confidence and gate cost: the same search with and without them, query by query.

    python benchmarks/overhead.py

On the sample registry, in turns, each first for half of the queries. The figure is the median of
the differences, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

from toolcrib import Crib, Settings
from toolcrib.evaluation.loaders import load

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "overhead.json"
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    data = load(str(ROOT / "data"))
    queries = [query.text for query in data.queries]
    with Crib.open(":memory:", settings=Settings()) as judged:
        judged.index_tools(data.tools)
        plain = Crib.over(judged.tools.store, judged.tools.dense, Settings())  # the same index
        plain.tools.use_calibration(None)
        times: dict[str, list[float]] = {"judged": [], "plain": []}
        cribs = {"judged": judged, "plain": plain}
        for crib in cribs.values():
            for query in queries[:50]:
                crib.find_tools(query)
        for number in range(ROUNDS):
            for place, query in enumerate(queries):
                names = list(cribs) if (place + number) % 2 else list(cribs)[::-1]
                for name in names:
                    start = time.perf_counter()
                    cribs[name].find_tools(query, gate=False)
                    times[name].append((time.perf_counter() - start) * 1000)
    differences = [one - other for one, other in zip(times["judged"], times["plain"], strict=True)]
    found = {
        "command": "python benchmarks/overhead.py",
        "searches": len(differences),
        "judged_ms": round(median(times["judged"]), 3),
        "plain_ms": round(median(times["plain"]), 3),
        "difference_ms": round(median(differences), 3),
    }
    print(json.dumps(found, indent=1))
    options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
