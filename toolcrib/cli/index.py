"""`toolcrib index`, `index-docs`, `collections`, `list`, `show`, `remove`: what is kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

import typer

from toolcrib.cli.options import (
    Json,
    Servers,
    StoreOption,
    Tags,
    narrowing,
    open_crib,
    writing_crib,
)
from toolcrib.cli.output import (
    in_short,
    index_progress,
    out,
    print_either,
    print_json,
    print_report,
    print_spec,
    print_tools,
    table_of,
)
from toolcrib.integrations.formats import export
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.records import SENSITIVITIES, Collection, IndexReport
from toolcrib.records.codec import as_json
from toolcrib.router.collections import preset
from toolcrib.settings import load_settings

__all__ = ["collections", "index", "index_docs", "list_tools", "remove", "show"]


def index(
    context: typer.Context,
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders, module:attribute, MCP server URLs, stdio:COMMAND."),
    ] = None,
    store: StoreOption = None,
    server: Annotated[
        str | None, typer.Option(help="The server of every tool, whatever the source says.")
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="Read the sources as this format.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove tools that no source names.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when anything was refused.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="First renew an index that other models made.")
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
            context, store, create=not rebuild, rebuild=rebuild, progress=listener
        ) as crib,
    ):
        if rebuild:
            from toolcrib.tenants import rebuild_shared

            settings = load_settings(context.obj)
            rebuild_shared(store or settings.store, settings, listener)
        report = crib.index_tools(
            *(sources or ()), server=server, format=format, prune=prune, progress=listener
        )
    _finish(report, time.perf_counter() - started, strict=strict, json=json)


def _finish(report: IndexReport, took_s: float, *, strict: bool, json: bool) -> None:
    """Say what was done; fail where nothing could be read, or with `strict` anything not."""
    if json:
        print_json(as_json(report))
    else:
        print_report(report, took_s)
    if report.refused and (strict or not (report.added or report.changed or report.unchanged)):
        raise typer.Exit(EXIT_NOT_CLEAN)


def index_docs(
    context: typer.Context,
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders or URLs of documents.", metavar="PATH|URL")
    ],
    collection: Annotated[str, typer.Option(help="The collection that they belong to.")],
    store: StoreOption = None,
    description: Annotated[
        str | None, typer.Option(help="What the collection is about; presets have their own.")
    ] = None,
    example: Annotated[
        list[str] | None, typer.Option(help="A question that it answers; may be repeated.")
    ] = None,
    sensitivity: Annotated[
        str | None, typer.Option(help=f"The highest in it: {', '.join(SENSITIVITIES)}.")
    ] = None,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Ask this one where no collection fits.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove its documents that no source names.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when anything was refused.")
    ] = False,
    json: Json = False,
) -> None:
    """Read documents into a collection; what has not changed is left alone."""
    started = time.perf_counter()
    said = {
        "description": description,
        "examples": example,
        "sensitivity": sensitivity,
        "fallback": fallback or None,
    }
    with index_progress() as listener, writing_crib(context, store, create=True) as crib:
        known = {each.name: each for each in crib.knowledge.catalogue.collections}
        found = _described(known.get(collection) or preset(collection), said)
        if known.get(collection) != found:
            crib.add_collections(found)
        report = crib.index_docs(*sources, collection=collection, prune=prune, progress=listener)
    _finish(report, time.perf_counter() - started, strict=strict, json=json)


def collections(context: typer.Context, store: StoreOption = None, json: Json = False) -> None:
    """List the collections, what they are about, and how many passages they hold."""
    with open_crib(context, store, ranks=False) as crib:
        known = crib.knowledge
        counted = [(each, known.count(each.name)) for each in known.catalogue.collections]
    if json:
        print_json([each.model_dump(mode="json") | {"passages": n} for each, n in counted])
        return
    table = table_of(("collection",), ("passages",))
    table.add_column("sensitivity")
    table.add_column("what it is about", no_wrap=True)
    taken = 30 + max((len(each.name) for each, _ in counted), default=0)
    for each, count in counted:
        about = in_short(each.description, taken)
        table.add_row(each.name, f"{count:,}", each.sensitivity, about)
    out.print(table)


def _described(collection: Collection, said: Mapping[str, object]) -> Collection:
    """The collection with what was said of it; raises BadParameter where that cannot be."""
    given = {name: value for name, value in said.items() if value is not None}
    if given.get("sensitivity", SENSITIVITIES[0]) not in SENSITIVITIES:
        raise typer.BadParameter(
            f"known are {', '.join(SENSITIVITIES)}", param_hint="--sensitivity"
        )
    return Collection.model_validate(collection.model_dump() | given)


def list_tools(
    context: typer.Context,
    store: StoreOption = None,
    server: Servers = None,
    tag: Tags = None,
    json: Json = False,
) -> None:
    """List the tools of the index, by id."""
    with open_crib(context, store, ranks=False) as crib:
        found = crib.list_tools(where=narrowing(server, tag))
        tools = sorted(found, key=lambda tool: tool.id)
    if json:
        print_json({"tools": export(tools, "json")})
    else:
        print_tools(tools)


def show(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="The tool's id: server/name.")],
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Show everything that is known of one tool."""
    with open_crib(context, store, ranks=False) as crib:
        spec = crib.get_tool(tool)
    if json:
        print_json(spec.model_dump(mode="json"))
    else:
        print_spec(spec)


def remove(
    context: typer.Context,
    tools: Annotated[list[str], typer.Argument(help="Ids of tools: server/name.")],
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Remove tools from the index; none when one of the ids is unknown."""
    with writing_crib(context, store) as crib:
        crib.remove_tools(*tools)
    print_either({"removed": len(tools)}, f"{len(tools)} removed", json=json)
