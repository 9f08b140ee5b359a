"""Serving: `toolcrib serve` and `toolcrib gateway`, which start the two applications."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from rich.markup import escape

from toolcrib import build
from toolcrib.cli.hosts import ConfigFile, add_server, list_servers, remove_server
from toolcrib.cli.opening import GATEWAY_STORE
from toolcrib.cli.options import (
    GroupWithRun,
    Json,
    NoAudit,
    Servers,
    StoreOption,
    StrictAudit,
    Tags,
    store_option,
)
from toolcrib.cli.output import err, print_either
from toolcrib.cli.progress import index_progress
from toolcrib.errors import SettingsError, ToolcribError
from toolcrib.extras import import_extra
from toolcrib.problems import exit_code
from toolcrib.records import Sensitivity
from toolcrib.settings import ProfileSettings, Settings, load_settings

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolcrib.tenants import Tenants

__all__ = ["gateway", "gateway_app", "serve"]


def serve(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default: service.host.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Default: service.port; 0: any free port."),
    ] = None,
    store: StoreOption = None,
    insecure_local: Annotated[
        bool, typer.Option("--insecure-local", help="Ask for no key; loopback addresses only.")
    ] = False,
    json: Json = False,
) -> None:
    """Serve the crib over HTTP, until a signal ends the process."""
    for module in ("starlette", "uvicorn"):
        import_extra(module, "toolcrib serve", "service")
    from toolcrib.access import addresses
    from toolcrib.http import server

    settings = load_settings(context.obj)
    location = store or settings.store
    address = host or settings.service.host
    if insecure_local:
        addresses.require_loopback(address)
    else:
        _require_key(location, settings)
    wanted = settings.service.port if port is None else port
    with closing(addresses.bind(address, wanted)) as listening:
        ready = partial(_print_url, addresses.url_of(listening), location, json=json)
        with _open(location, settings) as opened:
            app = _app(opened, settings, asks_for_keys=not insecure_local)
            server.serve(app, listening, ready)


def _open(location: str, settings: Settings) -> Tenants:
    """All namespaces of a location, ready to answer."""
    from toolcrib.tenants import Tenants

    with index_progress("opening the index") as progress, ExitStack() as undo:
        opened = undo.enter_context(Tenants.open(location, settings=settings, progress=progress))
        # Models load, and the settings' labels are fitted, before the first request waits.
        opened.crib().turns.warm_up()
        undo.pop_all()
    return opened


def _app(namespaces: Tenants, settings: Settings, *, asks_for_keys: bool) -> Starlette:
    from toolcrib.access.keys import KeyRing
    from toolcrib.access.tokens import callers_of
    from toolcrib.http import Anyone, make_app
    from toolcrib.telemetry import Telemetry, log_everything

    telemetry = Telemetry.of(settings.service)
    log_everything(telemetry.logs)
    ring = KeyRing(namespaces.records_db)
    callers = callers_of(ring, settings.tokens) if asks_for_keys else Anyone()
    return make_app(namespaces, settings, callers=callers, telemetry=telemetry)


def _require_key(location: str, settings: Settings) -> None:
    """Require an active key, or an issuer of tokens."""
    from toolcrib.access.keys import KeyRing

    if settings.tokens is not None:
        return
    with closing(build.open_records_db(location, settings)) as records_db:
        now = time.time()
        if any(key.state(now) == "active" for key in KeyRing(records_db).list()):
            return
    raise SettingsError(
        f"{location} has no active key: make one with `toolcrib keys create NAME "
        f"--store {location}`, or serve this machine alone with --insecure-local"
    )


def _print_url(url: str, location: str, *, json: bool) -> None:
    """Print the URL; a program that starts the service waits for this line."""
    shown = f"serving [bold]{escape(location)}[/] at [bold]{url}[/]"
    print_either({"url": url, "store": location, "pid": os.getpid()}, shown, json=json)
    sys.stdout.flush()


GatewayStore: TypeAlias = Annotated[
    str, store_option("Folder or Qdrant URL of the index, the approvals and logins.")
]


Profile: TypeAlias = Annotated[
    str | None, typer.Option(help="Name of one of gateway.profiles in the settings.")
]


def gateway(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(help="An mcp.json with the servers behind it.")],
    transport: Annotated[
        Literal["stdio", "http"],
        typer.Option(help="stdio: the client starts this command; http: clients connect to it."),
    ] = "stdio",
    host: Annotated[str, typer.Option(help="Address that HTTP listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free port.")] = 8643,
    store: GatewayStore = GATEWAY_STORE,
    lock: Annotated[
        Path | None,
        typer.Option(help="Lock file of approved tools; tools of new servers are added to it."),
    ] = None,
    server: Servers = None,
    tag: Tags = None,
    max_sensitivity: Annotated[
        Sensitivity | None, typer.Option(help="Leave out tools that are more sensitive.")
    ] = None,
    pin: Annotated[
        list[str] | None, typer.Option(help="Id of a tool that is always shown; may be repeated.")
    ] = None,
    profile: Profile = None,
    no_audit: NoAudit = False,
    strict: StrictAudit = False,
    json: Annotated[
        bool, typer.Option("--json", help="Report on standard error as JSON, a line each.")
    ] = False,
) -> None:
    """Put a search in front of MCP servers: an agent sees find_tools instead of all their tools.

    Standard output carries the protocol; messages go to standard error.
    """
    import_extra("fastmcp", "the gateway", "gateway")
    from toolcrib.gateway.config import McpFile, profile_filter
    from toolcrib.gateway.gateway import GatewayOptions
    from toolcrib.gateway.serve import ServeOptions, serve_gateway, stderr_reporter

    report = stderr_reporter(as_json=json)
    try:
        settings = load_settings(context.obj)
        own = settings.gateway
        part = ProfileSettings() if profile is None else own.profile(profile)
        changed = {"gateway": own.with_profile(part), "audit": settings.audit and not no_audit}
        settings = settings.model_copy(update=changed)
        serving = ServeOptions(
            McpFile(config, os.environ, tuple(server or part.servers), profile_filter(part)),
            store=store,
            address=(host, port) if transport == "http" else None,
            lock=lock,
            strict=strict,
        )
        options = GatewayOptions(
            tags=frozenset(tag or part.tags) or None,
            max_sensitivity=max_sensitivity or part.max_sensitivity,
            pinned=tuple(pin or ()),
            report=report,
            # A display of its own for each indexing, as the gateway runs on after it.
            progress=partial(index_progress, "opening the index"),
        )
        serve_gateway(serving, settings, options)
    except ToolcribError as error:
        report("error", str(error))
        raise typer.Exit(exit_code(error)) from None


def login(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    config: ConfigFile = Path("mcp.json"),
    store: GatewayStore = GATEWAY_STORE,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the link, and open no browser.")
    ] = False,
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, help="Port of the login's callback; 0: any free port."),
    ] = 0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that the login may take.")] = 300,
    json: Json = False,
) -> None:
    """Log in at a server that asks for authorisation (OAuth); a running gateway then uses it."""
    import_extra("fastmcp", "the gateway", "gateway")
    from toolcrib.access.logins import LoginOptions
    from toolcrib.gateway.config import McpFile
    from toolcrib.gateway.serve import ServeOptions, log_in
    from toolcrib.indexers.readers.mcp_session import quiet_sdk

    serving = ServeOptions(McpFile(config, os.environ), store)

    def show(link: str) -> None:
        err.print("Log in with a browser on this machine:", highlight=False)
        typer.echo(link, err=True)

    how = LoginOptions(show, opens=not no_browser, port=port, timeout_s=timeout)
    settings = load_settings(context.obj)
    with quiet_sdk():
        target, logins = serving.login_target(name), serving.logins(settings)
        is_kept = asyncio.run(log_in(target, logins, how))
    text = "is logged in" if is_kept else "asks for no login"
    print_either({"server": name, "logged_in": is_kept}, f"{escape(name)} {text}", json=json)


def logout(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    config: ConfigFile = Path("mcp.json"),
    store: GatewayStore = GATEWAY_STORE,
    json: Json = False,
) -> None:
    """Forget the login at a server; a running gateway uses it until its tokens end."""
    import_extra("fastmcp", "the gateway", "gateway")
    from toolcrib.gateway.config import McpFile
    from toolcrib.gateway.serve import ServeOptions

    serving = ServeOptions(McpFile(config, os.environ), store)
    logins, target = serving.logins(load_settings(context.obj)), serving.login_target(name)
    was_kept = logins.delete(target.url)
    text = "is logged out" if was_kept else "was not logged in"
    print_either({"server": name, "logged_out": was_kept}, f"{escape(name)} {text}", json=json)


gateway_app = typer.Typer(
    cls=GroupWithRun,
    no_args_is_help=True,
    help="Put a search in front of MCP servers, and edit their list: `gateway mcp.json` runs it.",
)
gateway_app.command("run")(gateway)
gateway_app.command("add")(add_server)
gateway_app.command("remove")(remove_server)
gateway_app.command("list")(list_servers)
gateway_app.command("login")(login)
gateway_app.command("logout")(logout)
