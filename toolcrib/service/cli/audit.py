"""`toolcrib audit`: what in the texts of tools is dangerous to a model."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from toolcrib.indexers.audit import Finding, audit_all, blocks
from toolcrib.indexers.sources import entries
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.codec import as_json
from toolcrib.service.cli.opening import Json
from toolcrib.service.cli.screen import err, out, print_json
from toolcrib.service.problems import EXIT_NOT_CLEAN

__all__ = ["audit", "print_findings"]

COLOURS = {"block": "red", "warning": "yellow", "info": "dim"}
"""The severities, the worst first."""

MAX_SHOWN = 50


def audit(
    sources: Annotated[
        list[str],
        typer.Argument(help="Files, folders, module:attribute, MCP server URLs, stdio:COMMAND."),
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when anything at all was found.")
    ] = False,
    json: Json = False,
) -> None:
    """Look for hidden text, orders to the model, requests for secrets and borrowed names.

    Nothing is indexed. The exit code is 1 when a tool would be held back.
    """
    found = [item for source in sources for _, item in entries(source, None, None)]
    tools = [item for item in found if isinstance(item, ToolSpec)]
    refused = [item for item in found if isinstance(item, Refusal)]
    findings = audit_all(tools)
    if json:
        shown = [as_json(finding) for finding in findings]
        unread = [{"source": r.source, "place": r.place, "reason": r.reason} for r in refused]
        print_json({"tools": len(tools), "findings": shown, "refused": unread})
    else:
        print_findings(findings)
        _say(tools, findings, refused)
    if blocks(findings) or (strict and findings) or not tools:
        raise typer.Exit(EXIT_NOT_CLEAN)


def print_findings(findings: list[Finding]) -> None:
    """A row a finding, the worst first: how bad, which tool, where, what stands there, and why."""
    if not findings:
        return
    ranks = list(COLOURS)
    ordered = sorted(findings, key=lambda finding: ranks.index(finding.severity))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("severity", "tool", "place", "found", "why"):
        table.add_column(column, overflow="fold")
    for each in ordered[:MAX_SHOWN]:
        severity = f"[{COLOURS[each.severity]}]{each.severity}[/]"
        texts = map(escape, (each.tool, each.place, each.excerpt, each.why))
        table.add_row(severity, *texts)
    out.print(table)
    if len(ordered) > MAX_SHOWN:
        out.print(f"... and {len(ordered) - MAX_SHOWN} more; --json lists all")


def _say(tools: list[ToolSpec], findings: list[Finding], refused: list[Refusal]) -> None:
    for refusal in refused:
        where = f"{refusal.source}: {refusal.place}" if refusal.place else refusal.source
        err.print(f"[yellow]cannot be read[/] {escape(where)}: {escape(refusal.reason)}")
    worst = Counter(finding.severity for finding in findings)
    counted = ", ".join(f"{worst[name]} {name}" for name in COLOURS if worst[name])
    out.print(f"{len(tools):,} tools: {counted or 'nothing was found'}")
