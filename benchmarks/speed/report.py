"""One run's result as tables: on the screen, and as Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table as ScreenTable

__all__ = ["Table", "print_result", "tables"]


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the columns' names, rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]


def number(value: float | None, unit: str = "") -> str:
    """A figure for people: three significant digits, thousands separated."""
    if value is None:
        return "-"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """Everything worth showing of a result."""
    yield _targets(result)
    if "toolcrib" in result["figures"]:
        yield _searches(result["figures"])
        yield _peers(result["figures"])
    yield _others(result["figures"])


def _targets(result: Mapping[str, Any]) -> Table:
    words = {True: "yes", False: "NO", None: "-"}
    rows = [
        (
            row["what"],
            row["target"],
            f"{row['promised_at']:,} tools" if row["promised_at"] else "every size",
            number(row["measured"], row["unit"]),
            words[row["met"]],
        )
        for row in result["targets"]
    ]
    return Table("Targets", ("what", "target", "promised at", "measured", "met"), rows)


def _searches(figures: Mapping[str, Any]) -> Table:
    own = figures["toolcrib"]
    lines = [
        ("encoding the query alone", own["encode_ms"]),
        ("whole search", own["find_ms"]),
        ("engine part", own["engine_ms"]),
        ("engine part, a tenth of the tools", own["tenth_engine_ms"]),
    ]
    lines += [(f"engine part, {name}", part["engine_ms"]) for name, part in own["scoped"].items()]
    if busy := figures.get("while_indexing"):
        lines.append(("whole search, nothing else going on", busy["quiet_find_ms"]))
        lines.append(
            (f"whole search, while {busy['tools']:,} tools are indexed", busy["find_ms"]),
        )
    rows = [
        (what, *(number(found[key]) for key in ("median", "p99", "max", "samples")))
        for what, found in lines
    ]
    return Table("toolcrib, milliseconds", ("what", "median", "p99", "max", "samples"), rows)


def _peers(figures: Mapping[str, Any]) -> Table:
    own = figures["toolcrib"]["engine_ms"]
    rows = [
        (
            "**toolcrib, engine part**",
            "dense + BM25 + examples, fused, whole tools",
            number(own["median"]),
            number(own["p99"]),
            "1",
            str(own["samples"]),
        ),
    ]
    rows += [
        (
            f"{name} ({found['package']} {found['version']})",
            found["does"],
            number(found["ms"]["median"]),
            number(found["ms"]["p99"]),
            number(found["times_toolcrib"]),
            str(found["ms"]["samples"]),
        )
        for name, found in figures["peers"].items()
    ]
    columns = ("engine", "does", "median ms", "p99 ms", "times toolcrib", "samples")
    return Table("The engine part against peers", columns, rows)


def _others(figures: Mapping[str, Any]) -> Table:
    rows: list[tuple[str, str]] = []
    if own := figures.get("toolcrib"):
        stages = (f"{name} {number(ms)}" for name, ms in own["stages_ms"].items())
        rows.append(("stages of a search, ms", ", ".join(stages)))
    if found := figures.get("indexing"):
        rows += [
            ("indexing, tools/s", number(found["tools_per_s"])),
            ("the encoder alone, tools/s", number(found["encoder_alone_tools_per_s"])),
            ("the encoder's share of an indexing", number(found["encoding_share"])),
            (
                "indexing against the encoder alone, round by round",
                ", ".join(number(ratio) for ratio in found["to_encoder_alone_by_round"]),
            ),
            (f"indexing the same {found['tools']:,} tools again", number(found["again_s"], "s")),
        ]
    if found := figures.get("processes"):
        rows += [
            ("bare python", number(found["bare_python_s"], "s")),
            ("`from toolcrib import Crib`", number(found["import_crib_s"], "s")),
            ("first search after opening", number(found["first_search_s"], "s")),
        ]
    rows += [
        (
            f"memory {when.replace('_', ' ')}, MB",
            ", ".join(f"{k.replace('_', ' ')} {number(v)}" for k, v in kinds.items()),
        )
        for when, kinds in figures.get("memory", {}).items()
    ]
    return Table("And besides", ("what", "measured"), rows)


def print_result(result: Mapping[str, Any]) -> None:
    """Show a result on the screen."""
    console = Console()
    for table in tables(result):
        shown = ScreenTable(title=table.title, title_justify="left", title_style="bold")
        for name in table.columns:
            shown.add_column(name)
        for row in table.rows:
            shown.add_row(*(cell.replace("**", "") for cell in row))
        console.print(shown)
