"""`toolcrib index`: sources in."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from toolcrib.records import IndexReport
from toolcrib.records.codec import as_json
from toolcrib.service.cli.opening import Json, Store, writing_crib
from toolcrib.service.cli.screen import index_progress, print_json, print_report
from toolcrib.service.problems import EXIT_NOT_CLEAN
from toolcrib.settings import load_settings

__all__ = ["index"]


def index(
    context: typer.Context,
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders, module:attribute, MCP server URLs, stdio:COMMAND."),
    ] = None,
    store: Store = None,
    server: Annotated[
        str | None,
        typer.Option(help="The server of every tool, whatever the source says."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="Read the sources as this format."),
    ] = None,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove tools that no source names."),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 1 when anything was refused."),
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="First renew an index that other models made."),
    ] = False,
    json: Json = False,
) -> None:
    """Read tools from any mix of sources; what has not changed is left alone."""
    if not sources and not rebuild:
        raise typer.BadParameter("name at least one source", param_hint="SOURCES")
    started = time.perf_counter()
    with (
        index_progress() as listener,
        writing_crib(
            context,
            store,
            create=not rebuild,
            rebuild=rebuild,
            progress=listener,
        ) as crib,
    ):
        if rebuild:
            from toolcrib.namespaces import rebuild_shared

            settings = load_settings(context.obj)
            rebuild_shared(store or settings.store, settings, listener)
        report = crib.index_tools(
            *(sources or ()),
            server=server,
            format=format,
            prune=prune,
            progress=listener,
        )
    if json:
        print_json(as_json(report))
    else:
        print_report(report, time.perf_counter() - started)
    if report.refused and (strict or not _read_anything(report)):
        raise typer.Exit(EXIT_NOT_CLEAN)


def _read_anything(report: IndexReport) -> bool:
    return bool(report.added or report.changed or report.unchanged)
