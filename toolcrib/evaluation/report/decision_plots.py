"""The drawings about a log of decisions; each is left out, with the reason, without data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from toolcrib.evaluation.decisions import DecisionSummary, Reliability
from toolcrib.evaluation.report.canvas import (
    INK,
    LOOKS,
    MIDDLE,
    MUTED,
    NOTHING,
    RIGHT,
    WIDTH,
    Look,
    axes_beside,
    draw,
    keep_ticks_inside,
    label_ends,
    percent,
)
from toolcrib.evaluation.report.plots import Plot, milliseconds

__all__ = ["reliability_plot", "route_latency", "route_mix", "verdicts_over_time"]

ROUTES: dict[str, Look] = dict(
    zip(("tools", "knowledge", "both", "general", "none"), LOOKS, strict=False)
)
"""A route has one colour everywhere."""

VERDICTS = {
    "accept": Look("right", RIGHT, "o", ()),
    "fallback": LOOKS[4],
    "abstain": Look("nothing", NOTHING, "D", ()),
}
JUDGES: dict[str, Look] = dict(zip(("tools", "knowledge", "route"), LOOKS, strict=False))

LETTER = 6.3
ROW = 30.0
TICKS = 5
DAY_S = 24 * 3600
YEAR_S = 365 * DAY_S
TICK_STEPS_S = (
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360)),
    *(DAY_S * days for days in (1, 2, 3, 7, 14, 28, 56, 91, 182, 365, 730, 1826, 3652, 36525)),
)
NO_DECISIONS = "there is no decision"


def route_mix(summary: DecisionSummary) -> Plot:
    """How many turns went each way."""
    title = "Routes"
    if not summary.routes:
        return Plot(title, absent=NO_DECISIONS)
    values = {
        name: f"{one.count:,} · {percent(one.count / summary.decisions)}"
        for name, one in summary.routes.items()
    }

    def bar(axes: Any, y: int, name: str) -> None:
        axes.barh(y, summary.routes[name].count, height=0.5, color=ROUTES[name].colour)

    def scale(axes: Any) -> None:
        axes.set_xlim(0, max(one.count for one in summary.routes.values()))
        axes.locator_params(axis="x", nbins=TICKS, integer=True)

    return Plot(title, "Turns by where they went.", _bars(title, values, bar, scale))


def route_latency(summary: DecisionSummary) -> Plot:
    """Milliseconds of a decision by route, from the median over p95 to p99, on a log scale."""
    title = "Time per decision"
    timed = {name: one.latency for name, one in summary.routes.items() if one.latency.p50 > 0}
    if not timed:
        return Plot(title, absent="no decision was timed")
    values = {
        name: f"{milliseconds(one.p50)} · {milliseconds(one.p99)} ms" for name, one in timed.items()
    }

    def bar(axes: Any, y: int, name: str) -> None:
        one, colour = timed[name], ROUTES[name].colour
        axes.plot([one.p50, one.p99], [y, y], color=colour, linewidth=2)
        axes.plot([one.p50, one.p95], [y, y], color=colour, linewidth=9, solid_capstyle="butt")
        axes.plot([one.p50, one.p50], [y - 0.3, y + 0.3], color=colour, linewidth=2.5)

    def scale(axes: Any) -> None:
        axes.set_xscale("log")
        lowest = math.floor(math.log10(min(one.p50 for one in timed.values())))
        highest = math.ceil(math.log10(max(one.p99 for one in timed.values())))
        axes.set_xlim(10.0**lowest, 10.0 ** max(highest, lowest + 1))
        axes.xaxis.set_major_formatter(_milliseconds)
        axes.minorticks_off()

    caption = (
        "From the median (the tick) to p95, the thin line on to p99; in figures, the first and "
        "the last. Logarithmic scale."
    )
    return Plot(title, caption, _bars(title, values, bar, scale))


def verdicts_over_time(summary: DecisionSummary) -> Plot:
    """What the gate made of the turns of each period, one on top of the other."""
    title = "Verdicts over time"
    shown = {
        name: [period.verdicts.get(name, 0) for period in summary.periods]
        for name in VERDICTS
        if any(name in period.verdicts for period in summary.periods)
    }
    if not shown:
        return Plot(title, absent="no turn went to tools or passages")
    starts = [datetime.fromisoformat(period.start).timestamp() for period in summary.periods]
    totals = {name: sum(counts) for name, counts in shown.items()}
    labels = {name: f"{name} {total:,}" for name, total in totals.items()}

    def paint(figure: Any) -> None:
        axes = axes_beside(figure, list(labels.values()))
        below = [0] * len(starts)
        ends: list[tuple[float, str, Look]] = []
        for name, counts in shown.items():
            colour, look = VERDICTS[name].colour, VERDICTS[name]
            axes.bar(starts, counts, 0.86 * summary.step_s, below, align="edge", color=colour)
            ends.append((below[-1] + counts[-1] / 2, labels[name], look))
            below = [under + count for under, count in zip(below, counts, strict=True)]
        axes.set_xlim(starts[0], starts[-1] + summary.step_s)
        axes.grid(visible=False, axis="x")
        axes.locator_params(axis="y", nbins=5, integer=True)
        axes.set_xticks(*_time_ticks(int(starts[0]), int(starts[-1]) + summary.step_s))
        keep_ticks_inside(axes)
        label_ends(axes, ends)

    said = "; ".join(labels.values())
    caption = (
        f"Turns that went to tools or passages, every {_spoken(summary.step_s)}; times are UTC."
    )
    return Plot(title, caption, draw(paint, 262, f"{title}: {said}"))


def reliability_plot(summary: DecisionSummary) -> Plot:
    """How often decisions were right, by how sure they were."""
    title = "Is the confidence a probability?"
    shown = {name: summary.reliability[name] for name in JUDGES if name in summary.reliability}
    if not shown:
        return Plot(
            title, absent="of no decision with a confidence it is known whether it was right"
        )
    labels = {name: f"{name} {one.ece:.3f}" for name, one in shown.items()}

    def paint(figure: Any) -> None:
        axes = axes_beside(figure, list(labels.values()))
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
        for name, one in shown.items():
            _curve(axes, one, JUDGES[name])
        for axis, limits in ((axes.xaxis, axes.set_xlim), (axes.yaxis, axes.set_ylim)):
            limits(-0.02, 1.02)
            axis.set_major_formatter(percent)
        axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        axes.set_xlabel("confidence")
        ends = [(one.bins[-1].accuracy, labels[name], JUDGES[name]) for name, one in shown.items()]
        label_ends(axes, ends)

    said = "; ".join(f"{labels[name]}, {one.count:,} judged" for name, one in shown.items())
    caption = (
        "How often the first tool, the first collection and the route were right, by confidence; "
        "on the dotted line as often as it says. Beside the names, the expected calibration "
        "error (ECE)."
    )
    return Plot(title, caption, draw(paint, 262, f"{title} Expected calibration error: {said}"))


def _curve(axes: Any, one: Reliability, look: Look) -> None:
    style: Any = {"marker": look.marker, "linewidth": 1.2, "markersize": 4.5}
    x, y = [b.confidence for b in one.bins], [b.accuracy for b in one.bins]
    axes.plot(x, y, color=look.colour, **style)


def _bars(
    title: str,
    values: Mapping[str, str],
    bar: Callable[[Any, int, str], None],
    scale: Callable[[Any], None],
) -> str:
    """A row for each name: it, its bar, and its figure in words."""
    height = ROW * len(values) + 32

    def paint(figure: Any) -> None:
        room = LETTER * max(map(len, values.values())) / WIDTH
        axes = figure.add_axes((0.19, 26 / height, 0.78 - room, 1 - 30 / height))
        axes.set_ylim(len(values) - 0.5, -0.5)
        for y, (name, value) in enumerate(values.items()):
            bar(axes, y, name)
            at: dict[str, Any] = {"va": MIDDLE, "transform": axes.get_yaxis_transform()}
            axes.text(-0.04, y, name, color=INK, ha="right", **at)
            axes.text(1.04, y, value, color=MUTED, **at)
        axes.set_yticks([])
        axes.grid(visible=False, axis="y")
        scale(axes)
        keep_ticks_inside(axes)

    said = "; ".join(f"{name} {value}" for name, value in values.items())
    return draw(paint, height, f"{title}: {said}")


def _milliseconds(ms: float, _: object) -> str:
    return f"{ms:g} ms"


def _time_ticks(start: int, end: int) -> tuple[list[int], list[str]]:
    """At most `TICKS` moments from `start` to `end` (Unix time), and their names."""
    length = end - start
    every = next((t for t in TICK_STEPS_S if length / t <= TICKS), TICK_STEPS_S[-1])
    ticks = list(range(-(-start // every) * every, end, every))
    form = "%b %Y" if every > YEAR_S / 2 else "%-d %b" if every >= DAY_S else "%H:%M"
    return ticks, [f"{datetime.fromtimestamp(tick, UTC):{form}}" for tick in ticks]


def _spoken(step_s: int) -> str:
    units = (("day", DAY_S), ("hour", 3600), ("minute", 60))
    unit, seconds = next((unit, s) for unit, s in units if step_s >= s)
    count = step_s // seconds
    return unit if count == 1 else f"{count} {unit}s"
