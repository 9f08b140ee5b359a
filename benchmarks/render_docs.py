"""Write the tables in docs/benchmarks.md from the committed results; no figure is typed by hand.

python benchmarks/render_docs.py           # rewrite the block between the markers
python benchmarks/render_docs.py --check   # fail when it is not what the results say
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speed.report import Table, tables

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN = "<!-- results: written by benchmarks/render_docs.py -->"
END = "<!-- end of results -->"


def render(results: list[Mapping[str, Any]]) -> str:
    """All results as Markdown, smallest first."""
    if not results:
        return "No results are committed yet."
    return "\n\n".join(_one(result) for result in results)


def _one(result: Mapping[str, Any]) -> str:
    on, tools = result["machine"], result["tools"]
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
        f"{result['date']}, {on['cpu']}, {on['cores']} cores, {on['memory_gb']:g} GB, "
        f"{on['system']}; load at the start {on['load_average_at_start']:g}. "
        f"Tools: {origin}, with {vectors}; {result['queries']} queries. "
        f"Versions: {', '.join(f'{k} {v}' for k, v in result['versions'].items())}.\n\n"
        f"`{result['command']}`"
    )
    return "\n\n".join((head, *(_table(table) for table in tables(result))))


def _table(table: Table) -> str:
    rows = [table.columns, ("---",) * len(table.columns), *table.rows]
    lines = (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
    return f"**{table.title}**\n\n" + "\n".join(lines)


def main() -> None:
    """Rewrite the page, or check it."""
    found = [
        json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("engines-*.json")
    ]
    found.sort(key=lambda result: (result["size"], result["vectors"]))
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n\n{render(found)}\n\n{END}{after}"
    if "--check" in sys.argv:
        if text != wanted:
            raise SystemExit("docs/benchmarks.md is not what the results say: run this without it")
    else:
        PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
