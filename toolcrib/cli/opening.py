"""How a command gets its crib: options first, settings next."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from toolcrib import wiring
from toolcrib.crib import Crib
from toolcrib.errors import StoreError
from toolcrib.records import IndexProgress
from toolcrib.revisions import announce
from toolcrib.settings import load_settings
from toolcrib.store.filters import AnyOf, Filter, all_of
from toolcrib.store.namespaced import DEFAULT

if TYPE_CHECKING:
    from toolcrib.evaluation.dataset import DataSet

__all__ = [
    "Json",
    "Queries",
    "Seed",
    "Servers",
    "Store",
    "Tags",
    "Tools",
    "load_sets",
    "narrowing",
    "open_crib",
    "writing_crib",
]

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Store: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Folder or Qdrant URL of the index; default: .toolcrib."),
]
Tools: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Tools in any format that can be indexed; with --queries."),
]
Queries: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Labelled queries, JSONL; with --tools, or about the tools of the index."),
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Of everything that is random.")]
Servers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--server", help="Only tools of this server; may be repeated."),
]
Tags: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--tag", help="Only tools with this tag; may be repeated."),
]


def open_crib(
    context: typer.Context,
    store: str | None,
    *,
    create: bool = False,
    rebuild: bool = False,
    progress: Callable[[IndexProgress], None] | None = None,
) -> Crib:
    """The crib that a command works on.

    Raises:
        StoreError: there is no index and `create` is not set.
        ToolcribError: as `Crib.open`.
    """
    file: Path | None = context.obj
    settings = load_settings(file)
    location = store or settings.store
    if not create and not wiring.has_index(location):
        raise StoreError(
            f"there is no index in {location}; make one with "
            f"`toolcrib index SOURCE... --store {location}`",
        )
    return Crib.open(location, settings=settings, rebuild=rebuild, progress=progress)


@contextmanager
def writing_crib(
    context: typer.Context,
    store: str | None,
    *,
    create: bool = False,
    rebuild: bool = False,
    progress: Callable[[IndexProgress], None] | None = None,
) -> Generator[Crib]:
    """The same for a command that writes: services over the same server hear of it at its end.

    Raises:
        ToolcribError: as `open_crib`.
    """
    with open_crib(context, store, create=create, rebuild=rebuild, progress=progress) as crib:
        try:
            yield crib
        finally:
            settings = load_settings(context.obj)
            announce(store or settings.store, settings, [DEFAULT])


def narrowing(servers: list[str] | None, tags: list[str] | None) -> Filter | None:
    """The filter that `--server` and `--tag` stand for."""
    return all_of(
        AnyOf("server", servers) if servers else None,
        AnyOf("tags", tags) if tags else None,
    )


def load_sets(
    context: typer.Context,
    datasets: list[str] | None,
    store: str | None,
    tools: str | None,
    queries: Path | None,
) -> list[DataSet]:
    """The data sets that are named, or the one of `--tools` or the index with `--queries`.

    Raises:
        BadParameter: both are named, or neither.
        ToolcribError: one cannot be read.
    """
    from toolcrib.evaluation.loaders import load, with_tools

    if bool(datasets) == bool(queries) or (tools is not None and queries is None):
        raise typer.BadParameter("name data sets, or give --queries", param_hint="DATASET")
    if datasets:
        return [load(name) for name in datasets]
    if tools is not None:
        return [load(tools=tools, queries=queries)]
    assert queries is not None
    with open_crib(context, store) as crib:
        return [with_tools(queries.name.split(".")[0], list(crib.list_tools()), queries)]
