"""`toolcrib lint`: problems in the texts of a registry."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from rich.markup import escape

from toolcrib.cli.opening import any_crib
from toolcrib.cli.options import (
    SOURCES_HELP,
    Json,
    SourceFormat,
    SourceServer,
    StoreOption,
    Url,
    read_tools,
)
from toolcrib.cli.output import out, print_either, print_refused, print_rows, write_file
from toolcrib.cli.progress import show_counts
from toolcrib.errors import SourceError
from toolcrib.integrations.providers import Provider
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.records import Refusal
from toolcrib.records.codec import as_json
from toolcrib.settings import load_settings
from toolcrib.text import count_of

if TYPE_CHECKING:
    from toolcrib.evaluation.lint import LintReport, LintSeverity

MAX_PROBLEM_ROWS = 100
MAX_SERVERS = 20
PROBLEM_COLOURS: dict[LintSeverity, str] = {"error": "red", "warning": "yellow", "info": "dim"}

Sources: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help=f"{SOURCES_HELP} Default: the tools of the index."),
]


def lint(
    context: typer.Context,
    sources: Sources = None,
    store: StoreOption = None,
    url: Url = None,
    server: SourceServer = None,
    format: SourceFormat = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="Skip this rule; may be repeated. `audit` skips all rules of the audit."),
    ] = None,
    for_: Annotated[
        list[Provider] | None,
        typer.Option(
            "--for", help="Also find definitions that this provider refuses; may be repeated."
        ),
    ] = None,
    fail_on: Annotated[
        Literal["error", "warning", "info", "never"],
        typer.Option("--fail-on", help="Exit with 1 from this severity on, and for refusals."),
    ] = "error",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for any finding or refusal.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write an HTML report here.")] = None,
    json: Json = False,
) -> None:
    """Find tools that searches will miss or confuse, and advise how to correct their texts.

    Every tool is searched by its own purpose, examples and parameters. Nothing is indexed.
    """
    from toolcrib.evaluation import lint as linter
    from toolcrib.indexers.sync import distinct_tools

    if not sources and (server or format):
        raise typer.BadParameter("needs sources", param_hint="--server")
    if sources and (store or url):
        raise typer.BadParameter("goes without sources", param_hint="--store")
    with show_counts("reading the sources") as progress:
        tools, refused = distinct_tools(read_tools(sources or (), server, format))
        if not sources:
            with any_crib(context, store, url, ranks=False) as crib:
                tools = list(crib.list_tools())
        if not tools:
            raise _no_tools_error(refused)
        report = linter.lint(
            tools,
            load_settings(context.obj),
            ignored=ignore or (),
            providers=for_ or (),
            progress=progress,
        )
    if html is not None:
        from toolcrib.report.lint import render_lint

        write_file(html, render_lint(report, refused))
    value = as_json(report) | {"refused": refused}
    print_either(value, partial(_print, report, refused), json=json)
    # A tool that could not be read was not checked: the result is not clean.
    if strict and (report.findings or refused):
        raise typer.Exit(EXIT_NOT_CLEAN)
    if fail_on != "never" and (refused or linter.fails(report.findings, fail_on)):
        raise typer.Exit(EXIT_NOT_CLEAN)


def _no_tools_error(refused: list[Refusal]) -> SourceError:
    if refused:
        return SourceError(refused[0].source, refused[0].place, refused[0].reason)
    return SourceError("the index", "", "holds no tools")


def _print(report: LintReport, refused: list[Refusal]) -> None:
    print_refused(refused)
    if report.findings:
        rows = [
            (
                f"[{PROBLEM_COLOURS[each.severity]}]{each.severity}[/]",
                *map(escape, (each.rule, each.tool, each.text)),
            )
            for each in report.findings
        ]
        print_rows(rows, ("severity", "rule", "tool", "what"), limit=MAX_PROBLEM_ROWS)
    if len(report.servers) > 1:
        servers = [
            (
                escape(one.server),
                str(one.tools),
                *(str(one.findings[name]) for name in PROBLEM_COLOURS),
            )
            for one in report.servers
        ]
        print_rows(
            servers, ("server",), ("tools", *PROBLEM_COLOURS), headed=True, limit=MAX_SERVERS
        )
    found = Counter(each.severity for each in report.findings)
    counted = ", ".join(f"{found[name]} {name}" for name in PROBLEM_COLOURS if found[name])
    tools = count_of(report.tools, "tool")
    out.print(f"{tools}: {counted or 'nothing was found'}")
