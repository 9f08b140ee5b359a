"""One part's result as tables: on the screen, and as Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table as ScreenTable
from speed.report import Table, number

__all__ = ["show", "tables"]

TITLES = {
    "throughput": "Sustained rate",
    "steady": "At 70 % of the sustained rate",
    "overload": "At five times the sustained rate",
    "soak": "Very many requests",
}


def tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """The targets of a part, then its figures."""
    words = {True: "yes", False: "NO"}
    rows = [
        (row["what"], row["target"], number(row["measured"], row["unit"]), words[row["met"]])
        for row in result["targets"]
    ]
    yield Table("Targets", ("what", "target", "measured", "met"), rows)
    part: str = result["part"]
    if part == "throughput":
        yield _throughput(result["figures"])
    else:
        yield Table("Measured", ("what", "measured"), list(_ROWS[part](result["figures"])))


def show(result: Mapping[str, Any]) -> None:
    """Show a result on the screen."""
    console = Console()
    for table in tables(result):
        shown = ScreenTable(*table.columns, title=table.title, title_justify="left")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)


def _throughput(figures: Mapping[str, Any]) -> Table:
    rows = [
        (f"bare `find_tools`, {_several(threads, 'thread')}", row)
        for threads, row in figures["bare"].items()
    ]
    rows += [
        (f"the service, {_several(clients, 'client')}", row)
        for clients, row in figures["service"].items()
    ]
    columns = ("what", "a second", "median ms", "p99 ms")
    shown = [
        (what, *(number(row[key]) for key in ("per_s", "p50_ms", "p99_ms"))) for what, row in rows
    ]
    return Table("Measured", columns, shown)


def _several(count: str, what: str) -> str:
    return f"{count} {what}" if count == "1" else f"{count} {what}s"


def _steady(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "requests a second that came, at random", number(figures["offered_per_s"])
    yield "median", number(figures["p50_ms"], "ms")
    yield "99th percentile", number(figures["p99_ms"], "ms")
    yield "one against the other, round by round", ", ".join(map(number, figures["by_round"]))


def _overload(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "requests a second that came, at random", number(figures["offered_per_s"])
    yield "of them answered, a second", number(figures["answered_per_s"])
    yield "share turned away with 503", number(figures["turned_away"])
    for name, what in (
        ("calm_ms", "answers before"),
        ("answered_ms", "answers meanwhile"),
        ("turned_away_ms", "503s"),
    ):
        if (times := figures[name]) is not None:
            yield f"{what}: median, p99", f"{number(times['median'])}, {number(times['p99'], 'ms')}"
    yield "recovered after", number(figures["recovery_s"], "s")


def _soak(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "requests", f"{figures['requests']:,}"
    yield "a second", number(figures["per_s"])
    yield "errors", number(figures["errors"])
    held = figures["memory_mb"]
    shown = (held[0], held[len(held) // 2 - 1], held[-1])
    yield "memory without files, at the start, half way, at the end", f"{_joined(shown)} MB"
    yield "memory with files, at the end", number(figures["resident_mb"], "MB")


def _joined(values: tuple[float, ...]) -> str:
    return ", ".join(map(number, values))


_ROWS = {"steady": _steady, "overload": _overload, "soak": _soak}
