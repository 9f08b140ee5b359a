"""Learning of choices, measured: routes, collections and labels before and after outcomes.

    python benchmarks/learning_choices.py --data DATA [--only turns,swdocs] [--seeds 5]

DATA holds `knowledge` and `intents`. Outcomes of training texts teach, and development texts are
judged, up to 300 of each, drawn by the seed. `turns` are the project's own (data/turns.jsonl), by
route. `swdocs` and `lfrqa` have some passages of each collection; `cqadup_routing`, `hwu64` and
`clinc150` are questions whose classes have a name, of collections a description, and no example.
Outcomes come from five keys, each text a session of its own, as in benchmarks/learning.py:
`clean`; `wrong`, every tenth outcome one of a wrong option; `absent`, without the first key;
`wrong_key`, all of the first key's wrong; `poison`, a sixth key that says one wrong option. Figures
are accuracies of the first option in percent, and what they gain.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import knowledge
import turns
from corpora import rows
from learning import conditions, figures, taught

from toolcrib import Crib
from toolcrib.build import make_dense
from toolcrib.encoders.base import FloatArray
from toolcrib.learning.observations import Observation
from toolcrib.retrieval.learned import QUESTIONS, LearnedChoices
from toolcrib.router import router as router_module
from toolcrib.router.choices.questions import QuestionClass, QuestionClassifier, QuestionConfig
from toolcrib.router.knowledge import KnowledgeRouter
from toolcrib.router.route import DECIDED_ROUTES, choose_route, route_probabilities
from toolcrib.router.settings import KnowledgeSettings
from toolcrib.settings import Settings

MOST = 300
PASSAGES = 1_200
SPLITS = ("train", "dev")
RESULTS = Path(__file__).resolve().parent / "results" / "learning_choices.json"
CHOICE = "choice"

Choose = Callable[[LearnedChoices], str]
"""First option, given what was learned of `CHOICE`."""


@dataclass(frozen=True, slots=True)
class Known:
    """A labelled text, with the options' probabilities before learning."""

    right: frozenset[str]
    vector: FloatArray
    scores: Mapping[str, float]
    choose: Choose

    def observation(self, number: int, option: str) -> Observation:
        """An outcome that names this option."""
        ranking = tuple(sorted(self.scores.items(), key=lambda pair: -pair[1]))
        return Observation(
            str(number), option, "", float(number), "", "", "e", self.vector, ranking, choice=CHOICE
        )


Texts = Mapping[str, list[Known]]


def read(file: Path) -> list[dict[str, Any]]:
    found = list(rows(file))
    random.Random(0).shuffle(found)
    return found


def some(rows: Sequence[dict[str, Any]], split: str, most: int) -> list[dict[str, Any]]:
    return [row for row in rows if row["split"] == split][:most]


def of_turns(most: int) -> Texts:
    """The project's turns whose route is decided by evidence."""
    seen: list[Any] = []

    def watched(evidence: Any) -> Any:
        seen.append(evidence)
        return choose_route(evidence)

    def first(evidence: Any, vector: FloatArray, learned: LearnedChoices) -> str:
        shares = learned.shares(CHOICE, DECIDED_ROUTES, vector)
        return choose_route(replace(evidence, learned_shares=shares)).kind

    router_module.choose_route = watched
    found: dict[str, list[Known]] = {split: [] for split in SPLITS}
    with turns.own_crib() as crib:
        for row in turns.rows_of(SPLITS):
            seen.clear()
            decision = crib.route(turns.turn_of(row))
            if not seen or len(found[row["split"]]) == most:
                continue
            evidence = seen[0]
            vector = crib.tools.retriever.encode(decision.search_text).dense
            right = frozenset({row["labels"]["route"]})
            scores = {**route_probabilities(evidence)}

            def choose(learned: LearnedChoices, e: Any = evidence, v: Any = vector) -> str:
                return first(e, v, learned)

            found[row["split"]].append(Known(right, vector, scores, choose))
    return found


