"""What quantising the bundled encoder costs and gains, against the same weights in float.

Four questions, all answered in one run: how near the vectors are (cosine), whether retrieval
notices (nDCG@10 of plain dense retrieval), whether a text's vector depends on its batch, and how
long encoding takes. `scripts/export_base.py --out MODEL --float-out FLOAT` writes both models;
without `--model` it is the one that ships, and FLOAT must hold the same weights. The data is a
folder of sets, each with `tools.jsonl` and `queries.jsonl`, and is not part of the project.

    python benchmarks/model_fidelity.py --float FLOAT --data DATA [--model MODEL] [--note TEXT]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from corpora import rows
from numpy.typing import NDArray
from speed.machine import machine, versions
from tokenizers import Tokenizer

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.measures import measure

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "toolcrib" / "encoders" / "models" / "toolcrib-encoder"
RESULTS = ROOT / "benchmarks" / "results" / "model_fidelity.json"
TEXTS, SEED, BATCH, DEPTH = 500, 7, 8, 10
BATCHES = (1, 2, 4, 8, 16, 32, 128)
QUERY = "find recent pull requests in a github repository"

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Model:
    """A model folder, opened once for each number of threads."""

    folder: Path

    @property
    def card(self) -> dict[str, Any]:
        """What the folder says of itself."""
        return json.loads((self.folder / "card.json").read_bytes())

    @cache  # noqa: B019 - a benchmark's models live as long as the process
    def session(self, threads: int) -> onnxruntime.InferenceSession:
        """Open the graph."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        path = str(self.folder / "model.onnx")
        return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])

    @cache  # noqa: B019
    def tokenizer(self) -> Tokenizer:
        """Open the tokenizer, with the card's truncation and padding to the batch's longest."""
        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.enable_truncation(self.card["max_tokens"])
        tokenizer.enable_padding()
        return tokenizer

    def encode(self, texts: list[str], batch: int = BATCH, threads: int = 0) -> Floats:
        """Encode in batches of like length: float32 [n, 384], in the order of `texts`."""
        by_length = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        vectors = np.empty((len(texts), self.card["dimensions"]), dtype=np.float32)
        for start in range(0, len(texts), batch):
            rows = by_length[start : start + batch]
            found = self.tokenizer().encode_batch_fast([texts[row] for row in rows])
            feeds = {
                "input_ids": np.array([each.ids for each in found], dtype=np.int64),
                "attention_mask": np.array([each.attention_mask for each in found], dtype=np.int64),
            }
            vectors[rows] = np.asarray(self.session(threads).run(["sentence_embedding"], feeds)[0])
        return vectors


@dataclass(frozen=True)
class ToolSet:
    """One labelled set: tools as texts, and the queries of its dev split, or test without one."""

    name: str
    split: str
    ids: list[str]
    tools: list[str]
    queries: list[dict[str, Any]]


def read_set(folder: Path, limit: int) -> ToolSet:
    """Read one set with at most `limit` queries, drawn by a fixed seed."""
    tools = list(rows(folder / "tools.jsonl"))
    queries = [query for query in rows(folder / "queries.jsonl") if query["answerable"]]
    split = "dev" if any(query["split"] == "dev" for query in queries) else "test"
    queries = [query for query in queries if query["split"] == split]
    return ToolSet(
        folder.name,
        split,
        [tool["id"] for tool in tools],
        [f"{tool['name']}: {tool['description'] or ''}" for tool in tools],
        random.Random(SEED).sample(queries, min(limit, len(queries))),
    )


