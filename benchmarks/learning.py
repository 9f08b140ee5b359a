"""What learning from use is worth: half of a set's queries as past requests, the other half asked.

    python benchmarks/learning.py --data FOLDER [--split dev] [--only set,set] [--indexes FOLDER]

FOLDER holds one folder a data set. Up to 400 answerable queries of the test split (of train and
dev with `--split dev`, on which the constants were chosen) are halved by chance. The first half
are requests of five keys, each of a session of its own, that ended in a call of one of the right
tools. Three times: clean; with every tenth call one of a wrong tool among the first five; and with
a sixth key that calls one tool wherever it nearly fits, as often as all others call together, each
time in a new session. `clean_all` has
every lesson live, whatever the replay says.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib import Crib
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.measures import gate_measures
from toolcrib.evaluation.significance import randomisation_tests
from toolcrib.learning.learner import UsageLearner
from toolcrib.learning.lessons import make_lessons
from toolcrib.learning.observations import Observation, ObservationTable
from toolcrib.learning.runs import RunTable
from toolcrib.retrieval.learned import LearnedTools
from toolcrib.store.base import point_id
from toolcrib.store.records_db.sqlite import SqliteRecordsDb

QUERIES = 400
KEYS = 5
WRONG = 0.1
K = 10
SEED = 0
RESULTS = Path(__file__).resolve().parent / "results" / "learning.json"


def learner(crib: Crib, folder: str, name: str) -> tuple[UsageLearner, ObservationTable]:
    """A learner over the crib's tools, which keeps what it learns in a file of its own."""
    db = SqliteRecordsDb(Path(folder) / f"{name}.db", synchronous="NORMAL")
    table = ObservationTable(lambda: db, name, owns=True)
    runs = RunTable(table.database, name)
    return UsageLearner(crib.tools, table, runs, collects=True, text=False), table


def observed(
    crib: Crib, queries: list[LabelledQuery], folder: str, rng: random.Random
) -> list[Observation]:
    """What a service sees of these requests, when a right tool is called for each."""
    teacher, table = learner(crib, folder, "observed")
    with closing(teacher):
        for number, query in enumerate(queries):
            by, session = f"key-{rng.randrange(KEYS)}", f"session-{number}"
            teacher.remember(query.id, query.text, session=session, by=by)
            teacher.record_success(query.id, rng.choice(sorted(query.relevant)))
        crib.tools.use_learned(None)
        return table.read()


def with_wrong(
    seen: list[Observation], relevant: dict[str, LabelledQuery], rng: random.Random
) -> list[Observation]:
    """The same, with every tenth call one of a wrong tool that stood among the first five."""
    made: list[Observation] = []
    for each in seen:
        right = relevant[each.decision].relevant
        wrong = [tool for tool, _ in each.ranking[:5] if tool not in right]
        is_wrong = wrong and rng.random() < WRONG
        made.append(replace(each, tool=rng.choice(wrong)) if is_wrong else each)
    return made


def with_poison(
    seen: list[Observation], relevant: dict[str, LabelledQuery], rng: random.Random
) -> tuple[list[Observation], str]:
    """The same, and as many of a key that pushes one tool where it nearly fits; and that tool.

    It is the one that most often stands among the first five of a request that it is wrong for.
    """
    near = Counter(
        tool
        for each in seen
        for tool, _ in each.ranking[:5]
        if tool not in relevant[each.decision].relevant
    )
    pushed = near.most_common(1)[0][0]
    chances = [each for each in seen if pushed in dict(each.ranking[:10])]
    poison = [
        replace(rng.choice(chances), decision=f"bad-{n}", session=f"bad-{n}", by="bad", tool=pushed)
        for n in range(len(seen))
    ]
    return seen + poison, pushed


def taught(crib: Crib, seen: list[Observation], folder: str, name: str) -> dict[str, Any]:
    """Re-order by these observations; what the replay says of them."""
    teacher, table = learner(crib, folder, name)
    with closing(teacher):
        for each in seen:
            table.add(each)
        status = teacher.learn()
    live = sum(each.verdict == "live" for each in status.servers)
    return {"servers": len(status.servers), "live": live, "tools": len(status.tools)}


