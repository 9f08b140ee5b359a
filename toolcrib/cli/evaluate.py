"""`toolcrib eval`: measure, compare, and look at what went wrong."""

from __future__ import annotations

import json as jsonlib
import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from toolcrib.cli.opening import Json, Queries, Seed, Store, Tools, load_sets, open_crib
from toolcrib.cli.screen import counting, print_json
from toolcrib.errors import SourceError
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.settings import load_settings

__all__ = ["app"]

DEFAULT_SYSTEMS = ("toolcrib", "lexical", "dense")


class _Group(TyperGroup):
    """`eval DATASET` stands for `eval run DATASET`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the command that may be left out."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Group, no_args_is_help=True, help="Measure how well tools are found.")

DataSets: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help="Folders with tools.jsonl and queries.jsonl, BEIR folders, public names."),
]
Split: TypeAlias = Annotated[str, typer.Option(help="Which queries: train, dev or test.")]
Limit: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="At most so many queries a set, at random."),
]
Learn: TypeAlias = Annotated[
    str | None,
    typer.Option(help="First let systems that can learn do so from this split, as from dev."),
]
Coverage: TypeAlias = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Also measure sets that hold all needed this surely."),
]
Shots: TypeAlias = Annotated[
    int,
    typer.Option(min=0, help="Training queries that become examples of each intent."),
]


@app.command("run")
def run(
    context: typer.Context,
    datasets: DataSets = None,
    store: Store = None,
    tools: Tools = None,
    queries: Queries = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="What to measure, or module:factory; may be repeated. `ours`, `baselines`, `all` "
            "are groups."
        ),
    ] = None,
    split: Split = "test",
    k: Annotated[str, typer.Option("--k", "-k", help="Ranks to measure at.")] = "1,3,5,10",
    learn: Learn = None,
    coverage: Coverage = None,
    shots: Shots = 10,
    limit: Limit = None,
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option(help="Write a page to look at.")] = None,
    run_out: Annotated[Path | None, typer.Option(help="Write TREC run files here.")] = None,
    per_query: Annotated[
        bool,
        typer.Option("--per-query", help="With --json: every query, for `eval compare`."),
    ] = False,
    json: Json = False,
) -> None:
    """Measure systems on labelled queries, and compare each with the first one."""
    from toolcrib.cli.leaderboard import print_evaluation
    from toolcrib.evaluation.results import as_json, write_runs
    from toolcrib.evaluation.rows import with_shots
    from toolcrib.evaluation.runner import evaluate

    sets = [
        with_shots(data, shots, seed)
        for data in load_sets(context, datasets, store, tools, queries)
    ]
    with (
        _systems(context, store, system, indexed=bool(queries and not tools)) as chosen,
        counting("asking") as listener,
    ):
        found = evaluate(
            sets,
            chosen,
            split=split,
            ks=_ranks(k),
            learn=learn,
            coverage=coverage,
            limit=limit,
            seed=seed,
            progress=lambda p: listener(f"{p.data_set}: {p.system}", p.done, p.total),
        )
    command = shlex.join(["toolcrib", *sys.argv[1:]])
    found = replace(found, settings={**found.settings, "command": command})
    if run_out is not None:
        write_runs(found, run_out)
    if report is not None:
        from toolcrib.evaluation.report.page import render

        report.write_text(render(found), encoding="utf-8")
    if json:
        print_json(as_json(found, per_query=per_query))
    else:
        print_evaluation(found)


@app.command("compare")
def compare(
    before: Annotated[Path, typer.Argument(help="What `eval --json` printed before.")],
    after: Annotated[Path, typer.Argument(help="What it prints now.")],
    max_drop: Annotated[
        float,
        typer.Option(min=0.0, help="A fall of a measure by more than this, if significant, fails."),
    ] = 0.0,
    json: Json = False,
) -> None:
    """Exit with 1 when a measure fell by more than --max-drop, and chance is no likely reason."""
    from toolcrib.evaluation import compare as comparing

    old, new = _read(before), _read(after)
    falls = comparing.compare(old, new, max_drop)
    gone = comparing.missing(old, new)
    if json:
        print_json({"falls": [asdict(fall) for fall in falls], "missing": list(gone)})
    else:
        from toolcrib.cli.leaderboard import print_falls

        print_falls(falls, gone)
    if falls:
        raise typer.Exit(EXIT_NOT_CLEAN)


@app.command("mistakes")
def mistakes(
    context: typer.Context,
    datasets: DataSets = None,
    store: Store = None,
    tools: Tools = None,
    queries: Queries = None,
    system: Annotated[str, typer.Option(help="Whose mistakes.")] = "toolcrib",
    split: Split = "dev",
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="So many of each kind.")] = 20,
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """The worst queries, tools taken for each other, and words that no tool has."""
    from toolcrib.cli.leaderboard import print_mistakes
    from toolcrib.evaluation.mistakes import find_mistakes
    from toolcrib.evaluation.runner import evaluate

    sets = load_sets(context, datasets, store, tools, queries)
    with _systems(context, store, [system], indexed=bool(queries and not tools)) as chosen:
        found = evaluate(sets, chosen, split=split, limit=limit, seed=seed)
    for data in sets:
        for name, result in found.sets[data.name].systems.items():
            made = find_mistakes(result.outcomes, data.tools, count)
            if json:
                about = {"dataset": data.name, "system": name, "split": split}
                print_json(about | asdict(made))
            else:
                print_mistakes(f"{data.name}: {name}", made)


@contextmanager
def _systems(
    context: typer.Context,
    store: str | None,
    names: list[str] | None,
    *,
    indexed: bool,
) -> Generator[dict[str, Any]]:
    """How to make each system, by its name; their indexes last as long as the block.

    `indexed`: the tools are those of the index in `store`, which is searched as it is.
    """
    from toolcrib import wiring
    from toolcrib.evaluation.systems.base import BASELINES, OURS, PEERS, baseline
    from toolcrib.evaluation.systems.ours import OwnSystems

    settings = load_settings(context.obj)
    ours = [n for n in OURS if n != "fusion+rerank" or settings.encoder.reranker is not None]
    groups = {"ours": ours, "baselines": list(BASELINES), "all": [*ours, *BASELINES]}
    groups["peers"] = [f"benchmarks.peers.{path}" for path in PEERS.values()]
    chosen = list(
        dict.fromkeys(n for name in names or DEFAULT_SYSTEMS for n in groups.get(name, [name]))
    )
    factories = {name: baseline(name) for name in chosen if name not in OURS}
    crib = open_crib(context, store) if indexed else None
    own = OwnSystems(settings, crib)
    dense = wiring.make_dense(settings)
    made: dict[str, Any] = {}
    for name in chosen:
        shown, factory = factories.get(name, ("", None))
        made[shown or name] = partial(factory, dense) if factory else partial(own.make, name)
    try:
        yield made
    finally:
        own.close()
        if crib is not None:
            crib.close()


def _ranks(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise typer.BadParameter("write whole numbers, as in 1,5,10", param_hint="--k") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return jsonlib.loads(path.read_bytes())
    except OSError as error:
        raise SourceError(str(path), "", f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SourceError(str(path), "", f"is not JSON: {error}") from error
