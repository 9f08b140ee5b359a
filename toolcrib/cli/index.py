"""`toolcrib index`, `index-docs`, `collections`, `list`, `show`, `check-tools`, `remove`."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from toolcrib import build
from toolcrib.access.quarantine import Quarantine
from toolcrib.cli.opening import AnyCrib, any_crib, service_of, use_logins
from toolcrib.cli.options import (
    SOURCES_HELP,
    EnrichmentFiles,
    Json,
    NoAudit,
    Overlays,
    Servers,
    SourceFormat,
    SourceServer,
    StoreOption,
    Strict,
    Tags,
    Url,
    companion_files,
    complete_collections,
    complete_tools,
    lines_of,
    read_tools,
    tool_filter,
)
from toolcrib.cli.output import (
    in_short,
    notes,
    out,
    print_either,
    print_json,
    print_report,
    print_rows,
    print_spec,
    print_tools,
)
from toolcrib.cli.progress import index_progress
from toolcrib.indexers.sync import ReadSources, Screen
from toolcrib.integrations.formats import export
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.records import SENSITIVITIES, Collection, IndexReport, Scope, Sensitivity, ToolSpec
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.router.collections import preset
from toolcrib.settings import Settings, load_settings
from toolcrib.tenants import count_shared
from toolcrib.text import count_of

if TYPE_CHECKING:
    from toolcrib.indexers.enrichment import Enrichments


def index(
    context: typer.Context,
    sources: Annotated[list[str] | None, typer.Argument(help=SOURCES_HELP)] = None,
    store: StoreOption = None,
    url: Url = None,
    server: SourceServer = None,
    format: SourceFormat = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove tools that no source has.")
    ] = False,
    strict: Strict = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="First rebuild an index that other models made.")
    ] = False,
    no_audit: NoAudit = False,
    overlay: Overlays = None,
    enrichment: EnrichmentFiles = None,
    json: Json = False,
) -> None:
    """Index tools from any mix of sources; unchanged tools are skipped."""
    from toolcrib.indexers.enrichment import ENRICHMENT_NAME
    from toolcrib.indexers.overlay import OVERLAY_NAME

    if not sources and (prune or not rebuild):
        raise typer.BadParameter("name at least one source", param_hint="SOURCES")
    started, rebuilt = time.perf_counter(), ""
    settings = load_settings(context.obj)
    use_logins(settings)
    with index_progress("reading and auditing the sources", is_rebuilt=rebuild) as listener:
        # Before the store is opened: unreadable sources must not make an empty index.
        read = ReadSources(read_tools(sources or (), server, format))
        if read.only_refusals is not None:
            report = IndexReport(refused=read.only_refusals)
        else:
            how: dict[str, Any] = {"create": not rebuild, "rebuild": rebuild, "progress": listener}
            with (
                any_crib(context, store, url, writes=True, **how) as crib,
                _open_screen(settings, store, url, off=no_audit) as screen,
            ):
                if rebuild:
                    tools, passages = count_shared(store or settings.store, settings)
                    tools += crib.info()[0].points
                    passages += sum(count for _, count in crib.list_collections())
                    rebuilt = f"{count_of(tools, 'tool')} and {count_of(passages, 'passage')}"
                more: dict[str, Any] = {"prune": prune, "screen": screen, "progress": listener}
                more["overlays"] = overlay or companion_files(sources or (), OVERLAY_NAME)
                files = enrichment or companion_files(sources or (), ENRICHMENT_NAME)
                more["enrichments"] = [*_stored_enrichments(settings, read), *files]
                report = crib.index_tools(read, server=server, **more)
    if rebuilt and not (json or notes.quiet):
        out.print(f"[bold]{rebuilt} encoded anew[/]")
    if sources or json:
        _finish(report, time.perf_counter() - started, strict=strict, json=json)


def _stored_enrichments(settings: Settings, read: ReadSources) -> list[Enrichments]:
    """Enrichments of these tools that the records database keeps."""
    from toolcrib.indexers.enricher import EnrichmentTable

    if settings.enrichments == "file":
        return []
    ids = {item.id for _, item in read.entries if isinstance(item, ToolSpec)}
    with closing(build.open_records_db(settings.store, settings)) as records_db:
        found = EnrichmentTable(records_db, DEFAULT_NAMESPACE).read(ids)
    return [found] if found.lines else []


@contextmanager
def _open_screen(
    settings: Settings, store: str | None, url: str | None, *, off: bool
) -> Generator[Screen | None]:
    """Screening of dangerous tools; None if it is off, or a service does it."""
    if off or not settings.audit or service_of(settings, store, url) is not None:
        yield None
        return
    with closing(build.open_records_db(store or settings.store, settings)) as records_db:
        yield Quarantine(records_db, DEFAULT_NAMESPACE).screen_entries


def _finish(report: IndexReport, took_s: float, *, strict: bool, json: bool) -> None:
    """Print the report; fail if nothing could be read, or with `strict` if anything was refused."""
    print_either(report, partial(print_report, report, took_s), json=json)
    if report.refused and (strict or not (report.added or report.changed or report.unchanged)):
        raise typer.Exit(EXIT_NOT_CLEAN)


def index_docs(
    context: typer.Context,
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders or URLs of documents.", metavar="PATH|URL")
    ],
    collection: Annotated[
        str,
        typer.Option(autocompletion=complete_collections, help="The collection of the documents."),
    ],
    store: StoreOption = None,
    url: Url = None,
    description: Annotated[
        str | None, typer.Option(help="Description of the collection; presets have their own.")
    ] = None,
    example: Annotated[
        list[str] | None, typer.Option(help="Question that the collection answers; repeatable.")
    ] = None,
    sensitivity: Annotated[
        Sensitivity | None, typer.Option(help=f"Highest of it: {', '.join(SENSITIVITIES)}.")
    ] = None,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Search this collection if no other fits.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents of it that no source has.")
    ] = False,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Index documents into a collection; unchanged documents are skipped."""
    started = time.perf_counter()
    given = {
        "description": description,
        "examples": example,
        "sensitivity": sensitivity,
        "fallback": fallback or None,
    }
    said = {name: value for name, value in given.items() if value is not None}
    wanted = _with_description(preset(collection), said)
    with index_progress(thing="passage") as listener:
        # Before the store is opened: unreadable documents must not make an empty collection.
        settings = load_settings(context.obj)
        read = _read_documents(settings, sources, collection)
        if read.only_refusals is not None:
            report = IndexReport(refused=read.only_refusals)
        else:
            with any_crib(context, store, url, writes=True, create=True) as crib:
                _describe(crib, wanted, said)
                report = crib.index_docs(
                    read, collection=collection, prune=prune, progress=listener
                )
    _finish(report, time.perf_counter() - started, strict=strict, json=json)


