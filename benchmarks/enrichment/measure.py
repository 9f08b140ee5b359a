"""What enrichment is worth that a language model wrote, who saw only the specifications.

    python -m benchmarks.enrichment.measure --data FOLDER [--only set,set]

FOLDER holds one folder a data set (`tools.jsonl`, `queries.jsonl`). Of each set in `SETS` at most
200 tools take part: those that answer most queries of the test and development splits, ties by
chance. They alone are the registry; of the test queries that need no other 200 are asked, by
chance, with the settings and the calibration that ship. The texts are beside this file, one line
a tool.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib import Crib, Settings, ToolSpec, build
from toolcrib.encoders.base import DenseEncoder, FloatArray
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.measures import measure
from toolcrib.indexers.enrichment import Enrichments
from toolcrib.records import Enrichment

SETS: Mapping[str, tuple[str, ...]] = {
    "azure-mcp": ("azure-mcp",),
    "tooleyes+mcp-bench": ("tooleyes", "mcp-bench"),
    "toollinkos": ("toollinkos",),
    "ultratool-en": ("ultratool-en",),
    "apibank+toolalpaca": ("apibank", "toolalpaca"),
}
"""Data sets that are measured as one, since each alone is small."""

MOST, ASKED, SEED, K = 200, 200, 15, 10
HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "enrichment.json"


VARIANTS: Mapping[str, tuple[str, ...]] = {
    "without": (),
    "purpose": ("purpose",),
    "examples": ("examples",),
    "enriched": ("purpose", "examples", "not_for", "safety_tags"),
}
"""Fields of an enrichment that are taken."""


def with_fields(tool: ToolSpec, fields: Sequence[str]) -> ToolSpec:
    """The tool with no more of its enrichment than these fields."""
    told = tool.enrichment or Enrichment()
    kept = Enrichment.model_validate({field: getattr(told, field) for field in fields})
    return tool.model_copy(update={"enrichment": kept})


@dataclass(frozen=True, slots=True)
class Registry:
    """The tools of a set that take part, and the queries that need no others."""

    tools: list[ToolSpec]
    queries: list[LabelledQuery]
    seen: int
    """How many queries the whole test split has."""


class KnownTexts:
    """An encoder that encodes no text twice: the variants of a set share most of theirs."""

    def __init__(self, encoder: Any) -> None:
        self._documents: dict[str, FloatArray] = {}
        self._encoder = encoder
        self.name, self.dimensions = encoder.name, encoder.dimensions
        self.encode_query = cache(encoder.encode_query)
        self.encode_clauses = cache(encoder.encode_clauses)

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        """As the encoder."""
        new = [text for text in dict.fromkeys(texts) if text not in self._documents]
        if new:
            self._documents.update(zip(new, self._encoder.encode_documents(new), strict=True))
        return np.stack([self._documents[text] for text in texts])


def registry(data: Path, parts: Sequence[str]) -> Registry:
    """The tools that answer most queries, and the test queries that they answer alone."""
    sets = [load(str(data / part)) for part in parts]
    tools = [tool for each in sets for tool in each.tools]
    queries = [query for each in sets for query in each.split("test", "dev") if query.relevant]
    asked = Counter(tool for query in queries for tool in query.relevant)
    order = [tool.id for tool in tools]
    random.Random(SEED).shuffle(order)
    chosen = set(sorted(order, key=lambda tool_id: -asked[tool_id])[:MOST])
    test = [query for query in queries if query.split == "test"]
    among = [query for query in test if query.relevant.keys() <= chosen]
    return Registry(
        [tool for tool in tools if tool.id in chosen],
        random.Random(SEED).sample(among, min(ASKED, len(among))),
        len(test),
    )


def enriched(tools: Sequence[ToolSpec], path: Path) -> tuple[list[ToolSpec], int]:
    """The tools with what the file says of them, and how many of its texts were dropped."""
    made, dropped = Enrichments.read(path).over([("", tool) for tool in tools], {})
    return [item for _, item in made if isinstance(item, ToolSpec)], len(dropped)


def figures(
    tools: Sequence[ToolSpec], queries: Sequence[LabelledQuery], dense: DenseEncoder
) -> dict[str, float]:
    """nDCG@10, hit@1, and the share of the queries that the gate doubts, in percent."""
    with Crib.open(build.MEMORY, settings=Settings(), dense=dense) as crib:
        crib.index_tools(list(tools))
        found = [crib.find_tools(query.text, K) for query in queries]
    rankings = [[hit.id for hit in each.tools] for each in found]
    values = measure(rankings, queries, (1, K))
    means = {name: sum(each[name] for each in values) / len(values) for name in values[0]}
    doubted = sum(each.verdict != "accept" for each in found) / len(found)
    return {
        "ndcg@10": round(100 * means["ndcg@10"], 2),
        "hit@1": round(100 * means["hit@1"], 2),
        "doubted": round(100 * doubted, 2),
    }


def measured(data: Path, name: str, dense: Any) -> dict[str, Any]:
    """The figures of one set, by variant."""
    one = registry(data, SETS[name])
    tools, dropped = enriched(one.tools, HERE / f"{name}.jsonl")
    sizes = {"tools": len(one.tools), "queries": len(one.queries), "of": one.seen}
    found: dict[str, Any] = {**sizes, "dropped": dropped}
    for title, fields in VARIANTS.items():
        found[title] = figures([with_fields(tool, fields) for tool in tools], one.queries, dense)
        print(f"{name}: {title}: {found[title]}", flush=True)
    return found


def means(found: Mapping[str, Any]) -> dict[str, Any]:
    """The unweighted means over sets."""
    return {
        title: {
            figure: round(sum(one[title][figure] for one in found.values()) / len(found), 2)
            for figure in ("ndcg@10", "hit@1", "doubted")
        }
        for title in VARIANTS
    }


def main() -> None:
    """Measure, and write the figures where the documentation has them from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default=",".join(SETS))
    given = parser.parse_args()
    dense: Any = KnownTexts(build.make_dense(Settings()))
    found = {name: measured(given.data, name, dense) for name in given.only.split(",")}
    RESULTS.write_text(json.dumps({"sets": found, "mean": means(found)}, indent=1) + "\n")
    print(json.dumps(means(found), indent=1))


if __name__ == "__main__":
    main()
