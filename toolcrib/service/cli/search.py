"""`toolcrib search`: a query in, ranked tools out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import typer
from rich.markup import escape

from toolcrib.errors import QueryError
from toolcrib.integrations.formats import FORMATS, export
from toolcrib.records import FindResult
from toolcrib.records.codec import as_json
from toolcrib.service.cli.lines import lines_of
from toolcrib.service.cli.opening import Json, Servers, Store, Tags, narrowing, open_crib
from toolcrib.service.cli.screen import out, print_json, print_result

__all__ = ["search"]


def search(
    context: typer.Context,
    query: Annotated[str | None, typer.Argument(help="What the tool must do.")] = None,
    k: Annotated[
        str,
        typer.Option("-k", "--k", help="How many tools; auto: as many as --coverage needs."),
    ] = "5",
    coverage: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="With -k auto: how surely all needed tools are there."),
    ] = 0.95,
    gate: Annotated[
        bool,
        typer.Option("--gate/--no-gate", help="Withhold what does not fit."),
    ] = True,
    store: Store = None,
    server: Servers = None,
    tag: Tags = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show what each leg contributed, and the time."),
    ] = False,
    as_: Annotated[
        str | None,
        typer.Option("--as", help=f"Print definitions for a model: {', '.join(FORMATS)}."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="Answer one query a line of this file."),
    ] = None,
    json: Json = False,
) -> None:
    """Find the tools that fit a query, best first."""
    if (query is None) == (batch is None):
        raise typer.BadParameter("give either a query or --batch", param_hint="QUERY")
    if as_ is not None and as_ not in FORMATS:
        raise typer.BadParameter(f"known are {', '.join(FORMATS)}", param_hint="--as")
    where, count = narrowing(server, tag), _count(k)
    with open_crib(context, store) as crib:
        ask = partial(
            crib.find_tools,
            k=count,
            where=where,
            explain=explain,
            gate=gate,
            coverage=coverage,
        )
        if query is not None:
            _print(ask(query), as_, explain=explain, json=json)
        else:
            for line in lines_of(str(batch)):
                _answer_line(ask, line, as_, explain=explain, json=json)


def _count(k: str) -> int | Literal["auto"]:
    if k == "auto":
        return "auto"
    if not k.isdecimal() or int(k) < 1:
        raise typer.BadParameter("a whole number from 1 on, or auto", param_hint="-k")
    return int(k)


def _answer_line(
    ask: Callable[[str], FindResult],
    line: str,
    as_: str | None,
    *,
    explain: bool,
    json: bool,
) -> None:
    """One line of a batch: a bad one is answered with its error, so that lines stay in step."""
    if not json and as_ is None:
        out.rule(escape(line[:80]), align="left", style="dim")
    try:
        result = ask(line)
    except QueryError as error:
        if json or as_ is not None:
            print_json({"query": line, "tools": [], "error": str(error)})
        else:
            out.print(f"[yellow]{escape(str(error))}[/]")
    else:
        _print(result, as_, explain=explain, json=json)


def _print(result: FindResult, as_: str | None, *, explain: bool, json: bool) -> None:
    if as_ is not None:
        print_json(export((hit.tool for hit in result.tools), as_))
    elif json:
        print_json(as_json(result))
    else:
        print_result(result, explain=explain)
