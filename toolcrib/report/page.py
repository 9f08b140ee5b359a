"""Page about an evaluation: its tables, and one HTML document without network requests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain, repeat
from typing import Any

import numpy as np

from toolcrib.evaluation.measures import (
    GATE_MEASURES,
    MEASURES,
    lower_is_better,
    main_measure,
    measure_title,
)
from toolcrib.evaluation.results import (
    Evaluation,
    Interval,
    SetResult,
    SystemResult,
    confusions,
    worst_queries,
)
from toolcrib.evaluation.systems.base import OWN_SYSTEMS
from toolcrib.extras import import_extra
from toolcrib.report.charts import (
    GREYED_LOOK,
    LOOKS,
    Look,
    latency_bars,
    milliseconds,
    percent,
    recall_curves,
    reliability_diagram,
)

NO_FIGURE = "–"


@dataclass(frozen=True, slots=True)
class Cell:
    """Figure with its interval.

    `mark` compares it with the first system, `comparison` in words. `position`: low end, mean and
    high end of the interval, in percent of the column's scale.
    """

    text: str
    interval: str = ""
    best: bool = False
    mark: str = ""
    comparison: str = ""
    position: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """System, and the CSS name of its colour."""

    name: str
    version: str
    colour: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns after the first, which names the row; empty without rows."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


def leaderboard(one: SetResult, evaluation: Evaluation, looks: Mapping[str, Look]) -> Table:
    """Leading measures, latency and tokens, best system first."""
    taken = {m for system in one.systems.values() for m in system.measures}
    k = int(main_measure(taken).partition("@")[2] or 0)
    leading = [name for measure in MEASURES if measure.leading for name in measure.names([k])]
    chosen = [name for name in leading if name in taken]
    cells = _measure_cells(one, chosen, evaluation)
    costs = {name: (*cells[name], *_cost_cells(system)) for name, system in one.systems.items()}
    columns = (*map(measure_title, chosen), "p50 ms", "Tokens saved")
    return Table("Leaderboard", columns, _rows(best_first(one), looks, costs))


def measure_table(one: SetResult, evaluation: Evaluation, looks: Mapping[str, Look]) -> Table:
    """All measures."""
    measures = list(dict.fromkeys(m for s in one.systems.values() for m in s.measures))
    systems = best_first(one) if measures else []
    rows = _rows(systems, looks, _measure_cells(one, measures, evaluation))
    return Table("Every measure", tuple(map(measure_title, measures)), rows)


def per_set_table(evaluation: Evaluation, whole: SetResult, looks: Mapping[str, Look]) -> Table:
    """The main measure of every system on every data set."""
    cells: dict[str, list[Cell]] = {name: [] for name in whole.systems}
    for one in evaluation.sets.values():
        measure = main_measure_of(one)
        found = _measure_cells(one, [measure] if measure else [], evaluation)
        for name, column in cells.items():
            column.extend(found.get(name) or [Cell(NO_FIGURE)])
    title = f"{measure_title(main_measure_of(whole))} on each data set"
    return Table(title, tuple(evaluation.sets), _rows(best_first(whole), looks, cells))


def _rows(
    systems: Iterable[SystemResult], looks: Mapping[str, Look], cells: Mapping[str, Sequence[Cell]]
) -> tuple[TableRow, ...]:
    return tuple(
        TableRow(one.name, one.version, looks[one.name].colour, tuple(cells[one.name]))
        for one in systems
    )


def gate_table(one: SetResult, looks: Mapping[str, Look]) -> Table:
    """Gate measures of the measured systems."""
    systems = [system for system in one.systems.values() if system.gates]
    gates = [gate for gate in GATE_MEASURES if any(gate in system.gates for system in systems)]
    cells: dict[str, list[Cell]] = {system.name: [] for system in systems}
    for gate in gates:
        values = [system.gates[gate] for system in systems if gate in system.gates]
        choose = GATE_MEASURES[gate].best
        best = choose(values) if choose is not None and len(values) > 1 else None
        for system in systems:
            value = system.gates.get(gate)
            cell = Cell(NO_FIGURE) if value is None else Cell(f"{value:.3f}", best=value == best)
            cells[system.name].append(cell)
    columns = tuple(GATE_MEASURES[gate].title for gate in gates)
    return Table("Quality of the confidence", columns, _rows(systems, looks, cells))


def _cost_cells(system: SystemResult) -> tuple[Cell, Cell]:
    p50 = system.latency_ms.get("p50")
    saved = f"{100 * system.tokens_saved:.1f} %" if system.outcomes else NO_FIGURE
    return Cell(NO_FIGURE if p50 is None else milliseconds(p50)), Cell(saved)


def _measure_cells(
    one: SetResult, measures: Sequence[str], evaluation: Evaluation
) -> dict[str, list[Cell]]:
    columns = [_column(measure, one, evaluation) for measure in measures]
    return {name: [column[at] for column in columns] for at, name in enumerate(one.systems)}


def _column(measure: str, one: SetResult, evaluation: Evaluation) -> list[Cell]:
    systems = one.systems.values()
    intervals = [s.measures[measure] for s in systems if measure in s.measures]
    choose = min if lower_is_better(measure) else max
    best = f"{choose(interval.mean for interval in intervals):.3f}"
    low = min(interval.low for interval in intervals)
    high = max(interval.high for interval in intervals)
    cells: list[Cell] = []
    for system in systems:
        if measure not in system.measures:
            cells.append(Cell(NO_FIGURE))
            continue
        interval = system.measures[measure]
        text = f"{interval.mean:.3f}"
        mark, comparison = _mark(system.name, measure, one, evaluation)
        cells.append(
            Cell(
                text,
                interval=f"{interval.low:.3f}–{interval.high:.3f}",
                best=text == best and len(intervals) > 1,
                mark=mark,
                comparison=comparison,
                position=_interval_position(interval, low, high),
            )
        )
    return cells


def _interval_position(interval: Interval, low: float, high: float) -> tuple[float, float, float]:
    span = (high - low) or 1.0
    place = [100 * (value - low) / span for value in (interval.low, interval.mean, interval.high)]
    return place[0], place[1], place[2]


def _mark(name: str, measure: str, one: SetResult, evaluation: Evaluation) -> tuple[str, str]:
    """Mark of a significant difference to the first system; over all sets, with their number."""
    pooled = one.name not in evaluation.sets
    sets = list(evaluation.sets.values()) if pooled else [one]
    found = [
        s.systems[name].against_first[measure]
        for s in sets
        if name in s.systems and measure in s.systems[name].against_first
    ]
    sign = -1 if lower_is_better(measure) else 1
    better = sum(c.significant and sign * c.difference > 0 for c in found)
    worse = sum(c.significant and sign * c.difference < 0 for c in found)
    first = next(iter(one.systems))
    if pooled:
        marks = " ".join(f"{mark}{n}" for mark, n in (("▲", better), ("▼", worse)) if n)
        words = f"better than {first} on {better}, worse on {worse} of {len(found)} sets"
        return marks, f"significantly {words}" if marks else ""
    if not found or not found[0].significant:
        return "", ""
    word = "better" if better else "worse"
    return "▲" if better else "▼", f"significantly {word} than {first}, p = {found[0].p:.4f}"


def overall(evaluation: Evaluation) -> SetResult:
    """Macro averages in the form of a data set, with the outcomes of all sets together.

    The interval of a macro mean treats the sets as independent: half its width is the root of the
    sum of their squared half widths, divided by the number of sets. A system's means cover the sets
    on which it was measured.
    """
    sets = list(evaluation.sets.values())
    if len(sets) == 1:
        return sets[0]
    names = dict.fromkeys(name for one in sets for name in one.systems)
    return SetResult(
        name="All data sets",
        split=", ".join(dict.fromkeys(one.split for one in sets)),
        tools=sum(one.tools for one in sets),
        queries=sum(one.queries for one in sets),
        unanswerable=sum(one.unanswerable for one in sets),
        systems={
            name: _pooled_system(name, sets, evaluation.macro.get(name, {})) for name in names
        },
        warnings=(
            *evaluation.warnings,
            *(f"{one.name}: {warning}" for one in sets for warning in one.warnings),
        ),
    )


def _pooled_system(
    name: str, sets: Sequence[SetResult], macro: Mapping[str, float]
) -> SystemResult:
    parts = [one.systems[name] for one in sets if name in one.systems]
    measured = [part for part in parts if part.outcomes]
    measures = {measure for part in parts for measure in part.measures}
    return SystemResult(
        name=name,
        version=parts[0].version,
        measures={m: _macro_interval(macro[m], m, parts) for m in macro if m in measures},
        latency_ms={
            q: float(np.mean([part.latency_ms[q] for part in measured]))
            for q in (measured[0].latency_ms if measured else ())
        },
        prompt_tokens=macro.get("prompt_tokens", 0.0),
        tokens_saved=macro.get("tokens_saved", 0.0),
        gates={gate: macro[gate] for gate in macro if any(gate in part.gates for part in parts)},
        outcomes=tuple(outcome for part in parts for outcome in part.outcomes),
    )


def _macro_interval(mean: float, measure: str, parts: Sequence[SystemResult]) -> Interval:
    intervals = [part.measures[measure] for part in parts if measure in part.measures]
    halves = [(interval.high - interval.low) / 2 for interval in intervals]
    half = math.sqrt(sum(h * h for h in halves)) / len(halves)
    return Interval(mean, mean - half, mean + half)


def main_measure_of(one: SetResult) -> str:
    """Measure that ranks systems: nDCG@10 if measured; empty if nothing was measured."""
    return main_measure(m for system in one.systems.values() for m in system.measures)


def best_first(one: SetResult) -> list[SystemResult]:
    """Systems by falling main measure, those without it last; ties keep their order."""
    name = main_measure_of(one)
    return sorted(
        one.systems.values(),
        key=lambda s: -s.measures[name].mean if name in s.measures else math.inf,
    )


def looks_of(one: SetResult) -> dict[str, Look]:
    """Looks of the first system and the best others, as far as there are colours."""
    ordered = dict.fromkeys([*list(one.systems)[:1], *(each.name for each in best_first(one))])
    return dict(zip(ordered, chain(LOOKS, repeat(GREYED_LOOK)), strict=False))


MAX_WORST_QUERIES = 10
"""Worst queries, and confused pairs of tools, on the page."""


def render(evaluation: Evaluation) -> str:
    """Report as an HTML document.

    Marks compare with the first system, and the worst queries are its own.
    """
    whole = overall(evaluation)
    looks = looks_of(whole)
    several = len(evaluation.sets) > 1
    lead, *rest = headline(evaluation, whole)
    return fill(
        "page.html.jinja",
        lead=lead,
        rest=rest,
        whole=whole,
        several=several,
        overall=_chapter(whole, evaluation, looks) if several else None,
        per_set=per_set_table(evaluation, whole, looks) if several else None,
        chapters=[_chapter(one, evaluation, looks) for one in evaluation.sets.values()],
        settings=evaluation.settings,
        measures=[one for one in MEASURES if one.meaning],
        first=next(iter(whole.systems), ""),
    )


def _chapter(one: SetResult, evaluation: Evaluation, looks: Mapping[str, Look]) -> dict[str, Any]:
    """Template values of one data set, or of all."""
    systems = list(one.systems.values())
    ranked = best_first(one)
    measure = main_measure_of(one)
    pooled = one.name not in evaluation.sets
    asked = systems[0].outcomes if systems and not pooled else ()
    best = ranked[0] if measure else None
    times = {
        each.name: (each.latency_ms["p50"], each.latency_ms["p99"])
        for each in ranked
        if each.latency_ms
    }
    return {
        "result": one,
        "measure": measure_title(measure),
        "best": best and f"{best.name} {measure_title(measure)} {best.measures[measure].mean:.3f}",
        "leaderboard": leaderboard(one, evaluation, looks),
        "every_measure": measure_table(one, evaluation, looks),
        "gates": gate_table(one, looks),
        "finding": (recall_curves(ranked, looks),),
        "knowing": (reliability_diagram(systems, looks),),
        "costing": (latency_bars("Time per query", times, looks),),
        "missed_by": systems[0].name if systems and not pooled else "",
        "misses": worst_queries(asked, MAX_WORST_QUERIES),
        "forbidden": {result.query.id: result.query.forbidden for result in asked},
        "confused": [pair for pair in confusions(asked, MAX_WORST_QUERIES) if pair.count > 1],
    }


def headline(evaluation: Evaluation, whole: SetResult) -> Iterator[str]:
    """Sentences: on the best system and its lead, then on the first system's figures."""
    if not whole.systems:
        yield "Nothing was measured."
        return
    if measure := main_measure_of(whole):
        yield from filter(None, _ranking(evaluation, whole, measure))
    else:
        yield "No query here has an answer: only confidence and cost were measured."
    yield from _first_system_sentences(next(iter(whole.systems.values())), whole)


