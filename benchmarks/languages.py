"""Requests in other languages over one index of English tools, beside the same in English.

    python benchmarks/languages.py --out benchmarks/results/languages.json
    python benchmarks/languages.py --data DATA/tools      # what English loses on other sets

The texts are those of data/multilingual; their labels are of data/queries.jsonl, data/turns.jsonl
and data/plain-turns.jsonl. Each figure is of an encoder of `--encoders`:

- tools: nDCG@10 and hit@1 of the sample's queries among its tools;
- auroc, ece: confidences of these queries, and of the same with the servers of their right tools
  hidden, which nothing answers then;
- services: the sample's servers as intents, known by at most ten English examples each;
- routes: where a turn goes, over the sample's tools and documents.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from corpora import rows
from rich.console import Console
from rich.table import Table

from toolcrib import AnyOf, Crib, Not, ToolSpec
from toolcrib.build import make_dense
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.measures import gate_measures, measure
from toolcrib.settings import Settings, load_settings

DATA = Path(__file__).parent.parent / "data"
ENCODERS = ("bundled", "multilingual")
SETS = ("azure-mcp", "toolalpaca", "apibank", "tooleyes")
SET_QUERIES = 150
EXAMPLES = 10
ROUNDS = 3

Texts = Mapping[str, Mapping[str, str]]
"""Texts by language, then by the id of the English one."""


def labelled() -> dict[str, dict[str, Any]]:
    """Queries and turns in English, by the ids that data/multilingual has."""
    files = {"query": "queries", "turn": "turns", "plain-turn": "plain-turns"}
    return {
        f"{kind}:{row['id']}": row
        for kind, name in files.items()
        for row in rows(DATA / f"{name}.jsonl")
    }


def texts_of(split: str, known: Mapping[str, Mapping[str, Any]], only: Sequence[str] = ()) -> Texts:
    """The texts of a split; `en` are the originals of those that some language has."""
    found = {
        path.stem: {row["id"]: row["text"] for row in rows(path) if row["split"] == split}
        for path in sorted((DATA / "multilingual").glob("*.jsonl"))
    }
    found = {name: texts for name, texts in found.items() if texts}
    ids = {each for texts in found.values() for each in texts if each in known}
    every = {"en": {each: known[each]["text"] for each in sorted(ids)}, **found}
    return {name: texts for name, texts in every.items() if not only or name in only}


def with_encoder(encoder: str) -> Settings:
    settings = load_settings()
    return settings.model_copy(
        update={"encoder": settings.encoder.model_copy(update={"dense": encoder})}
    )


def sample_tools(settings: Settings) -> Crib:
    """The sample's tools, indexed."""
    crib = Crib.open(":memory:", settings=settings)
    crib.index_tools(DATA / "registry", f"{DATA}/registry/home_tools.py:TOOLS")
    return crib


def sample(settings: Settings) -> Crib:
    """The sample's tools and documents, indexed."""
    crib = sample_tools(settings)
    for folder in sorted(each for each in (DATA / "collections").iterdir() if each.is_dir()):
        crib.index_docs(folder, collection=folder.name)
    return crib


def ranking(crib: Crib, queries: Sequence[LabelledQuery]) -> dict[str, float]:
    """How well queries find their tools."""
    found = [[hit.id for hit in crib.find_tools(query.text, k=10).tools] for query in queries]
    measured = measure(found, queries, (1, 10))
    return {name: mean(each[name] for each in measured) for name in ("ndcg@10", "hit@1")}


def tools(crib: Crib, texts: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, float]:
    asked = [
        LabelledQuery(each, text, relevant=known[each]["relevant"])
        for each, text in texts.items()
        if each.startswith("query:") and known[each]["answerable"]
    ]
    return ranking(crib, asked)


def confidences(crib: Crib, texts: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, float]:
    answered, hidden = list[float](), list[float]()
    for each, text in texts.items():
        if each.startswith("query:") and known[each]["answerable"]:
            servers = Not(AnyOf("server", map(service_of, known[each]["relevant"])))
            answered.append(crib.find_tools(text).confidence or 0.0)
            hidden.append(crib.find_tools(text, where=servers).confidence or 0.0)
    answerable = np.repeat([True, False], len(answered))
    found = gate_measures(np.array(answered + hidden), answerable, answerable)
    return {name: found[name] for name in ("auroc", "ece")}


