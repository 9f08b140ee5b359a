"""What learning from use is worth: half of a set's queries as past requests, the other half asked.

    python benchmarks/learning.py --data FOLDER [--split dev] [--only set,set] [--indexes FOLDER]

FOLDER holds one folder a data set. Up to 400 answerable queries of the test split (of train and
dev with `--split dev`, on which the constants were chosen) are halved by chance, once a seed. The
first half are requests of five keys, each of a session of its own, each with a successful call of
every right tool. Five times: `clean`; `wrong`, every tenth call one of a wrong tool among the first
five; `absent`, without the first key; `wrong_key`, all calls of the first key of wrong tools; and
`poison`, with a sixth key that calls one tool wherever it nearly fits, as often as all others have
requests, each time in a new session. `all` has every lesson at full strength, whatever the replay
says. Gains are those of the ranking by the legs; `served` asks the second half of the first seed
through a search, before and after, with the expected calibration error, and with the learned
`companions` alone.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from toolcrib import Crib
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.measures import gate_measures
from toolcrib.learning.lessons import (
    Lesson,
    contradicting_keys,
    learned_companions,
    make_lessons,
    replay,
)
from toolcrib.learning.observations import Observation
from toolcrib.retrieval.learned import (
    MAX_LIFTED_TOOLS,
    NO_LEARNED_DATA,
    LearnedTools,
    UseData,
)
from toolcrib.store.base import point_id

QUERIES = 400
KEYS, FIRST_KEY = 5, "key-0"
WRONG = 0.1
K = 10
RANKED = 50
RESULTS = Path(__file__).resolve().parent / "results" / "learning.json"
Seen = list[Observation]


def observed(queries: Sequence[LabelledQuery], found: Mapping[str, Observation]) -> list[Seen]:
    """The calls of each request, in the order of the requests."""
    return [
        [replace(found[query.id], tool=tool, at=float(n)) for tool in sorted(query.relevant)]
        for n, query in enumerate(queries)
    ]


def with_wrong(
    calls: Seen, right: Mapping[str, set[str]], share: float, rng: random.Random
) -> Seen:
    """The same, and of the calls this share of a wrong tool among the first five."""
    made: Seen = []
    for each in calls:
        wrong = [tool for tool, _ in each.ranking[:5] if tool not in right[each.decision]]
        is_wrong = wrong and rng.random() < share
        made.append(replace(each, tool=rng.choice(wrong)) if is_wrong else each)
    return made


def poison(calls: Seen, right: Mapping[str, set[str]], rng: random.Random) -> Seen:
    """Calls of a key that pushes one tool where it nearly fits: as many as there are requests.

    It is the one that most often stands among the first five of a request that it is wrong for.
    """
    near = Counter(
        tool for each in calls for tool, _ in each.ranking[:5] if tool not in right[each.decision]
    )
    pushed = near.most_common(1)[0][0]
    chances = [each for each in calls if pushed in dict(each.ranking[:10])]
    return [
        replace(rng.choice(chances), decision=f"bad-{n}", session=f"bad-{n}", by="bad", tool=pushed)
        for n in range(len({each.decision for each in calls}))
    ]


def conditions(requests: list[Seen], right: Mapping[str, set[str]], seed: int) -> dict[str, Seen]:
    rng = random.Random(seed)
    calls: Seen = []
    for request in requests:
        by = f"key-{rng.randrange(KEYS)}"
        calls += [replace(each, by=by, session=each.decision) for each in request]
    own = [each for each in calls if each.by == FIRST_KEY]
    others = [each for each in calls if each.by != FIRST_KEY]
    return {
        "clean": calls,
        "wrong": with_wrong(calls, right, WRONG, rng),
        "absent": others,
        "wrong_key": others + with_wrong(own, right, 1.0, rng),
        "poison": calls + poison(calls, right, rng),
        "all": calls,
    }


def taught(
    calls: Seen, servers: Mapping[str, str], *, everything: bool
) -> tuple[LearnedTools, dict[str, Any]]:
    """What these calls teach, and what the replay says of them."""
    digests, now, encoder = dict.fromkeys(servers, ""), calls[-1].at, calls[0].encoder
    lessons = make_lessons(calls, digests, encoder, now)
    left_out = () if everything else contradicting_keys(calls, lessons)
    kept = [each for each in calls if each.by not in left_out]
    if left_out:
        lessons = make_lessons(kept, digests, encoder, now)
    replayed = {} if everything else {e.server: e for e in replay(kept, lessons, servers)}

    def trust(lesson: Lesson) -> tuple[float, float]:
        own = replayed.get(servers[lesson.tool])
        similar, copies = (own.strength, own.copies) if own else (1.0, 1.0)
        support = lesson.support * lesson.is_live
        return support * similar, support * copies

    learned = LearnedTools.of(
        {point_id(each.tool): (trust(each), each.vectors) for each in lessons}
    )
    strengths = [each.strength for each in replayed.values()]
    return learned, {
        "servers": len(replayed),
        "strength": fmean(strengths) if strengths else 0.0,
        "left_out": list(left_out),
    }


def ndcg(ranking: Sequence[str], relevant: Mapping[str, float]) -> float:
    def gain(grades: Sequence[float]) -> float:
        return sum(grade / math.log2(place) for place, grade in enumerate(grades[:K], start=2))

    best = sorted(relevant.values(), reverse=True)
    return gain([relevant.get(tool, 0.0) for tool in ranking]) / gain(best)


def lifted(asked: Observation, learned: LearnedTools | None) -> list[str]:
    ids = {point_id(tool): tool for tool, _ in asked.ranking}
    scores = {point_id(tool): score for tool, score in asked.ranking}
    lifts = learned.lifts(scores, asked.vector) if learned else {}
    order = sorted(scores, key=lambda point: -scores[point] - lifts.get(point, 0.0))
    return [ids[point] for point in order]


def served(crib: Crib, queries: Sequence[LabelledQuery]) -> dict[str, float]:
    """Measures of whole searches: nDCG@10, completeness@10, hit@1, expected calibration error."""
    found = [crib.find_tools(query.text, k=K, gate=False) for query in queries]
    ids = [[hit.id for hit in each.tools] for each in found]
    right = np.array([bool(i) and i[0] in q.relevant for i, q in zip(ids, queries, strict=True)])
    sure = np.array([each.confidence or 0.0 for each in found])
    scores = [ndcg(i, q.relevant) for i, q in zip(ids, queries, strict=True)]
    return {
        "ndcg": 100 * fmean(scores),
        "complete": 100
        * fmean(q.relevant.keys() <= {*i} for i, q in zip(ids, queries, strict=True)),
        "hit": 100 * float(right.mean()),
        "ece": gate_measures(sure, right, np.ones(len(right), dtype=bool))["ece"],
    }


def ranked(crib: Crib, queries: Sequence[LabelledQuery]) -> dict[str, Observation]:
    """Each query's vector and ranking, as an observation without a call."""
    found: dict[str, Observation] = {}
    for query in queries:
        encoded = crib.tools.retriever.encode(query.text)
        hits = crib.tools.retriever.rank_by_legs(encoded, None, MAX_LIFTED_TOOLS)
        assert encoded.dense is not None
        ranking = tuple((hit.id, hit.score) for hit in hits)
        found[query.id] = Observation(
            query.id, "", "", 0.0, "", "", crib.tools.dense.name, encoded.dense, ranking
        )
    return found


