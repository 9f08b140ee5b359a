"""`toolcrib top`: servers and calls of a gateway, live."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from toolcrib import build
from toolcrib.access.activity import ActivityReader
from toolcrib.cli.opening import gateway_store, remote_crib, service_of
from toolcrib.cli.options import Json, Url, store_option
from toolcrib.cli.output import err, out, print_json, print_table, table_of
from toolcrib.records.log import GatewayActivity, GatewayServer
from toolcrib.settings import Settings, load_settings
from toolcrib.text import count_of

REFRESH_S = 1.0
MAX_TOP_CALLS = 200

STATE_COLOURS = {"up": "green", "starting": "yellow", None: "dim"}
"""Colours of states; every other state is red."""


def top(
    context: typer.Context,
    store: Annotated[
        str | None, store_option("Store of the gateway; default: .toolcrib-gateway, if any.")
    ] = None,
    url: Url = None,
    calls: Annotated[
        int, typer.Option(min=0, max=MAX_TOP_CALLS, help="Most calls to show, the last ones.")
    ] = 20,
    once: Annotated[bool, typer.Option("--once", help="Print once, and exit.")] = False,
    json: Json = False,
) -> None:
    """Watch a gateway's servers, calls and saved tokens, updated every second.

    Reads the gateway's store, or with --url a service that shows the activity (service.gateway).
    With --json prints a line each second; without a terminal prints once.
    """
    settings = load_settings(context.obj)
    with _activity_reader(settings, store, url) as read, suppress(KeyboardInterrupt):
        if json:
            _each_second(lambda: print_json(read(calls)), once=once)
        elif once or not out.is_terminal:
            _print_once(read(calls))
        else:
            with Live(console=out, screen=True, auto_refresh=False) as live:
                rows = max(1, out.height // 2)

                def show() -> None:
                    live.update(_screen(read(min(calls, rows))), refresh=True)

                _each_second(show, once=False)


def _print_once(activity: GatewayActivity) -> None:
    for table in _tables(activity):
        print_table(table, headed=True)
    if not activity.servers and not activity.kept:
        err.print(
            "no activity: no gateway recorded any in this store, or the service does not show it "
            "to this key, which must write and see all"
        )


def _each_second(show: Callable[[], None], *, once: bool) -> None:
    show()
    while not once:
        time.sleep(REFRESH_S)
        show()


@contextmanager
def _activity_reader(
    settings: Settings, store: str | None, url: str | None
) -> Generator[Callable[[int], GatewayActivity]]:
    service = service_of(settings, store, url)
    if service is not None:
        with remote_crib(service, settings) as crib:
            yield lambda calls: crib.gateway_activity(max(calls, 1))
        return
    with closing(build.open_records_db(gateway_store(store, settings), settings)) as records_db:
        yield ActivityReader(records_db).read


def _screen(activity: GatewayActivity) -> Group:
    running = count_of(activity.gateways, "gateway") if activity.gateways else "no gateway runs"
    figures = (
        count_of(activity.kept, "call"),
        f"{activity.failures:,} failed",
        f"{activity.tokens:,} tokens of results",
        f"{activity.saved:,} tokens saved",
    )
    since = f" since {_local(activity.since)}" if activity.since else ""
    head = f"[bold]{running}[/] [dim]·[/] {', '.join(figures)}{since}"
    return Group(head, "", *_tables(activity))


def _tables(activity: GatewayActivity) -> tuple[Table, Table]:
    figures = ("tools", "held back", "calls", "failed", "tokens", "saved")
    servers = table_of(("server", "state"), figures)
    for each in activity.servers:
        counts = (each.tools, each.held, each.calls, each.failures, each.tokens, each.saved)
        servers.add_row(escape(each.name), _state(each), *(f"{count:,}" for count in counts))
    calls = table_of()
    for name in ("time", "outcome", "tool", "agent"):
        calls.add_column(name, no_wrap=True)
    for figure in ("ms", "tokens"):
        calls.add_column(figure, justify="right")
    for call in activity.calls:
        outcome = call.outcome if call.outcome == "success" else f"[red]{call.outcome}[/]"
        agent = call.agent + (f" ({call.by})" if call.by else "")
        figures = (f"{call.took_ms:,.0f}", f"{call.tokens:,}")
        calls.add_row(_local(call.at), outcome, escape(call.tool), escape(agent), *figures)
    return servers, calls


def _state(server: GatewayServer) -> str:
    colour = STATE_COLOURS.get(server.state, "red")
    reason = f" [dim]{escape(server.reason)}[/]" if server.reason else ""
    return f"[{colour}]{server.state or 'not running'}[/]{reason}"


def _local(at: str) -> str:
    """Time of day, with the day before today."""
    moment = datetime.fromisoformat(at).astimezone()
    is_today = moment.date() == datetime.now().astimezone().date()
    return moment.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M")
