"""How well tools are found: all systems, test splits, the encoder that ships.

    python benchmarks/tools.py --data DATA/tools OWN --base BASE [--reranker FOLDER]
    python benchmarks/tools.py --data DATA/tools OWN --learn    # toolcrib alone

DATA/tools and OWN hold one folder a set; `join_requests.py CORPORA OWN/requests --held-out` writes
OWN. The sets that the encoder was trained on go into a result of their own. BASE is the encoder
before training (scripts/export_base.py): `untrained` is toolcrib with it, without clauses and
with the fusion weights that were chosen for it. With `--learn` each set's development split is
learned from first, and sets that are complete with 95 % are measured too; sets without that split
are left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from toolcrib import Settings, build
from toolcrib.evaluation.loaders import load
from toolcrib.evaluation.results import Evaluation, SetResult, as_json
from toolcrib.evaluation.runner import CreateSystem, evaluate, macro_comparisons, macro_means
from toolcrib.evaluation.systems.base import BASELINES, PEERS, baseline
from toolcrib.evaluation.systems.ours import OwnSystems
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.settings import EncoderSettings

LIMIT, SEED, KS = 300, 0, (1, 3, 5, 10)
RESULTS = Path(__file__).resolve().parent / "results"
OWN = ("toolcrib", "lexical", "dense")
TRAINED_ON = (
    "apibench",
    "mcp-flow",
    "mcp-zero",
    "metatool",
    "stabletoolbench",
    "toollens",
    "toollinkos",
    "ultratool-en",
)
"""Sets whose training splits the encoder learned from; stabletoolbench has toollens' tools."""


def measured(folder: Path, base: str, reranker: str | None) -> Evaluation:
    """Every system on one set."""
    dense = build.make_dense(Settings())
    own = OwnSystems(Settings())
    old = OwnSystems(
        Settings(
            encoder=EncoderSettings(dense=f"bundled:{base}"),
            fusion=FusionWeights(dense=1 / 3, lexical=2 / 3, clauses=0.0),
        )
    )
    systems: dict[str, CreateSystem] = {n: lambda n=n: own.make(n) for n in OWN}
    shelves = [own, old]
    if reranker is not None:
        second = OwnSystems(Settings(encoder=EncoderSettings(reranker=f"bundled:{reranker}")))
        systems["reranked"] = lambda: second.make("toolcrib")
        shelves.append(second)
    systems["untrained"] = lambda: old.make("toolcrib")
    systems["untrained dense"] = lambda: old.make("dense")
    for name in (*BASELINES, *PEERS):
        shown, factory = baseline(name)
        systems[shown] = partial(factory, dense)
    found = evaluate([load(str(folder))], systems, ks=KS, limit=LIMIT, seed=SEED)
    for shelf in shelves:
        shelf.close()
    return found


def learned(folder: Path) -> Evaluation | None:
    """Toolcrib on one set, after learning from its development split; None without one."""
    data = load(str(folder))
    if not data.split("dev"):
        return None
    own = OwnSystems(Settings())
    systems: dict[str, CreateSystem] = {"toolcrib": lambda: own.make("toolcrib")}
    found = evaluate([data], systems, ks=KS, learn="dev", coverage=0.95, limit=2 * LIMIT, seed=SEED)
    own.close()
    return found


def write(
    out: Path, folders: Iterable[Path], measure: Callable[[Path], Evaluation | None], kind: str
) -> None:
    """Measure these sets, and write what was found and the means over them."""
    sets: dict[str, SetResult] = {}
    last: Evaluation | None = None
    for folder in folders:
        found = measure(folder)
        if found is None:
            continue
        last, sets = found, sets | found.sets
        figures = {
            n: s.measures["ndcg@10"].mean for n, s in found.sets[folder.name].systems.items()
        }
        print(folder.name, {n: round(100 * value, 1) for n, value in figures.items()}, flush=True)
    if last is None:
        print(f"nothing to measure for {out.name}")
        return
    whole = replace(
        last,
        sets=sets,
        macro=macro_means(sets),
        macro_against_first=macro_comparisons(sets, SEED),
        settings={
            **last.settings,
            "command": f"python benchmarks/tools.py --data DATA/tools OWN {kind}",
        },
    )
    print({n: round(100 * of["ndcg@10"], 2) for n, of in whole.macro.items()}, flush=True)
    out.write_text(json.dumps(as_json(whole), indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--base", default="bundled")
    parser.add_argument("--reranker", help="also with this one, a folder")
    parser.add_argument("--learn", action="store_true", help="toolcrib alone, learning first")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    folders = sorted(
        (each for data in options.data for each in data.iterdir()), key=lambda each: each.name
    )
    if options.learn:
        write(options.out / "eval-learned.json", folders, learned, "--learn")
        return
    measure = partial(measured, base=options.base, reranker=options.reranker)
    for name, trained in (("eval-tools", False), ("eval-trained", True)):
        chosen = [each for each in folders if (each.name in TRAINED_ON) == trained]
        write(options.out / f"{name}.json", chosen, measure, "--base BASE")


if __name__ == "__main__":
    main()
