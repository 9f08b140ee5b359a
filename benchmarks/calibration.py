"""How the shipped calibration was fitted, and how it holds on sets that it never saw.

    python benchmarks/calibration.py --data FOLDER FOLDER --ship [--words]

FOLDER holds one folder a data set (for the calibration that ships, OWN is what `join_requests.py
CORPORA OWN/requests --held-out` writes); intents get ten of their queries as examples. Only train
and development splits are fitted on, up to 300 queries a set; every set counts the same. Beside
the labelled queries come the same ones with their right tools and near-duplicates of them hidden,
queries of the other sets, and those that the set itself says nothing answers. The threshold is
the lowest that any set asks for, in tenths: it turns away at most 3 % of the answerable queries
of each. Each set is measured on its test split by a calibration of all other sets, without those
that share its queries or tools. data/unanswerable.jsonl has more requests that nothing answers,
for five sets: they are only measured.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib import Crib, Settings
from toolcrib.evaluation.calibrate import (
    MIN_TRUE_ACCEPTANCE,
    LabelledEvidence,
    calibrate,
    gather_evidence,
)
from toolcrib.evaluation.dataset import DataSet, LabelledQuery, with_shots
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.measures import gate_measures
from toolcrib.retrieval import calibration
from toolcrib.retrieval.calibration import (
    FEATURES,
    RAW_QUERY_FEATURES,
    Calibration,
    default_calibration,
)

QUERIES_A_SET = 300
STRANGERS = 200
SHOTS = 10
UNANSWERABLE_SHARE = 0.1
NEAR_MISS_SHARE = 1 / 3
"""Of the unanswerable ones; some of their labels are wrong, as another tool does as well."""

SEED = 0
FAMILIES = ({"banking77", "banking77-oos"}, {"toollens", "stabletoolbench"})
"""Sets that share queries or tools."""

RESULTS = Path(__file__).resolve().parent / "results" / "calibration.json"
IN_VAIN = Path(__file__).resolve().parents[1] / "data" / "unanswerable.jsonl"


@dataclass(frozen=True)
class Evidence:
    """What is known of a split: its own queries, those with hidden tools, those of other sets."""

    own: list[LabelledEvidence]
    hidden: list[LabelledEvidence]
    strange: list[LabelledEvidence]

    @property
    def answerable(self) -> list[LabelledEvidence]:
        """Own queries that can be answered."""
        return [one for one in self.own if one.answerable]

    @property
    def unanswerable(self) -> list[LabelledEvidence]:
        """Own queries that nothing answers."""
        return [one for one in self.own if not one.answerable]

    def weighed(self, *, words: bool) -> list[LabelledEvidence]:
        """For a fit: what can be answered weighs nine tenths, and all together 1.

        With `words`, of words alone. Else without raw scores: left out in turn, sets did not
        profit from what a cosine means in others when it came to which tool is right.
        """
        rest = (1 - NEAR_MISS_SHARE) / (2 if self.unanswerable else 1)
        parts = (
            (self.answerable, 1 - UNANSWERABLE_SHARE),
            (self.hidden, UNANSWERABLE_SHARE * NEAR_MISS_SHARE),
            (self.strange, UNANSWERABLE_SHARE * rest),
            (self.unanswerable, UNANSWERABLE_SHARE * rest),
        )
        return [
            replace(one if words else without_raw(one), weight=weight / len(part), hidden=at > 0)
            for at, (part, weight) in enumerate(parts)
            for one in part
        ]


def gather(
    crib: Crib, data: DataSet, foreign: list[LabelledQuery], split: str, *, words: bool
) -> Evidence:
    """Evidence of one set's split."""
    names = ("test",) if split == "test" else ("train", "dev")
    queries = list(data.split(*names))
    random.Random(SEED).shuffle(queries)
    kinds = ([q for q in queries if q.answerable], [q for q in queries if not q.answerable])
    asked = [query for kind in kinds for query in kind[:QUERIES_A_SET]]
    found = gather_evidence(crib, asked, words=words)
    return Evidence(
        [one for one in found if not one.hidden],
        [one for one in found if one.hidden],
        gather_evidence(crib, foreign, words=words),
    )


def without_raw(one: LabelledEvidence) -> LabelledEvidence:
    kept = one.features.copy()
    kept[:, [FEATURES.index(name) for name in RAW_QUERY_FEATURES]] = 0.0
    return replace(one, features=kept)


