"""The commands, gathered; what they share: settings, the opened crib, errors in words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolcrib.errors import ToolcribError
from toolcrib.service.cli import (
    browse,
    calibrate,
    doctor,
    documents,
    evaluate,
    index,
    route,
    search,
    train,
)
from toolcrib.service.cli.report import report as decision_report
from toolcrib.service.cli.screen import print_error
from toolcrib.service.problems import exit_code

__all__ = ["app", "report"]

app = typer.Typer(
    name="toolcrib",
    help="Hands an AI agent the few tools that its current turn needs, out of thousands.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:  # noqa: FBT001 -- typer calls it with the flag's value
    if value:
        from toolcrib import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _configure(
    context: typer.Context,
    settings: Annotated[
        Path | None,
        typer.Option(help="Settings file; default: toolcrib.yaml in this folder, if there is one."),
    ] = None,
    version: Annotated[  # noqa: ARG001 -- its callback does the work
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    context.obj = settings


app.command("index")(index.index)
app.command("search")(search.search)
app.command("index-docs")(documents.index_docs)
app.command("collections")(documents.collections)
app.command("route")(route.route)
app.command("report")(decision_report)
app.command("list")(browse.list_tools)
app.command("show")(browse.show)
app.command("remove")(browse.remove)
app.command("doctor")(doctor.doctor)
app.command("calibrate")(calibrate.calibrate)
app.add_typer(evaluate.app, name="eval")
app.command("train")(train.train)


def report(error: Exception, *, as_json: bool) -> int:
    """Say what went wrong and return the exit code; what is not ours is raised on."""
    if not isinstance(error, ToolcribError):
        raise error
    print_error(error, as_json=as_json)
    return exit_code(error)
