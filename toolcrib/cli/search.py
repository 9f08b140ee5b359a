"""`toolcrib search` and `toolcrib route`: answer a query, decide a turn."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer
from pydantic import ValidationError
from rich.markup import escape

from toolcrib.cli.opening import any_crib
from toolcrib.cli.options import (
    Json,
    Servers,
    StoreOption,
    Tags,
    Url,
    complete_collections,
    lines_of,
    read_json,
    tool_filter,
)
from toolcrib.cli.output import (
    err,
    out,
    print_decision,
    print_either,
    print_json,
    print_result,
    printable,
)
from toolcrib.errors import QueryError
from toolcrib.records import FindResult, Turn
from toolcrib.records.codec import in_words
from toolcrib.records.definitions import FORMAT_NAMES
from toolcrib.retrieval.options import AnswerOrder, SearchKeywords

Coverage: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="With -k auto: probability that no needed tool is missing; default: tools.coverage.",
    ),
]
TokenBudget: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="In place of -k: as many tools as fit, in the form of --as."),
]
Order: TypeAlias = Annotated[
    AnswerOrder, typer.Option(help="By rank, or by id, which suits a provider's prompt cache.")
]
Least: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Leave out less probable tools, except the first; default: tools.least.",
    ),
]
Gate: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--gate/--no-gate",
        help="Apply the gate's settings, or only add the verdict to the ranking.",
    ),
]

Needs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--need", help="Description of one needed tool, searched by itself; may be repeated."
    ),
]

Form: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as",
        autocompletion=lambda: list(FORMAT_NAMES),
        help=f"Print definitions for a model: {', '.join(FORMAT_NAMES)}.",
    ),
]
Batch: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FILE|-", help="Answer one query a line of this file.")
]
History: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Earlier messages, a JSON list of role and content."),
]
Called: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Id of a tool that the run has called; repeat in the run's order."),
]


def search(
    context: typer.Context,
    query: Annotated[str | None, typer.Argument(help="What the tool must do.")] = None,
    need: Needs = None,
    k: Annotated[
        str, typer.Option("-k", "--k", help="Number of tools; auto: as many as --coverage needs.")
    ] = "5",
    token_budget: TokenBudget = None,
    coverage: Coverage = None,
    least: Least = None,
    gate: Gate = True,
    store: StoreOption = None,
    url: Url = None,
    server: Servers = None,
    tag: Tags = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the contribution of each leg, and the times.")
    ] = False,
    as_: Form = None,
    order: Order = "rank",
    history: History = None,
    called: Called = None,
    task: Annotated[
        str | None,
        typer.Option(help="First request of the run; QUERY is then the agent's latest text."),
    ] = None,
    enriched: Annotated[
        bool, typer.Option("--enriched", help="With --as: add the purpose of an enrichment.")
    ] = False,
    batch: Batch = None,
    json: Json = False,
) -> None:
    """Find the tools that fit a query, best first."""
    if (query is None and not need and task is None) == (batch is None):
        reason = "give either a query, --need or --task, or --batch"
        raise typer.BadParameter(reason, param_hint="QUERY")
    if as_ is not None and as_ not in FORMAT_NAMES:
        raise typer.BadParameter(f"known are {', '.join(FORMAT_NAMES)}", param_hint="--as")
    options: SearchKeywords = {
        "where": tool_filter(server, tag),
        "gate": gate,
        "coverage": coverage,
        "least": least,
        "explain": explain,
        "needs": need or None,
        "token_budget": token_budget,
        "form": "signature" if as_ == "signature" else "schema",
        "order": order,
        "history": None if history is None else read_json(history),
        "called": called or None,
        "task": task,
    }
    wanted = _count(k)
    show = partial(_show_found, as_=as_, enriched=enriched, explain=explain, json=json)
    with any_crib(context, store, url, tools_only=True) as crib:
        ask = partial(crib.find_tools, k=wanted, **options)
        if batch is None:
            show(ask(query))
        else:
            _answer_lines(batch, "query", ask, show, json=_is_json(as_, json=json), tools=[])


def _count(k: str) -> int | Literal["auto"]:
    if k == "auto":
        return "auto"
    if not k.isdecimal() or int(k) < 1:
        raise typer.BadParameter("a whole number from 1 on, or auto", param_hint="-k")
    return int(k)


def _is_json(format: str | None, *, json: bool) -> bool:
    """True for JSON output: definitions are JSON, except those that are source text."""
    if json or format is None:
        return json
    from toolcrib.integrations.formats import SOURCES

    return format not in SOURCES


def _show_found(
    found: FindResult, *, as_: str | None, enriched: bool, explain: bool, json: bool
) -> None:
    if as_ is None:
        print_either(found, partial(print_result, found, explain=explain), json=json)
        return
    from toolcrib.integrations.formats import FORMATS, SOURCES, Definitions

    shown = Definitions.of((hit.tool for hit in found.tools), as_, enriched=enriched)
    if json and FORMATS[as_].properties is not None:
        print_json({"tools": shown.tools, "names": shown.names, "left_out": shown.left_out})
        return
    for each in shown.left_out:
        err.print(f"{escape(each.id)} is left out: {escape(each.reason)}", style="yellow")
    if json or as_ not in SOURCES:
        print_json(shown.tools)
    else:
        declared = "\n\n".join(each["declaration"] for each in shown.tools)
        typer.echo(printable(f"{SOURCES[as_]}{declared}"))


def _answer_lines(
    batch: str,
    name: str,
    read: Callable[[str], Any],
    show: Callable[[Any], None],
    *,
    json: bool,
    **failed: Any,
) -> None:
    """Read and show each line; a bad line is answered with its error, so that answers match lines.

    The answer to a bad line has the line under `name`, and the fields of `failed`.
    """
    for line in lines_of(batch):
        if not json:
            out.rule(escape(line[:80]), align="left", style="dim")
        try:
            found = read(line)
        except QueryError as error:
            answer = {name: line, **failed, "error": str(error)}
            print_either(answer, f"[yellow]{escape(str(error))}[/]", json=json)
        else:
            show(found)


def route(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="What the user says.")] = None,
    need: Needs = None,
    k: Annotated[
        str | None,
        typer.Option(
            "-k", "--k", help="Number of tools; auto: as many as are needed; default: tools.k."
        ),
    ] = None,
    passages: Annotated[
        int | None,
        typer.Option(min=1, help="Most passages; default: knowledge.passages of each collection."),
    ] = None,
    collection: Annotated[
        list[str] | None,
        typer.Option(
            help="Take passages of this collection only; repeat for several.",
            autocompletion=complete_collections,
        ),
    ] = None,
    token_budget: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of all passages; default: knowledge.token_budget."),
    ] = None,
    budget_ms: Annotated[
        float | None,
        typer.Option(min=0.0, help="Milliseconds for the decision; later stages may be skipped."),
    ] = None,
    store: StoreOption = None,
    url: Url = None,
    batch: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="One turn a line: plain text, or a JSON Turn."),
    ] = None,
    json: Json = False,
) -> None:
    """Decide a turn: its route, its tools and its passages."""
    if (text is None and not need) == (batch is None):
        raise typer.BadParameter("give either a turn or --need, or --batch", param_hint="TEXT")
    wanted = None if k is None else _count(k)
    with any_crib(context, store, url, may_lack_index=store is None) as crib:

        def show(turn: Turn) -> None:
            decision = crib.route(
                turn,
                k=wanted,
                passages=passages,
                collections=collection or None,
                token_budget=token_budget,
                budget_ms=budget_ms,
            )
            print_either(decision, partial(print_decision, decision), json=json)

        if batch is None:
            show(Turn(text=text or "", needs=tuple(need or ())))
        else:
            _answer_lines(batch, "turn", _turn_of_line, show, json=json)


def _turn_of_line(line: str) -> Turn:
    """Turn of a line: a JSON object, or a plain text."""
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
