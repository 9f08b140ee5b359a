"""How the shipped calibration was fitted, and how it holds on sets that it never saw.

    python benchmarks/calibration.py --data FOLDER --ship [--words] [--model MODEL=set,set...]

A set that the bundled encoder was trained on gives its evidence with a MODEL that was not, as
on a registry that nobody trained on. FOLDER holds one folder a data set. Only train and
development splits are fitted on, up to 600 queries a set; every set counts the same. Beside the
labelled queries come the same ones with their right tools hidden, and queries of the other sets:
nothing answers those. For each set, a calibration of all other sets is measured on the set's
test split.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import held_out
import numpy as np

from toolcrib import Crib, Settings
from toolcrib.evaluation.calibrate import LabelledEvidence, calibrate, gather_evidence
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.gate_measures import gate_measures
from toolcrib.evaluation.loaders import load
from toolcrib.retrieval import calibration
from toolcrib.retrieval.calibration import FEATURES, Calibration, default_calibration
from toolcrib.settings import EncoderSettings

QUERIES_A_SET = 600
UNANSWERABLE_SHARE = 0.1
SEED = 0
RAW = ("top_dense", "top_lexical", "top_term")
RESULTS = Path(__file__).resolve().parent / "results" / "calibration.json"


def gather(
    data: DataSet, foreign: list[LabelledQuery], split: str, settings: Settings, *, words: bool
) -> list[LabelledEvidence]:
    """Evidence of one set's split; real queries weigh 1 together, the others a ninth of that.

    With `words`, by words alone. Else without raw scores: left out in turn, sets did not profit
    from what a cosine means in others.
    """
    rng = random.Random(SEED)
    names = ("test",) if split == "test" else ("train", "dev")
    queries = list(data.split(*names))
    rng.shuffle(queries)
    answerable = [q for q in queries if q.answerable][:QUERIES_A_SET]
    unanswerable = [q for q in queries if not q.answerable][:QUERIES_A_SET]
    with tempfile.TemporaryDirectory() as folder, Crib.open(folder, settings=settings) as crib:
        crib.index_tools(data.tools)
        found = gather_evidence(crib, answerable, words=words)
        strange = gather_evidence(crib, [*unanswerable, *foreign], words=words) if foreign else []
        if split == "test":
            shown = [one for one in found if not one.hidden]
            return shown + gather_evidence(crib, unanswerable, words=words)
    if not words:
        found, strange = ([without_raw(one) for one in each] for each in (found, strange))
    real = [replace(one, weight=1 / len(answerable)) for one in found if not one.hidden]
    others = [one for one in found if one.hidden] + strange
    weight = UNANSWERABLE_SHARE / (1 - UNANSWERABLE_SHARE) / len(others)
    return real + [replace(one, weight=weight, hidden=True) for one in others]


def without_raw(one: LabelledEvidence) -> LabelledEvidence:
    kept = one.features.copy()
    kept[:, [FEATURES.index(name) for name in RAW]] = 0.0
    return replace(one, features=kept)


def strangers(sets: dict[str, DataSet], name: str) -> list[LabelledQuery]:
    """Queries of other sets, as unanswerable ones: 300, evenly from all."""
    rng = random.Random(SEED)
    others = [data for other, data in sets.items() if other != name]
    taken: list[LabelledQuery] = []
    for data in others:
        queries = [q for q in data.split("train", "dev") if q.answerable]
        taken += rng.sample(queries, min(len(queries), 300 // len(others)))
    return [replace(q, relevant={}, answerable=False) for q in taken]


def measure(evidence: list[LabelledEvidence], fitted: Calibration) -> dict[str, float]:
    first = [float(fitted.probabilities(one.features)[0]) for one in evidence]
    found = gate_measures(
        np.array(first),
        np.array([one.first_is_right for one in evidence]),
        np.array([one.answerable for one in evidence]),
    )
    answered = [p for one, p in zip(evidence, first, strict=True) if one.answerable]
    found["true_acceptance"] = float(np.mean([p >= fitted.threshold for p in answered]))
    return {name: round(value, 4) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--ship", action="store_true", help="renew the calibration shipped")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--words", action="store_true", help="fit and ship that of words alone")
    parser.add_argument("--model", action="append", default=[], help=held_out.USAGE)
    options = parser.parse_args()
    models = {
        name: Settings(encoder=EncoderSettings(dense=f"bundled:{folder}"))
        for name, folder in held_out.models(options.model).items()
    }
    sets = {folder.name: load(str(folder)) for folder in sorted(options.data.iterdir())}
    fitting: dict[str, list[LabelledEvidence]] = {}
    testing: dict[str, list[LabelledEvidence]] = {}
    for name, data in sets.items():
        settings = models.get(name, Settings())
        if any(q.answerable for q in data.split("train", "dev")):
            foreign = strangers(sets, name)
            fitting[name] = gather(data, foreign, "train", settings, words=options.words)
        if data.split("test"):
            testing[name] = gather(data, [], "test", settings, words=options.words)
        print(f"{name}: {len(fitting.get(name, []))} to fit, {len(testing.get(name, []))} to test")
    with Crib.open(":memory:", settings=Settings()) as crib:
        identity = crib.tools.calibration_fingerprint()

    def fit(names: list[str]) -> Calibration:
        return calibrate([one for name in names for one in fitting[name]], identity, seed=SEED)

    rows: dict[str, dict[str, Any]] = {}
    for name, evidence in testing.items():
        rows[name] = measure(evidence, fit([other for other in fitting if other != name]))
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
        "command": "python benchmarks/calibration.py --data DATA --ship",
        "measure": "a calibration of all other sets, on the test split of each; up to 600 queries",
        "sets": rows,
        "macro": macro,
    }
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
