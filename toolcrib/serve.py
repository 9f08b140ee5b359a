"""Serving: `toolcrib serve` and `toolcrib gateway`, which start the two applications."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from toolcrib import build
from toolcrib.cli.options import GATEWAY_STORE, Json, NoAudit, Servers, StoreOption, Tags
from toolcrib.cli.output import out, print_json
from toolcrib.cli.progress import index_progress
from toolcrib.errors import SettingsError, ToolcribError
from toolcrib.extras import import_extra
from toolcrib.problems import exit_code
from toolcrib.records import Sensitivity
from toolcrib.settings import Settings, load_settings

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolcrib.tenants import Tenants

__all__ = ["gateway", "serve"]


def serve(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default: service.host.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Default: service.port; 0: any that is free."),
    ] = None,
    store: StoreOption = None,
    insecure_local: Annotated[
        bool, typer.Option("--insecure-local", help="No keys; on a loopback address only.")
    ] = False,
    json: Json = False,
) -> None:
    """Answer over HTTP, until a signal ends it."""
    for module in ("starlette", "uvicorn"):
        import_extra(module, "toolcrib serve", "service")
    from toolcrib.http import server

    settings = load_settings(context.obj)
    location = store or settings.store
    address = host or settings.service.host
    if insecure_local:
        server.require_loopback(address)
    else:
        _require_key(location, settings)
    wanted = settings.service.port if port is None else port
    with closing(server.bind(address, wanted)) as listening, _open(location, settings) as opened:
        app = _app(opened, settings, asks_for_keys=not insecure_local)
        url = server.url_of(listening)
        server.serve(app, listening, lambda: _say(url, location, json=json))


def _open(location: str, settings: Settings) -> Tenants:
    """All namespaces of a location, ready to answer."""
    from toolcrib.tenants import Tenants

    with index_progress() as progress, ExitStack() as undo:
        opened = Tenants.open(
            location,
            settings=settings,
            progress=progress,
        )
        undo.enter_context(opened)
        # Models load, and what the settings name is fitted, before anybody waits for it.
        opened.crib().turns.prepare()
        undo.pop_all()
    return opened


def _app(namespaces: Tenants, settings: Settings, *, asks_for_keys: bool) -> Starlette:
    from toolcrib.access.keys import KeyRing
    from toolcrib.http import Anyone, make_app
    from toolcrib.telemetry import Telemetry, log_everything

    telemetry = Telemetry.of(settings.service)
    log_everything(telemetry.logs)
    callers = KeyRing(namespaces.records_db) if asks_for_keys else Anyone()
    return make_app(namespaces, settings, callers=callers, telemetry=telemetry)


def _require_key(location: str, settings: Settings) -> None:
    """See that somebody can come in.

    Raises:
        SettingsError: there is no key that holds.
    """
    from toolcrib.access.keys import KeyRing

    with closing(build.open_records_db(location, settings)) as records_db:
        now = time.time()
        if any(key.state(now) == "active" for key in KeyRing(records_db).list()):
            return
    raise SettingsError(
        f"nobody has a key to {location}: make one with `toolcrib keys create NAME "
        f"--store {location}`, or serve this machine alone with --insecure-local"
    )


def _say(url: str, location: str, *, json: bool) -> None:
    """Tell where; a program that starts the service waits for this line."""
    if json:
        print_json({"url": url, "store": location, "pid": os.getpid()})
    else:
        out.print(f"serving [bold]{escape(location)}[/] at [bold]{url}[/]")
    sys.stdout.flush()


def gateway(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(help="An mcp.json with the servers to stand before.")],
    transport: Annotated[
        Literal["stdio", "http"],
        typer.Option(help="How clients come: as the program that starts this, or over HTTP."),
    ] = "stdio",
    host: Annotated[str, typer.Option(help="Where HTTP listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 8643,
    store: Annotated[
        str, typer.Option(help="Folder or Qdrant URL of the index and the approvals.")
    ] = GATEWAY_STORE,
    lock: Annotated[
        Path | None,
        typer.Option(help="File of approved tools; servers that are not in it are locked there."),
    ] = None,
    server: Servers = None,
    tag: Tags = None,
    max_sensitivity: Annotated[
        Sensitivity | None, typer.Option(help="No tool that is more sensitive than this.")
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", help="Id of a tool to show always; may be repeated."),
    ] = None,
    no_audit: NoAudit = False,
    json: Annotated[
        bool, typer.Option("--json", help="Report on standard error as JSON, a line each.")
    ] = False,
) -> None:
    """Put a search in front of MCP servers: an agent sees find_tools instead of all their tools.

    Standard output belongs to the protocol; whatever there is to say goes to standard error.
    """
    import_extra("fastmcp", "the gateway", "gateway")
    from toolcrib.gateway.gateway import GatewayOptions
    from toolcrib.gateway.serve import ServeOptions, serve_gateway, stderr_reporter

    report = stderr_reporter(as_json=json)
    try:
        settings = load_settings(context.obj)
        if no_audit:
            settings = settings.model_copy(update={"audit": False})
        serving = ServeOptions(
            config=config,
            env=os.environ,
            address=(host, port) if transport == "http" else None,
            store=store,
            lock=lock,
            servers=tuple(server or ()),
        )
        with index_progress() as progress:
            options = GatewayOptions(
                tags=frozenset(tag) if tag else None,
                max_sensitivity=max_sensitivity,
                pinned=tuple(pin or ()),
                report=report,
                progress=progress,
            )
            serve_gateway(serving, settings, options)
    except ToolcribError as error:
        report("error", str(error))
        raise typer.Exit(exit_code(error)) from None