def sample_texts(sets: list[ToolSet]) -> list[str]:
    """500 texts, half tools and half queries, evenly over the sets."""
    share = -(-TEXTS // (2 * len(sets)))
    drawn: list[str] = []
    for each in sets:
        queries = [query["text"] for query in each.queries]
        for texts in (each.tools, queries):
            drawn += random.Random(SEED).sample(texts, min(share, len(texts)))
    return random.Random(SEED).sample(drawn, min(TEXTS, len(drawn)))


def spread(cosines: Floats) -> dict[str, float]:
    """Mean, fifth percentile and smallest of some cosines."""
    fifth = float(np.percentile(cosines, 5))
    values = {"mean": float(cosines.mean()), "p5": fifth, "min": float(cosines.min())}
    return {name: round(value, 5) for name, value in values.items()}


def fidelity(model: Model, texts: list[str], reference: Floats) -> dict[str, Any]:
    """Cosine to the float vectors, alone and in batches, and of the two to each other."""
    alone, batched = model.encode(texts, batch=1), model.encode(texts)
    return {
        "megabytes": round((model.folder / "model.onnx").stat().st_size / 1e6, 2),
        "cosine_alone": spread((alone * reference).sum(axis=1)),
        "cosine_in_batch": spread((batched * reference).sum(axis=1)),
        "alone_against_batch": spread((alone * batched).sum(axis=1)),
    }


def ndcg(model: Model, each: ToolSet) -> float:
    """Mean nDCG@10 in points, by cosine over all tools of the set."""
    scores = model.encode([query["text"] for query in each.queries]) @ model.encode(each.tools).T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    rankings = [[each.ids[at] for at in row] for row in best]
    asked = [LabelledQuery(q["id"], q["text"], relevant=q["relevant"]) for q in each.queries]
    return 100 * float(
        np.mean([one[f"ndcg@{DEPTH}"] for one in measure(rankings, asked, (DEPTH,))])
    )


def retrieval(model: Model, reference: Model, sets: list[ToolSet]) -> dict[str, Any]:
    """nDCG@10 of both models on every set, and the macro mean."""
    rows: dict[str, Any] = {}
    for each in sets:
        pair = {"float": ndcg(reference, each), "int8": ndcg(model, each)}
        counts = {"split": each.split, "tools": len(each.tools), "queries": len(each.queries)}
        rows[each.name] = {**counts, **{name: round(value, 2) for name, value in pair.items()}}
        print(each.name, rows[each.name], flush=True)
    macro = {
        name: round(float(np.mean([row[name] for row in rows.values()])), 2)
        for name in ("float", "int8")
    }
    return {"sets": rows, "macro": macro, "difference": round(macro["int8"] - macro["float"], 2)}


def milliseconds(model: Model, threads: int, runs: int) -> list[float]:
    """Times of one short query."""
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        model.encode([QUERY], threads=threads)
        times.append(1000 * (time.perf_counter() - start))
    return times


def rate(model: Model, texts: list[str], threads: int, batch: int = BATCH) -> float:
    """Texts a second, in batches of like length."""
    start = time.perf_counter()
    model.encode(texts, batch, threads)
    return len(texts) / (time.perf_counter() - start)


def speeds(models: dict[str, Model], texts: list[str]) -> dict[str, Any]:
    """Time all models in turns, so that a busy moment of the machine strikes them alike."""
    found: dict[str, Any] = {name: {} for name in models}
    for threads in (1, 2):
        queries: dict[str, list[float]] = {name: [] for name in models}
        rates: dict[str, list[float]] = {name: [] for name in models}
        for turn in range(4):
            for name, model in models.items():
                times = milliseconds(model, threads, 60)
                if turn:  # the first turn warms up
                    queries[name] += times
                    rates[name].append(rate(model, texts, threads))
        for name in models:
            found[name][f"{threads}_threads"] = {
                "query_ms_median": round(float(np.median(queries[name])), 2),
                "query_ms_p10": round(float(np.percentile(queries[name], 10)), 2),
                "tools_per_s_best": round(max(rates[name]), 1),
                "tools_per_s_median": round(float(np.median(rates[name])), 1),
            }
    return found


def by_batch(model: Model, texts: list[str]) -> dict[str, dict[str, float]]:
    """Texts a second by size of the batch: the best of three."""
    return {
        f"{threads}_threads": {
            str(size): round(max(rate(model, texts, threads, size) for _ in range(3)), 1)
            for size in BATCHES
        }
        for threads in (1, 2)
    }


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure the bundled encoder against float.")
    parser.add_argument("--float", type=Path, required=True, dest="reference")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=SHIPPED)
    parser.add_argument("--queries", type=int, default=200, help="queries a set, at most")
    parser.add_argument("--note", default="", help="kept in the results")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> None:
    """Measure and write the results."""
    arguments = parse()
    on = machine()
    sets = [
        read_set(path.parent, arguments.queries)
        for path in sorted(arguments.data.glob("*/queries.jsonl"))
    ]
    reference, shipped = Model(arguments.reference), Model(arguments.model)
    texts = sample_texts(sets)
    vectors = reference.encode(texts, batch=1)
    found = {"int8": fidelity(shipped, texts, vectors)}
    print(json.dumps(found, indent=1), flush=True)
    tools = [text for each in sets for text in each.tools[:: len(each.tools) // 12 or 1][:12]]
    timing = speeds({"float": reference, "int8": shipped}, tools)
    result = {
        "command": "python benchmarks/model_fidelity.py --float FLOAT --data DATA",
        "note": arguments.note,
        "environment": {**on, **versions()},
        "model_sha256": shipped.card["sha256"]["model.onnx"],
        "float_sha256": reference.card["sha256"]["model.onnx"],
        "texts": len(texts),
        "fidelity": found,
        "speed": {"tools": len(tools), "models": timing, "by_batch": by_batch(shipped, tools)},
        "retrieval": retrieval(shipped, reference, sets),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({key: result[key] for key in ("speed", "retrieval")}, indent=1))


if __name__ == "__main__":
    main()
