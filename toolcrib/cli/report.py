"""`toolcrib report`: what a log of decisions tells."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from toolcrib.cli.logs import Log, logged_records
from toolcrib.cli.opening import Json
from toolcrib.cli.screen import print_json
from toolcrib.errors import SourceError, StoreWriteError

__all__ = ["report"]


def report(
    context: typer.Context,
    log: Log = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to look at.")] = None,
    json: Json = False,
) -> None:
    """Show where turns went, how fast, how often right, and how honestly sure."""
    from toolcrib.cli.decision_tables import print_decisions
    from toolcrib.evaluation.decisions import summarise

    path, records = logged_records(context, log)
    summary = summarise(records)
    if not summary.decisions:
        raise SourceError(path, "", "holds records, but no decision that can be read")
    if html is not None:
        from toolcrib.evaluation.report.decisions import render_decisions

        _write(html, render_decisions(summary))
    if json:
        print_json(asdict(summary))
    else:
        print_decisions(summary)


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise StoreWriteError(f"{path} cannot be written: {error.strerror}") from error