def _read_documents(settings: Settings, sources: list[str], collection: str) -> ReadSources:
    from toolcrib.documents.sources import passages

    limits, tokens = settings.documents.limits, settings.documents.max_tokens
    found = passages(*sources, collection=collection, max_tokens=tokens, limits=limits)
    return ReadSources(list(found))


def collections(
    context: typer.Context, store: StoreOption = None, url: Url = None, json: Json = False
) -> None:
    """List the collections with their descriptions and numbers of passages."""
    with any_crib(context, store, url, ranks=False) as crib:
        counted = crib.list_collections()
    taken = 30 + max((len(each.name) for each, _ in counted), default=0)
    rows = [
        (each.name, f"{count:,}", each.sensitivity, in_short(each.description, taken))
        for each, count in counted
    ]
    columns = ("collection",), ("passages", "sensitivity"), "what it is about"
    value = [each.model_dump(mode="json") | {"passages": count} for each, count in counted]
    print_either(value, partial(print_rows, rows, *columns), json=json)


def _describe(crib: AnyCrib, wanted: Collection, said: Mapping[str, object]) -> None:
    """Add a collection, or change the given fields of an existing collection."""
    known = {each.name: each for each, _ in crib.list_collections()}
    there = known.get(wanted.name)
    found = _with_description(there, said) if there else wanted
    if there != found:
        crib.add_collections(found)


