"""Output of commands: tables, one line for an error; rows and JSON for machines."""

from __future__ import annotations

import json as jsonlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from toolcrib.errors import distinct_numbers
from toolcrib.records import (
    Context,
    Decision,
    FindResult,
    ToolHit,
    ToolLink,
    ToolLinks,
    ToolSelection,
    ToolSpec,
)
from toolcrib.records.codec import as_json
from toolcrib.text import count_of

if TYPE_CHECKING:
    from toolcrib.evaluation.choices import ChoiceResult
    from toolcrib.evaluation.decisions import DecisionSummary
    from toolcrib.evaluation.results import Evaluation, Mistakes, SetResult, SystemResult
    from toolcrib.evaluation.significance import Fall, UnpairedQueries
    from toolcrib.evaluation.steps import StepEvaluation
    from toolcrib.evaluation.tables import TextTable
    from toolcrib.evaluation.trajectories import GuidanceEvaluation
    from toolcrib.records import IndexReport, Refusal

UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that control a terminal, or reverse the direction of a text."""


def printable(text: str) -> str:
    """Text that cannot move, hide or forge other output: many texts are written by others."""
    return UNPRINTABLE.sub("\ufffd", text)


class SafeConsole(Console):
    """Console whose texts are printable; control codes of its own, such as colours, stay."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object into segments of printable text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


# No hard wraps: terminals wrap long lines, and programs read whole lines.
out = SafeConsole(highlight=False, soft_wrap=True, emoji=False)
err = SafeConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)

notes = SafeConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)
"""Console for notes beside the answer: progress, counts, times; `--quiet` silences it."""

MAX_REFUSALS = 20
MAX_ENTITIES = 8
MAX_CONFUSIONS = 8


def print_json(value: Any) -> None:
    """Print a value, with the records in it as JSON, as one line of standard output."""
    sys.stdout.write(jsonlib.dumps(value, ensure_ascii=False, default=as_json) + "\n")


def print_either(value: Any, shown: str | Callable[[], object], *, json: bool) -> None:
    """Print the value with `--json`, else the text, or what the function prints."""
    if json:
        print_json(value)
    elif isinstance(shown, str):
        out.print(shown)
    else:
        shown()


def print_error(error: Exception, *, as_json: bool) -> None:
    """Print an error as a line on standard error; with `--json` as an object on standard output."""
    if as_json:
        print_json({"error": {"type": type(error).__name__, "message": str(error)}})
    else:
        err.print(f"[bold red]error:[/] {escape(str(error))}")


def print_table(table: Table, *, headed: bool = False) -> None:
    """Print a table on a terminal; elsewhere its whole rows, with tabs between cells.

    `headed`: the names of the columns are the first row.
    """
    if out.is_terminal:
        out.print(table, soft_wrap=False)
        return
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    for row in [[column.header for column in table.columns], *rows] if headed else rows:
        sys.stdout.write("\t".join(map(_cell_text, row)) + "\n")


def _cell_text(cell: Any) -> str:
    """A cell's printable text in one line, without tabs."""
    plain = Text.from_markup(cell, emoji=False).plain.replace("\t", " ")
    return printable(" ".join(plain.splitlines()))


