"""What a person sees of a log of decisions: a table a question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.markup import escape
from rich.table import Table

from toolcrib.cli.screen import out
from toolcrib.evaluation.decisions import DecisionSummary, Latency

__all__ = ["print_decisions"]

VERDICTS = ("accept", "fallback", "abstain")


def print_decisions(summary: DecisionSummary) -> None:
    """All of a summary that has any decisions."""
    since, until = (
        f"{datetime.fromisoformat(t):%Y-%m-%d %H:%M}" for t in (summary.since, summary.until)
    )
    counted = f"{summary.decisions:,} decision{'s' * (summary.decisions != 1)}"
    out.print(f"[bold]{counted}[/] [dim]{since} to {until} UTC[/]")
    _show(("route", "turns", "share", "p50 ms", "p95", "p99"), _routes(summary))
    _show(("verdicts", *VERDICTS), _verdicts(summary))
    _show(("from feedback", "share", "of"), _rates(summary))
    _show(("confidence of", "ECE", "of"), _reliability(summary))
    _show(("without", "decisions", "share"), _degraded(summary))
    if not summary.feedback:
        out.print("[dim]nothing was said of any of them, so nobody knows which were right[/]")
    if summary.unreadable:
        out.print(f"[yellow]unreadable records left out: {summary.unreadable:,}[/]")


def _show(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(columns[0], style="bold", overflow="fold")
    for column in columns[1:]:
        table.add_column(column, justify="right")
    for name, *cells in rows:
        table.add_row(escape(name), *cells)
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


def _verdicts(summary: DecisionSummary) -> Iterable[Sequence[str]]:
    for asked, counts in summary.verdicts.items():
        if counts:
            yield asked, *(f"{counts.get(verdict, 0):,}" for verdict in VERDICTS)


def _rates(summary: DecisionSummary) -> Iterable[Sequence[str]]:
    for name, rate in summary.rates.items():
        yield name.replace("_", " "), f"{rate.value:.1%}", f"{rate.of:,}"


def _reliability(summary: DecisionSummary) -> Iterable[Sequence[str]]:
    for name, one in summary.reliability.items():
        yield name, f"{one.ece:.3f}", f"{one.count:,}"


def _degraded(summary: DecisionSummary) -> Iterable[Sequence[str]]:
    for stage, count in summary.degraded.items():
        yield stage, f"{count:,}", _share(count, summary)


def _share(count: int, summary: DecisionSummary) -> str:
    return f"{count / summary.decisions:.1%}"