def _ranking(evaluation: Evaluation, whole: SetResult, measure: str) -> tuple[str, str]:
    ranked = [system for system in best_first(whole) if measure in system.measures]
    best = ranked[0]
    value = best.measures[measure].mean
    count = len(evaluation.sets)
    over = f"over {count} data sets" if count > 1 else f"on {whole.name}"
    if len(ranked) == 1:
        return f"{best.name} reaches {measure_title(measure)} {value:.3f} {over}.", ""
    rival = _rival(best, ranked)
    which = ", the best baseline" if rival is not ranked[1] else ""
    ahead = f"{value - rival.measures[measure].mean:.3f} ahead of"
    lead = (
        f"{best.name} has the highest {measure_title(measure)} {over}: {value:.3f}, "
        f"{'level with' if ahead.startswith('0.000') else ahead} {rival.name}{which}."
    )
    return lead, _chance(evaluation, ranked, measure)


def _rival(system: SystemResult, ranked: list[SystemResult]) -> SystemResult:
    """Best other system; for a stage of toolcrib, the best baseline if there is one."""
    others = [other for other in ranked if other is not system]
    baselines = [other for other in others if other.name not in OWN_SYSTEMS]
    return baselines[0] if baselines and system.name in OWN_SYSTEMS else others[0]


