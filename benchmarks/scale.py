"""How search grows from a thousand tools to a million: time, recall, memory, disk, filters.

    python benchmarks/scale.py --tools TOOLS.jsonl.gz ... --queries QUERIES.jsonl
    python benchmarks/scale.py --tools TOOLS.jsonl.gz ... --sizes 1000 10000 --work FOLDER

Tools are those of the files in a seeded order; where they are too few, perturbed copies follow
(`Population`). A run with `--work` that was stopped goes on where it was. Writes
`benchmarks/results/scale.json`; what is measured, and what it says: docs/explanation/scale.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from corpora import specs
from pydantic_core import to_json
from rich.progress import track
from speed.figures import median, rounded, stats
from speed.fresh import peak_memory
from speed.inputs import encoded, read_queries
from speed.machine import machine, versions
from speed.searching import engine_ms

from toolcrib import Crib, FindResult, Scope, Settings, ToolSpec
from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.fingerprint import tool_fingerprint
from toolcrib.indexers.points import TOOL_TERMS, Draft, dense_text, draft, layout
from toolcrib.store.base import LegQuery, Point, Store
from toolcrib.store.filters import AnyOf, Filter
from toolcrib.store.folder import allocated_bytes
from toolcrib.store.qdrant_edge import EdgeStore

RESULTS = Path(__file__).resolve().parent / "results" / "scale.json"
SIZES = [1_000, 10_000, 100_000, 1_000_000]
SEED = 11
PAGE = 1000
TOP = 10
NEAR = 1e-5
"""Of a cosine: what the engine's arithmetic may differ by. Equal texts have equal scores, and
any of them is as good as another."""

BUILD = ("write_s", "optimise_s", "write_cpu_s", "optimise_cpu_s")

COPY_COSINE = 0.9
DROPPED = 0.15
HALF = "half"


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure how search grows with the index.")
    add = parser.add_argument
    add("--tools", type=Path, nargs="+", required=True, metavar="FILE", help="JSONL, .gz or not")
    add("--queries", type=Path, metavar="FILE", help="JSONL with `text`; else generated")
    add("--query-count", type=int, default=200, metavar="N")
    add("--rounds", type=int, default=3, metavar="N")
    add("--sizes", type=int, nargs="+", default=SIZES, metavar="TOOLS")
    add("--work", type=Path, metavar="FOLDER", help="keep indexes and vectors here, for next time")
    add("--build", type=int, metavar="TOOLS", help="make the index of this size in --work alone")
    add("--json", type=Path, default=RESULTS, metavar="OUT")
    return parser.parse_args()


def main() -> None:
    """Build every size in a process of its own, then search in all of them by turns."""
    arguments = parse()
    for name in [name for name in os.environ if name.startswith("TOOLCRIB_")]:
        del os.environ[name]
    if arguments.build is not None:
        _build(arguments, arguments.build)
        return
    with tempfile.TemporaryDirectory(prefix="toolcrib-scale-") as passing:
        work = arguments.work or Path(passing)
        for size in arguments.sizes:
            if not (work / f"{size}.json").is_file():
                command = [sys.executable, __file__, *sys.argv[1:], "--work", str(work)]
                subprocess.run([*command, "--build", str(size)], check=True)
        found = _measured(arguments, work)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found["sizes"], indent=2))


# -- tools -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Population:
    """Real tools with their vectors, and as many perturbed copies as are asked for.

    A copy has another id, and its words have lost one term in seven. It is not encoded: its
    vector is that of the real tool, turned at random to a cosine of 0.9. Every other tool, by
    chance, has the tag `half`.
    """

    drafts: list[Draft]
    vectors: FloatArray

    @classmethod
    def read(cls, files: list[Path], size: int, cache: Path) -> Population:
        """`size` tools of the files at most, each once, in a seeded order, encoded."""
        found: dict[str, ToolSpec] = {}
        for file in files:
            for spec in specs(file):
                found.setdefault(spec.id, spec)
        texts = sorted(map(dense_text, found.values()), key=lambda text: (len(text), text))
        texts = list(dict.fromkeys(texts))
        rows = {text: row for row, text in enumerate(texts)}
        matrix = encoded(texts, BundledEncoder(), cache)
        chosen = random.Random(SEED).sample(list(found.values()), min(size, len(found)))
        settings = Settings()
        lexical = LexicalEncoder(settings.lexical)
        drafts = [draft(spec, lexical, settings.fields, ()) for spec in chosen]
        return cls(drafts, matrix[[rows[dense_text(spec)] for spec in chosen]])

    def pages(self, size: int) -> Iterator[tuple[list[Draft], FloatArray]]:
        """The first `size` tools, page by page, copies last: float32 [tools, dimensions]."""
        for start in range(0, size, PAGE):
            places = range(start, min(start + PAGE, size))
            chance = random.Random(SEED + start)
            vectors = self.vectors[[place % len(self.drafts) for place in places]]
            turned = np.array([place >= len(self.drafts) for place in places])
            vectors[turned] = _turned(vectors[turned], start)
            yield [self._tool(place, chance) for place in places], vectors

    def _tool(self, place: int, chance: random.Random) -> Draft:
        copy, row = divmod(place, len(self.drafts))
        real = self.drafts[row]
        payload, counts = dict(real.payload), real.counts
        if chance.random() < 0.5:
            payload["tags"] = [*payload["tags"], HALF]
        if not copy:
            return replace(real, payload=payload)
        named = f"{real.id}~{copy}"
        inner = f'"id":{to_json(real.id).decode()}', f'"id":{to_json(named).decode()}'
        payload |= {"id": named, "spec": payload["spec"].replace(*inner, 1)}
        counts = {term: count for term, count in counts.items() if chance.random() > DROPPED}
        return replace(real, id=named, payload=payload, counts=counts)


def _turned(vectors: FloatArray, seed: int) -> FloatArray:
    """Each vector turned at random, to `COPY_COSINE` to what it was."""
    noise = np.random.default_rng(SEED + seed).standard_normal(vectors.shape, dtype=np.float32)
    noise -= np.einsum("ij,ij->i", noise, vectors)[:, None] * vectors
    noise /= np.linalg.norm(noise, axis=1, keepdims=True) + 1e-12
    mixed = COPY_COSINE * vectors + np.sqrt(1 - COPY_COSINE**2) * noise
    return (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)


@dataclass
class Exact:
    """The best cosines of each query over everything that was ever shown: float32 [queries, 10]."""

    queries: FloatArray
    best: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Nothing was shown yet."""
        self.best = np.full((len(self.queries), TOP), -1, dtype=np.float32)

    def show(self, vectors: FloatArray) -> None:
        """Keep what is better than what was kept."""
        both = np.concatenate([self.best, self.queries @ vectors.T], axis=1)
        self.best = -np.partition(-both, TOP - 1, axis=1)[:, :TOP]


