"""What routing a turn costs, as multiples of encoding its text, and stage by stage.

    python benchmarks/routing.py --data DATA --store FOLDER --out benchmarks/results/routing.json

10,000 real MCP tools and 50,000 real passages (knowledge sets, then descriptions of OpenAPI
operations) are indexed into FOLDER unless it holds them already. Turns are the project's own.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from corpora import rows
from rich.console import Console
from rich.table import Table

from toolcrib import Collection, Crib, Passage, ToolSpec, Turn
from toolcrib.build import make_dense
from toolcrib.context.entities import EntityFinder
from toolcrib.context.rules import HeuristicDetector
from toolcrib.settings import load_settings

TOOLS, PASSAGES = 10_000, 50_000
SETS = ("swdocs", "lfrqa", "cosqa")
TURNS = Path(__file__).parent.parent / "data" / "turns.jsonl"
ROUNDS = 3


def tools(data: Path) -> list[ToolSpec]:
    found: dict[str, ToolSpec] = {}
    for row in rows(data / "corpora" / "mcp-tools.jsonl.gz"):
        spec = ToolSpec(
            name=row["name"], server=row.get("server") or "", description=row["description"]
        )
        found.setdefault(spec.id, spec)
        if len(found) == TOOLS:
            break
    return list(found.values())


def passages(data: Path) -> Iterator[Passage]:
    for name in SETS:
        for row in rows(data / "knowledge" / name / "documents.jsonl"):
            title = tuple(part for part in row["title"].split(" › ") if part)
            yield Passage(row["collection"], row["id"], row["text"][:4000], title)
    for number, row in enumerate(rows(data / "corpora" / "openapi-tools.jsonl.gz")):
        text = f"{row['name']}: {row['description']}"
        yield Passage("operations", f"operation-{number}", text[:4000])


def build(data: Path, crib: Crib) -> None:
    crib.index_tools(tools(data))
    for name in SETS:
        described = rows(data / "knowledge" / name / "collections.jsonl")
        crib.add_collections(
            *(Collection(name=row["id"], description=row["description"]) for row in described)
        )
    crib.index_passages(list(islice(passages(data), PASSAGES)))


def milliseconds(work: Callable[[Any], Any], over: Sequence[Any]) -> list[float]:
    took: list[float] = []
    for each in over:
        started = time.perf_counter()
        work(each)
        took.append((time.perf_counter() - started) * 1000)
    return took


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(crib: Crib) -> dict[str, Any]:
    asked = list(rows(TURNS))
    alone = [row["text"] for row in asked if "history" not in row and len(row["text"]) < 400]
    following = [
        Turn(text=row["text"], history=row["history"]) for row in asked if "history" in row
    ]
    dense = make_dense(load_settings())
    detector = HeuristicDetector(finder=EntityFinder())
    for text in alone[:50]:
        crib.route(text)
    encode: list[float] = []
    route: list[float] = []
    for _ in range(ROUNDS):
        encode += milliseconds(dense.encode_query, alone)
        route += milliseconds(crib.route, alone)
    stages = [crib.route(text).took_ms for text in alone]
    return {
        "tools": sum(1 for _ in crib.list_tools()),
        "passages": crib.knowledge.count(),
        "turns": len(alone),
        "encode ms": median(encode),
        "route ms": median(route),
        "route p99 ms": percentile(route, 0.99),
        "ratio": median(route) / median(encode),
        "follow-up ms": median(milliseconds(crib.route, following)),
        "find_tools ms": median(milliseconds(crib.find_tools, alone)),
        "detect without encoder ms": median(milliseconds(detector.detect, alone)),
        "stages": {
            name: median([each.get(name, 0.0) for each in stages])
            for name in ("encode", "context", "tools", "knowledge")
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--build", action="store_true", help="index, and measure nothing")
    chosen = parser.parse_args()
    with Crib.open(chosen.store, settings=load_settings()) as crib:
        if crib.knowledge.count() < PASSAGES:
            build(chosen.data, crib)
        if chosen.build:
            return
        found = measure(crib)
    table = Table("what", "figure")
    for name, value in found.items():
        table.add_row(name, f"{value:.2f}" if isinstance(value, float) else str(value))
    Console().print(table)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
