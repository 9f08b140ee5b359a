"""Write tables and picture of docs/explanation/{benchmarks,scale}.md from committed results.

python benchmarks/render_docs.py           # rewrite the block between the markers
python benchmarks/render_docs.py --check   # fail when it is not what the results say
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, PackageLoader

from toolcrib.report.charts import LOOKS, Axis, Curve, curve_chart, round_steps

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "explanation" / "benchmarks.md"
NONE = "No results are committed yet."
SCALE_PAGE = ROOT / "docs" / "explanation" / "scale.md"
SCALE_PICTURE = SCALE_PAGE.with_suffix(".svg")
COLOURS = {"ink": "#1a1a1a", "muted": "#6b6b6b", "line": "#d0d0d0"}
LINES = ("#2563a8", "#c2410c", "#15803d", "#7c3aed")
WAYS = {
    "all": "no filter",
    "half_by_tag": "half, one tag",
    "half_by_tag_scope": "half, scope, a tag",
    "half_by_servers_scope": "half, scope, servers",
    "tenth_by_servers_scope": "a tenth, scope, servers",
}
"""The measured searches, as the page names them."""

DRAWN = {way: said for way, said in WAYS.items() if way != "half_by_tag"}
"""Those of the picture: a scope by one tag is the same as a filter by it."""


def render(results: list[Mapping[str, Any]]) -> str:
    """All runs side by side: what was promised, a search in parts, and the other libraries."""
    if not results:
        return NONE
    runs = [(_name(result), result) for result in results]
    searched = [(name, result["figures"]) for name, result in runs if "peers" in result["figures"]]
    usual = _versions(results[0])
    targets = [
        (row["what"], name, row["target"], number(row["measured"], row["unit"]), MET[row["met"]])
        for name, result in runs
        for row in result["targets"]
        if row["met"] is not None
    ]
    commands = "\n".join(
        f"- {name}: `{result['command']}`, {_machine(result)}"
        + ("" if _versions(result) == usual else f" {_versions(result)}.")
        for name, result in runs
    )
    head = ("what", "tools", "target", "measured", "met")
    return "\n\n".join(
        (
            _table("Promised", head, sorted(targets)),
            _searches(searched),
            _peers(searched),
            f"**The runs**, with {usual}:\n\n{commands}",
        )
    )


MET = {True: "yes", False: "NO"}


def _name(result: Mapping[str, Any]) -> str:
    """Size of a run, and its kind of tools or vectors where that is not the usual one."""
    kinds = ["real"] if result["tools"]["from_file"] else []
    kinds += ["random vectors"] if result["vectors"] != "real" else []
    kinds += [] if "peers" in result["figures"] else ["memory alone"]
    return f"{result['size']:,}" + (f" ({', '.join(kinds)})" if kinds else "")


def _searches(runs: list[tuple[str, Mapping[str, Any]]]) -> str:
    """Median and 99th percentile of the parts of a search, a column a run."""
    rows = []
    for what, key in SEARCHES.items():
        found = [figures["toolcrib"][key] for _, figures in runs]
        rows.append((what, *(f"{number(ms['median'])} ({number(ms['p99'])})" for ms in found)))
    busy = [figures.get("while_indexing") for _, figures in runs]
    rows += [
        (what, *(f"{number(b[k]['median'])} ({number(b[k]['p99'])})" if b else "-" for b in busy))
        for what, k in (("whole search, alone", "quiet_find_ms"), ("while indexing", "find_ms"))
    ]
    names = tuple(name for name, _ in runs)
    return _table(
        "A search among so many tools, ms: median (99th percentile)", ("what", *names), rows
    )


SEARCHES = {
    "encoding the query alone": "encode_ms",
    "whole search": "find_ms",
    "engine part": "engine_ms",
    "engine part, a tenth of the tools": "tenth_engine_ms",
}


def _peers(runs: list[tuple[str, Mapping[str, Any]]]) -> str:
    """Median of each library, and how many times toolcrib's engine part that is."""
    rows = [
        (
            f"{name} ({peer['package']} {peer['version']})",
            peer["does"],
            *(
                f"{number(figures['peers'][name]['ms']['median'])}"
                f" ({number(figures['peers'][name]['times_toolcrib'])})"
                for _, figures in runs
            ),
        )
        for name, peer in runs[-1][1]["peers"].items()
    ]
    own = (number(figures["toolcrib"]["engine_ms"]["median"]) for _, figures in runs)
    rows.insert(0, ("**toolcrib, engine part**", OWN, *(f"{ms} (1)" for ms in own)))
    names = tuple(name for name, _ in runs)
    return _table(
        "Libraries among so many tools, ms (times toolcrib's engine part)",
        ("engine", "does", *names),
        rows,
    )


OWN = "dense + BM25 + examples, fused, whole tools"


TITLES = {
    "throughput": "Sustained rate",
    "steady": "At 70 % of the sustained rate",
    "overload": "At five times the sustained rate",
    "soak": "Very many requests",
}