# -- building --------------------------------------------------------------------------------


def _build(arguments: argparse.Namespace, size: int) -> None:
    """Write the tools and build the graph; keep what it took, and what is nearest to each query."""
    place = arguments.work / str(size)
    written, whole = place.with_suffix(".written"), place.with_suffix(".json")
    with EdgeStore.open(
        place, layout(BundledEncoder().dimensions), survives_power_cut=False
    ) as store:
        if not written.is_file():
            written.write_text(json.dumps(_written(arguments, store, size)), encoding="utf-8")
        gc.collect()
        start, cpu = time.perf_counter(), _cpu_s()
        store.optimise()
        took = {"optimise_s": time.perf_counter() - start, "optimise_cpu_s": _cpu_s() - cpu}
    kept = json.loads(written.read_text(encoding="utf-8"))
    kept |= {name: rounded(seconds) for name, seconds in took.items()}
    whole.write_text(json.dumps(kept), encoding="utf-8")
    written.unlink()


def _written(arguments: argparse.Namespace, store: EdgeStore, size: int) -> dict[str, Any]:
    """Write what an earlier run did not; its seconds are scaled to the whole."""
    encoder, settings = BundledEncoder(), Settings()
    lexical = LexicalEncoder(settings.lexical)
    population = Population.read(arguments.tools, size, arguments.work)
    queries = read_queries(arguments.queries, arguments.query_count)
    asked = np.stack([encoder.encode_query(query) for query in queries])
    everything, half, counts = Exact(asked), Exact(asked), Counter[str]()
    store.write_meta({"identity": tool_fingerprint(encoder, lexical, settings)})
    there = min(store.count(), max(size - PAGE, 0)) // PAGE
    wall = cpu = 0.0
    pages = track(population.pages(size), f"writing {size:,} tools", size // PAGE)
    for number, (drafts, vectors) in enumerate(pages):
        if number >= there:
            start, start_cpu = time.perf_counter(), _cpu_s()
            store.upsert(_points(drafts, vectors, lexical))
            wall, cpu = wall + time.perf_counter() - start, cpu + _cpu_s() - start_cpu
        everything.show(vectors)
        half.show(vectors[[HALF in one.payload["tags"] for one in drafts]])
        counts.update(one.payload["server"] for one in drafts)
    scale = size / (size - there * PAGE)
    return {
        "real": min(size, len(population.drafts)),
        "write_s": rounded(wall * scale),
        "write_cpu_s": rounded(cpu * scale),
        "servers": sorted(_half_of(counts)),
        "exact": everything.best.tolist(),
        "exact_half": half.best.tolist(),
    }


def _cpu_s() -> float:
    """Processor seconds of this process and of its children, whatever else the machine does."""
    return sum(os.times()[:4])


def _points(drafts: list[Draft], vectors: FloatArray, lexical: LexicalEncoder) -> list[Point]:
    """Points whose own text has this vector; so have the examples of the few that bring any."""
    return [
        one.point(np.repeat(vector[np.newaxis], len(one.texts), axis=0), lexical, TOOL_TERMS)
        for one, vector in zip(drafts, vectors, strict=True)
    ]


def _half_of(counts: Counter[str]) -> set[str]:
    """Servers that have half of the tools."""
    half: set[str] = set()
    held, total = 0, counts.total()
    for server in sorted(counts):
        if held < total / 2:
            half.add(server)
            held += counts[server]
    return half


# -- searching -------------------------------------------------------------------------------


def _measured(arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Every size by turns on the same queries: what else goes on then slows all alike."""
    head = {
        "command": (
            "python benchmarks/scale.py --tools FILE ... --queries FILE "
            f"--sizes {' '.join(map(str, arguments.sizes))} --rounds {arguments.rounds}"
        ),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
    }
    queries = read_queries(arguments.queries, arguments.query_count)
    built = {
        size: json.loads((work / f"{size}.json").read_text(encoding="utf-8"))
        for size in arguments.sizes
    }
    asked = np.stack([BundledEncoder().encode_query(query) for query in queries])
    with ExitStack() as open_ones:
        cribs = {
            size: open_ones.enter_context(Crib.open(work / str(size), settings=Settings()))
            for size in built
        }
        gc.collect()
        gc.freeze()
        ways = {size: _ways(crib, built[size]["servers"]) for size, crib in cribs.items()}
        first, times = _timed(queries, ways, arguments.rounds)
        recall = {size: _recall(crib, asked, built[size]) for size, crib in cribs.items()}
    (work / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
    return {
        **head,
        "queries": len(queries),
        "rounds": arguments.rounds,
        "sizes": [
            {
                "size": size,
                "real": one["real"],
                "build": {name: one[name] for name in BUILD},
                "engine_ms": {name: stats(found) for name, found in times[size].items()},
                "first_ms": {name: stats(found) for name, found in first[size].items()},
                "to_all": {
                    name: rounded(median(found) / median(times[size]["all"]))
                    for name, found in times[size].items()
                },
                "servers_of_half": len(one["servers"]),
                "recall@10": recall[size],
                "memory_mb": peak_memory(work / str(size), work),
                "disk_mb": rounded(allocated_bytes(work / str(size)) / 1e6),
            }
            for size, one in built.items()
        ],
    }


Ways: TypeAlias = dict[str, Callable[[str], FindResult]]
Times: TypeAlias = dict[int, dict[str, list[float]]]


def _ways(crib: Crib, servers: list[str]) -> Ways:
    tagged, half, tenth = frozenset({HALF}), frozenset(servers), frozenset(servers[::5])
    return {
        "all": crib.find_tools,
        "half_by_tag": lambda query: crib.find_tools(query, where=AnyOf("tags", tagged)),
        "half_by_tag_scope": lambda query: crib.find_tools(query, scope=Scope(tags=tagged)),
        "half_by_servers_scope": lambda query: crib.find_tools(query, scope=Scope(servers=half)),
        "tenth_by_servers_scope": lambda query: crib.find_tools(query, scope=Scope(servers=tenth)),
    }


def _timed(queries: list[str], ways: dict[int, Ways], rounds: int) -> tuple[Times, Times]:
    """Milliseconds of each query's first search, and of those after it."""
    turns = [(size, name) for size, each in ways.items() for name in each]
    first, times = (
        {size: {name: list[float]() for name in each} for size, each in ways.items()}
        for _ in range(2)
    )
    for number in range(rounds + 1):
        for place, query in enumerate(track(queries, f"round {number}")):
            start = (number + place) % len(turns)
            for size, name in turns[start:] + turns[:start]:
                # The first round fills caches, and counts the words of scopes.
                (times if number else first)[size][name].append(engine_ms(ways[size][name](query)))
    return first, times


def _recall(crib: Crib, asked: FloatArray, built: dict[str, Any]) -> dict[str, float]:
    """The share of the ten nearest that the dense leg brings of a search as usual, in the mean."""
    tenth = AnyOf("server", built["servers"][::5])
    found: dict[str, float] = {}
    for name, exact, where in (
        ("all", built["exact"], None),
        ("half_by_tag", built["exact_half"], AnyOf("tags", [HALF])),
        ("tenth_by_servers", _exact_within(crib.tools.store, tenth, asked), tenth),
    ):
        right = 0
        for vector, best in zip(asked, exact, strict=True):
            (hits,) = crib.tools.store.search([LegQuery("dense", vector, 2 * TOP, where)])
            right += sum(hit.score >= min(best) - NEAR for hit in hits[:TOP])
        found[name] = rounded(right / TOP / len(asked))
    return found


def _exact_within(store: Store, where: Filter, asked: FloatArray) -> list[list[float]]:
    exact, ids = Exact(asked), [record.id for record in store.scroll(where, ("id",))]
    for start in range(0, len(ids), PAGE):
        vectors = store.vectors(ids[start : start + PAGE], "dense")
        exact.show(np.stack([*vectors.values()]))
    return exact.best.tolist()


if __name__ == "__main__":
    main()
