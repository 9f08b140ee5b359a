"""`toolcrib allowlist`, `eval agents` and `eval routing`: targets and routes of turns, measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from toolcrib.cli.choices import Html, LabelledFile, Split, show_choices
from toolcrib.cli.options import Json, StoreOption, open_crib
from toolcrib.cli.output import notes, print_json
from toolcrib.cli.progress import counting
from toolcrib.errors import StoreWriteError
from toolcrib.settings import load_settings

if TYPE_CHECKING:
    from toolcrib.evaluation.choices import Choice, ChoiceResult
    from toolcrib.records import Turn

__all__ = ["agents", "allowlist", "routing"]


def allowlist(
    url: Annotated[
        str, typer.Argument(metavar="SQLALCHEMY_URL", help="As in postgresql://user@host/name.")
    ],
    schema: Annotated[
        str | None, typer.Option(help="Which schema; default: the database's own.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the file here.")] = None,
    json: Json = False,
) -> None:
    """Write the tables and columns of a database as the allowlist of decisions."""
    from toolcrib.router.agents.allowlist import reflect

    found = reflect(url, schema)
    made = found.as_file()
    text = yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=100)
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StoreWriteError(f"{out} cannot be written: {error.strerror}") from error
        notes.print(f"{len(found.tables)} tables in {out}; name it as agents.allowlist")
    elif json:
        print_json(made)
    else:
        typer.echo(text, nl=False)


def agents(
    context: typer.Context,
    file: LabelledFile,
    split: Split = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure which target turns are sent to, by the `labels: {agent: TARGET}` of FILE."""
    from toolcrib.build import make_agents
    from toolcrib.evaluation.choices import Choice

    router = make_agents(load_settings(context.obj))

    def choose(turn: Turn) -> Choice:
        told, failed = router.route(turn)
        return Choice(frozenset((told.target,)), {told.target: told.confidence}, failed)

    show_choices("agents", [_measured(file, "agent", split, choose)], html=html, json=json)


def routing(
    context: typer.Context,
    file: LabelledFile,
    split: Split = None,
    store: StoreOption = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure where turns go over an index, by the `labels: {route: KIND}` of FILE."""
    from toolcrib.evaluation.choices import Choice

    with open_crib(context, store) as crib:

        def choose(turn: Turn) -> Choice:
            made = crib.route(turn)
            route = made.route
            sure = {} if route.confidence is None else {route.kind: route.confidence}
            return Choice(frozenset((route.kind,)), sure, made.degraded)

        found = _measured(file, "route", split, choose)
    show_choices("routing", [found], html=html, json=json)


def _measured(
    file: Path, kind: str, split: str | None, choose: Callable[[Turn], Choice]
) -> ChoiceResult:
    from toolcrib.evaluation.choices import measure_choices, read_labelled

    turns = read_labelled(file, kind, split)
    with counting("asking", lambda: "nothing is kept; --split makes it shorter") as listener:
        return measure_choices(
            file.stem,
            turns,
            choose,
            split=split or "all",
            progress=lambda done, total: listener("asking", done, total),
        )
