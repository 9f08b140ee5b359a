"""Main ratios of speed in five minutes, beside those of the last committed result.

    python benchmarks/quick.py           # shows them
    python benchmarks/quick.py --keep    # and writes them to benchmarks/results/quick.json

Times are processor time of the searching thread, or of the new process, so that a busy machine
matters little; two threads alone are measured by the clock. Calls take turns with the encoder, and
of each query the least of all rounds counts. Tools are generated, turns are those of `data/`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from speed.generate import generated_queries, generated_tools
from speed.machine import machine, versions

from toolcrib import Crib, Settings, ToolSpec

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "quick.json"
TOOLS, QUERIES, ROUNDS, RUNS, REINDEXINGS = 2_000, 60, 5, 5, 5


def measure(work: Path) -> dict[str, float]:
    """Every ratio, over indexes in a folder."""
    tools, queries = list(generated_tools(0, TOOLS)), generated_queries(QUERIES)
    turns = [
        json.loads(line)["text"]
        for line in (ROOT / "data" / "turns.jsonl").read_text(encoding="utf-8").splitlines()
    ][:QUERIES]
    found: dict[str, float] = {}
    with Crib.open(work / "crib", settings=Settings()) as crib:
        first = _cpu_s(lambda: crib.index_tools(tools))
        found["index again / index"] = _cpu_s(lambda: crib.index_tools(tools)) / first
        for folder in sorted((ROOT / "data" / "collections").iterdir()):
            if folder.is_dir():
                crib.index_docs(folder, collection=folder.name)
        encode = crib.tools.dense.encode_query
        found["find_tools / encode"] = _ratio(crib.find_tools, encode, queries)
        found["route / encode"] = _ratio(crib.route, encode, turns)
        one, two = (_rate(crib, queries, threads) for threads in (1, 2))
        found["two threads / one"] = two / one
    found["find_tools / encode, indexed again"] = _after_changes(work / "changed", tools, queries)
    bare, imported, cold = (
        median(_process_s(command) for _ in range(RUNS))
        for command in (
            ["-c", "pass"],
            ["-c", "from toolcrib import Crib"],
            ["-m", "toolcrib", "search", queries[0], "--store", str(work / "crib")],
        )
    )
    found["import of Crib, s"] = imported - bare
    found["cold search, s"] = cold
    return {name: round(value, 3) for name, value in found.items()}


def _after_changes(folder: Path, tools: Sequence[ToolSpec], queries: Sequence[str]) -> float:
    """Ratio of a search in an index whose tools were all changed several times."""
    few = tools[: TOOLS // 4]
    with Crib.open(folder, settings=Settings()) as crib:
        for number in range(REINDEXINGS):
            crib.index_tools([each.model_copy(update={"version": str(number)}) for each in few])
        return _ratio(crib.find_tools, crib.tools.dense.encode_query, queries)


def _ratio(
    call: Callable[[str], Any], encode: Callable[[str], Any], queries: Sequence[str]
) -> float:
    """Median time of a call over that of the encoder, both on the same queries in turns."""
    times: dict[Callable[[str], Any], list[list[float]]] = {call: [], encode: []}
    for number in range(ROUNDS + 1):
        for place, query in enumerate(queries):
            for work in (call, encode) if (place + number) % 2 else (encode, call):
                if number == 0:
                    times[work].append([])
                start = time.thread_time()
                work(query)
                times[work][place].append(time.thread_time() - start)
    # The first round fills caches.
    of_call, of_encode = (median(min(each[1:]) for each in own) for own in times.values())
    return of_call / of_encode


def _rate(crib: Crib, queries: Sequence[str], threads: int) -> float:
    """Searches a second, by the clock."""
    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        list(pool.map(crib.find_tools, [*queries] * ROUNDS))
        return len(queries) * ROUNDS / (time.perf_counter() - start)


def _cpu_s(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _process_s(arguments: Sequence[str]) -> float:
    """Processor seconds of a new Python process."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def main() -> None:
    """Measure, and show the figures beside the committed ones."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keep", action="store_true", help="write the result")
    keep = parser.parse_args().keep
    last: dict[str, Any] = (
        json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    )
    on = machine()
    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as work:
        found = measure(Path(work))
    table = Table("figure", "now", "committed", "now / committed")
    for name, value in found.items():
        before = last.get("figures", {}).get(name)
        table.add_row(
            name, f"{value:g}", f"{before or '-'}", f"{value / before:.2f}" if before else "-"
        )
    Console().print(table)
    if keep:
        kept: dict[str, Any] = {"command": "python benchmarks/quick.py --keep", "tools": TOOLS}
        kept |= {"machine": on, "versions": versions(), "figures": found}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
