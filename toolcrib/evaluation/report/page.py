"""One self-contained HTML page that people want to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolcrib.evaluation.report.canvas import Look
from toolcrib.evaluation.report.confidence_plots import (
    confidence_distribution,
    reliability_diagram,
    risk_coverage_curves,
)
from toolcrib.evaluation.report.headline import headline
from toolcrib.evaluation.report.misses import Miss, confusion_table, worst_table
from toolcrib.evaluation.report.overall import best_first, looks_of, main_measure_of, overall
from toolcrib.evaluation.report.plots import (
    Plot,
    ablation_bars,
    latency_bars,
    recall_curves,
    token_bars,
)
from toolcrib.evaluation.report.tables import (
    Table,
    gate_table,
    leaderboard,
    measure_table,
    per_set_table,
    spoken,
)
from toolcrib.evaluation.report.template import fill
from toolcrib.evaluation.results import Evaluation, SetResult

__all__ = ["render"]


@dataclass(frozen=True, slots=True)
class _Chapter:
    """One data set, or all of them, ready to be written out."""

    result: SetResult
    measure: str
    best: str
    leaderboard: Table
    every_measure: Table
    gates: Table
    finding: tuple[Plot, ...]
    knowing: tuple[Plot, ...]
    costing: tuple[Plot, ...]
    missed_by: str
    misses: tuple[Miss, ...]
    confused: tuple[tuple[str, str, int], ...]


def render(evaluation: Evaluation) -> str:
    """The report as an HTML document that asks nothing of the network.

    The same evaluation gives the same text. It has no scripts, holds its drawings as SVG, and
    is light or dark as the reader's system is. The first system is what others are marked
    against and whose worst queries are shown.

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    whole = overall(evaluation)
    looks = looks_of(whole)
    several = len(evaluation.sets) > 1
    return fill(
        "page.html.jinja",
        headline=headline(evaluation, whole),
        whole=whole,
        several=several,
        overall=_chapter(whole, evaluation, looks) if several else None,
        per_set=per_set_table(evaluation, whole, looks) if several else None,
        chapters=[_chapter(one, evaluation, looks) for one in evaluation.sets.values()],
        settings=evaluation.settings,
        first=next(iter(whole.systems), ""),
    )


def _chapter(one: SetResult, evaluation: Evaluation, looks: Mapping[str, Look]) -> _Chapter:
    systems = list(one.systems.values())
    ranked = best_first(one)
    measure = main_measure_of(one)
    pooled = one.name not in evaluation.sets
    first = systems[0] if systems and not pooled else None
    best = ranked[0] if measure else None
    return _Chapter(
        result=one,
        measure=spoken(measure),
        best=f"{best.name} {spoken(measure)} {best.measures[measure].mean:.3f}" if best else "",
        leaderboard=leaderboard(one, evaluation, looks),
        every_measure=measure_table(one, evaluation, looks),
        gates=gate_table(one, looks),
        finding=(recall_curves(ranked, looks), ablation_bars(systems, looks, measure)),
        knowing=(
            confidence_distribution(systems),
            reliability_diagram(systems, looks),
            risk_coverage_curves(systems, looks),
        ),
        costing=(latency_bars(ranked, looks), token_bars(ranked, looks)),
        missed_by=first.name if first else "",
        misses=worst_table(first) if first else (),
        confused=confusion_table(first) if first else (),
    )
