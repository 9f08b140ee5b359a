"""`toolcrib keys`: make, list and revoke the API keys of a service, also while it runs."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Annotated, Any, TypeAlias

import typer
from pydantic import ValidationError
from rich.markup import escape
from rich.table import Table

from toolcrib import wiring
from toolcrib.access.keys import Grant, KeyRing
from toolcrib.cli.opening import Json, Servers, Store, Tags
from toolcrib.cli.screen import err, out, print_json
from toolcrib.errors import QueryError
from toolcrib.records import SENSITIVITIES
from toolcrib.settings import load_settings

__all__ = ["app"]

DAY_S = 86_400
MAX_DAYS = 36_500

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the API keys of a service.")


Name: TypeAlias = Annotated[str, typer.Argument(help="Whose key it is, for people.")]
Spaces: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="A namespace that it is for, '*' for all; default: default; repeatable."),
]
Collections: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Only this collection; may be repeated.")
]
Ceiling: TypeAlias = Annotated[
    str | None, typer.Option(help=f"Nothing above: {', '.join(SENSITIVITIES)}.")
]
Write: TypeAlias = Annotated[bool, typer.Option("--write", help="It may also write.")]
Days: TypeAlias = Annotated[
    float | None, typer.Option(min=0.001, max=MAX_DAYS, help="Holds for so many days.")
]
Rate: TypeAlias = Annotated[
    str | None, typer.Option(help="What it may ask: LIMIT/second, /minute or /hour.")
]


@app.command("create")
def create(
    context: typer.Context,
    name: Name,
    namespace: Spaces = None,
    server: Servers = None,
    tag: Tags = None,
    collection: Collections = None,
    max_sensitivity: Ceiling = None,
    write: Write = False,
    expires_days: Days = None,
    rate: Rate = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Make a key; its text is shown this once and kept nowhere."""
    given = {
        "namespaces": _unique(namespace),
        "servers": server,
        "tags": tag,
        "collections": collection,
        "max_sensitivity": max_sensitivity,
        "access": "write" if write else None,
        "rate": rate,
    }
    grant = _grant({field: value for field, value in given.items() if value})
    expires_at = None if expires_days is None else time.time() + expires_days * DAY_S
    with _ring(context, store) as ring:
        key, text = ring.create(name, grant, expires_at)
    if json:
        print_json({"key": key.as_dict(time.time()), "text": text})
    else:
        err.print(f"key {key.id} for {escape(key.name)}; it is shown this once:", soft_wrap=True)
        out.print(text, soft_wrap=True)


@app.command("list")
def list_keys(context: typer.Context, store: Store = None, json: Json = False) -> None:
    """List all keys, those that no longer hold too; never their texts."""
    with _ring(context, store) as ring:
        keys = [key.as_dict(time.time()) for key in ring.list()]
    if json:
        print_json({"keys": keys})
    else:
        _print_keys(keys)


@app.command("revoke")
def revoke(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The key's id, as `toolcrib keys list` shows it.")],
    store: Store = None,
    json: Json = False,
) -> None:
    """Let a key hold no longer; services that run turn it away within two seconds."""
    with _ring(context, store) as ring:
        if not ring.revoke(key):
            raise QueryError(f"no key has the id {key!r}; `toolcrib keys list` shows all")
    if json:
        print_json({"revoked": key})
    else:
        out.print(f"{escape(key)} revoked")


@contextmanager
def _ring(context: typer.Context, store: str | None) -> Generator[KeyRing]:
    """The keys of a location: its ledger alone, which a running service does not hold."""
    settings = load_settings(context.obj)
    with closing(wiring.open_ledger(store or settings.store, settings)) as ledger:
        yield KeyRing(ledger)


def _grant(given: dict[str, Any]) -> Grant:
    try:
        return Grant.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        place = str(fault["loc"][0]).replace("_", "-").removesuffix("s")
        raise QueryError(f"--{place} {fault['input']!r}: {fault['msg']}") from error


def _unique(values: list[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values or ()))


def _print_keys(keys: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("key", "name", "state", "access", "namespaces", "made", "expires", "only"):
        table.add_column(column, overflow="fold")
    for key in keys:
        grant, is_active = key["grant"], key["state"] == "active"
        table.add_row(
            key["id"],
            escape(key["name"]),
            key["state"] if is_active else f"[yellow]{key['state']}[/]",
            grant["access"],
            escape(", ".join(grant["namespaces"])),
            key["created_at"][:10],
            (key["expires_at"] or "never")[:10],
            escape(_limits(grant)),
        )
    out.print(table)
    out.print(f"[dim]{len(keys)} keys[/]")


def _limits(grant: dict[str, Any]) -> str:
    """What narrows a key, in a few words."""
    named = ("servers", "tags", "collections")
    parts = [f"{name}: {', '.join(grant[name])}" for name in named if grant[name] is not None]
    if grant["max_sensitivity"] is not None:
        parts.append(f"up to {grant['max_sensitivity']}")
    return "; ".join([*parts, *filter(None, [grant["rate"]])])