def table_of(names: Sequence[str] = (), figures: Sequence[str] = (), about: str = "") -> Table:
    """A table with columns of names, of figures, and a column of text that may be cut."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, style="bold", overflow="fold")
    for name in figures:
        table.add_column(name, justify="right")
    if about:
        table.add_column(about, no_wrap=True)
    return table


def print_rows(
    rows: Sequence[Sequence[str]],
    names: Sequence[str] = (),
    figures: Sequence[str] = (),
    about: str = "",
    *,
    headed: bool = False,
    limit: int | None = None,
) -> None:
    """Print a table with these columns, as `table_of`; on a terminal at most `limit` rows."""
    table = table_of(names, figures, about)
    shown = rows[:limit] if out.is_terminal else rows
    for row in shown:
        table.add_row(*row)
    print_table(table, headed=headed)
    if len(rows) > len(shown):
        out.print(f"... and {len(rows) - len(shown)} more; --json lists all")


def in_short(said: str, taken: int) -> str:
    """First line of a description; on a screen cut to the columns that `taken` leaves."""
    text = Text(said.strip().partition("\n")[0])
    if out.is_terminal:
        text.truncate(max(out.width - taken, 20), overflow="ellipsis")
    return escape(text.plain)


# -- tools -----------------------------------------------------------------------------------


def print_report(report: IndexReport, took_s: float) -> None:
    """Print the numbers of an index run, and its refusals, copies and dropped entries."""
    counts = as_json(report)
    parts = [f"{counts[key]} {key}" for key in ("added", "changed", "removed", "unchanged")]
    if not notes.quiet:
        out.print(f"[bold]{', '.join(parts)}[/] [dim]in {took_s:.1f} s[/]")
    print_refusals("refused", report.refused)
    print_refusals("read twice", report.copies)
    print_refusals("dropped", report.dropped)


def print_refusals(what: str, refusals: Sequence[Refusal]) -> None:
    """Print a number of refusals, and the first of them."""
    if refusals:
        out.print(f"[yellow]{len(refusals)} {what}:[/]")
    for each in refusals[:MAX_REFUSALS]:
        out.print(f"  [yellow]{escape(_refusal_place(each))}[/]: {escape(each.reason)}")
    if len(refusals) > MAX_REFUSALS:
        out.print(f"  ... and {len(refusals) - MAX_REFUSALS} more; --json lists all")


def print_refused(refused: Iterable[Refusal]) -> None:
    """Print unreadable items of sources on standard error."""
    for each in refused:
        err.print(
            f"[yellow]cannot be read[/] {escape(_refusal_place(each))}: {escape(each.reason)}"
        )


def _refusal_place(refusal: Refusal) -> str:
    is_whole = refusal.place in {"", refusal.source}
    return refusal.source if is_whole else f"{refusal.source}: {refusal.place}"


def print_result(result: FindResult, *, explain: bool) -> None:
    """Print the ranked tools of a query as a table."""
    if "no-words" in result.degraded:
        err.print("[yellow]no words to search by[/]")
        return
    _print_doubt(result)
    for place, need in enumerate(result.needs):
        sure = "" if need.confidence is None else f" {need.confidence:.2f}"
        fits = "[green]fits[/]" if need.verdict == "accept" else "[yellow]perhaps nothing fits[/]"
        out.print(f"[dim]{place}[/] {escape(need.text)}: {fits}{sure}")
    if result.tools:
        print_table(_ranking(result.tools, explain=explain), headed=explain)
    parts = [f"[yellow]without: {', '.join(result.degraded)}[/]"] if result.degraded else []
    parts += [f"{escape(word)} read as {escape(right)}" for word, right in result.spelling.items()]
    if result.unmatched_terms:
        parts.append(f"in no tool: {escape(', '.join(result.unmatched_terms))}")
    if result.called:
        parts.append(f"called before: {escape(', '.join(result.called))}")
    if (effect := result.filtered) is not None:
        why = ", ".join(f"{each} ({count})" for each, count in effect.lacking.items())
        told = f"{effect.matched} matched, {effect.left_out} left out"
        parts.append(escape(f"{told}: {why}" if why else told))
    if result.confidence is not None:
        parts.append(f"confidence {result.confidence:.2f}")
    shown = result.took_ms if explain else {"total": result.took_ms["total"]}
    parts.append(", ".join(f"{stage} {ms:.1f} ms" for stage, ms in shown.items()))
    notes.print(f"[dim]{' · '.join(parts)}[/]")


def _print_doubt(found: ToolSelection) -> None:
    """Print a warning that the tools may not fit, with the gate's reason."""
    if found.verdict == "accept":
        return
    doubt = "perhaps nothing fits" if found.tools else "nothing fits"
    general = next((hit.id for hit in found.tools if hit.rule == "fallback"), None)
    more = "" if general is None else f"; {general} is the general tool"
    err.print(f"[yellow]{doubt}:[/] {escape(found.reason + more)}")


