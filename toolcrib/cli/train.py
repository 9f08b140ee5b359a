"""`toolcrib train`: fine-tunes an encoder or a reranker, and measures it on test queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from rich.markup import escape

from toolcrib.cli.options import Json, Queries, Seed, StoreOption, Tools, load_sets, read_tools
from toolcrib.cli.output import err, out, print_json, print_refused, print_rows
from toolcrib.cli.progress import show_counts
from toolcrib.records import Refusal, ToolSpec
from toolcrib.settings import load_settings
from toolcrib.text import count_of

if TYPE_CHECKING:
    from toolcrib.evaluation.dataset import DataSet
    from toolcrib.training.session import TrainingPlan, TrainingResult

ModelKind: TypeAlias = Literal["encoder", "reranker"]

BATCH_SIZE_BY_KIND: dict[ModelKind, int] = {"encoder": 64, "reranker": 16}

DataSets: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help="Data sets as for `eval`; their split `train` is used for training."),
]
Corpora: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--corpus", help="Tools without queries to learn from; may be repeated."),
]
Unseen: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--unseen", help="Data set that must not leak into training; may be repeated."),
]
Resplit: TypeAlias = Annotated[
    bool,
    typer.Option("--resplit", help="Split all queries anew: 60 % train, 15 % dev, 25 % test."),
]
Imitate: TypeAlias = Annotated[
    bool, typer.Option("--imitate/--no-imitate", help="Also make queries from tools' texts.")
]
Base: TypeAlias = Annotated[
    str, typer.Option(help="Base model: bundled, or a folder or hub name of a BERT.")
]
CorpusLimit: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Most pairs of a corpus.")]
Judged: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Most test queries of a data set for the verdict.")
]
KeepWork: TypeAlias = Annotated[
    bool, typer.Option("--keep-work", help="Keep checkpoints and float weights in OUT/work.")
]
Checks: TypeAlias = Annotated[
    int, typer.Option(min=0, help="Evaluations on dev queries in an epoch; 0: none.")
]
Mix: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, help="Share of the base in an encoder; default: the best on dev."
    ),
]


def train(
    context: typer.Context,
    kind: Annotated[
        ModelKind, typer.Argument(help="Dense encoder, or cross-encoder to rerank with.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model; a run resumes there.")],
    datasets: DataSets = None,
    store: StoreOption = None,
    tools: Tools = None,
    queries: Queries = None,
    corpus: Corpora = None,
    unseen: Unseen = None,
    resplit: Resplit = False,
    imitate: Imitate = True,
    base: Base = "bundled",
    layers: Annotated[int, typer.Option(min=1, help="Layers of a reranker, from the base.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over all pairs.")] = 1,
    batch: Annotated[
        int | None,
        typer.Option(min=2, help="Batch: pairs (64), or a reranker's queries with 8 texts (16)."),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.0, help="Highest learning rate.")] = 5e-5,
    checks: Checks = 5,
    mix: Mix = None,
    limit: Annotated[int, typer.Option(min=1, help="Most pairs of a data set.")] = 3_000,
    corpus_limit: CorpusLimit = None,
    judged: Judged = None,
    keep_work: KeepWork = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fine-tune a model on your own tools and queries, export it, and measure the gain."""
    from toolcrib.evaluation.loaders import load
    from toolcrib.training import session
    from toolcrib.training.trainer import EncoderTraining, LoopSettings, RerankerTraining

    loop = LoopSettings(
        epochs, batch or BATCH_SIZE_BY_KIND[kind], rate=rate, checks=max(checks, 1), seed=seed
    )
    with show_counts("reading", lambda: _interruption_note(out)) as listener:
        plan = session.TrainingPlan(
            out,
            _sets(load_sets(context, datasets, store, tools, queries), seed if resplit else None)
            if datasets or queries or not corpus
            else (),
            corpora={Path(source).name: _specs(source) for source in corpus or ()},
            unseen=[load(name) for name in unseen or ()],
            base=base,
            settings=EncoderTraining(loop, mix=mix)
            if kind == "encoder"
            else RerankerTraining(loop, layers),
            checked=checks > 0,
            imitated=imitate,
            limit=limit,
            corpus_limit=corpus_limit,
            judged=judged,
            seed=seed,
            keep_work=keep_work,
        )
        outcome = session.train(plan, load_settings(context.obj), listener)
    _show(plan, outcome, json=json)


def _interruption_note(out: Path) -> str:
    folder = out / "work" / "checkpoints"
    if any(folder.glob("checkpoint-*/trainer_state.json")):
        return f"the last checkpoint is in {folder}; the same command resumes from it"
    return "there is no checkpoint yet; the same command starts again"


def _sets(sets: list[DataSet], resplit: int | None) -> list[DataSet]:
    from toolcrib.training.data import split_anew

    for note in (f"{data.name}: {note}" for data in sets for note in data.notes):
        err.print(f"[yellow]{escape(note)}[/]")
    return sets if resplit is None else [split_anew(data, resplit) for data in sets]


def _specs(source: str) -> Iterator[ToolSpec]:
    for _, entry in read_tools([source]):
        if isinstance(entry, Refusal):
            print_refused([entry])
        else:
            yield entry


def _show(plan: TrainingPlan, outcome: TrainingResult, *, json: bool) -> None:
    if json:
        print_json({"model": str(plan.out), **asdict(outcome)})
        return
    pairs, gone = sum(outcome.pairs.values()), sum(outcome.left_out_as_near_duplicates.values())
    out.print(
        f"[bold]{count_of(pairs, 'pair')}[/] [dim]from {count_of(len(outcome.pairs), 'source')}; "
        f"{count_of(gone, 'text')} left out as near duplicates of held-back ones; "
        f"{outcome.training['seconds']:.0f} s[/]"
    )
    verdict = outcome.verdict
    if verdict is None:
        out.print("[yellow]no test queries, so the gain is unknown[/]")
        return
    rows = [
        (
            escape(change.data_set),
            change.measure,
            f"{100 * change.before:.1f}",
            f"{100 * change.after:.1f}",
            f"{change.p:.3f}",
        )
        for change in verdict.changes
    ]
    print_rows(rows, ("data set", "measure"), ("before", "after", "p"), headed=True)
    if verdict.outcome != "better":
        out.print(f"[yellow]{verdict.outcome}: keep the model that you have[/]")
        return
    setting = "dense" if plan.kind == "encoder" else "reranker"
    out.print("[green]better[/]; to use it, put into toolcrib.yaml\n  encoder:")
    out.print(f"    {setting}: bundled:{escape(str(plan.out))}")
    if plan.kind == "encoder":
        out.print("and run `toolcrib index --rebuild`; the old index is used until it is done")
    out.print("then `toolcrib calibrate`: the confidence belongs to the model")
