"""`toolcrib index-docs` and `toolcrib collections`: documents in, and what they are kept in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.table import Table

from toolcrib.records import SENSITIVITIES, Collection
from toolcrib.records.codec import as_json
from toolcrib.router.catalogue import preset
from toolcrib.service.cli.opening import Json, Store, open_crib, writing_crib
from toolcrib.service.cli.screen import (
    in_short,
    index_progress,
    out,
    print_json,
    print_report,
)
from toolcrib.service.problems import EXIT_NOT_CLEAN

__all__ = ["collections", "index_docs"]


def index_docs(
    context: typer.Context,
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders or URLs of documents.", metavar="PATH|URL")
    ],
    collection: Annotated[str, typer.Option(help="The collection that they belong to.")],
    store: Store = None,
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
        known = {each.name: each for each in crib.library.catalogue.collections}
        found = _described(known.get(collection) or preset(collection), said)
        if known.get(collection) != found:
            crib.add_collections(found)
        report = crib.index_docs(*sources, collection=collection, prune=prune, progress=listener)
    if json:
        print_json(as_json(report))
    else:
        print_report(report, time.perf_counter() - started)
    read = report.added or report.changed or report.unchanged
    if report.refused and (strict or not read):
        raise typer.Exit(EXIT_NOT_CLEAN)


def collections(context: typer.Context, store: Store = None, json: Json = False) -> None:
    """List the collections, what they are about, and how many passages they hold."""
    with open_crib(context, store) as crib:
        library = crib.library
        counted = [(each, library.count(each.name)) for each in library.catalogue.collections]
    if json:
        print_json([each.model_dump(mode="json") | {"passages": n} for each, n in counted])
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("collection", style="bold")
    table.add_column("passages", justify="right")
    table.add_column("sensitivity")
    table.add_column("what it is about", no_wrap=True)
    taken = 30 + max((len(each.name) for each, _ in counted), default=0)
    for each, count in counted:
        about = in_short(each.description, out.width - taken)
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
