"""`toolcrib list`, `show` and `remove`: what is in the index."""

from __future__ import annotations

from typing import Annotated

import typer

from toolcrib.cli.opening import (
    Json,
    Servers,
    Store,
    Tags,
    narrowing,
    open_crib,
    writing_crib,
)
from toolcrib.cli.screen import out, print_json, print_spec, print_tools
from toolcrib.integrations.formats import export

__all__ = ["list_tools", "remove", "show"]


def list_tools(
    context: typer.Context,
    store: Store = None,
    server: Servers = None,
    tag: Tags = None,
    json: Json = False,
) -> None:
    """List the tools of the index, by id."""
    with open_crib(context, store) as crib:
        found = crib.list_tools(where=narrowing(server, tag))
        tools = sorted(found, key=lambda tool: tool.id)
    if json:
        print_json({"tools": export(tools, "json")})
    else:
        print_tools(tools)


def show(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="The tool's id: server/name.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Show everything that is known of one tool."""
    with open_crib(context, store) as crib:
        spec = crib.get_tool(tool)
    if json:
        print_json(spec.model_dump(mode="json"))
    else:
        print_spec(spec)


def remove(
    context: typer.Context,
    tools: Annotated[list[str], typer.Argument(help="Ids of tools: server/name.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Remove tools from the index; none when one of the ids is unknown."""
    with writing_crib(context, store) as crib:
        crib.remove_tools(*tools)
    if json:
        print_json({"removed": len(tools)})
    else:
        out.print(f"{len(tools)} removed")
