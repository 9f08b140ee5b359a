"""Plots of an evaluation: rankings, costs, and whether a confidence can be believed.

Each is left out, with the reason, without data. All take systems by name, in the order that they
are drawn in, and their looks. Where a system that has a confidence gives none, it counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolcrib.evaluation.gate_measures import (
    Bools,
    ReliabilityBin,
    expected_error,
    reliability_bins,
    risk_coverage,
)
from toolcrib.evaluation.measures import spoken
from toolcrib.evaluation.report.svg import (
    OTHER,
    Axis,
    Bar,
    Curve,
    Drawing,
    Look,
    Plot,
    Stroke,
    bar_chart,
    curve_chart,
    milliseconds,
    percent,
    round_steps,
    written,
)
from toolcrib.evaluation.results import QueryResult, SystemResult
from toolcrib.retrieval.calibration import Floats

STAGES = (
    "lexical",
    "dense",
    "fusion",
    "fusion+rerank",
    "toolcrib",
    "without-examples",
    "without-anti-patterns",
    "without-prerequisites",
)
"""The systems that are stages of toolcrib, or toolcrib with something left out."""

FIFTHS = {fifth / 5: percent(fifth / 5) for fifth in range(6)}
UNIT = Axis(0, 1, 0, 1)

PANELS, PANEL, PANEL_ALONE = 3, 96, 156
"""Systems that a histogram shows, and the height of each."""

LEAST_HALF = 0.45
"""Of the higher side of a mirrored histogram, so that there is room for words."""

NAMED, NAMED_BRIEFLY = 21, 14
LINES = 4
BARS = 25
CURVE_POINTS = 100
NO_CONFIDENCE = "none of the systems gives a confidence"


def recall_curves(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """Recall by the number of tools returned, with bands of 95 %."""
    title = "Recall by set size"
    found = {
        system.name: sorted(
            (int(measure.removeprefix("recall@")), interval)
            for measure, interval in system.measures.items()
            if measure.startswith("recall@")
        )
        for system in systems
    }
    curves = [
        Curve(
            written(name, NAMED),
            looks[name],
            [(k, interval.mean) for k, interval in recalls],
            [] if looks[name] is OTHER else [(one.low, one.high) for _, one in recalls],
        )
        for name, recalls in found.items()
        if len(recalls) > 1
    ]
    if not curves:
        return Plot(title, absent="recall was measured at fewer than two set sizes")
    ks = sorted({k for curve in curves for k, _ in curve.points})
    drawn = [mean for curve in curves for _, mean in curve.points]
    drawn += [edge for curve in curves for edges in curve.band for edge in edges]
    pad = 0.05 * (max(drawn) - min(drawn))
    low, high = min(drawn) - pad, max(drawn) + pad
    drawing = curve_chart(
        f"{title}. Recall at {ks[-1]}: "
        + "; ".join(
            f"{name} {recalls[-1][1].mean:.3f}" for name, recalls in found.items() if recalls
        ),
        curves,
        (Axis(ks[0], ks[-1], 0, 1, log=True), Axis(low, high, 0, 1)),
        ({k: str(k) for k in ks}, {at: percent(at) for at in round_steps(low, high, 6, 0.01)}),
        "tools returned (k)",
        grid=False,
    )
    return Plot(title, "Share of the needed tools that are among the first k.", drawing)


def ablation_bars(systems: Sequence[SystemResult], looks: Mapping[str, Look], measure: str) -> Plot:
    """What each stage reaches in `measure`, in the order of the pipeline."""
    title = "What each stage brings"
    by_name = {system.name: system for system in systems if measure in system.measures}
    stages = {name: by_name[name].measures[measure] for name in STAGES if name in by_name}
    if len(stages) < 2:  # noqa: PLR2004
        names = ", ".join(STAGES[:4])
        return Plot(title, absent=f"it needs two or more of toolcrib's stages ({names}, ...)")
    bars = [
        Bar(
            name,
            f"{interval.mean:.3f}",
            looks[name],
            (
                Stroke(0, interval.mean, looks[name].colour),
                Stroke(interval.low, interval.high, "paper", 3.6),
                Stroke(interval.low, interval.high, "ink", 1.6),
            ),
        )
        for name, interval in stages.items()
    ]
    top = 1.02 * max(interval.high for interval in stages.values())
    ticks = {at: f"{at:.1f}" for at in round_steps(0, top, least=0.1)}
    drawing = bar_chart(title, bars, Axis(0, top, 0, 1), ticks)
    return Plot(title, f"Mean {spoken(measure)}; the thin line is the 95 % interval.", drawing)


def latency_bars(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """Milliseconds of a search, from the median to the 99th percentile, on a log scale."""
    title = "Time per query"
    bars: list[Bar] = []
    ends: list[float] = []
    for system in systems:
        p50 = system.latency_ms.get("p50", 0)
        p99 = system.latency_ms.get("p99", p50)
        if p50 > 0:
            look = looks[system.name]
            value = f"{milliseconds(p50)} · {milliseconds(p99)} ms"
            bars.append(Bar(system.name, value, look, [Stroke(p50, p99, look.colour)], p50))
            ends += p50, p99
    if not bars:
        return Plot(title, absent="no search was timed")
    caption = "From the median (p50, the tick) to the 99th percentile; logarithmic scale."
    return Plot(title, caption, bar_chart(title, bars, *decades(ends)))


def token_bars(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """Prompt tokens of what is returned, and the share that is saved."""
    title = "Prompt tokens per query"
    bars = [
        Bar(
            one.name,
            f"{one.prompt_tokens:,.0f} · {100 * one.tokens_saved:.1f} % saved",
            looks[one.name],
            [Stroke(0, one.prompt_tokens, looks[one.name].colour)],
        )
        for one in systems
        if one.prompt_tokens > 0
    ]
    if not bars:
        return Plot(title, absent="no tools were returned")
    top = 1.02 * max(system.prompt_tokens for system in systems)
    ticks = {at: f"{at:,.0f}" for at in round_steps(0, top, least=1)}
    caption = "Mean size of the returned definitions, and what is saved against sending every tool."
    return Plot(title, caption, bar_chart(title, bars, Axis(0, top, 0, 1), ticks))


def decades(values: Sequence[float]) -> tuple[Axis, dict[float, str]]:
    """A log axis of whole powers of ten around positive milliseconds, and its ticks."""
    low = math.floor(math.log10(min(values)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    ticks = {10.0**power: f"{10.0**power:g} ms" for power in range(low, high + 1)}
    return Axis(10.0**low, 10.0**high, 0, 1, log=True), ticks


@dataclass(frozen=True, slots=True)
class _Judged:
    """How sure a system was that any tool answers, and that the `first` does; [queries] each."""

    name: str
    sureness: Floats
    first: Floats
    correct: Bools
    answerable: Bools

    @property
    def is_probability(self) -> bool:
        return bool(self.sureness.min() >= 0 and self.sureness.max() <= 1)


def confidence_distribution(systems: Sequence[SystemResult]) -> Plot:
    """How sure the first tool was where it is right, wrong, or where nothing fits.

    Of at most three systems that give a confidence; where none does, the first system's scores.
    """
    title = "Confidence when right and when wrong"
    caption = "Queries by confidence: up, the first tool is right; down, it is not."
    judged = _all_judged(systems)[:PANELS]
    probable = bool(judged) and judged[0].is_probability
    if not judged:
        judged = [one for one in map(_by_score, systems[:1]) if len(one.sureness)]
        title = "Score when right and when wrong"
        caption = caption.replace("confidence", "score of the first tool")
    if not judged:
        return Plot(title, absent="nothing was returned")
    said = "; ".join(f"{one.name} {percent(one.correct.mean())} right" for one in judged)
    edges = _edges(np.concatenate([one.sureness for one in judged]))
    share = PANEL if len(judged) > 1 else PANEL_ALONE
    drawing = Drawing(share * len(judged) + 26, f"{title}: {said}")
    x = Axis(float(edges[0]), float(edges[-1]), 4, 0.76 * drawing.width)
    for place, one in enumerate(judged):
        drawing.text(4, place * share + 8, written(one.name, 48))
        _mirrored(drawing, one, edges, x, (place * share + 20, (place + 1) * share - 4))
    ticks = round_steps(x.low, x.high)
    names = {at: percent(at) if probable else f"{at:g}" for at in ticks}
    drawing.below(x, names, share * len(judged))
    return Plot(title, caption, drawing)


def _mirrored(
    drawing: Drawing, one: _Judged, edges: Floats, x: Axis, span: tuple[float, float]
) -> None:
    """Histograms upwards (right) and downwards (wrong, nothing fits) between these pixels."""
    groups = {
        "right": one.correct,
        "wrong": ~one.correct & one.answerable,
        "nothing": ~one.correct & ~one.answerable,
    }
    counts = {name: np.histogram(one.sureness[of], edges)[0] for name, of in groups.items()}
    up, down = counts["right"].max(), (counts["wrong"] + counts["nothing"]).max()
    least = LEAST_HALF * max(up, down, 1.0)
    y = Axis(max(up, least), -max(down, least), *span)
    places = [x.place(float(edge)) for edge in edges]
    zero = np.zeros(len(edges) - 1)
    stacks = {
        "right": (zero, counts["right"]),
        "wrong": (zero, -counts["wrong"]),
        "nothing": (-counts["wrong"], -counts["wrong"] - counts["nothing"]),
    }
    for colour, (base, top) in stacks.items():
        if groups[colour].any():
            drawing.area([*_steps(places, top, y), *reversed(_steps(places, base, y))], colour)
    drawing.line([(x.start, y.place(0)), (x.end, y.place(0))], "muted", 0.8)
    names = {"right": "right", "wrong": "wrong", "nothing": "nothing fits"}
    for (colour, of), offset in zip(groups.items(), (-8, 8, 20), strict=True):
        if of.any():
            drawing.text(x.end + 7, y.place(0) + offset, f"{of.sum():,} {names[colour]}", colour)


def _steps(places: Sequence[float], heights: Floats, y: Axis) -> list[tuple[float, float]]:
    return [
        (edge, y.place(float(height)))
        for left, right, height in zip(places, places[1:], heights, strict=False)
        for edge in (left, right)
    ]


def reliability_diagram(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """The share of queries that anything answers by confidence, in 15 bins of equally many.

    Of at most four systems: lines about the diagonal cross one another.
    """
    title = "Is the confidence a probability?"
    judged = [one for one in _all_judged(systems) if one.is_probability][:LINES]
    if not judged:
        reason = "no confidence is a probability" if _all_judged(systems) else NO_CONFIDENCE
        return Plot(title, absent=reason)
    bins = {one.name: reliability_bins(one.sureness, one.answerable) for one in judged}
    said = "; ".join(f"{name} {expected_error(its):.3f}" for name, its in bins.items())
    caption = (
        "How often any tool answers, by confidence; on the dotted line it is as often as it "
        "says. Beside the names, the expected calibration error (ECE)."
    )
    return Plot(
        title, caption, reliability_of(f"{title} Expected calibration error: {said}", bins, looks)
    )


def reliability_of(
    label: str, bins: Mapping[str, Sequence[ReliabilityBin]], looks: Mapping[str, Look]
) -> Drawing:
    """Success by confidence, with the expected calibration error beside each name."""
    curves = [
        Curve(
            f"{written(name, NAMED_BRIEFLY)} {expected_error(its):.3f}",
            Look(looks[name].colour, looks[name].marker),
            [(one.confidence, one.accuracy) for one in its],
        )
        for name, its in bins.items()
    ]
    axes, ticks = (UNIT, Axis(-0.02, 1.02, 0, 1)), (FIFTHS, FIFTHS)
    return curve_chart(label, curves, axes, ticks, "confidence", line=1.2, diagonal=True)


def risk_coverage_curves(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """The share of wrong first tools by the share of queries that are answered at all."""
    title = "Errors when only the surest are answered"
    judged = _all_judged(systems)
    if not judged:
        return Plot(title, absent=NO_CONFIDENCE)
    curves: list[Curve] = []
    at_80: list[str] = []
    for one in judged:
        curve = risk_coverage(one.first, one.correct)
        # The first handful of queries says nothing but noise.
        last = len(curve.coverage) - 1
        at = np.unique(np.linspace(min(last, last // 20), last, CURVE_POINTS).astype(np.intp))
        points = list(zip(curve.coverage[at].tolist(), curve.risk[at].tolist(), strict=True))
        curves.append(Curve(written(one.name, NAMED), looks[one.name], points))
        risk = curve.risk[int(np.ceil(0.8 * len(curve.risk))) - 1]
        at_80.append(f"{one.name} {risk:.3f}")
    high = max(0.01, 1.04 * max(risk for curve in curves for _, risk in curve.points))
    drawing = curve_chart(
        f"{title}. Risk at 80 % coverage: {'; '.join(at_80)}",
        curves,
        (UNIT, Axis(0, high, 0, 1)),
        (FIFTHS, {at: percent(at) for at in round_steps(0, high, least=0.01)}),
        "queries answered",
        marked=False,
        rule=0.8,
    )
    caption = "Share of wrong first tools, when the least sure queries get no answer."
    return Plot(title, caption, drawing)


def _edges(values: Floats) -> Floats:
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    return np.linspace(low, high if high > low else low + 1, BARS + 1)


def _all_judged(systems: Sequence[SystemResult]) -> list[_Judged]:
    return [
        _judged(
            system.name, system.outcomes, [one.answer.confidence or 0.0 for one in system.outcomes]
        )
        for system in systems
        if any(outcome.answer.confidence is not None for outcome in system.outcomes)
    ]


def _by_score(system: SystemResult) -> _Judged:
    returned = [
        outcome
        for outcome in system.outcomes
        if outcome.answer.ranked and math.isfinite(outcome.answer.ranked[0].score)
    ]
    return _judged(system.name, returned, [one.answer.ranked[0].score for one in returned])


def _judged(name: str, outcomes: Sequence[QueryResult], sureness: Sequence[float]) -> _Judged:
    said = [outcome.first_probability for outcome in outcomes]
    firsts = sureness if None in said else said
    return _Judged(
        name,
        np.array(sureness, dtype=np.float64),
        np.array(firsts, dtype=np.float64),
        np.array([outcome.first_is_right for outcome in outcomes], dtype=np.bool_),
        np.array([outcome.query.answerable for outcome in outcomes], dtype=np.bool_),
    )