def _ranking(hits: tuple[ToolHit, ...], *, explain: bool) -> Table:
    """Table of hits; with `explain`, columns with the contribution of each leg and reranker."""
    table = table_of(figures=("#", "score"))
    table.add_column("tool", style="bold", overflow="fold")
    asked = any(hit.needs is not None for hit in hits)
    if asked:
        table.add_column("needs")
    legs = list(dict.fromkeys(leg for hit in hits for leg in hit.legs)) if explain else []
    for leg in legs:
        table.add_column(leg.replace("_", "-"), justify="right")
    if not explain:
        table.add_column("what it does", no_wrap=True)
    taken = 12 + max(len(hit.id) for hit in hits)
    for hit in hits:
        cells = [f"{hit.legs[leg]:.2f}" if leg in hit.legs else "" for leg in legs]
        note = _links(hit)
        about = cells if explain else [in_short(note or hit.tool.description, taken)]
        needs = [", ".join(map(str, hit.needs or ()))] if asked else []
        told = f"{hit.id} ({note})" if explain and note else hit.id
        table.add_row(str(hit.rank), f"{hit.score:.3f}", escape(told), *needs, *about)
    return table


def _links(hit: ToolHit) -> str:
    """Tools that a tool is needed for or goes with, and its replacement; may be empty."""
    told = [f"needed for {', '.join(hit.needed_for)}"] if hit.needed_for else []
    told += [f"goes with {', '.join(hit.goes_with)}"] if hit.goes_with else []
    told += [f"deprecated, use {hit.replaced_by}"] if hit.replaced_by else []
    return "; ".join(told)


def print_tools(tools: Sequence[ToolSpec], of: int) -> None:
    """Print a list of tools in the given order; `of` is the number of all tools."""
    taken = 2 + max((len(tool.id) for tool in tools), default=0)
    rows: list[tuple[str, str]] = []
    for tool in tools:
        about = in_short(tool.description, taken + (0 if tool.enabled else 11))
        mark = "" if tool.enabled else "[yellow]disabled[/]  "
        rows.append((escape(tool.id), mark + about))
    print_rows(rows, ("tool",), about="what it does")
    shown = f"{len(tools):,} of " if len(tools) < of else ""
    notes.print(f"[dim]{shown}{count_of(of, 'tool')}[/]")


def print_spec(tool: ToolSpec, links: ToolLinks) -> None:
    """Print all stored facts of a tool."""
    out.print(f"[bold]{escape(tool.id)}[/]{'' if tool.enabled else ' [yellow](disabled)[/]'}")
    if tool.description:
        out.print(escape(tool.description))
    headed = {"id", "name", "description", "enabled"}
    shown = tool.model_dump(mode="json", exclude_defaults=True, exclude=headed)
    for key, value in shown.items():
        out.print(f"[dim]{key}[/]")
        is_text = isinstance(value, str)
        out.print(escape(value if is_text else jsonlib.dumps(value, indent=2, ensure_ascii=False)))
    replaced = [ToolLink(links.replaced_by)] if links.replaced_by else []
    told = (
        ("needs", links.needs),
        ("needed by", links.needed_by),
        ("brings along", links.goes_with),
        ("use instead", replaced),
    )
    for heading, linked in told:
        if linked:
            out.print(f"[dim]{heading}[/]")
        for link in linked:
            out.print(escape(f"{link.id} ({link.parameter})" if link.parameter else link.id))


def print_health(facts: dict[str, dict[str, Any]], problems: list[dict[str, str]]) -> None:
    """Print the facts and problems that `doctor` found."""
    for section, entries in facts.items():
        out.print(f"[bold]{section}[/]")
        for key, value in entries.items():
            out.print(f"  [dim]{key}[/] {escape(str(value))}")
    if not problems:
        out.print("[green]nothing is wrong[/]")
    for problem in problems:
        out.print(f"[red]wrong:[/] {escape(problem['what'])}")
        out.print(f"  [dim]to mend it:[/] {escape(problem['mend'])}")


# -- turns -----------------------------------------------------------------------------------


