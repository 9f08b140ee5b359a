"""`toolcrib serve`: the HTTP service."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from toolcrib import wiring
from toolcrib.errors import SettingsError
from toolcrib.extras import import_extra
from toolcrib.service.cli.opening import Json, Store
from toolcrib.service.cli.screen import index_progress, out, print_json
from toolcrib.settings import Settings, load_settings

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolcrib.namespaces import Namespaces

__all__ = ["serve"]


def serve(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default: service.host.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Default: service.port; 0: any that is free."),
    ] = None,
    store: Store = None,
    insecure_local: Annotated[
        bool,
        typer.Option("--insecure-local", help="No keys; on a loopback address only."),
    ] = False,
    json: Json = False,
) -> None:
    """Answer over HTTP, until a signal ends it."""
    for module in ("starlette", "uvicorn"):
        import_extra(module, "toolcrib serve", "service")
    from toolcrib.service.http import server

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


def _open(location: str, settings: Settings) -> Namespaces:
    """All namespaces of a location, ready to answer."""
    from toolcrib.encoders.batching import batching
    from toolcrib.namespaces import Namespaces

    with index_progress() as progress, ExitStack() as undo:
        opened = Namespaces.open(
            location,
            settings=settings,
            wrap=lambda dense: batching(dense, settings.service.batch),
            progress=progress,
        )
        undo.enter_context(opened)
        # Models load, and what the settings name is fitted, before anybody waits for it.
        opened.crib().detect("ready")
        undo.pop_all()
    return opened


def _app(namespaces: Namespaces, settings: Settings, *, asks_for_keys: bool) -> Starlette:
    from toolcrib.service.http import Anyone, make_app
    from toolcrib.service.keys import KeyRing
    from toolcrib.service.telemetry import Telemetry, log_everything

    telemetry = Telemetry.of(settings.service)
    log_everything(telemetry.logs)
    callers = KeyRing(namespaces.ledger) if asks_for_keys else Anyone()
    return make_app(namespaces, settings, callers=callers, telemetry=telemetry)


def _require_key(location: str, settings: Settings) -> None:
    """See that somebody can come in.

    Raises:
        SettingsError: there is no key that holds.
    """
    from toolcrib.service.keys import KeyRing

    with closing(wiring.open_ledger(location, settings)) as ledger:
        now = time.time()
        if any(key.state(now) == "active" for key in KeyRing(ledger).list()):
            return
    raise SettingsError(
        f"nobody has a key to {location}: make one with `toolcrib keys create NAME "
        f"--store {location}`, or serve this machine alone with --insecure-local",
    )


def _say(url: str, location: str, *, json: bool) -> None:
    """Tell where; a program that starts the service waits for this line."""
    if json:
        print_json({"url": url, "store": location, "pid": os.getpid()})
    else:
        out.print(f"serving [bold]{escape(location)}[/] at [bold]{url}[/]", soft_wrap=True)
    sys.stdout.flush()
