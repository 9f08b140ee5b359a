"""`toolcrib judge`: a language model labels queries, as a substitute for human labels."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from toolcrib import build
from toolcrib.cli.opening import open_crib
from toolcrib.cli.options import Json, StoreOption, Tools, lines_of, read_tools
from toolcrib.cli.output import err, out, print_json, print_refused
from toolcrib.cli.progress import show_counts
from toolcrib.crib import Crib
from toolcrib.errors import SettingsError
from toolcrib.evaluation.dataset import QueryRow, read_rows
from toolcrib.evaluation.judge import (
    Agreement,
    JudgeReport,
    agreement,
    judge_queries,
    judged_before,
    pools_of,
)
from toolcrib.indexers.sync import ReadSources
from toolcrib.language_models import count_usage
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.records import Refusal
from toolcrib.settings import Settings, load_settings
from toolcrib.text import count_of


def judge(
    context: typer.Context,
    queries: Annotated[
        Path, typer.Argument(help="Queries: JSON Lines with id and text, or .txt, one a line.")
    ],
    file: Annotated[
        Path, typer.Option("--out", help="File for labelled queries; its queries stay.")
    ] = Path("queries.jsonl"),
    tools: Tools = None,
    store: StoreOption = None,
    pool: Annotated[
        int, typer.Option(min=1, max=100, help="Tools that are judged for each query.")
    ] = 20,
    json: Json = False,
) -> None:
    """Label queries by a language model, with grades and reasons, for `toolcrib eval`."""
    settings = load_settings(context.obj)
    model = build.language_model(settings, "judge")
    if model is None:
        raise SettingsError("there is no language model to judge; set TOOLCRIB_LLM__MODEL")
    if queries.resolve() == file.resolve():
        raise typer.BadParameter("--out would overwrite the file of the queries")
    rows, refused = _rows(queries)
    before = judged_before(file, model.name)
    left = [row for row in rows if row.id not in before or before[row.id].text != row.text]
    kept = "labels so far are kept; the same command judges the rest"
    with (
        _crib(context, settings, tools, store) as crib,
        count_usage() as meter,
        show_counts("judging", kept) as listener,
    ):
        told = partial(listener, "judging")
        report = asyncio.run(judge_queries(left, pools_of(crib, pool), model, file, told))
    agreed = agreement(rows, report.judged, report.pools)
    failed = (*refused, *report.failed)
    if json:
        counted = {"judged": len(report.judged), "before": len(rows) - len(left)}
        print_json({**counted, "agreement": agreed, "failed": failed, "usage": meter.usage})
    else:
        _print_summary(report, len(rows) - len(left), agreed, file)
        for each in failed:
            err.print(f"[yellow]{escape(each.place)}[/]: {escape(each.reason)}")
    if failed:
        raise typer.Exit(EXIT_NOT_CLEAN)


def _rows(path: Path) -> tuple[list[QueryRow], Sequence[Refusal]]:
    """Distinct queries of a file, and its unreadable lines."""
    if path.suffix == ".txt":
        lines = [line for line in lines_of(str(path)) if line.strip()]
        return [QueryRow(id=str(n), text=line) for n, line in enumerate(lines, start=1)], ()
    found = list(read_rows(path, QueryRow))
    rows = {each[1].id: each[1] for each in found if not isinstance(each, Refusal)}
    return list(rows.values()), [each for each in found if isinstance(each, Refusal)]


@contextmanager
def _crib(
    context: typer.Context, settings: Settings, tools: list[str] | None, store: str | None
) -> Generator[Crib]:
    """The named index, or a new index of the named tools."""
    if not tools:
        with open_crib(context, store, ranks=False) as crib:
            yield crib
        return
    if store is not None:
        raise typer.BadParameter("goes without --tools", param_hint="--store")
    with Crib.open(build.MEMORY, settings=settings.without_reranker()) as crib:
        report = crib.index_tools(ReadSources(read_tools(tools)))
        print_refused(report.refused)
        yield crib


def _print_summary(report: JudgeReport, before: int, agreed: Agreement | None, file: Path) -> None:
    fitting = sum(bool(one.relevant) for one in report.judged)
    out.print(
        f"[bold]{count_of(len(report.judged), 'request')} judged[/] into {escape(str(file))}: "
        f"{fitting} with tools that help, {len(report.judged) - fitting} without; "
        f"{before} judged before"
    )
    if agreed is not None:
        shown = {"kappa": agreed.kappa, "precision": agreed.precision, "recall": agreed.recall}
        figures = ", ".join(f"{n} {v:.2f}" for n, v in shown.items() if v is not None)
        out.print(
            f"given labels of {count_of(agreed.queries, 'request')}: {agreed.share:.1%} of "
            f"{agreed.pairs:,} pairs judged alike, {figures}"
        )