def print_decision(decision: Decision) -> None:
    """Print the route, the context, the tools and the passages of a decision."""
    route = decision.route
    corrected = f" [dim](first guess: {route.corrected_from})[/]" if route.corrected_from else ""
    out.print(f"[bold]{route.kind}[/]{corrected}  [dim]{escape(route.reason)}[/]")
    out.print(_context(decision.context))
    if (agent := decision.agent) is not None:
        named = f" [dim]tables[/] {escape(', '.join(agent.tables))}" if agent.tables else ""
        sure = f"[dim]{agent.confidence:.2f} {escape(agent.reason)}[/]"
        out.print(f"[dim]agent[/] {escape(agent.target)} {sure}{named}")
    if route.kind in ("tools", "both", "general"):
        _print_doubt(decision.tools)
    if decision.tools.tools:
        _print_selected(decision.tools.tools)
    if decision.knowledge.passages:
        named = ", ".join(f"{c.id} {c.confidence:.2f}" for c in decision.knowledge.collections)
        table = table_of(figures=("score",))
        table.add_column(f"passages of {named}", overflow="fold")
        for hit in decision.knowledge.passages:
            table.add_row(f"{hit.score:.2f}", escape(hit.citation))
        print_table(table)
    parts = [f"[yellow]without: {', '.join(decision.degraded)}[/]"] if decision.degraded else []
    if decision.signals:
        parts.append(escape(", ".join(decision.signals)))
    parts += [f"{stage} {ms:.1f} ms" for stage, ms in decision.took_ms.items()]
    notes.print(f"[dim]{' · '.join(parts)}[/]")


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


def _print_selected(hits: tuple[ToolHit, ...]) -> None:
    taken = 8 + max(len(hit.id) for hit in hits)
    rows = [
        (
            escape(hit.id),
            "" if hit.probability is None else f"{hit.probability:.2f}",
            in_short(hit.tool.description, taken),
        )
        for hit in hits
    ]
    print_rows(rows, ("tool",), ("sure",), "what it does")


# -- a log of decisions ----------------------------------------------------------------------


def print_decisions(summary: DecisionSummary) -> None:
    """Print all tables of a summary with decisions."""
    from toolcrib.evaluation.tables import decision_tables

    since, until = (
        f"{datetime.fromisoformat(t):%Y-%m-%d %H:%M}" for t in (summary.since, summary.until)
    )
    counted = count_of(summary.decisions, "decision")
    out.print(f"[bold]{counted}[/] [dim]{since} to {until} UTC[/]")
    for table in decision_tables(summary).values():
        if table.rows:
            out.print()
            _print_text_table(table)
    if not summary.feedback:
        out.print("[dim]no decision has feedback or an outcome, so accuracy is unknown[/]")
    if summary.unreadable:
        out.print(f"[yellow]unreadable records left out: {summary.unreadable:,}[/]")


def _print_text_table(given: TextTable) -> None:
    first, *others = (column.lower() for column in given.columns)
    rows = [[escape(cell) for cell in row] for row in given.rows]
    print_rows(rows, (first,), others, headed=True)


# -- an evaluation ---------------------------------------------------------------------------

MIN_INTERVAL_COLUMNS = 110
"""Columns of a terminal that intervals need; a pipe, JSON and the report always have them."""

MIN_MEASURED_QUERIES = 30
"""Queries that figures need; a bootstrap over fewer makes too narrow intervals."""


def print_evaluation(found: Evaluation) -> None:
    """Print a table for each set, and a table of means over all sets."""
    for one in found.sets.values():
        _print_set(one)
    if len(found.sets) > 1:
        out.print(f"\n[bold]mean over {len(found.sets)} sets[/]")
        _print_systems(found.macro)
        for warning in found.warnings:
            out.print(f"[yellow]{escape(warning)}[/]")