def render_service(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The parts of the service's benchmark as Markdown, in their order."""
    return "\n\n".join(_part(results[part]) for part in TITLES if part in results) or NONE


def _part(result: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in result["settings"].items())
    head = (
        f"### {TITLES[result['part']]}\n\n"
        f"`{result['command']}`, {_machine(result)} Settings: {settings}."
    )
    targets = [
        (row["what"], row["target"], number(row["measured"], row["unit"]), MET[row["met"] is True])
        for row in result["targets"]
    ]
    columns, rows = PARTS[result["part"]](result["figures"])
    tables = (
        _table("Targets", ("what", "target", "measured", "met"), targets),
        _table("Measured", columns, rows),
    )
    return "\n\n".join((head, *tables))


Part: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Columns and rows of the figures of a part."""

PAIRS = ("what", "measured")


def _throughput(figures: Mapping[str, Any]) -> Part:
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
    return columns, shown


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


PARTS: Mapping[str, Callable[[Mapping[str, Any]], Part]] = {
    "throughput": _throughput,
    "steady": lambda figures: (PAIRS, list(_steady(figures))),
    "overload": lambda figures: (PAIRS, list(_overload(figures))),
    "soak": lambda figures: (PAIRS, list(_soak(figures))),
}


def render_scale(result: Mapping[str, Any]) -> str:
    """How search grows, a row a size."""
    rows = [
        (
            f"{one['size']:,} ({one['real']:,} real)",
            *(f"{one['engine_ms'][way]['median']:.2f}" for way in WAYS),
            f"{one['engine_ms']['all']['p99']:.2f}",
            f"{one['recall@10']['all']:.4f}",
            f"{one['recall@10']['half_by_tag']:.4f}",
            f"{one['recall@10']['tenth_by_servers']:.4f}",
            f"{one['memory_mb']['after_200_searches']['peak']:,.0f}",
            f"{one['memory_mb']['after_200_searches']['current_without_files']:,.0f}",
            f"{one['disk_mb']:,.0f}",
            f"{one['build']['write_s']:,.0f} + {one['build']['optimise_s']:,.0f}",
            f"{one['build']['write_cpu_s']:,.0f} + {one['build']['optimise_cpu_s']:,.0f}",
        )
        for one in result["sizes"]
    ]
    columns = (
        "tools",
        *(f"p50 ms, {said}" for said in WAYS.values()),
        "p99 ms, no filter",
        "recall@10",
        "recall@10, half",
        "recall@10, a tenth",
        "memory, MB",
        "without files, MB",
        "disk, MB",
        "writing + graph, s",
        "the same, s of processor",
    )
    return (
        f"![Milliseconds of a search over the number of tools.]({SCALE_PICTURE.name})\n\n"
        f"{_machine(result)} {result['queries']} queries, {result['rounds']} rounds. "
        f"Versions: {_versions(result)}.\n\n`{result['command']}`\n\n"
        + _table("Engine part of a search", columns, rows)
    )


def draw_scale(result: Mapping[str, Any]) -> str:
    """The p50 of each kind of search over the number of tools, as an SVG file."""
    sizes = result["sizes"]
    values = [[one["engine_ms"][way]["median"] for one in sizes] for way in DRAWN]
    high = max(map(max, values)) * 1.1
    axes = (Axis(sizes[0]["size"], sizes[-1]["size"], 0, 1, log=True), Axis(0, high, 0, 1))
    ticks = (
        {one["size"]: f"{one['size']:,}" for one in sizes},
        {step: f"{step:g}" for step in round_steps(0, high)},
    )
    curves = [
        Curve(name, look, [(one["size"], at) for one, at in zip(sizes, found, strict=True)])
        for (name, look), found in zip(
            zip(DRAWN.values(), LOOKS, strict=False), values, strict=True
        )
    ]
    said = "Milliseconds of the engine part of a search (p50) over the number of tools"
    drawing = curve_chart(said, curves, axes, ticks, "tools")
    template = Environment(loader=PackageLoader("toolcrib.report", "."), autoescape=True)
    svg = str(template.get_template("svg.jinja").module.svg(drawing)).strip()
    for name, colour in {**COLOURS, **{f"s{n}": c for n, c in enumerate(LINES)}}.items():
        svg = svg.replace(f"var(--{name})", colour)
    head = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" '
    return svg.replace("<svg ", head, 1) + "\n"


def _machine(result: Mapping[str, Any]) -> str:
    on = result["machine"]
    return (
        f"{result['date']}, {on['cpu']}, {on['cores']} cores, {on['memory_gb']:g} GB, "
        f"{on['system']}; load at the start {on['load_average_at_start']:g}."
    )


def _versions(result: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [columns, ("---",) * len(columns), *rows]
    lines = (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in cells)
    return f"**{title}**\n\n" + "\n".join(lines)


def number(value: float | None, unit: str = "") -> str:
    """A figure for people: three significant digits, thousands separated."""
    if value is None:
        return "-"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def _replaced(text: str, name: str, block: str) -> str:
    """The page with another block between the markers of a name."""
    begin = f"<!-- {name}: written by benchmarks/render_docs.py -->"
    end = f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"a page lacks the lines {begin} and {end}")
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
    pages = {PAGE: wanted}
    block, results = NONE, RESULTS / "scale.json"
    if results.is_file():
        scale = json.loads(results.read_text(encoding="utf-8"))
        block, pages[SCALE_PICTURE] = render_scale(scale), draw_scale(scale)
    pages[SCALE_PAGE] = _replaced(SCALE_PAGE.read_text("utf-8"), "scale", block)
    for page, text in pages.items():
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
        elif not page.is_file() or page.read_text(encoding="utf-8") != text:
            name = page.relative_to(ROOT)
            raise SystemExit(f"{name} is not what the results say: run this without it")


if __name__ == "__main__":
    main()