def services(settings: Settings) -> Crib:
    """The sample's servers as intents: examples are of their tools and of training queries."""
    with sample_tools(settings) as crib:
        examples = {tool.server: list[str]() for tool in crib.list_tools()}
        for tool in crib.list_tools():
            examples[tool.server] += tool.success_examples
    for row in rows(DATA / "queries.jsonl"):
        if row["split"] == "train" and len({service_of(each) for each in row["relevant"]}) == 1:
            examples[service_of(next(iter(row["relevant"])))].append(row["text"])
    crib = Crib.open(":memory:", settings=settings)
    crib.index_tools(
        [
            ToolSpec(name=name, description=name, success_examples=own[:: -(-len(own) // EXAMPLES)])
            for name, own in examples.items()
            if own
        ]
    )
    return crib


def service_of(tool: str) -> str:
    return tool.partition("/")[0]


def intents(crib: Crib, texts: Mapping[str, str], known: Mapping[str, Any]) -> float:
    """Share of queries whose first service is a right one."""
    return mean(
        crib.find_tools(text, k=1).tools[0].name in map(service_of, known[each]["relevant"])
        for each, text in texts.items()
        if each.startswith("query:") and known[each]["answerable"]
    )


def routes(crib: Crib, texts: Mapping[str, str], known: Mapping[str, Any]) -> float:
    return mean(
        crib.route(text).route.kind == known[each]["labels"]["route"]
        for each, text in texts.items()
        if each.startswith("turn:")
    )


def query_ms(encoders: Sequence[str], queries: Sequence[str]) -> dict[str, float]:
    """Median time of one query on one core, each asked of all encoders in turn."""
    dense = {name: make_dense(with_encoder(name)) for name in encoders}
    took = {name: list[float]() for name in encoders}
    for text in (*queries, *queries * ROUNDS):
        for name, encoder in dense.items():
            started = time.perf_counter()
            encoder.encode_query(text)
            took[name].append((time.perf_counter() - started) * 1000)
    return {name: median(values[len(queries) :]) for name, values in took.items()}


def of_languages(encoder: str, split: str, only: Sequence[str]) -> dict[str, Any]:
    """Figures of one encoder, by language."""
    known = labelled()
    texts = texts_of(split, known, only)
    settings = with_encoder(encoder)
    found: dict[str, dict[str, float]] = {name: {} for name in texts}
    with sample(settings) as crib:
        for name, own in texts.items():
            found[name] |= tools(crib, own, known) | confidences(crib, own, known)
            found[name]["routes"] = routes(crib, own, known)
    with services(settings) as crib:
        for name, own in texts.items():
            found[name]["services"] = intents(crib, own, known)
    return found


def of_sets(encoder: str, data: Path) -> dict[str, float]:
    """nDCG@10 of English queries of other sets."""
    found: dict[str, float] = {}
    for name in SETS:
        each: DataSet = load(str(data / name))
        asked = [query for query in each.split("test") if query.answerable][:SET_QUERIES]
        with Crib.open(":memory:", settings=with_encoder(encoder)) as crib:
            crib.index_tools(each.tools)
            found[name] = ranking(crib, asked)["ndcg@10"]
    return found


def show(found: Mapping[str, Mapping[str, Any]], encoder: str) -> None:
    columns = list(next(iter(found.values())))
    table = Table(encoder, *columns)
    for name, values in found.items():
        cells = (f"{100 * value:.1f}" for value in values.values())
        table.add_row(name, *cells)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", default="test")
    parser.add_argument("--encoders", nargs="+", default=ENCODERS)
    parser.add_argument("--languages", nargs="+", default=(), help="these alone, such as fr")
    parser.add_argument("--data", type=Path, help="a folder of sets: measure English there instead")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    results: dict[str, Any] = {}
    for encoder in chosen.encoders:
        if chosen.data:
            results[encoder] = {"sets": of_sets(encoder, chosen.data)}
            show(results[encoder], encoder)
        else:
            results[encoder] = of_languages(encoder, chosen.split, chosen.languages)
            show(results[encoder], encoder)
    if not chosen.data:
        english = [row["text"] for row in rows(DATA / "queries.jsonl")][:100]
        results["query ms"] = query_ms(chosen.encoders, english)
        print(json.dumps(results["query ms"]))
    if chosen.out:
        chosen.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
