"""Output of commands: tables, progress, one line for an error; and JSON for machines."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from toolcrib.errors import ToolcribError
from toolcrib.records import (
    Context,
    Decision,
    FindResult,
    IndexProgress,
    IndexReport,
    ToolHit,
    ToolSpec,
)
from toolcrib.records.codec import as_json

if TYPE_CHECKING:
    from toolcrib.evaluation.compare import Fall
    from toolcrib.evaluation.decisions import DecisionSummary, Latency
    from toolcrib.evaluation.mistakes import Mistakes
    from toolcrib.evaluation.results import Evaluation, Interval, SetResult, SystemResult

__all__ = [
    "counting",
    "err",
    "in_short",
    "index_progress",
    "out",
    "print_decision",
    "print_decisions",
    "print_either",
    "print_error",
    "print_evaluation",
    "print_falls",
    "print_health",
    "print_json",
    "print_mistakes",
    "print_report",
    "print_result",
    "print_spec",
    "print_tools",
    "table_of",
]

out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)

MAX_REFUSALS = 20
MAX_ENTITIES = 8


def print_json(value: Any) -> None:
    """One JSON value on one line of standard output."""
    sys.stdout.write(jsonlib.dumps(value, ensure_ascii=False) + "\n")


def print_either(value: Any, text: str, *, json: bool) -> None:
    """The value with `--json`, else the text."""
    if json:
        print_json(value)
    else:
        out.print(text, soft_wrap=True)


def print_error(error: ToolcribError, *, as_json: bool) -> None:
    """One line on standard error; with `--json` an object on standard output."""
    if as_json:
        print_json({"error": {"type": type(error).__name__, "message": str(error)}})
    else:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)


def table_of(names: Sequence[str] = (), figures: Sequence[str] = (), about: str = "") -> Table:
    """A table with columns of names, of figures, and one of text that is cut at its end."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, style="bold", overflow="fold")
    for name in figures:
        table.add_column(name, justify="right")
    if about:
        table.add_column(about, no_wrap=True)
    return table


def in_short(said: str, taken: int) -> str:
    """The first line of a description, cut to what `taken` columns leave of the screen."""
    text = Text(said.strip().partition("\n")[0])
    text.truncate(max(out.width - taken, 20), overflow="ellipsis")
    return escape(text.plain)


# -- progress --------------------------------------------------------------------------------


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
def index_progress() -> Generator[Callable[[IndexProgress], None]]:
    """A progress bar of an index run, for the time of the block."""
    with _bar() as bar:
        task = bar.add_task("reading the sources", total=None)

        def show(progress: IndexProgress) -> None:
            text = "indexing" if progress.stage == "write" else "building the graph"
            total = None if progress.stage == "optimise" else progress.total
            bar.update(task, completed=progress.done, total=total, description=text)

        yield show


@contextmanager
def counting(what: str) -> Generator[Callable[[str, int, int], None]]:
    """A progress bar for the block, which is told what is done, how much of it and of how much."""
    with _bar() as bar:
        task = bar.add_task(what, total=None)
        yield lambda text, done, total: bar.update(
            task, description=text, completed=done, total=total
        )


# -- tools -----------------------------------------------------------------------------------


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
        out.print(_ranking(result.tools, explain=explain))
    notes = [f"[yellow]without: {', '.join(result.degraded)}[/]"] if result.degraded else []
    if result.unmatched_terms:
        notes.append(f"in no tool: {escape(', '.join(result.unmatched_terms))}")
    if result.confidence is not None:
        notes.append(f"confidence {result.confidence:.2f}")
    shown = result.took_ms if explain else {"total": result.took_ms["total"]}
    notes.append(", ".join(f"{stage} {ms:.1f} ms" for stage, ms in shown.items()))
    out.print(f"[dim]{' · '.join(notes)}[/]")


def _ranking(hits: tuple[ToolHit, ...], *, explain: bool) -> Table:
    """The hits; with `explain` what each leg and the reranker contributed, blank where nothing."""
    table = table_of(figures=("#", "score"))
    table.add_column("tool", style="bold", overflow="fold")
    legs = list(dict.fromkeys(leg for hit in hits for leg in hit.legs)) if explain else []
    for leg in legs:
        table.add_column(leg.replace("_", "-"), justify="right")
    if not explain:
        table.add_column("what it does", no_wrap=True)
    taken = 12 + max(len(hit.id) for hit in hits)
    for hit in hits:
        cells = [f"{hit.legs[leg]:.2f}" if leg in hit.legs else "" for leg in legs]
        about = cells if explain else [in_short(hit.tool.description, taken)]
        table.add_row(str(hit.rank), f"{hit.score:.3f}", escape(hit.id), *about)
    return table