def _with_description(collection: Collection, said: Mapping[str, object]) -> Collection:
    return Collection.model_validate({**collection.model_dump(), **said})


def list_tools(
    context: typer.Context,
    store: StoreOption = None,
    url: Url = None,
    server: Servers = None,
    tag: Tags = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Print only the first N.")] = None,
    json: Json = False,
) -> None:
    """List the tools of the index, by id."""
    with any_crib(context, store, url, ranks=False, tools_only=True) as crib:
        found = sorted(crib.list_tools(where=tool_filter(server, tag)), key=lambda tool: tool.id)
    if json:
        print_json({"tools": export(found[:limit], "json")})
    else:
        print_tools(found[:limit], len(found))


def show(
    context: typer.Context,
    tool: Annotated[
        str, typer.Argument(autocompletion=complete_tools, help="The tool's id: server/name.")
    ],
    store: StoreOption = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show all stored facts of a tool."""
    with any_crib(context, store, url, ranks=False, tools_only=True) as crib:
        spec, links = crib.get_tool(tool), crib.tool_links(tool)
    value = {**spec.model_dump(mode="json"), "links": links}
    print_either(value, partial(print_spec, spec, links), json=json)


def check_tools(
    context: typer.Context,
    tools: Annotated[
        list[str],
        typer.Argument(
            metavar="ID|FILE",
            autocompletion=complete_tools,
            help="Ids of tools: server/name; or a file with an id a line, `-` for standard input.",
        ),
    ],
    store: StoreOption = None,
    url: Url = None,
    server: Servers = None,
    tag: Tags = None,
    json: Json = False,
) -> None:
    """Check that the tools of an agent are ready to be called, with a reason if not.

    Reasons: unknown, disabled, quarantined, out_of_scope.
    """
    ids = list(dict.fromkeys(id for each in tools for id in _ids_of(each) if id))
    own = Scope(servers=frozenset(server) if server else None, tags=frozenset(tag) if tag else None)
    with any_crib(context, store, url, ranks=False, tools_only=True) as crib:
        found = crib.check_tools(*ids, scope=own)
        if any(each.reason == "unknown" for each in found):
            found = crib.check_tools(*ids, scope=own, held=_held_specs(context, store, url))
    yes_no = ("no", "yes")
    rows = [(escape(each.id), yes_no[each.ready], each.reason or "") for each in found]
    shown = partial(print_rows, rows, ("tool", "ready", "reason"))
    print_either({"tools": found}, shown, json=json)
    if not all(each.ready for each in found):
        raise typer.Exit(EXIT_NOT_CLEAN)


def _ids_of(given: str) -> Iterable[str]:
    """Yield the argument itself, or the lines of the file or input that it names."""
    if given == "-" or Path(given).is_file():
        return (line.strip() for line in lines_of(given))
    return (given,)


def _held_specs(context: typer.Context, store: str | None, url: str | None) -> list[ToolSpec]:
    """Held tools of a store; none for a service, which checks its own."""
    settings = load_settings(context.obj)
    if service_of(settings, store, url) is not None:
        return []
    with closing(build.open_records_db(store or settings.store, settings)) as records_db:
        return [each.spec for each in Quarantine(records_db, DEFAULT_NAMESPACE).list()]


def remove(
    context: typer.Context,
    tools: Annotated[
        list[str], typer.Argument(autocompletion=complete_tools, help="Ids of tools: server/name.")
    ],
    store: StoreOption = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Remove tools from the index; if an id is unknown, remove none."""
    with any_crib(context, store, url, writes=True) as crib:
        crib.remove_tools(*tools)
    print_either({"removed": len(tools)}, f"{len(tools)} removed", json=json)
