"""How often a registry of a few tools is doubted, and what it accepts of requests for others.

    python benchmarks/join_requests.py CORPORA OUT
    python benchmarks/small_registries.py OUT [--split train]

A registry is one to three public servers of 3 to 21 tools, or 6 tools of one. It is asked for its
own tools, and for tools of the other servers. `answerability.USUAL_FUSED` was chosen on `train`.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolcrib import Crib, Settings, ToolSpec
from toolcrib.evaluation.calibrate import gather_evidence
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.loaders import load
from toolcrib.retrieval.calibration import default_calibration

SIZES = ((1, 6), (7, 15), (16, 19), (20, 29), (30, 63))
SERVERS, ASKED, PART = 160, 6, 6


def main() -> None:
    """Print the shares of both mistakes by size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="test", choices=("train", "test"))
    options = parser.parse_args()
    tools, queries = servers(load(str(options.data)), options.split)
    shipped = default_calibration()
    with Crib.open(":memory:", settings=Settings()) as crib:
        crib.index_tools([tool for each in tools.values() for tool in each])
        found = [
            one for one in gather_evidence(crib, list(asked(tools, queries))) if not one.hidden
        ]
    sure = np.array([shipped.confidence(one.features, one.about) or 0.0 for one in found])
    able = np.array([one.answerable for one in found])
    sizes = np.array([len(one.query.candidates or ()) for one in found])
    print("| tools | requests | answerable, doubted | for other tools, accepted |")
    print("| --: | --: | --: | --: |")
    for least, most in SIZES:
        these = (least <= sizes) & (sizes <= most)
        doubted = np.mean(sure[these & able] < shipped.threshold)
        accepted = np.mean(sure[these & ~able] >= shipped.threshold)
        print(f"| {least} to {most} | {these.sum()} | {doubted:.1%} | {accepted:.1%} |")


def servers(
    data: DataSet, split: str
) -> tuple[dict[str, list[ToolSpec]], dict[str, list[LabelledQuery]]]:
    """Tools and single-server requests of servers whose requests are of this split."""
    tools = defaultdict[str, list[ToolSpec]](list)
    for tool in data.tools:
        tools[tool.server].append(tool)
    owner = {tool.id: tool.server for tool in data.tools}
    queries = defaultdict[str, list[LabelledQuery]](list)
    for query in data.split(split):
        if len(named := {owner[each] for each in query.relevant}) == 1:
            queries[named.pop()].append(query)
    kept = [name for name in sorted(queries) if 3 <= len(tools[name]) <= 21]
    random.Random(0).shuffle(kept)
    return {name: tools[name] for name in kept[:SERVERS]}, queries


def asked(
    tools: dict[str, list[ToolSpec]], queries: dict[str, list[LabelledQuery]]
) -> Iterator[LabelledQuery]:
    """Requests, each limited to the tools of a registry that was put together for it."""
    rng = random.Random(1)
    for count in (1, 1, 2, 3):
        names = rng.sample(sorted(tools), len(tools))
        for at in range(0, len(names) - count + 1, count):
            group = names[at : at + count]
            ids = tuple(tool.id for name in group for tool in tools[name])
            if count == 1 and rng.random() < 0.5:
                ids = tuple(rng.sample(ids, min(PART, len(ids))))
            own = [q for name in group for q in queries[name] if q.relevant.keys() <= set(ids)]
            rest = rng.choices([name for name in names if name not in group], k=ASKED)
            strange = [rng.choice(queries[name]) for name in rest]
            yield from limited(own[:ASKED], ids)
            yield from limited([replace(q, relevant={}, answerable=False) for q in strange], ids)


def limited(queries: Sequence[LabelledQuery], ids: tuple[str, ...]) -> Iterator[LabelledQuery]:
    """The same, asked of these tools alone."""
    for query in queries:
        yield replace(query, candidates=ids, unanswerable_scope="candidates")


if __name__ == "__main__":
    main()