def _print_set(one: SetResult) -> None:
    from toolcrib.evaluation.runner import macro_means

    unanswerable = f", {one.unanswerable} of them unanswerable" if one.unanswerable else ""
    queries = "1 query" if one.queries == 1 else f"{one.queries:,} queries"
    out.print(
        f"\n[bold]{escape(one.name)}[/] [dim]{count_of(one.tools, 'tool')}, {queries} of "
        f"{escape(one.split)}{unanswerable}[/]"
    )
    _print_systems(macro_means({one.name: one}), one.systems)
    if told := next(iter(one.systems.values())).tokens:
        forms = (
            f"{form} {told[f'{form}_p50']:,.0f} (p95 {told[f'{form}_p95']:,.0f})"
            for form in ("schemas", "signatures")
        )
        out.print(
            f"[dim]tokens: all tools {told['menu']:,.0f}; five as {', as '.join(forms)}; "
            f"signatures pay for {told['searches']:,.0f} searches[/]"
        )
    if one.queries < MIN_MEASURED_QUERIES:
        out.print(
            f"[yellow]fewer than {MIN_MEASURED_QUERIES} queries: the figures are mostly noise, and "
            "their intervals are too narrow[/]"
        )
    for note in (*one.warnings, *one.notes):
        out.print(f"[yellow]{escape(note)}[/]")


def _print_systems(
    found: Mapping[str, Mapping[str, float]], results: Mapping[str, SystemResult] | None = None
) -> None:
    """Print figures by system; `results` of one set add spreads and significance."""
    from toolcrib.evaluation.measures import GATE_MEASURES, MEASURES, at_measured_cutoff

    taken = {name for figures in found.values() for name in figures}
    shown = (at_measured_cutoff(one.in_command, taken) for one in MEASURES if one.in_command)
    sets = sorted(name for name in taken if name.startswith(("coverage@", "set_size@")))
    measures = [*filter(None, shown), *sets]
    gates = [name for name, gate in GATE_MEASURES.items() if gate.in_command and name in taken]
    rows: list[list[str]] = []
    for system, figures in found.items():
        row = [escape(system)]
        for name in measures:
            mark = _mark(results[system], name) if results else ""
            row.append(f"{_scale(name) * figures[name]:.1f}{mark}" if name in figures else "")
        row += [f"{figures[name]:.3f}" if name in figures else "" for name in gates]
        row += [f"{figures['tokens_saved']:.1%}", f"{figures['latency_p50_ms']:.2f}"]
        rows.append(row)
    names = [name.replace("completeness", "complete") for name in (*measures, *gates)]
    print_rows(rows, ("system",), (*names, "saved", "ms"), headed=True)


def _scale(name: str) -> int:
    """Factor of a measure in a table: 100 for shares, 1 for numbers of tools."""
    return 1 if name.startswith("set_size@") else 100


def _mark(result: SystemResult, name: str) -> str:
    """Half of a measure's interval if there is room, and a star for a significant difference."""
    interval, against = result.measures.get(name), result.against_first.get(name)
    if interval is None:
        return ""
    half = (interval.high - interval.low) / 2
    has_room = not out.is_terminal or out.width >= MIN_INTERVAL_COLUMNS
    spread = f" ±{_scale(name) * half:.1f}" if has_room else ""
    return f"{spread}{'*' if against is not None and against.significant else ' '}"


def print_choices(results: Sequence[ChoiceResult]) -> None:
    """Print a row for each set, then wrong choices and missing choices."""
    from toolcrib.evaluation.tables import choice_overview

    _print_text_table(choice_overview(results))
    for one in results:
        taken = [
            (right, chosen, count)
            for right, row in one.confusion.items()
            for chosen, count in row.items()
            if chosen != right
        ]
        for right, chosen, count in sorted(taken, key=lambda each: -each[2])[:MAX_CONFUSIONS]:
            pair = f"{escape(right)} [dim]was[/] {escape(chosen)}"
            out.print(f"[dim]{escape(one.name)}[/] {count:>4}  {pair}")
        for part, count in one.degraded.items():
            notes.print(f"[dim]{escape(one.name)}: {count_of(count, 'turn')} without {part}[/]")


