"""`toolcrib calibrate`: from labelled queries to a confidence that means something."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from toolcrib.cli.logs import Log, logged_records
from toolcrib.cli.opening import Json, Seed, Store, writing_crib
from toolcrib.cli.screen import counting, err, out, print_json
from toolcrib.crib import Crib
from toolcrib.errors import SourceError
from toolcrib.retrieval.calibration import Calibration

if TYPE_CHECKING:
    from toolcrib.evaluation.dataset import DataSet

__all__ = ["calibrate"]


def calibrate(
    context: typer.Context,
    log: Log = None,
    queries: Annotated[
        Path | None,
        typer.Option(help="Labelled queries about the tools of the index, JSONL."),
    ] = None,
    from_feedback: Annotated[
        bool,
        typer.Option("--from-feedback", help="Learn from what was said of the decisions of LOG."),
    ] = False,
    labels: Annotated[
        bool,
        typer.Option("--labels", help="Fit the labels and cues of the settings (context.*)."),
    ] = False,
    store: Store = None,
    split: Annotated[
        list[str] | None,
        typer.Option(help="Only queries of this split; may be repeated. Default: all but test."),
    ] = None,
    seed: Seed = 0,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Fit and measure, and keep what is in use."),
    ] = False,
    reset: Annotated[
        bool,
        typer.Option("--reset", help="Go back to the calibration that came with toolcrib."),
    ] = False,
    json: Json = False,
) -> None:
    """Fit the confidence to your own tools and queries, and keep it beside the index."""
    _require_one((queries is not None, from_feedback, reset, labels), log)
    with writing_crib(context, store) as crib:
        if labels:
            crib.learn_labels()
            _say({"labels": "fitted", "saved": True}, json=json)
            return
        if reset:
            crib.save_calibration(None)
            _say({"method": "default", "saved": True}, json=json)
            return
        data = _from_feedback(crib, context, log) if queries is None else _from_file(crib, queries)
        fitted = _fit(crib, data, split, seed)
        if not dry_run:
            crib.save_calibration(fitted)
    _say(_summary(fitted, saved=not dry_run), json=json)


def _require_one(given: tuple[bool, ...], log: Path | None) -> None:
    if sum(given) != 1:
        reason = "give one of --queries, --from-feedback, --labels and --reset"
        raise typer.BadParameter(reason, param_hint="--queries")
    if log is not None and not given[1]:
        raise typer.BadParameter("it goes with --from-feedback", param_hint="LOG")


def _from_file(crib: Crib, queries: Path) -> DataSet:
    from toolcrib.evaluation.loaders import with_tools

    return with_tools(queries.name, list(crib.list_tools()), queries)


def _from_feedback(crib: Crib, context: typer.Context, log: Path | None) -> DataSet:
    from toolcrib.evaluation.decisions import labelled_queries
    from toolcrib.evaluation.rows import checked

    path, records = logged_records(context, log)
    queries = labelled_queries(records, path)
    if not queries:
        raise SourceError(path, "", "holds no decision with feedback that names its right tools")
    return checked(path, crib.list_tools(), queries)


def _fit(crib: Crib, data: DataSet, split: list[str] | None, seed: int) -> Calibration:
    from toolcrib.evaluation.calibrate import learn

    for note in data.notes:
        err.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)
    wanted = split or sorted({query.split for query in data.queries} - {"test"}) or ["test"]
    with counting("asking") as listener:
        return learn(
            crib,
            data.split(*wanted),
            seed=seed,
            progress=lambda done, total: listener("asking", done, total),
        )


def _summary(fitted: Calibration, *, saved: bool) -> dict[str, Any]:
    return {
        "method": fitted.method,
        "head": fitted.head is not None,
        "queries": fitted.queries,
        "threshold": fitted.threshold,
        **fitted.figures.model_dump(exclude={"queries"}),
        "data_digest": fitted.data_digest,
        "seed": fitted.seed,
        "saved": saved,
    }


def _say(summary: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json(summary)
        return
    for name, value in summary.items():
        shown = f"{value:.4f}" if isinstance(value, float) else value
        out.print(f"[dim]{name}[/] {shown}")
