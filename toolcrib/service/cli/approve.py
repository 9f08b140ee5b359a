"""`toolcrib approve`: what is held back, let go or rejected, also while a gateway runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from toolcrib import wiring
from toolcrib.errors import UnknownToolError
from toolcrib.records.codec import as_json
from toolcrib.service.cli.audit import print_findings
from toolcrib.service.cli.gateway import FOLDER
from toolcrib.service.cli.opening import Json
from toolcrib.service.cli.screen import out, print_json
from toolcrib.service.lock_file import LockFile
from toolcrib.service.quarantine import Held, Quarantine
from toolcrib.settings import Settings, load_settings
from toolcrib.store.namespaced import DEFAULT

__all__ = ["approve"]


def approve(
    context: typer.Context,
    tools: Annotated[
        list[str] | None, typer.Argument(help="Ids of held tools; none: show what is held.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is held.")] = False,
    show: Annotated[
        bool, typer.Option("--list", help="Show what is held; change nothing.")
    ] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Forget them instead; they are judged again.")
    ] = False,
    lock: Annotated[
        Path | None,
        typer.Option(help="File of approved tools to write to; default: gateway.lock, if there."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help=f"Folder or Qdrant URL; default: {FOLDER} if there, else the store."),
    ] = None,
    namespace: Annotated[str, typer.Option(help="Of a service.")] = DEFAULT,
    json: Json = False,
) -> None:
    """Show the tools that are held back, and approve those that you name.

    A running gateway serves them a moment later. A service serves them when they are sent again;
    approved in its console or over HTTP, at once.
    """
    settings = load_settings(context.obj)
    with closing(wiring.open_ledger(_place(store, settings), settings)) as ledger:
        quarantine = Quarantine(ledger, namespace)
        held = quarantine.list()
        if show or not (tools or everything):
            _show(held, json=json)
            return
        chosen = held if everything else _named(tools or [], held)
        if not reject:
            _write(lock, settings, chosen)
        for each in chosen:
            if reject:
                quarantine.reject(each.tool_id)
            else:
                quarantine.release(each.tool_id)
    _report(chosen, rejected=reject, json=json)


def _place(store: str | None, settings: Settings) -> str:
    if store is not None:
        return store
    return FOLDER if Path(FOLDER).is_dir() else settings.store


def _named(ids: Sequence[str], held: Sequence[Held]) -> list[Held]:
    """The held tools of these ids; none is touched where one is unknown."""
    known = {each.tool_id: each for each in held}
    for tool_id in ids:
        if tool_id not in known:
            raise UnknownToolError(tool_id, tuple(get_close_matches(tool_id, known, n=3)))
    return [known[tool_id] for tool_id in dict.fromkeys(ids)]


def _write(lock: Path | None, settings: Settings, chosen: Sequence[Held]) -> None:
    """Lock what was approved: in the file that was named, or where its server is locked already."""
    file = LockFile(lock or Path(settings.gateway.lock))
    locked = file.servers()
    specs = [each.spec for each in chosen if lock is not None or each.server in locked]
    if specs:
        file.approve(specs)


def _show(held: Sequence[Held], *, json: bool) -> None:
    if json:
        print_json({"held": [as_json(each) for each in held]})
        return
    for each in held:
        out.print(f"[bold]{escape(each.tool_id)}[/]  [dim]{escape(each.reason)}[/]")
        print_findings(list(each.findings))
    out.print(f"{len(held)} held back" if held else "nothing is held back")


def _report(chosen: Sequence[Held], *, rejected: bool, json: bool) -> None:
    done = "rejected" if rejected else "approved"
    if json:
        print_json({done: [each.tool_id for each in chosen]})
    else:
        out.print(f"{len(chosen)} {done}")