def strangers(sets: dict[str, DataSet], name: str, seed: int) -> list[LabelledQuery]:
    """Queries of other sets, as unanswerable ones, evenly from all."""
    rng = random.Random(seed)
    others = [data for other, data in sets.items() if not related(other, name)]
    taken: list[LabelledQuery] = []
    for data in others:
        queries = [q for q in data.queries if q.answerable]
        taken += rng.sample(queries, min(len(queries), STRANGERS // len(others)))
    return [replace(q, relevant={}, answerable=False) for q in taken]


def with_unanswerable(data: DataSet) -> DataSet:
    """The same, with the requests that were written for it and that none of its tools serves."""
    rows = map(json.loads, IN_VAIN.read_text(encoding="utf-8").splitlines())
    asked = [
        LabelledQuery(r["id"], r["text"], answerable=False) for r in rows if r["set"] == data.name
    ]
    return replace(data, queries=(*data.queries, *asked))


def related(one: str, other: str) -> bool:
    return one == other or {one, other} in FAMILIES


def measure(found: Evidence, fitted: Calibration) -> dict[str, float]:
    """Own unanswerable queries and near misses told apart; errors at one unanswerable in ten."""
    able, near = found.answerable, found.hidden
    unable = found.unanswerable or near[::2] + found.strange
    # Nine that can be answered for one that cannot; to take less of these would be noise.
    measured = measures([*able * round(9 * len(unable) / len(able)), *unable], fitted)
    apart = {name: measures([*able, *near], fitted)[name] for name in APART}
    shown = {f"near_{name}": value for name, value in apart.items()}
    if found.unanswerable:
        own = measures([*able, *found.unanswerable], fitted)
        shown |= {name: own[name] for name in APART}
    kept = ("ece", "ece_first", "brier", "risk@80", "correlation")
    shown |= {name: measured[name] for name in kept if name in measured}
    sure = [fitted.confidence(one.features, one.about) or 0.0 for one in able]
    shown["true_acceptance"] = float(np.mean([p >= fitted.threshold for p in sure]))
    return {name: round(value, 4) for name, value in shown.items()}


APART = ("auroc", "false_acceptance@95")


def measures(evidence: list[LabelledEvidence], fitted: Calibration) -> dict[str, float]:
    sure = [fitted.confidence(one.features, one.about) or 0.0 for one in evidence]
    firsts = [
        float(fitted.probabilities(one.features, p)[0])
        for one, p in zip(evidence, sure, strict=True)
    ]
    return gate_measures(
        np.array(sure),
        np.array([one.first_is_right for one in evidence]),
        np.array([one.answerable for one in evidence]),
        np.array(firsts),
    )


def fitted(chosen: list[Evidence], identity: Mapping[str, Any], *, words: bool) -> Calibration:
    """A calibration of these sets, with the threshold that turns away too much of none of them."""
    weighed = [one for evidence in chosen for one in evidence.weighed(words=words)]
    made = calibrate(weighed, identity, seed=SEED)
    least = [
        np.quantile([made.confidence(o.features, o.about) for o in each], 1 - MIN_TRUE_ACCEPTANCE)
        for evidence in chosen
        if (each := evidence.answerable)
    ]
    return made.model_copy(update={"threshold": math.floor(10 * min(least)) / 10})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--ship", action="store_true", help="renew the calibration shipped")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--words", action="store_true", help="fit and ship that of words alone")
    options = parser.parse_args()
    folders = [one for data in options.data for one in sorted(data.iterdir()) if one.is_dir()]
    loaded = [with_unanswerable(load(str(one))) for one in folders]
    sets = {data.name: with_shots(data, SHOTS, SEED) for data in loaded}
    fitting: dict[str, Evidence] = {}
    testing: dict[str, Evidence] = {}
    for name, data in sets.items():
        with Crib.open(":memory:", settings=Settings()) as crib:
            crib.index_tools(data.tools)
            for seed, (split, into) in enumerate((("train", fitting), ("test", testing))):
                foreign = strangers(sets, name, seed)
                known = gather(crib, data, foreign, split, words=options.words)
                if known.answerable:
                    into[name] = known
        of_fit = len(fitting[name].own) if name in fitting else 0
        print(f"{name}: {of_fit} to fit, {len(testing[name].own)} to test")
    with Crib.open(":memory:", settings=Settings()) as crib:
        identity = crib.tools.calibration_fingerprint()

    def fit(names: list[str]) -> Calibration:
        chosen = [fitting[name] for name in names]
        return fitted(chosen, identity, words=options.words)

    rows: dict[str, dict[str, Any]] = {}
    for name, evidence in testing.items():
        others = [other for other in fitting if not related(other, name)]
        rows[name] = measure(evidence, fit(others))
        print(f"{name:18s}", rows[name])
    keys = sorted({key for row in rows.values() for key in row})
    macro = {k: round(float(np.mean([r[k] for r in rows.values() if k in r])), 4) for k in keys}
    print(f"{'macro':18s}", macro)
    shipped = fit(list(fitting))
    print(f"fitted on all: {shipped.figures}, threshold {shipped.threshold}")
    if options.ship:
        target = Path(calibration.__file__).with_name("calibration.json")
        # Curves of single servers are the public sets', not those of a user's servers.
        shipped = shipped.model_copy(
            update={"curves": {"": shipped.curves[""]}, "server_thresholds": {}},
        )
        before = default_calibration()
        whole = (
            before.model_copy(update={"lexical": shipped})
            if options.words
            else shipped.model_copy(update={"lexical": before.lexical})
        )
        target.write_text(whole.model_dump_json(indent=None) + "\n", encoding="utf-8")
    result = {
        "command": "python benchmarks/calibration.py --data DATA/tools DATA/intents OWN --ship",
        "measure": (
            "a calibration of all other sets, on the test split of each, up to 300 queries; "
            "errors at one unanswerable query in ten"
        ),
        "sets": rows,
        "macro": macro,
    }
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
