"""`toolcrib gateway`: one MCP server in front of many."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from toolcrib.cli.opening import Servers, Tags
from toolcrib.errors import ToolcribError
from toolcrib.extras import import_extra
from toolcrib.problems import exit_code
from toolcrib.records import Sensitivity
from toolcrib.settings import load_settings

__all__ = ["gateway"]

FOLDER = ".toolcrib-gateway"


Config = Annotated[Path, typer.Argument(help="An mcp.json with the servers to stand before.")]
Transport = Annotated[
    Literal["stdio", "http"],
    typer.Option(help="How clients come: as the program that starts this, or over HTTP."),
]
Host = Annotated[str, typer.Option(help="Where HTTP listens.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")]
Store = Annotated[str, typer.Option(help="Folder or Qdrant URL of the index and the approvals.")]
Lock = Annotated[
    Path | None,
    typer.Option(help="File of approved tools; servers that are not in it are locked there."),
]
Most = Annotated[Sensitivity | None, typer.Option(help="No tool that is more sensitive than this.")]
Pins = Annotated[
    list[str] | None, typer.Option("--pin", help="Id of a tool to show always; may be repeated.")
]
Lines = Annotated[
    bool, typer.Option("--json", help="Report on standard error as JSON, a line each.")
]


def gateway(
    context: typer.Context,
    config: Config,
    transport: Transport = "stdio",
    host: Host = "127.0.0.1",
    port: Port = 8643,
    store: Store = FOLDER,
    lock: Lock = None,
    server: Servers = None,
    tag: Tags = None,
    max_sensitivity: Most = None,
    pin: Pins = None,
    json: Lines = False,
) -> None:
    """Put a search in front of MCP servers: an agent sees find_tools instead of all their tools.

    Standard output belongs to the protocol; whatever there is to say goes to standard error.
    """
    import_extra("fastmcp", "the gateway", "gateway")
    from toolcrib.gateway.launch import Order, run
    from toolcrib.gateway.news import lines

    say = lines(as_json=json)
    try:
        settings = load_settings(context.obj)
        order = Order(
            config=config,
            env=os.environ,
            address=(host, port) if transport == "http" else None,
            store=store,
            lock=lock,
            servers=tuple(server or ()),
            tags=frozenset(tag) if tag else None,
            max_sensitivity=max_sensitivity,
            pinned=tuple(pin or ()),
        )
        run(order, settings, say)
    except ToolcribError as error:
        say("error", str(error))
        raise typer.Exit(exit_code(error)) from None
