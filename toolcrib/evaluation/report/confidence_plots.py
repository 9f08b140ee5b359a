"""The drawings about confidence: whether it parts right from wrong, and can be believed.

Where a system that has a confidence gives none, it counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from toolcrib.evaluation.gate_measures import reliability_bins, risk_coverage
from toolcrib.evaluation.report.canvas import (
    INK,
    LINE,
    MIDDLE,
    MUTED,
    NOTHING,
    OTHER,
    RIGHT,
    WRONG,
    Look,
    axes_beside,
    draw,
    keep_ticks_inside,
    label_ends,
    percent,
    written,
)
from toolcrib.evaluation.report.plots import Plot
from toolcrib.evaluation.results import Outcome, SystemResult
from toolcrib.evaluation.summary import first_is_right

__all__ = ["confidence_distribution", "reliability_diagram", "risk_coverage_curves"]

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

PANELS = 3
LEAST_HALF = 0.45
"""Of the higher side of a mirrored histogram, so that there is room for words."""

LINES = 4
BARS = 25
CURVE_POINTS = 100
NO_CONFIDENCE = "none of the systems gives a confidence"


@dataclass(frozen=True, slots=True)
class _Judged:
    """How sure a system was of its first tools; arrays [queries]."""

    name: str
    sureness: Floats
    correct: Bools
    answerable: Bools


def confidence_distribution(systems: Sequence[SystemResult]) -> Plot:
    """How sure the first tool was where it is right, wrong, or where nothing fits.

    Of at most three systems that give a confidence; where none does, the first system's scores.
    """
    title = "Confidence when right and when wrong"
    judged = _all_judged(systems)[:PANELS]
    caption = "Queries by confidence: up, the first tool is right; down, it is not."
    by_confidence = bool(judged)
    if not by_confidence:
        judged = [one for one in map(_by_score, systems[:1]) if len(one.sureness)]
        title = "Score when right and when wrong"
        caption = caption.replace("confidence", "score of the first tool")
    if not judged:
        return Plot(title, absent="nothing was returned")
    height = 30 + 96 * len(judged) + 60 * (len(judged) == 1)

    def paint(figure: Any) -> None:
        edges = _edges(np.concatenate([one.sureness for one in judged]))
        share = (height - 34) / height / len(judged)
        for place, one in enumerate(judged):
            bottom = 1 - share * (place + 1)
            axes = figure.add_axes((0.01, bottom, 0.75, share * 0.78))
            _mirrored(axes, one, edges, ends=place == len(judged) - 1)
            if by_confidence and _is_probability(judged[0]):
                axes.xaxis.set_major_formatter(percent)
            axes.text(0, 1.08, written(one.name, 48), color=INK, transform=axes.transAxes)

    said = "; ".join(f"{one.name} {percent(one.correct.mean())} right" for one in judged)
    return Plot(title, caption, draw(paint, height, f"{title}: {said}"))


def _mirrored(axes: Any, one: _Judged, edges: Floats, *, ends: bool) -> None:
    groups = [
        (one.correct, RIGHT, "right"),
        (~one.correct & one.answerable, WRONG, "wrong"),
        (~one.correct & ~one.answerable, NOTHING, "nothing fits"),
    ]
    counts = [np.histogram(one.sureness[of], edges)[0].astype(np.float64) for of, _, _ in groups]
    right, wrong, nothing = counts
    axes.stairs(right, edges, fill=True, color=RIGHT)
    axes.stairs(-wrong, edges, fill=True, color=WRONG)
    axes.stairs(-wrong - nothing, edges, baseline=-wrong, fill=True, color=NOTHING)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", labelbottom=ends)
    up, down = float(right.max()), float((wrong + nothing).max())
    least = LEAST_HALF * max(up, down, 1.0)
    axes.set_ylim(-max(down, least), max(up, least))
    axes.set_xlim(edges[0], edges[-1])
    if ends:
        keep_ticks_inside(axes)
    beside: Any = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    for (of, colour, name), offset in zip(groups, (8, -8, -20), strict=True):
        if of.any():
            text = f"{of.sum():,} {name}"
            axes.annotate(text, (1, 0), (7, offset), color=colour, va=MIDDLE, **beside)


def reliability_diagram(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """The share of right first tools by confidence, in 15 bins of equally many queries.

    Of at most four systems: lines about the diagonal cross one another.
    """
    title = "Is the confidence a probability?"
    judged = [one for one in _all_judged(systems) if _is_probability(one)][:LINES]
    if not judged:
        reason = "no confidence is a probability" if _all_judged(systems) else NO_CONFIDENCE
        return Plot(title, absent=reason)
    bins = {one.name: reliability_bins(one.sureness, one.correct) for one in judged}
    errors = {
        name: sum(b.count * abs(b.confidence - b.accuracy) for b in its) / sum(b.count for b in its)
        for name, its in bins.items()
    }

    def paint(figure: Any) -> None:
        labels = {name: f"{written(name, 14)} {error:.3f}" for name, error in errors.items()}
        axes = axes_beside(figure, list(labels.values()))
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
        for name, its in bins.items():
            look = looks[name]
            style: Any = {"marker": look.marker, "linewidth": 1.2, "markersize": 4.5}
            axes.plot(
                [b.confidence for b in its], [b.accuracy for b in its], color=look.colour, **style
            )
        _unit(axes, "confidence")
        axes.set_ylim(-0.02, 1.02)
        label_ends(axes, [(its[-1].accuracy, labels[n], looks[n]) for n, its in bins.items()])

    said = "; ".join(f"{name} {error:.3f}" for name, error in errors.items())
    caption = (
        "How often the first tool is right, by confidence; on the dotted line it is as often "
        "right as it says. Beside the names, the expected calibration error (ECE)."
    )
    svg = draw(paint, 262, f"{title} Expected calibration error: {said}")
    return Plot(title, caption, svg)


def risk_coverage_curves(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """The share of wrong first tools by the share of queries that are answered at all."""
    title = "Errors when only the surest are answered"
    judged = _all_judged(systems)
    if not judged:
        return Plot(title, absent=NO_CONFIDENCE)
    curves = {one.name: risk_coverage(one.sureness, one.correct) for one in judged}

    def paint(figure: Any) -> None:
        labels = {name: written(name, 21) for name in curves}
        axes = axes_beside(figure, list(labels.values()))
        for name, curve in reversed(curves.items()):
            look = looks[name]
            # The first handful of queries says nothing but noise.
            last = len(curve.coverage) - 1
            at = np.unique(np.linspace(min(last, last // 20), last, CURVE_POINTS).astype(np.intp))
            axes.plot(
                curve.coverage[at],
                curve.risk[at],
                color=look.colour,
                linewidth=1.0 if look is OTHER else 1.8,
                linestyle=(0, look.dashes) if look.dashes else "-",
            )
        _unit(axes, "queries answered")
        highest = axes.get_ylim()[1]
        axes.set_ylim(-0.015 * highest, highest)
        axes.yaxis.set_major_formatter(percent)
        axes.axvline(0.8, color=LINE, linewidth=1.2)
        label_ends(axes, [(float(c.risk[-1]), labels[n], looks[n]) for n, c in curves.items()])

    at_80 = {n: float(c.risk[int(np.ceil(0.8 * len(c.risk))) - 1]) for n, c in curves.items()}
    said = "; ".join(f"{name} {risk:.3f}" for name, risk in at_80.items())
    caption = "Share of wrong first tools, when the least sure queries get no answer."
    return Plot(title, caption, draw(paint, 262, f"{title}. Risk at 80 % coverage: {said}"))


def _unit(axes: Any, label: str) -> None:
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(percent)
    axes.set_xlabel(label)


def _edges(values: Floats) -> Floats:
    low, high = (
        (0.0, 1.0) if values.min() >= 0 and values.max() <= 1 else np.percentile(values, (0, 100))
    )
    return np.linspace(low, high if high > low else low + 1, BARS + 1)


def _is_probability(one: _Judged) -> bool:
    return bool(one.sureness.min() >= 0 and one.sureness.max() <= 1)


def _all_judged(systems: Sequence[SystemResult]) -> list[_Judged]:
    return [
        _judged(system, [outcome.answer.confidence or 0.0 for outcome in system.outcomes])
        for system in systems
        if any(outcome.answer.confidence is not None for outcome in system.outcomes)
    ]


def _by_score(system: SystemResult) -> _Judged:
    returned = [
        outcome
        for outcome in system.outcomes
        if outcome.answer.ranked and math.isfinite(outcome.answer.ranked[0].score)
    ]
    scores = [outcome.answer.ranked[0].score for outcome in returned]
    return _judged(system, scores, returned)


def _judged(
    system: SystemResult, sureness: Sequence[float], outcomes: Sequence[Outcome] | None = None
) -> _Judged:
    judged = system.outcomes if outcomes is None else outcomes
    return _Judged(
        system.name,
        np.array(sureness, dtype=np.float64),
        np.array([first_is_right(outcome) for outcome in judged], dtype=np.bool_),
        np.array([outcome.query.answerable for outcome in judged], dtype=np.bool_),
    )
