"""Write the tables in docs/explanation/benchmarks.md from the committed results.

python benchmarks/render_docs.py           # rewrite the block between the markers
python benchmarks/render_docs.py --check   # fail when it is not what the results say
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from load.report import TITLES
from load.report import tables as service_tables
from speed.report import Table, tables

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "explanation" / "benchmarks.md"
NONE = "No results are committed yet."


def render(results: list[Mapping[str, Any]]) -> str:
    """All results as Markdown, smallest first."""
    if not results:
        return NONE
    return "\n\n".join(_one(result) for result in results)


def render_service(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The parts of the service's benchmark as Markdown, in their order."""
    return "\n\n".join(_part(results[part]) for part in TITLES if part in results) or NONE


def _part(result: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in result["settings"].items())
    head = (
        f"### {TITLES[result['part']]}\n\n"
        f"{_machine(result)} Tools: {result['tools']:,} generated ones; {result['queries']} "
        f"queries. Settings: {settings}. Versions: {_versions(result)}.\n\n"
        f"`{result['command']}`"
    )
    return "\n\n".join((head, *(_table(table) for table in service_tables(result))))


def _machine(result: Mapping[str, Any]) -> str:
    on = result["machine"]
    return (
        f"{result['date']}, {on['cpu']}, {on['cores']} cores, {on['memory_gb']:g} GB, "
        f"{on['system']}; load at the start {on['load_average_at_start']:g}."
    )


def _versions(result: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def _one(result: Mapping[str, Any]) -> str:
    tools = result["tools"]
    origin = " and ".join(
        f"{count:,} {words}"
        for count, words in (
            (tools["from_file"], "real ones"),
            (tools["generated"], "generated ones"),
        )
        if count
    )
    vectors = (
        "the encoder's own vectors"
        if result["vectors"] == "real"
        else "random unit vectors in the place of the tools' own"
    )
    head = (
        f"### {result['size']:,} tools\n\n"
        f"{_machine(result)} Tools: {origin}, with {vectors}; {result['queries']} queries. "
        f"Versions: {_versions(result)}.\n\n"
        f"`{result['command']}`"
    )
    return "\n\n".join((head, *(_table(table) for table in tables(result))))


def _table(table: Table) -> str:
    rows = [table.columns, ("---",) * len(table.columns), *table.rows]
    lines = (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
    return f"**{table.title}**\n\n" + "\n".join(lines)


def _replaced(text: str, name: str, block: str) -> str:
    """The page with another block between the markers of a name."""
    begin = f"<!-- {name}: written by benchmarks/render_docs.py -->"
    end = f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"docs/explanation/benchmarks.md lacks the lines {begin} and {end}")
    return f"{before}{begin}\n\n{block}\n\n{end}{after}"


def main() -> None:
    """Rewrite the page, or check it."""
    found = [
        json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("engines-*.json")
    ]
    found.sort(key=lambda result: (result["size"], result["vectors"]))
    parts = {
        path.stem.removeprefix("service-"): json.loads(path.read_text(encoding="utf-8"))
        for path in RESULTS.glob("service-*.json")
    }
    text = PAGE.read_text(encoding="utf-8")
    wanted = _replaced(text, "results", render(found))
    wanted = _replaced(wanted, "service", render_service(parts))
    if "--check" in sys.argv:
        if text != wanted:
            raise SystemExit(
                "docs/explanation/benchmarks.md is not what the results say: run this without it"
            )
    else:
        PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
