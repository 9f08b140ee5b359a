"""`toolcrib route`: a turn in, one decision out."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.markup import escape

from toolcrib.crib import Crib
from toolcrib.errors import QueryError
from toolcrib.records import Turn
from toolcrib.records.codec import as_json
from toolcrib.records.validation import in_words
from toolcrib.service.cli.decisions import print_decision
from toolcrib.service.cli.lines import lines_of
from toolcrib.service.cli.opening import Json, Store, open_crib
from toolcrib.service.cli.screen import out, print_json

__all__ = ["route"]


def route(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="What the user says.")] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", min=1, help="How many tools.")] = None,
    budget_ms: Annotated[
        float | None,
        typer.Option(min=0.0, help="Milliseconds for the decision; what does not fit is left out."),
    ] = None,
    store: Store = None,
    batch: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="One turn a line: plain text, or a JSON Turn."),
    ] = None,
    json: Json = False,
) -> None:
    """Decide a turn: what kind it is, which tools and which passages it needs."""
    if (text is None) == (batch is None):
        raise typer.BadParameter("give either a turn or --batch", param_hint="TEXT")
    with open_crib(context, store) as crib:
        for line in [text] if text is not None else lines_of(str(batch)):
            _decide(crib, line, k, budget_ms, json=json, one_of_many=batch is not None)


def _decide(
    crib: Crib, line: str, k: int | None, budget_ms: float | None, *, json: bool, one_of_many: bool
) -> None:
    """One turn; a bad line of a batch is answered with its error, so that lines stay in step."""
    if one_of_many and not json:
        out.rule(escape(line[:80]), align="left", style="dim")
    try:
        turn = _read(line) if one_of_many else Turn(text=line)
    except QueryError as error:
        if json:
            print_json({"turn": line[:200], "error": str(error)})
        else:
            out.print(f"[yellow]{escape(str(error))}[/]")
        return
    decision = crib.route(turn, k=k, budget_ms=budget_ms)
    if json:
        print_json(as_json(decision))
    else:
        print_decision(decision)


def _read(line: str) -> Turn:
    """A line as a turn: a JSON object is one, anything else is its text."""
    if not line.lstrip().startswith("{"):
        return Turn(text=line)
    try:
        fields: Any = json_text.loads(line)
    except (ValueError, RecursionError):
        return Turn(text=line)
    try:
        return Turn.model_validate(fields)
    except ValidationError as error:
        raise QueryError(f"no turn: {in_words(error, 'turn')}") from error