def measure(data: DataSet, split: str, index: str, seeds: int) -> dict[str, Any]:
    names = ("train", "dev") if split == "dev" else ("test",)
    queries = [query for query in data.split(*names) if query.answerable]
    random.Random(0).shuffle(queries)
    queries = queries[:QUERIES]
    right = {query.id: set(query.relevant) for query in queries}
    servers = {tool.id: tool.server for tool in data.tools}
    runs: list[dict[str, Any]] = []
    with Crib.open(index) as crib:
        crib.index_tools(data.tools)
        found = ranked(crib, queries)
        short = {name: replace(e, ranking=e.ranking[:RANKED]) for name, e in found.items()}
        for seed in range(seeds):
            random.Random(seed).shuffle(queries)
            past, now = queries[: len(queries) // 2], queries[len(queries) // 2 :]

            def mean(learned: LearnedTools | None, asked: Sequence[LabelledQuery] = now) -> float:
                return 100 * fmean(ndcg(lifted(found[q.id], learned), q.relevant) for q in asked)

            run: dict[str, Any] = {"before": mean(None)}
            for name, calls in conditions(observed(past, short), right, seed).items():
                learned, run[name] = taught(calls, servers, everything=name == "all")
                run[name]["gain"] = mean(learned) - run["before"]
                if not seed and name == "clean":
                    before = served(crib, now)
                    crib.tools.use_learned(UseData(learned))
                    run["served"] = {"before": before, "after": served(crib, now)}
                    mates = learned_companions(calls, calls[-1].at)
                    crib.tools.use_learned(UseData(goes_with=mates))
                    run["served"]["companions"] = served(crib, now)
                    crib.tools.use_learned(NO_LEARNED_DATA)
            runs.append(run)
    return {"queries": len(queries) // 2, **summary(runs)}


def figures(runs: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Mean and least gain of a condition, the replay's strength, and the keys left out."""
    gains = [run[name]["gain"] for run in runs]
    return {
        "gain": round(fmean(gains), 2),
        "least": round(min(gains), 2),
        "strength": round(fmean(run[name]["strength"] for run in runs), 3),
        "left_out": dict(Counter(key for run in runs for key in run[name]["left_out"])),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    names = [name for name in runs[0] if name not in {"before", "served"}]
    served_rows = {
        when: {name: round(value, 4) for name, value in row.items()}
        for when, row in runs[0]["served"].items()
    }
    return {
        "before": round(fmean(run["before"] for run in runs), 2),
        "servers": runs[0]["clean"]["servers"],
        **{name: figures(runs, name) for name in names},
        "served": served_rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=5)
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
            results[folder.name] = measure(data, options.split, index, options.seeds)
            print(folder.name, json.dumps(results[folder.name]), flush=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