def of_collections(data: Path, name: str, most: int) -> Texts:
    """Questions to collections, of which some passages are indexed."""
    settings = KnowledgeSettings()
    with Crib.open(":memory:", settings=Settings()) as crib:
        rows = read(data / name / "collections.jsonl")
        crib.add_collections(
            *(knowledge.Collection(name=r["id"], description=r["description"]) for r in rows)
        )
        passages = knowledge.passages(data, name)
        crib.index_passages(passages[:: max(1, len(passages) // PASSAGES)])
        catalogue = crib.knowledge.catalogue
        router = KnowledgeRouter(crib.knowledge.retriever(), catalogue, settings)

        def known(row: dict[str, Any]) -> Known:
            query = crib.tools.retriever.encode(row["text"])
            best = router.best_passages(query)
            scores, fits = router.collection_scores(query, best, catalogue.collections)
            stands = settings.threshold / fits

            def choose(learned: LearnedChoices) -> str:
                mixed = learned.mix(CHOICE, scores, query.dense, stands)
                return max(mixed, key=lambda each: mixed[each])

            assert query.dense is not None
            return Known(frozenset(row["collections"]), query.dense, scores, choose)

        rows = [row for row in read(data / name / "queries.jsonl") if row["collections"]]
        return {split: [known(row) for row in some(rows, split, most)] for split in SPLITS}


def of_classes(folder: Path, most: int) -> Texts:
    """Texts to the classes of a question, which have no examples."""
    dense = make_dense(Settings())
    rows = read(folder / "queries.jsonl")
    for row in rows:
        row["right"] = row.get("collections") or list(row["relevant"])
    rows = [row for row in rows if row["right"]]
    described: dict[str, str] = {}
    if (folder / "collections.jsonl").exists():
        described = {r["id"]: r["description"] for r in read(folder / "collections.jsonl")}
    ids = sorted({each for row in rows for each in row["right"]})
    classes = tuple(
        QuestionClass(
            id=each,
            name=each.rpartition("/")[2].replace("_", " "),
            description=described.get(each, ""),
        )
        for each in ids
    )
    config = QuestionConfig(model="none", question="Which class fits?", classes=classes)
    classifier = QuestionClassifier(config, dense, None, QUESTIONS + folder.name)

    def known(row: dict[str, Any]) -> Known:
        vector, scores = classifier.rank(row["text"], None)
        assert vector is not None

        def choose(learned: LearnedChoices) -> str:
            mixed = learned.mix(CHOICE, scores, vector)
            return max(mixed, key=lambda each: mixed[each])

        return Known(frozenset(row["right"]), vector, scores, choose)

    return {split: [known(row) for row in some(rows, split, most)] for split in SPLITS}


def accuracy(texts: Sequence[Known], learned: LearnedChoices) -> float:
    return 100 * fmean(each.choose(learned) in each.right for each in texts)


def measure(texts: Texts, seeds: int) -> dict[str, Any]:
    """Accuracy before, and what each condition gains, over the seeds."""
    now, options = texts["dev"], {o for each in texts["dev"] for o in each.scores}
    before = accuracy(now, LearnedChoices())
    runs: list[dict[str, Any]] = []
    for seed in range(seeds):
        past = list(texts["train"])
        random.Random(seed).shuffle(past)
        calls = [
            [each.observation(n, option) for option in sorted(each.right & options)]
            for n, each in enumerate(past)
        ]
        right = {str(n): set(each.right) for n, each in enumerate(past)}
        run: dict[str, Any] = {}
        for name, seen in conditions(calls, right, seed).items():
            examples, told = taught(seen, dict.fromkeys(options, ""), everything=name == "all")
            learned = LearnedChoices()
            learned.known = {CHOICE: examples}
            run[name] = {**told, "gain": accuracy(now, learned) - before}
        runs.append(run)
    return {
        "taught": len(texts["train"]),
        "judged": len(now),
        "options": len(options),
        "before": round(before, 1),
        **{name: figures(runs, name) for name in runs[0]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="turns,swdocs,lfrqa,cqadup_routing,hwu64,clinc150")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int, default=MOST, help="texts that teach, and are judged")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    for name in options.only.split(","):
        if name == "turns":
            texts = of_turns(options.most)
        elif name in knowledge.SETS:
            texts = of_collections(options.data / "knowledge", name, options.most)
        else:
            kind = "knowledge" if name == "cqadup_routing" else "intents"
            texts = of_classes(options.data / kind / name, options.most)
        results[name] = measure(texts, options.seeds)
        print(name, json.dumps(results[name]), flush=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
