"""A decision, as a person sees it."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from toolcrib.cli.screen import in_short, out
from toolcrib.records import Context, Decision

__all__ = ["print_decision"]

SHOWN_ENTITIES = 8


def print_decision(decision: Decision) -> None:
    """The route, what was read of the turn, the tools, and the passages."""
    route = decision.route
    corrected = f" [dim](first guess: {route.corrected_from})[/]" if route.corrected_from else ""
    out.print(f"[bold]{route.kind}[/]{corrected}  [dim]{escape(route.reason)}[/]")
    out.print(_reading(decision.context), soft_wrap=True)
    if decision.tools.tools:
        out.print(_tools(decision))
    if decision.knowledge.passages:
        out.print(_passages(decision))
    notes = [f"[yellow]without: {', '.join(decision.degraded)}[/]"] if decision.degraded else []
    if decision.signals:
        notes.append(escape(", ".join(decision.signals)))
    notes += [f"{stage} {ms:.1f} ms" for stage, ms in decision.took_ms.items()]
    out.print(f"[dim]{' · '.join(notes)}[/]")


def _reading(context: Context) -> str:
    if context.smalltalk:
        return f"[dim]small talk:[/] {context.smalltalk}"
    fields = {
        "intent": context.intent or "none that is known",
        "domain": context.domain or "none that is known",
        "urgency": context.urgency,
        "sensitivity": context.sensitivity,
    }
    parts = [f"[dim]{name}[/] {value}" for name, value in fields.items()]
    found = [f"{e.type} {e.text!r}" for e in context.entities[:SHOWN_ENTITIES]]
    if found:
        parts.append(f"[dim]entities[/] {escape(', '.join(found))}")
    return "  ".join(parts)


def _tools(decision: Decision) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("tool", style="bold", overflow="fold")
    table.add_column("sure", justify="right")
    table.add_column("what it does", no_wrap=True)
    taken = 8 + max(len(hit.id) for hit in decision.tools.tools)
    for hit in decision.tools.tools:
        sure = "" if hit.probability is None else f"{hit.probability:.2f}"
        about = in_short(hit.tool.description, out.width - taken)
        table.add_row(escape(hit.id), sure, about)
    return table


def _passages(decision: Decision) -> Table:
    named = ", ".join(f"{c.id} {c.confidence:.2f}" for c in decision.knowledge.collections)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("score", justify="right")
    table.add_column(f"passages of {named}", overflow="fold")
    for hit in decision.knowledge.passages:
        table.add_row(f"{hit.score:.2f}", escape(hit.passage.citation))
    return table
