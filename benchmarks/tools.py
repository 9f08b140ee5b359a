"""How well tools are found that no model was trained on: all systems, test splits.

    python benchmarks/tools.py --data DATA --base BASE --model FOLDER=set,set...
        [--reranker FOLDER]
    python benchmarks/tools.py --data DATA --model ... --learn --json OUT   # toolcrib alone

The bundled encoder was trained on some of the sets. Each of those is measured with a FOLDER that
was trained without it, for every system that uses vectors; the others with the bundled one.
BASE is the encoder before training (scripts/export_base.py): `untrained` is toolcrib with it and
without clauses, as it was before. With `--learn` each set's development split is learned from
first, and sets that are complete with 95 % are measured too; sets without that split are left out.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import held_out

from toolcrib import Settings, build
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.results import Evaluation, SetResult, as_json
from toolcrib.evaluation.runner import CreateSystem, evaluate, macro_comparisons, macro_means
from toolcrib.evaluation.systems.base import BASELINES, PEERS, baseline
from toolcrib.evaluation.systems.ours import OwnSystems
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.settings import EncoderSettings

LIMIT, SEED, KS = 300, 0, (1, 3, 5, 10)
RESULTS = Path(__file__).resolve().parent / "results" / "eval-tools.json"
OWN = ("toolcrib", "lexical", "dense")


def measured(folder: Path, encoder: str, base: str, reranker: str | None) -> Evaluation:
    """Every system on one set."""
    settings = Settings(encoder=EncoderSettings(dense=encoder))
    dense = build.make_dense(settings)
    own = OwnSystems(settings)
    old = OwnSystems(
        Settings(
            encoder=EncoderSettings(dense=f"bundled:{base}"),
            fusion=FusionWeights(dense=1 / 3, lexical=2 / 3, clauses=0.0),
        )
    )
    systems: dict[str, CreateSystem] = {n: lambda n=n: own.make(n) for n in OWN}
    shelves = [own, old]
    if reranker is not None:
        models = EncoderSettings(dense=encoder, reranker=f"bundled:{reranker}")
        second = OwnSystems(Settings(encoder=models))
        systems["reranked"] = lambda: second.make("toolcrib")
        shelves.append(second)
    systems["untrained"] = lambda: old.make("toolcrib")
    systems["untrained dense"] = lambda: old.make("dense")
    for name in (*BASELINES, *(f"benchmarks.peers.{peer}" for peer in PEERS.values())):
        shown, factory = baseline(name)
        systems[shown] = partial(factory, dense)
    found = evaluate([load(str(folder))], systems, ks=KS, limit=LIMIT, seed=SEED)
    for shelf in shelves:
        shelf.close()
    return found


def learned(folder: Path, encoder: str) -> Evaluation | None:
    """Toolcrib on one set, after learning from its development split; None without one."""
    data = load(str(folder))
    if not data.split("dev"):
        return None
    own = OwnSystems(Settings(encoder=EncoderSettings(dense=encoder)))
    systems: dict[str, CreateSystem] = {"toolcrib": lambda: own.make("toolcrib")}
    found = evaluate([data], systems, ks=KS, learn="dev", coverage=0.95, limit=2 * LIMIT, seed=SEED)
    own.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--base", default="bundled")
    parser.add_argument("--model", action="append", default=[], help=held_out.USAGE)
    parser.add_argument("--reranker", help="also with this one, a folder")
    parser.add_argument("--learn", action="store_true", help="toolcrib alone, learning first")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    models = held_out.models(options.model)
    sets: dict[str, SetResult] = {}
    last: Evaluation | None = None
    for folder in sorted(options.data.iterdir()):
        encoder = f"bundled:{models.get(folder.name, '')}"
        found = (
            learned(folder, encoder)
            if options.learn
            else measured(folder, encoder, options.base, options.reranker)
        )
        if found is None:
            continue
        last, sets = found, sets | found.sets
        figures = {
            n: s.measures["ndcg@10"].mean for n, s in found.sets[folder.name].systems.items()
        }
        print(folder.name, {n: round(100 * value, 1) for n, value in figures.items()}, flush=True)
    assert last is not None, "no set could be measured"
    given = " ".join(f"--model {one}" for one in options.model)
    kind = "--learn" if options.learn else "--base BASE"
    command = f"python benchmarks/tools.py --data DATA/tools {kind} {given}"
    whole = replace(
        last,
        sets=sets,
        macro=macro_means(sets),
        macro_against_first=macro_comparisons(sets, SEED),
        settings={**last.settings, "command": command},
    )
    print({n: round(100 * of["ndcg@10"], 2) for n, of in whole.macro.items()})
    options.json.write_text(json.dumps(as_json(whole), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