def print_tools(tools: Sequence[ToolSpec]) -> None:
    """A listing, in the order given."""
    table = table_of(("tool",), about="what it does")
    taken = 2 + max((len(tool.id) for tool in tools), default=0)
    for tool in tools:
        about = in_short(tool.description, taken + (0 if tool.enabled else 11))
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
        text = (
            value if isinstance(value, str) else jsonlib.dumps(value, indent=2, ensure_ascii=False)
        )
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
        out.print(f"  [dim]to mend it:[/] {escape(problem['mend'])}", soft_wrap=True)


# -- turns -----------------------------------------------------------------------------------


def print_decision(decision: Decision) -> None:
    """The route, what was read of the turn, the tools, and the passages."""
    route = decision.route
    corrected = f" [dim](first guess: {route.corrected_from})[/]" if route.corrected_from else ""
    out.print(f"[bold]{route.kind}[/]{corrected}  [dim]{escape(route.reason)}[/]")
    out.print(_context(decision.context), soft_wrap=True)
    if decision.tools.tools:
        out.print(_chosen(decision.tools.tools))
    if decision.knowledge.passages:
        named = ", ".join(f"{c.id} {c.confidence:.2f}" for c in decision.knowledge.collections)
        table = table_of(figures=("score",))
        table.add_column(f"passages of {named}", overflow="fold")
        for hit in decision.knowledge.passages:
            table.add_row(f"{hit.score:.2f}", escape(hit.passage.citation))
        out.print(table)
    notes = [f"[yellow]without: {', '.join(decision.degraded)}[/]"] if decision.degraded else []
    if decision.signals:
        notes.append(escape(", ".join(decision.signals)))
    notes += [f"{stage} {ms:.1f} ms" for stage, ms in decision.took_ms.items()]
    out.print(f"[dim]{' · '.join(notes)}[/]")


def _context(context: Context) -> str:
    if context.smalltalk:
        return f"[dim]small talk:[/] {context.smalltalk}"
    fields = {
        "intent": context.intent or "none that is known",
        "domain": context.domain or "none that is known",
        "urgency": context.urgency,
        "sensitivity": context.sensitivity,
    }
    parts = [f"[dim]{name}[/] {value}" for name, value in fields.items()]
    if found := [f"{e.type} {e.text!r}" for e in context.entities[:MAX_ENTITIES]]:
        parts.append(f"[dim]entities[/] {escape(', '.join(found))}")
    return "  ".join(parts)


def _chosen(hits: tuple[ToolHit, ...]) -> Table:
    table = table_of(("tool",), ("sure",), "what it does")
    taken = 8 + max(len(hit.id) for hit in hits)
    for hit in hits:
        sure = "" if hit.probability is None else f"{hit.probability:.2f}"
        table.add_row(escape(hit.id), sure, in_short(hit.tool.description, taken))
    return table


# -- a log of decisions ----------------------------------------------------------------------

VERDICTS = ("accept", "fallback", "abstain")


def print_decisions(summary: DecisionSummary) -> None:
    """All of a summary that has any decisions: a table a question."""
    since, until = (
        f"{datetime.fromisoformat(t):%Y-%m-%d %H:%M}" for t in (summary.since, summary.until)
    )
    counted = f"{summary.decisions:,} decision{'s' * (summary.decisions != 1)}"
    out.print(f"[bold]{counted}[/] [dim]{since} to {until} UTC[/]")
    _print_rows("route", ("turns", "share", "p50 ms", "p95", "p99"), _routes(summary))
    verdicts = (
        (asked, *(f"{counts.get(verdict, 0):,}" for verdict in VERDICTS))
        for asked, counts in summary.verdicts.items()
        if counts
    )
    _print_rows("verdicts", VERDICTS, verdicts)
    rates = (
        (name.replace("_", " "), f"{rate.value:.1%}", f"{rate.of:,}")
        for name, rate in summary.rates.items()
    )
    _print_rows("from feedback", ("share", "of"), rates)
    sure = ((n, f"{one.ece:.3f}", f"{one.count:,}") for n, one in summary.reliability.items())
    _print_rows("confidence of", ("ECE", "of"), sure)
    lacking = ((n, f"{count:,}", _share(count, summary)) for n, count in summary.degraded.items())
    _print_rows("without", ("decisions", "share"), lacking)
    if not summary.feedback:
        out.print("[dim]nothing was said of any of them, so nobody knows which were right[/]")
    if summary.unreadable:
        out.print(f"[yellow]unreadable records left out: {summary.unreadable:,}[/]")