def believe_all(crib: Crib, seen: list[Observation]) -> None:
    """Re-order by all lessons that are live by their support alone."""
    digests = {tool.id: tool.digest for tool in crib.list_tools()}
    lessons = make_lessons(seen, digests, crib.tools.dense.name, max(each.at for each in seen))
    known = {point_id(e.tool): (e.support if e.is_live else 0.0, e.vectors) for e in lessons}
    crib.tools.use_learned(LearnedTools.of(known))


def ndcg(ranking: list[str], relevant: Mapping[str, float]) -> float:
    best = sorted(relevant.values(), reverse=True)[:K]
    return gain(relevant.get(tool, 0.0) for tool in ranking[:K]) / gain(best)


def gain(grades: Iterable[float]) -> float:
    return sum(grade / math.log2(place) for place, grade in enumerate(grades, start=2))


def ask(crib: Crib, queries: list[LabelledQuery], pushed: str) -> dict[str, Any]:
    """Measures of each query: nDCG@10, hit@1, and those of the confidence."""
    found = [crib.find_tools(query.text, k=K, gate=False) for query in queries]
    ids = [[hit.id for hit in each.tools] for each in found]
    right = np.array([bool(i) and i[0] in q.relevant for i, q in zip(ids, queries, strict=True)])
    sure = np.array([each.confidence or 0.0 for each in found])
    return {
        "ndcg": np.array([ndcg(i, q.relevant) for i, q in zip(ids, queries, strict=True)]),
        "hit": right.astype(float),
        "ece": gate_measures(sure, right, np.ones(len(right), dtype=bool))["ece"],
        "pushed_first": float(np.mean([bool(i) and i[0] == pushed for i in ids])),
    }


def summary(before: dict[str, Any], after: dict[str, Any]) -> dict[str, float]:
    difference = after["ndcg"] - before["ndcg"]
    p = randomisation_tests(difference[:, np.newaxis], SEED)[0]
    return {
        "ndcg": round(100 * float(after["ndcg"].mean()), 2),
        "gain": round(100 * float(difference.mean()), 2),
        "p": round(float(p), 4),
        "hit": round(100 * float(after["hit"].mean()), 2),
        "ece": round(float(after["ece"]), 4),
        "pushed_first": round(100 * after["pushed_first"], 2),
    }


def measure(data: DataSet, split: str, index: str) -> dict[str, Any]:
    rng = random.Random(SEED)
    names = ("train", "dev") if split == "dev" else ("test",)
    queries = [query for query in data.split(*names) if query.answerable]
    rng.shuffle(queries)
    queries = queries[:QUERIES]
    past, now = queries[: len(queries) // 2], queries[len(queries) // 2 :]
    with Crib.open(index) as crib, tempfile.TemporaryDirectory() as folder:
        crib.index_tools(data.tools)
        seen = observed(crib, past, folder, rng)
        asked = {query.id: query for query in past}
        poisoned, pushed = with_poison(seen, asked, rng)
        conditions = {
            "clean": seen,
            "wrong": with_wrong(seen, asked, rng),
            "poison": poisoned,
        }
        before = ask(crib, now, pushed)
        made: dict[str, Any] = {"queries": len(now), "before": summary(before, before)}
        for name, observations in conditions.items():
            replayed = taught(crib, observations, folder, name)
            made[name] = replayed | summary(before, ask(crib, now, pushed))
        believe_all(crib, seen)
        made["clean_all"] = summary(before, ask(crib, now, pushed))
        crib.tools.use_learned(None)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--only", default="")
    parser.add_argument("--indexes", type=Path, help="keep the indexes here, for another run")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as passing:
        for folder in sorted(options.data.iterdir()):
            if not folder.is_dir() or (only and folder.name not in only):
                continue
            data = load(str(folder))
            index = str((options.indexes or Path(passing)) / folder.name)
            results[folder.name] = measure(data, options.split, index)
            print(folder.name, json.dumps(results[folder.name]), flush=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