def print_falls(
    falls: Sequence[Fall],
    gone: Sequence[str],
    unpaired: Sequence[UnpairedQueries],
    tools: Mapping[str, tuple[int, int]],
) -> None:
    """Print measures that dropped or are missing now, unpaired queries, and other tool sets."""
    for fall in falls:
        sure = "" if fall.p is None else f", p = {fall.p:.3f}"
        place = escape(f"{fall.data_set} / {fall.system} / {fall.measure}")
        before, after = distinct_numbers(fall.before, fall.after, 4)
        out.print(f"[red]fell[/] {place}: {before} to {after}{sure}")
    for name in gone:
        out.print(f"[yellow]not measured any more:[/] {escape(name)}")
    for each in unpaired:
        out.print(
            f"[yellow]not paired:[/] {escape(each.data_set)}: answerable queries only in before "
            f"{each.before:,}, only in after {each.after:,}"
        )
    for name, (before, after) in tools.items():
        out.print(f"[yellow]other tools:[/] {escape(name)}: {before:,} before, {after:,} after")
    if not falls:
        out.print("[green]nothing fell significantly[/]")


def print_mistakes(name: str, made: Mistakes) -> None:
    """Print the worst queries, confused pairs of tools, and words in no tool."""
    out.print(f"\n[bold]{escape(name)}[/]")
    for mistake in made.worst:
        out.print(f"{mistake.value:.2f}  {escape(mistake.text)}")
        out.print(f"      [green]wanted[/] {escape(', '.join(mistake.expected))}")
        out.print(f"      [red]got[/]    {escape(', '.join(mistake.returned[:5]))}")
    if made.confusions:
        out.print("\n[bold]taken for another[/]")
    for pair in made.confusions:
        out.print(f"{pair.count:>4}  {escape(pair.expected)} [dim]was[/] {escape(pair.returned)}")
    if made.unmatched:
        words = ", ".join(f"{word.word} ({word.count})" for word in made.unmatched)
        out.print(f"\n[bold]in no tool:[/] {escape(words)}")


def print_guidance(found: GuidanceEvaluation) -> None:
    """Print recall and precision of alarms, and every missed or false alarm."""

    def share(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    rows: list[tuple[str, ...]] = []
    for name, scores in found.patterns.items():
        due = str(scores.labelled), str(scores.found), share(scores.recall)
        hints = str(scores.fired), str(scores.right), share(scores.precision)
        rows.append((name, *due, *hints))
    figures = ("should come", "in time", "recall", "came", "right", "precision")
    print_rows(rows, ("alarm",), figures, headed=True)
    out.print(
        f"{found.trajectories} trajectories ({escape(found.split)}), {found.events} events; "
        f"{found.healthy_alarms} alarms in {found.healthy} healthy ones of "
        f"{found.healthy_hours:.1f} hours"
    )
    for each in found.mistakes:
        kind = f" ({each.kind})" if each.kind else ""
        where = escape(f"{each.pattern} at event {each.at} of {each.id}{kind}")
        out.print(f"[red]{each.mistake}[/] {where}")


def print_steps(found: StepEvaluation) -> None:
    """Print the share of first uses whose tool is shown, in percent: overall, and mean by task."""
    ks = list(next(iter(found.scores.values())).shown)
    figures = (*(f"first {k}" for k in ks), *(f"first {k}, by task" for k in ks))
    rows = [
        (
            escape(way),
            *(f"{100 * share:.1f}" for share in (*each.shown.values(), *each.by_task.values())),
        )
        for way, each in found.scores.items()
    ]
    print_rows(rows, ("asked by",), figures, headed=True)
    out.print(
        f"{escape(found.name)}: {count_of(found.first_uses, 'first use')} in "
        f"{count_of(found.runs, 'run')} of {count_of(found.tasks, 'task')}, "
        f"{count_of(found.tools, 'tool')}"
    )
    if found.unknown_calls:
        out.print(f"[yellow]calls left out, no tool has their id: {found.unknown_calls:,}[/]")


def write_file(path: Path, text: str) -> None:
    """Write a file that the user named."""
    from toolcrib.store.folder import write_errors

    with write_errors(path):
        path.write_text(text, encoding="utf-8")
