"""`toolcrib calibrate`: from labelled queries to a confidence that means something."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from toolcrib.crib import Crib
from toolcrib.retrieval.confidence import Calibration
from toolcrib.service.cli.opening import Json, Seed, Store, open_crib
from toolcrib.service.cli.screen import counting, err, out, print_json

__all__ = ["calibrate"]


def calibrate(
    context: typer.Context,
    queries: Annotated[
        Path | None,
        typer.Option(help="Labelled queries about the tools of the index, JSONL."),
    ] = None,
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
    if (queries is None) == (not reset):
        raise typer.BadParameter("give --queries, or --reset", param_hint="--queries")
    with open_crib(context, store) as crib:
        if queries is None:
            crib.save_calibration(None)
            _say({"method": "default", "saved": True}, json=json)
            return
        fitted = _fit(crib, queries, split, seed)
        if not dry_run:
            crib.save_calibration(fitted)
    _say(_summary(fitted, saved=not dry_run), json=json)


def _fit(crib: Crib, queries: Path, split: list[str] | None, seed: int) -> Calibration:
    from toolcrib.evaluation.learning import learn
    from toolcrib.evaluation.loaders.folder import with_tools

    data = with_tools(queries.name, list(crib.list_tools()), queries)
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
