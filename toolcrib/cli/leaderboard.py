"""What a person sees of an evaluation: tables of systems, falls, mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from toolcrib.cli.screen import out
from toolcrib.evaluation.compare import Fall
from toolcrib.evaluation.mistakes import Mistakes
from toolcrib.evaluation.results import Evaluation, Interval, SetResult, SystemResult

__all__ = ["print_evaluation", "print_falls", "print_mistakes"]

SHOWN = ("ndcg@10", "recall@5", "completeness@10", "hit@1", "mrr")
GATES = ("auroc", "ece")

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
        f"{escape(one.split)}{unanswerable}[/]",
    )
    measures = [name for name in SHOWN if any(name in s.measures for s in one.systems.values())]
    gates = [name for name in GATES if any(name in s.gates for s in one.systems.values())]
    table = _table(measures, gates)
    for result in one.systems.values():
        table.add_row(escape(result.name), *_cells(result, measures, gates))
    out.print(table)
    for note in (*one.warnings, *one.notes):
        out.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)


def _table(measures: Sequence[str], gates: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("system", style="bold", overflow="fold")
    for name in (*measures, *gates, "saved", "ms"):
        table.add_column(name.replace("completeness", "complete"), justify="right")
    return table


def _cells(result: SystemResult, measures: Sequence[str], gates: Sequence[str]) -> list[str]:
    values = [_value(result, name) for name in measures]
    sure = [f"{result.gates[name]:.3f}" if name in result.gates else "" for name in gates]
    return [*values, *sure, f"{result.tokens_saved:.1%}", f"{result.latency_ms['p50']:.2f}"]


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
    measures = [name for name in SHOWN if any(name in figures for figures in macro.values())]
    gates = [name for name in GATES if any(name in figures for figures in macro.values())]
    table = _table(measures, gates)
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
