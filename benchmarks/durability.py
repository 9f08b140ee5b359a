"""What it costs to have the disk hold a write before it is acknowledged: with it and without.

    python benchmarks/durability.py --folder DISK

Writes of one tool and of many, into two folders in turns: one of `durability: disk`, one of
`system`. Times are medians in milliseconds a write; they depend on the disk under `--folder`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from toolcrib import Crib, Settings, ToolSpec

RESULTS = Path(__file__).parent / "results" / "durability.json"
KINDS = ("disk", "system")
WRITES = {1: 200, 256: 20}
"""How many writes are measured, by the number of tools in each."""


def tools(first: int, count: int) -> list[ToolSpec]:
    """So many tools that no folder has."""
    texts = ((n, f"Sends report number {n} to team {n % 97}.") for n in range(first, first + count))
    return [ToolSpec(name=f"send_report_{n}", description=text) for n, text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        where = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        cribs = {
            kind: stack.enter_context(Crib.open(where / kind, settings=Settings(durability=kind)))
            for kind in KINDS
        }
        written = 0
        for size, writes in WRITES.items():
            times: dict[str, list[float]] = {kind: [] for kind in KINDS}
            for number in range(writes):
                batch = tools(written, size)
                written += size
                for kind in KINDS if number % 2 else KINDS[::-1]:
                    start = time.perf_counter()
                    cribs[kind].index_tools(batch)
                    times[kind].append((time.perf_counter() - start) * 1000)
            found[f"{size} a write"] = {
                kind: round(median(each), 1) for kind, each in times.items()
            }
    result = {"command": "python benchmarks/durability.py", "median_ms": found}
    print(json.dumps(result, indent=1))
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
