"""What a person sees: tables, progress, one line for an error; and JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from toolcrib.errors import ToolcribError
from toolcrib.records import FindResult, IndexProgress, IndexReport, ToolHit, ToolSpec
from toolcrib.records.codec import as_json

__all__ = ["Listener", "index_progress", "print_error", "print_json", "print_report"]

out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)

MAX_REFUSALS = 20


def print_json(value: Any) -> None:
    """One JSON value on one line of standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def print_error(error: ToolcribError, *, as_json: bool) -> None:
    """One line on standard error; with `--json` an object on standard output."""
    if as_json:
        print_json({"error": {"type": type(error).__name__, "message": str(error)}})
    else:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)


class Listener:
    """Shows an index run as a bar; silent where nobody looks."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("reading the sources", total=None)

    def __call__(self, progress: IndexProgress) -> None:
        """Show how far it is."""
        text = "indexing" if progress.stage == "write" else "building the graph"
        total = None if progress.stage == "optimise" else progress.total
        self._bar.update(self._task, completed=progress.done, total=total, description=text)


def _bar() -> Progress:
    """A progress bar on standard error; silent where nobody looks."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


@contextmanager
def index_progress() -> Generator[Listener]:
    """A progress bar of an index run, for the time of the block."""
    with _bar() as bar:
        yield Listener(bar)


@contextmanager
def counting(what: str) -> Generator[Callable[[str, int, int], None]]:
    """A progress bar for the block, which is told what is done, how much of it and of how much."""
    with _bar() as bar:
        task = bar.add_task(what, total=None)
        yield lambda text, done, total: bar.update(
            task,
            description=text,
            completed=done,
            total=total,
        )


def print_report(report: IndexReport, took_s: float) -> None:
    """What an index run did, and what it refused."""
    counts = as_json(report)
    parts = [f"{counts[key]} {key}" for key in ("added", "changed", "removed", "unchanged")]
    out.print(f"[bold]{', '.join(parts)}[/] [dim]in {took_s:.1f} s[/]")
    if not report.refused:
        return
    out.print(f"[yellow]{len(report.refused)} refused:[/]")
    for refusal in report.refused[:MAX_REFUSALS]:
        place = f"{refusal.source}: {refusal.place}" if refusal.place else refusal.source
        out.print(f"  [yellow]{escape(place)}[/]: {escape(refusal.reason)}", soft_wrap=True)
    if len(report.refused) > MAX_REFUSALS:
        out.print(f"  ... and {len(report.refused) - MAX_REFUSALS} more; --json lists all")


def print_result(result: FindResult, *, explain: bool) -> None:
    """One query's ranked tools as a table."""
    if "no-words" in result.degraded:
        out.print("[yellow]no words to search by[/]")
        return
    if result.verdict != "accept":
        word = "nothing may fit" if result.tools else "nothing fits"
        word = "here is the general tool instead" if result.fallback else word
        out.print(f"[yellow]{word}:[/] {escape(result.reason)}")
    if result.tools:
        out.print(_explained(result.tools) if explain else _ranking(result.tools))
    notes = [f"[yellow]without: {', '.join(result.degraded)}[/]"] if result.degraded else []
    if result.unmatched_terms:
        notes.append(f"in no tool: {escape(', '.join(result.unmatched_terms))}")
    if result.confidence is not None:
        notes.append(f"confidence {result.confidence:.2f}")
    shown = result.took_ms if explain else {"total": result.took_ms["total"]}
    notes.append(", ".join(f"{stage} {ms:.1f} ms" for stage, ms in shown.items()))
    out.print(f"[dim]{' · '.join(notes)}[/]")


def _ranked_table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("#", justify="right")
    table.add_column("score", justify="right")
    table.add_column("tool", style="bold", overflow="fold")
    return table


def _ranking(hits: tuple[ToolHit, ...]) -> Table:
    table = _ranked_table()
    table.add_column("what it does", no_wrap=True)
    taken = 12 + max(len(hit.id) for hit in hits)
    for hit in hits:
        about = in_short(hit.tool.description, out.width - taken)
        table.add_row(str(hit.rank), f"{hit.score:.3f}", escape(hit.id), about)
    return table


def _explained(hits: tuple[ToolHit, ...]) -> Table:
    """Show what each leg and the reranker contributed; blank where a tool has nothing there."""
    table = _ranked_table()
    legs = list(dict.fromkeys(leg for hit in hits for leg in hit.legs))
    for leg in legs:
        table.add_column(leg.replace("_", "-"), justify="right")
    for hit in hits:
        cells = [f"{hit.legs[leg]:.2f}" if leg in hit.legs else "" for leg in legs]
        table.add_row(str(hit.rank), f"{hit.score:.3f}", escape(hit.id), *cells)
    return table


def in_short(said: str, width: int) -> str:
    """The first line of a description, cut to what is left of the screen."""
    text = Text(said.strip().partition("\n")[0])
    text.truncate(max(width, 20), overflow="ellipsis")
    return escape(text.plain)


def print_tools(tools: list[ToolSpec]) -> None:
    """A listing, grouped by nothing, sorted by id."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("tool", style="bold", overflow="fold")
    table.add_column("what it does", no_wrap=True)
    taken = 2 + max((len(tool.id) for tool in tools), default=0)
    for tool in tools:
        about = in_short(tool.description, out.width - taken - (0 if tool.enabled else 11))
        mark = "" if tool.enabled else "[yellow]disabled[/]  "
        table.add_row(escape(tool.id), mark + about)
    out.print(table)
    out.print(f"[dim]{len(tools)} tools[/]")


def print_spec(tool: ToolSpec) -> None:
    """Everything that is known of one tool."""
    out.print(f"[bold]{escape(tool.id)}[/]{'' if tool.enabled else ' [yellow](disabled)[/]'}")
    if tool.description:
        out.print(escape(tool.description), soft_wrap=True)
    shown = tool.model_dump(mode="json", exclude_defaults=True)
    for key in ("id", "name", "description", "enabled"):
        shown.pop(key, None)
    for key, value in shown.items():
        out.print(f"[dim]{key}[/]")
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        out.print(escape(text), soft_wrap=True)


def print_health(facts: dict[str, dict[str, Any]], problems: list[dict[str, str]]) -> None:
    """What `doctor` found."""
    for section, entries in facts.items():
        out.print(f"[bold]{section}[/]")
        for key, value in entries.items():
            out.print(f"  [dim]{key}[/] {escape(str(value))}", soft_wrap=True)
    if not problems:
        out.print("[green]nothing is wrong[/]")
    for problem in problems:
        out.print(f"[red]wrong:[/] {escape(problem['what'])}", soft_wrap=True)
        out.print(f"  [dim]mend it with[/] {escape(problem['mend'])}", soft_wrap=True)
