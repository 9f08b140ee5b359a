"""Charts of a report: recall by set size, time, and reliability of a confidence.

Each is left out, with the reason, without data. Systems are drawn in their order, in their looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from toolcrib.evaluation.measures import ReliabilityBin, expected_error, reliability_bins
from toolcrib.evaluation.report.svg import (
    GREYED_LOOK,
    SMALL_TEXT_PX,
    WIDTH_PX,
    Axis,
    Curve,
    Drawing,
    Look,
    Plot,
    curve_chart,
    milliseconds,
    one_line,
    percent,
    round_steps,
)
from toolcrib.evaluation.results import SystemResult

FIFTHS = {fifth / 5: percent(fifth / 5) for fifth in range(6)}
MAX_NAME_CHARS, MAX_SHORT_NAME_CHARS = 21, 14
MAX_RELIABILITY_CURVES = 4
BAR_PX, ROW_PX = 9.6, 37


def recall_curves(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """Recall by the number of tools returned, with bands of 95 %."""
    title = "Recall by set size"
    recalls = {
        system.name: sorted(
            (int(measure.removeprefix("recall@")), interval)
            for measure, interval in system.measures.items()
            if measure.startswith("recall@")
        )
        for system in systems
    }
    curves = [
        Curve(
            one_line(name, MAX_NAME_CHARS),
            looks[name],
            [(k, interval.mean) for k, interval in intervals],
            [] if looks[name] is GREYED_LOOK else [(each.low, each.high) for _, each in intervals],
        )
        for name, intervals in recalls.items()
        if len(intervals) > 1
    ]
    if not curves:
        return Plot(title, absent="recall was measured at fewer than two set sizes")
    ks = sorted({k for curve in curves for k, _ in curve.points})
    drawn = [mean for curve in curves for _, mean in curve.points]
    drawn += [edge for curve in curves for edges in curve.band for edge in edges]
    pad = 0.05 * (max(drawn) - min(drawn))
    low, high = min(drawn) - pad, max(drawn) + pad
    last = (f"{name} {each[-1][1].mean:.3f}" for name, each in recalls.items() if each)
    drawing = curve_chart(
        f"{title}. Recall at {ks[-1]}: {'; '.join(last)}",
        curves,
        (Axis(ks[0], ks[-1], 0, 1, log=True), Axis(low, high, 0, 1)),
        ({k: str(k) for k in ks}, {at: percent(at) for at in round_steps(low, high, 6, 0.01)}),
        "tools returned (k)",
        grid=False,
    )
    return Plot(title, "Share of the needed tools that are among the first k.", drawing)


def latency_bars(
    title: str, times: Mapping[str, tuple[float, float]], looks: Mapping[str, Look]
) -> Plot:
    """Bars from the median to the 99th percentile, `times` in milliseconds, on a log scale."""
    timed = {name: pair for name, pair in times.items() if pair[0] > 0}
    if not timed:
        return Plot(title, absent="nothing was timed")
    figures = {
        name: f"{milliseconds(p50)} · {milliseconds(p99)} ms" for name, (p50, p99) in timed.items()
    }
    low = math.floor(math.log10(min(p50 for p50, _ in timed.values())))
    high = max(math.ceil(math.log10(max(p99 for _, p99 in timed.values()))), low + 1)
    ticks = [10.0**power for power in range(low, high + 1)]
    x = Axis(ticks[0], ticks[-1], 4, WIDTH_PX - 8, log=True)
    bottom = ROW_PX * len(timed) + 4
    label = "; ".join(f"{name} {figure}" for name, figure in figures.items())
    drawing = Drawing(bottom + 26, f"{title}: {label}")
    drawing.grid(x, ticks, across=(4, bottom), upright=True)
    for place, (name, (p50, p99)) in enumerate(timed.items()):
        top, colour = 4 + ROW_PX * place, looks[name].colour
        drawing.text(4, top + 10, one_line(name, 36))
        drawing.text(x.end, top + 10, figures[name], "muted", "end")
        y, start, end = top + 26, x.place(p50), x.place(p99)
        edges = y - BAR_PX / 2, y + BAR_PX / 2
        drawing.area(
            [(start, edges[0]), (end, edges[0]), (end, edges[1]), (start, edges[1])], colour
        )
        drawing.line([(start, y - 8), (start, y + 8)], colour, 2.5)
    drawing.line([(4, bottom), (x.end, bottom)], "line", 0.8)
    for tick in ticks:
        anchor = "start" if tick == ticks[0] else "end" if tick == ticks[-1] else "middle"
        drawing.text(x.place(tick), bottom + 13, f"{tick:g} ms", "muted", anchor, SMALL_TEXT_PX)
    caption = "From the median (p50, the tick) to the 99th percentile; logarithmic scale."
    return Plot(title, caption, drawing)


def reliability_diagram(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """The share of queries that any tool answers, by confidence, in 15 bins of equal count.

    A system with some confidences has 0 for the queries without one. At most four systems are
    drawn, since lines about the diagonal cross one another.
    """
    bins: dict[str, tuple[ReliabilityBin, ...]] = {}
    is_any_sure = False
    for system in systems:
        given = [outcome.answer.confidence for outcome in system.outcomes]
        if all(confidence is None for confidence in given):
            continue
        is_any_sure = True
        confidence = np.array([each or 0.0 for each in given], dtype=np.float64)
        if confidence.min() >= 0 and confidence.max() <= 1:
            answerable = [outcome.query.answerable for outcome in system.outcomes]
            bins[system.name] = reliability_bins(confidence, np.array(answerable, dtype=np.bool_))
    drawn = dict(list(bins.items())[:MAX_RELIABILITY_CURVES])
    caption = (
        "How often any tool answers, by confidence; on the dotted line it is as often as it says."
    )
    absent = "no confidence is a probability" if is_any_sure else "no system gives a confidence"
    return reliability_plot(drawn, looks, caption, absent)


def reliability_plot(
    bins: Mapping[str, Sequence[ReliabilityBin]],
    looks: Mapping[str, Look],
    caption: str,
    absent: str,
) -> Plot:
    """Success by confidence, with the expected calibration error beside each name."""
    title = "Is the confidence a probability?"
    if not bins:
        return Plot(title, absent=absent)
    errors = {name: f"{expected_error(each):.3f}" for name, each in bins.items()}
    curves = [
        Curve(
            f"{one_line(name, MAX_SHORT_NAME_CHARS)} {errors[name]}",
            Look(looks[name].colour, looks[name].marker),
            [(each.confidence, each.accuracy) for each in its],
        )
        for name, its in bins.items()
    ]
    label = "; ".join(f"{name} {error}" for name, error in errors.items())
    drawing = curve_chart(
        f"{title} Expected calibration error: {label}",
        curves,
        (Axis(0, 1, 0, 1), Axis(-0.02, 1.02, 0, 1)),
        (FIFTHS, FIFTHS),
        "confidence",
        line=1.2,
        diagonal=True,
    )
    caption += " Beside the names, the expected calibration error (ECE)."
    return Plot(title, caption, drawing)