def _print_rows(name: str, figures: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = table_of((name,), figures)
    for first, *cells in rows:
        table.add_row(escape(first), *cells)
    if table.row_count:
        out.print()
        out.print(table)


def _routes(summary: DecisionSummary) -> Iterable[Sequence[str]]:
    for name, one in summary.routes.items():
        yield name, f"{one.count:,}", _share(one.count, summary), *_times(one.latency)
    if summary.latency is not None and len(summary.routes) > 1:
        yield "all", f"{summary.decisions:,}", "", *_times(summary.latency)


def _times(latency: Latency) -> tuple[str, ...]:
    return f"{latency.p50:.2f}", f"{latency.p95:.2f}", f"{latency.p99:.2f}"


def _share(count: int, summary: DecisionSummary) -> str:
    return f"{count / summary.decisions:.1%}"


# -- an evaluation ---------------------------------------------------------------------------

WIDE = 110
"""From so many columns on there is room for intervals; JSON and the report always have them."""


def print_evaluation(found: Evaluation) -> None:
    """A table a set, and one of the means over all sets."""
    for one in found.sets.values():
        _print_set(one)
    if len(found.sets) > 1:
        out.print(f"\n[bold]mean over {len(found.sets)} sets[/]")
        out.print(_means(found.macro))


def _print_set(one: SetResult) -> None:
    unanswerable = f", {one.unanswerable} of them unanswerable" if one.unanswerable else ""
    out.print(
        f"\n[bold]{escape(one.name)}[/] [dim]{one.tools:,} tools, {one.queries:,} queries of "
        f"{escape(one.split)}{unanswerable}[/]"
    )
    systems = one.systems.values()
    measures, gates = _shown({m for s in systems for m in (*s.measures, *s.gates)})
    table = _systems(measures, gates)
    for result in one.systems.values():
        table.add_row(
            escape(result.name),
            *(_value(result, name) for name in measures),
            *(f"{result.gates[name]:.3f}" if name in result.gates else "" for name in gates),
            f"{result.tokens_saved:.1%}",
            f"{result.latency_ms['p50']:.2f}",
        )
    out.print(table)
    for note in (*one.warnings, *one.notes):
        out.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)


def _shown(taken: set[str]) -> tuple[list[str], list[str]]:
    """The columns of a table: measures of the ranking, and of the confidence."""
    from toolcrib.evaluation.gate_measures import GATES
    from toolcrib.evaluation.measures import MEASURES

    return (
        [one.in_command for one in MEASURES if one.in_command in taken],
        [name for name, gate in GATES.items() if gate.in_command and name in taken],
    )


def _systems(measures: Sequence[str], gates: Sequence[str]) -> Table:
    names = (*measures, *gates, "saved", "ms")
    return table_of(("system",), [name.replace("completeness", "complete") for name in names])


def _value(result: SystemResult, name: str) -> str:
    interval: Interval | None = result.measures.get(name)
    if interval is None:
        return ""
    half = (interval.high - interval.low) / 2
    spread = f" ±{100 * half:.1f}" if out.width >= WIDE else ""
    against = result.against_first.get(name)
    mark = "*" if against is not None and against.significant else " "
    return f"{100 * interval.mean:.1f}{spread}{mark}"


def _means(macro: Mapping[str, Mapping[str, float]]) -> Table:
    measures, gates = _shown({name for figures in macro.values() for name in figures})
    table = _systems(measures, gates)
    for system, figures in macro.items():
        table.add_row(
            escape(system),
            *(f"{100 * figures[name]:.1f}" if name in figures else "" for name in measures),
            *(f"{figures[name]:.3f}" if name in figures else "" for name in gates),
            f"{figures['tokens_saved']:.1%}",
            f"{figures['latency_p50_ms']:.2f}",
        )
    return table


def print_falls(falls: Sequence[Fall], gone: Sequence[str]) -> None:
    """What became worse, and what is measured no more."""
    for fall in falls:
        sure = "" if fall.p is None else f", p = {fall.p:.3f}"
        place = escape(f"{fall.data_set} / {fall.system} / {fall.measure}")
        out.print(f"[red]fell[/] {place}: {fall.before:.4f} to {fall.after:.4f}{sure}")
    for name in gone:
        out.print(f"[yellow]not measured any more:[/] {escape(name)}")
    if not falls:
        out.print("[green]nothing fell significantly[/]")


def print_mistakes(name: str, made: Mistakes) -> None:
    """The worst queries, the pairs taken for each other, the words in no tool."""
    out.print(f"\n[bold]{escape(name)}[/]")
    for mistake in made.worst:
        out.print(f"{mistake.value:.2f}  {escape(mistake.text)}", soft_wrap=True)
        out.print(f"      [green]wanted[/] {escape(', '.join(mistake.expected))}", soft_wrap=True)
        out.print(f"      [red]got[/]    {escape(', '.join(mistake.returned[:5]))}", soft_wrap=True)
    if made.confusions:
        out.print("\n[bold]taken for another[/]")
    for pair in made.confusions:
        out.print(f"{pair.count:>4}  {escape(pair.expected)} [dim]was[/] {escape(pair.returned)}")
    if made.unmatched:
        words = ", ".join(f"{word.word} ({word.count})" for word in made.unmatched)
        out.print(f"\n[bold]in no tool:[/] {escape(words)}", soft_wrap=True)
