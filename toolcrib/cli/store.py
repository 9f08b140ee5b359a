"""`toolcrib store init`: the collections of a Qdrant server or cluster, made to a plan."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from toolcrib import build
from toolcrib.cli.options import Json, StoreOption
from toolcrib.cli.output import print_json, print_table, table_of
from toolcrib.errors import SettingsError, StoreError
from toolcrib.indexers.points import layout, passage_layout
from toolcrib.settings import Settings, load_settings

if TYPE_CHECKING:
    from toolcrib.store.qdrant_server import ServerStore

app = typer.Typer(no_args_is_help=True, help="Prepare a Qdrant server or cluster.")


@app.callback()
def _group() -> None:
    """Keep `init` a command of a group, alone as it is."""


class Quantization(StrEnum):
    """What vectors are searched as; scores are those of the originals in any case."""

    INT8 = "int8"
    NONE = "none"


@app.command("init")
def init(
    context: typer.Context,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Shards; default: server.shards.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Replicas; default: server.replicas.")
    ] = None,
    on_disk: Annotated[
        bool, typer.Option("--on-disk", help="Read vectors, graph and words from the disk.")
    ] = False,
    quantization: Annotated[
        Quantization | None,
        typer.Option(help="Search int8 copies of the vectors, or none; default: int8."),
    ] = None,
    tenant_shard: Annotated[
        list[str] | None,
        typer.Option(help="A namespace with a shard of its own; the others share one."),
    ] = None,
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Make the collections of an empty index, of tools and of passages, for namespaces too."""
    settings = load_settings(context.obj)
    location = store or settings.store
    if not build.is_url(location):
        raise SettingsError(f"{location} is a folder, which needs none of this: name a server")
    said = {
        "shards": shards,
        "replicas": replicas,
        "on_disk": on_disk or None,
        "quantization": quantization and quantization.value,
        "tenant_shards": tuple(sorted(tenant_shard)) if tenant_shard else None,
    }
    given = {name: value for name, value in said.items() if value is not None}
    server = settings.server.model_copy(update=given)
    found = _made(location, settings.model_copy(update={"server": server}), given)
    if json:
        print_json({"collections": found})
        return
    table = table_of(("collection",), ("shards", "replicas"))
    table.add_column("on disk")
    table.add_column("quantization")
    table.add_column("tenant shards")
    for each in found:
        table.add_row(*(str(value) for value in each.values()))
    print_table(table)


def _made(location: str, settings: Settings, given: dict[str, Any]) -> list[dict[str, Any]]:
    """The collections, made where they were missing.

    Raises:
        StoreError: one was there, and is kept in another way than is asked for.
    """
    width = build.make_dense(settings).dimensions
    made: list[dict[str, Any]] = []
    tenants = build.part_of(location, settings, build.TENANTS)
    for (place, placed), shared in (((location, settings), False), (tenants, True)):
        for was_there, stored in (
            (
                build.has_tools(place, placed),
                build.open_store(place, layout(width), placed, shared=shared),
            ),
            (
                build.has_passages(place, placed),
                build.open_passages(place, passage_layout(width), placed, shared=shared),
            ),
        ):
            with closing(cast("ServerStore", stored)) as opened:
                plan = asdict(opened.plan())
                asked = given if shared else {**given, "tenant_shards": None}
                other = {n: plan[n] for n, value in asked.items() if plan[n] != value}
                if was_there and other:
                    kept = ", ".join(f"{name} {value}" for name, value in other.items())
                    raise StoreError(
                        f"the collection {opened.name!r} is there already, with {kept}: set "
                        "server.* in toolcrib.yaml and run `toolcrib index --rebuild`, which "
                        "builds another beside it and swaps them"
                    )
                made.append({"collection": opened.name, **plan})
    return made
