"""How long toolcrib takes, against its own encoder and against peers, at several sizes.

    python benchmarks/engines.py --sizes 1000 10000 100000
    python benchmarks/engines.py --sizes 100000 --vectors random
    python benchmarks/engines.py --sizes 10000 --tools TOOLS.jsonl.gz --queries QUERIES.jsonl

Every size runs in a process of its own and writes `benchmarks/results/engines-SIZE.json`.
What is measured, and how fair it is: docs/explanation/benchmarks.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from speed.child import Child
from speed.fresh import fresh_processes, peak_memory
from speed.indexing import index_rate, open_with, while_indexing
from speed.inputs import Inputs, read_queries, read_tools
from speed.machine import machine, versions
from speed.peers import PEERS
from speed.searching import Rounds
from speed.targets import TARGETS, judge

from toolcrib import Crib, Scope, Settings, ToolSpec

RESULTS = Path(__file__).resolve().parent / "results"
PARTS = ("search", "processes", "memory", "indexing", "busy")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure toolcrib against its peers.")
    add = parser.add_argument
    add("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], metavar="TOOLS")
    add("--vectors", choices=("real", "random"), default="real", help="of the tools")
    add("--tools", type=Path, metavar="FILE", help="JSONL, .gz or not; else generated")
    add("--queries", type=Path, metavar="FILE", help="JSONL with `text`")
    add("--query-count", type=int, default=200, metavar="N")
    add("--rounds", type=int, default=5, metavar="N")
    add("--budget", type=float, default=8.0, metavar="S", help="seconds a peer and round")
    add("--runs", type=int, default=9, metavar="N", help="fresh processes for each median")
    add("--index-tools", type=int, default=2000, metavar="N", help="tools for the index rate")
    add("--index-rounds", type=int, default=4, metavar="N")
    add("--peers", nargs="*", choices=list(PEERS), default=list(PEERS), metavar="NAME")
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    add("--cache", type=Path, metavar="FOLDER", help="keep vectors of encoded tools here")
    add("--json", type=Path, default=RESULTS, metavar="OUT", help="file (one size) or folder")
    return parser.parse_args()


def main() -> None:
    """Measure every size."""
    arguments = parse()
    for name in [name for name in os.environ if name.startswith("TOOLCRIB_")]:
        del os.environ[name]
    if len(arguments.sizes) == 1:
        _one_size(arguments, arguments.sizes[0])
        return
    if arguments.json.suffix == ".json":
        raise SystemExit("--json must be a folder when there are several sizes")
    given = sys.argv[1:]
    at = given.index("--sizes") if "--sizes" in given else len(given)
    rest = given[:at] + given[at + 1 + len(arguments.sizes) :]
    for size in arguments.sizes:
        command = [sys.executable, __file__, *rest, "--sizes", str(size)]
        subprocess.run(command, check=True)


def _one_size(arguments: argparse.Namespace, size: int) -> None:
    result: dict[str, Any] = {
        "command": _command(arguments, size),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "size": size,
        "vectors": arguments.vectors,
    }
    extra = arguments.index_tools if {"indexing", "busy"} & set(arguments.only) else 0
    tools = read_tools(arguments.tools, size, extra)
    queries = read_queries(arguments.queries, arguments.query_count)
    result |= {"tools": tools.origin, "queries": len(queries)}
    inputs = Inputs.make(tools, queries, arguments.vectors, arguments.cache)
    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as work:
        result["figures"] = _measure(arguments, inputs, Path(work))
    result["targets"] = judge(result["figures"], TARGETS, size)
    print(json.dumps(result, indent=2))
    out: Path = arguments.json
    file = out if out.suffix == ".json" else out / f"engines-{size}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _measure(arguments: argparse.Namespace, inputs: Inputs, work: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    specs, store = inputs.tools.specs, work / "crib"
    inputs.save(work)
    scopes = _scopes(specs)
    _fill(inputs, store, specs)
    if "search" in arguments.only:
        tenth = work / "tenth"
        _fill(inputs, tenth, specs[: max(1, len(specs) // 10)])
        specs.clear()  # a user's process does not hold them, and the collector would walk them
        with _peers(arguments.peers, work) as peers, _open(inputs, store, tenth) as cribs:
            rounds = Rounds(inputs, cribs[0], cribs[1], scopes, peers, arguments.budget)
            rounds.run(arguments.rounds)
        figures |= {"toolcrib": rounds.own_figures(), "peers": rounds.peer_figures()}
    if "processes" in arguments.only:
        _say("fresh processes")
        figures["processes"] = fresh_processes(store, inputs.queries[0], arguments.runs)
    if "memory" in arguments.only:
        figures["memory"] = peak_memory(store, work)
    if "indexing" in arguments.only:
        _say("index rate")
        figures["indexing"] = index_rate(inputs, inputs.tools.extra, arguments.index_rounds)
    if "busy" in arguments.only:
        _say("searching while indexing")
        with _open(inputs, store) as cribs:
            figures["while_indexing"] = while_indexing(inputs, *cribs)
    return figures


def _fill(inputs: Inputs, store: Path, specs: list[ToolSpec]) -> None:
    _say(f"indexing {len(specs):,} tools, their vectors known")
    with open_with(inputs.known, store) as crib:
        report = crib.index_tools(specs)
    if report.refused:
        raise SystemExit(f"refused: {report.refused[:3]}")
    with Crib.open(store, settings=Settings()):  # signs the index, as it would have been
        pass


@contextmanager
def _open(inputs: Inputs, *stores: Path) -> Iterator[list[Crib]]:
    cribs = [open_with(inputs.known, store) for store in stores]
    gc.collect()
    gc.freeze()
    try:
        yield cribs
    finally:
        for crib in cribs:
            crib.close()


@contextmanager
def _peers(names: list[str], work: Path) -> Iterator[dict[str, Child]]:
    with ExitStack() as stack:
        found: dict[str, Child] = {}
        for name in names:
            _say(f"loading {name}")
            child = Child("speed.peer_process", name, str(work))
            stack.callback(child.close)
            if "missing" in child.about:
                _say(f"{name} is left out: {child.about['missing']} is not installed")
            else:
                found[name] = child
        yield found


def _scopes(specs: list[ToolSpec]) -> dict[str, Scope]:
    """The server whose size is nearest to a hundredth of all tools; servers with half of them."""
    counts = Counter(spec.server for spec in specs)
    one = min(counts, key=lambda server: (abs(counts[server] - len(specs) / 100), server))
    half: set[str] = set()
    for server in sorted(counts):
        if sum(counts[each] for each in half) < len(specs) / 2:
            half.add(server)
    return {
        f"one server ({counts[one]:,} tools)": Scope(servers=frozenset({one})),
        f"half of the tools ({len(half):,} servers)": Scope(servers=frozenset(half)),
    }


def _command(arguments: argparse.Namespace, size: int) -> str:
    """The command as anyone could give it: files by what they are, not where they lie."""
    parts = [f"python benchmarks/engines.py --sizes {size} --vectors {arguments.vectors}"]
    parts += ["--tools FILE"] if arguments.tools else []
    parts += ["--queries FILE"] if arguments.queries else []
    for name, usual in (
        ("query_count", 200),
        ("rounds", 5),
        ("budget", 8.0),
        ("runs", 9),
        ("index_tools", 2000),
        ("index_rounds", 4),
    ):
        if (value := getattr(arguments, name)) != usual:
            parts.append(f"--{name.replace('_', '-')} {value:g}")
    if arguments.only != list(PARTS):
        parts.append(f"--only {' '.join(arguments.only)}")
    return " ".join(parts)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