def _chance(evaluation: Evaluation, ranked: list[SystemResult], measure: str) -> str:
    """Significance of the difference between the first system and its rival, or the best."""
    first = next((one for one in ranked if one.name not in evaluation.macro_against_first), None)
    if first is None:
        return ""
    leads = ranked[0] is first
    other = _rival(first, ranked) if leads else ranked[0]
    found = evaluation.macro_against_first.get(other.name, {}).get(measure)
    if found is None:
        return ""
    place = "" if leads else f"{first.name} is number {ranked.index(first) + 1} of {len(ranked)}. "
    chance = "is significant (p = {:.4f})" if found.significant else "may be chance (p = {:.2f})"
    return f"{place}The difference to {other.name} {chance.format(found.p)}."


def _first_system_sentences(system: SystemResult, whole: SetResult) -> Iterator[str]:
    k = main_measure_of(whole).partition("@")[2]
    recall, complete = (system.measures.get(f"{name}@{k}") for name in ("recall", "completeness"))
    if recall and complete:
        yield (
            f"The first {k} tools of {system.name} hold {percent(recall.mean)} of the tools that a "
            f"query needs, and all of them for {percent(complete.mean)} of the queries."
        )
    if system.prompt_tokens and "p50" in system.latency_ms:
        yield (
            f"They cost {system.prompt_tokens:,.0f} prompt tokens, {percent(system.tokens_saved)} "
            f"fewer than the whole registry, and are found in "
            f"{milliseconds(system.latency_ms['p50'])} ms (median)."
        )
    auroc = system.gates.get("auroc")
    if auroc is not None:
        yield (
            "Of a query with an answer and one without, its confidence ranks the first higher in "
            f"{percent(auroc)} of pairs."
        )


TEMPLATE_PACKAGE = "toolcrib.report"


def fill(name: str, **values: Any) -> str:
    """Render a template with these values and the style; lone surrogates are replaced.

    The document makes no network requests, and equal values give equal text. It has no scripts,
    contains its drawings as SVG, and follows the reader's light or dark mode.
    """
    css = (files(TEMPLATE_PACKAGE) / "style.css").read_text(encoding="utf-8")
    page: str = _template(name).render(css=css, **values)
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _template(name: str) -> Any:
    jinja = import_extra("jinja2", "the evaluation report", "eval")
    environment = jinja.Environment(
        loader=jinja.PackageLoader(TEMPLATE_PACKAGE, "."),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
