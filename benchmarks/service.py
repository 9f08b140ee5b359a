"""What the HTTP service reaches: its rate, its tails, an overload, and very many requests.

    python benchmarks/service.py
    python benchmarks/service.py --only throughput steady --seconds 2 --rounds 1
    python benchmarks/service.py --only soak --soak 200000

A real `toolcrib serve` answers over an index of generated tools; the load comes from a process
of its own. Every part writes `benchmarks/results/service-PART.json`. What is measured, and how
fair it is: docs/explanation/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from load.parts import Bench, overload, soak, steady, throughput
from speed.indexing import open_with
from speed.inputs import Inputs, read_queries, read_tools
from speed.machine import machine, versions
from speed.targets import SERVICE_TARGETS, judge

from toolcrib import Crib, Settings

RESULTS = Path(__file__).resolve().parent / "results"
PARTS = ("throughput", "steady", "overload", "soak")
QUERIES = 200
PACKAGES = ("starlette", "uvicorn", "uvloop", "httptools")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure the service under load.")
    add = parser.add_argument
    add("--tools", type=int, default=10_000, metavar="N", help="in the index, generated")
    add("--seconds", type=float, default=5.0, metavar="S", help="a measurement and round")
    add("--rounds", type=int, default=5, metavar="N")
    add("--soak", type=int, default=200_000, metavar="N", help="requests of the soak")
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    add("--cache", type=Path, metavar="FOLDER", help="keep vectors of encoded tools here")
    add("--json", type=Path, default=RESULTS, metavar="FOLDER")
    return parser.parse_args()


def main() -> None:
    """Measure part by part."""
    arguments = parse()
    for name in [name for name in os.environ if name.startswith("TOOLCRIB_")]:
        del os.environ[name]
    parts: dict[str, Callable[[Bench], dict[str, Any]]] = {
        "throughput": throughput,
        "steady": steady,
        "overload": overload,
        "soak": lambda bench: soak(bench, arguments.soak),
    }
    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as work:
        bench = _bench(arguments, Path(work))
        for part in arguments.only:
            print(part, file=sys.stderr, flush=True)
            on = machine()
            _keep(arguments, part, on, parts[part](bench))


def _bench(arguments: argparse.Namespace, work: Path) -> Bench:
    print(f"indexing {arguments.tools:,} tools", file=sys.stderr, flush=True)
    tools, queries = read_tools(None, arguments.tools, 0), read_queries(None, QUERIES)
    inputs = Inputs.make(tools, queries, "real", arguments.cache)
    bench = Bench(work / "index", work / "queries.json", arguments.seconds, arguments.rounds)
    bench.queries.write_text(json.dumps(queries), encoding="utf-8")
    with open_with(inputs.known, bench.index) as crib:
        crib.index_tools(tools.specs)
    with Crib.open(bench.index, settings=Settings()):  # signs the index, as it would have been
        pass
    return bench


def _keep(
    arguments: argparse.Namespace, part: str, on: dict[str, Any], figures: dict[str, Any]
) -> None:
    result: dict[str, Any] = {
        "part": part,
        "command": _command(arguments, part),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": on,
        "versions": versions() | {name: metadata.version(name) for name in PACKAGES},
        "tools": arguments.tools,
        "queries": QUERIES,
        "settings": Settings().service.model_dump(include={"concurrent", "workers"}),
        "figures": figures,
        "targets": judge(figures, SERVICE_TARGETS[part]),
    }
    print(json.dumps(result, indent=2))
    arguments.json.mkdir(parents=True, exist_ok=True)
    file = arguments.json / f"service-{part}.json"
    file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _command(arguments: argparse.Namespace, part: str) -> str:
    """The command as anyone could give it."""
    usual = {"tools": 10_000, "seconds": 5.0, "rounds": 5, "soak": 200_000}
    given = (
        f"--{name} {getattr(arguments, name):g}"
        for name, value in usual.items()
        if getattr(arguments, name) != value
    )
    return " ".join(("python benchmarks/service.py", f"--only {part}", *given))


if __name__ == "__main__":
    main()
