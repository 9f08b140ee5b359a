"""The drawings about rankings and about costs; each is left out, with the reason, without data.

All take systems by name, in the order that they are drawn in, and their looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.evaluation.report.canvas import (
    INK,
    MIDDLE,
    MUTED,
    OTHER,
    PAPER,
    SMALL,
    Look,
    axes_beside,
    draw,
    keep_ticks_inside,
    label_ends,
    percent,
    written,
)
from toolcrib.evaluation.results import SystemResult

__all__ = ["STAGES", "Plot", "ablation_bars", "latency_bars", "recall_curves", "token_bars"]

STAGES = (
    "lexical",
    "dense",
    "fusion",
    "fusion+rerank",
    "toolcrib",
    "without-examples",
    "without-anti-patterns",
)
"""The systems that are stages of toolcrib, or toolcrib with something left out."""

ROW = 37.0
"""Height of a row: a name, and a bar under it."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing as an SVG element, or the reason why there is none (`absent`)."""

    title: str
    caption: str = ""
    svg: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    """A system's name, its figure in words, and what paints its bar at a height of 0."""

    name: str
    value: str
    look: Look
    paint: Callable[[Any, float, str], None]


def recall_curves(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """Recall by the number of tools returned, with bands of 95 %."""
    title = "Recall by set size"
    curves = {system.name: _recalls(system) for system in systems}
    curves = {name: curve for name, curve in curves.items() if len(curve) > 1}
    if not curves:
        return Plot(title, absent="recall was measured at fewer than two set sizes")
    ks = sorted({k for curve in curves.values() for k in curve})

    def paint(figure: Any) -> None:
        labels = {name: written(name, 21) for name in curves}
        axes = axes_beside(figure, list(labels.values()))
        # The best lies on top.
        for name, curve in reversed(curves.items()):
            look = looks[name]
            x, means = list(curve), [interval.mean for interval in curve.values()]
            if look is not OTHER:
                lows = [interval.low for interval in curve.values()]
                highs = [interval.high for interval in curve.values()]
                axes.fill_between(x, lows, highs, color=look.colour, alpha=0.12, linewidth=0)
            _line(axes, x, means, look, marker=look.marker)
        axes.set_xscale("log")
        axes.set_xticks(ks, [f"{k}" for k in ks])
        axes.minorticks_off()
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("tools returned (k)")
        axes.yaxis.set_major_formatter(percent)
        last = {name: list(curve.values())[-1].mean for name, curve in curves.items()}
        label_ends(axes, [(y, labels[name], looks[name]) for name, y in last.items()])

    said = "; ".join(f"{name} {list(c.values())[-1].mean:.3f}" for name, c in curves.items())
    return Plot(
        title,
        "Share of the needed tools that are among the first k.",
        draw(paint, 262, f"{title}. Recall at {ks[-1]}: {said}"),
    )


def _recalls(system: SystemResult) -> dict[int, Any]:
    prefix = "recall@"
    found = {int(m.removeprefix(prefix)): i for m, i in system.measures.items() if prefix in m}
    return dict(sorted(found.items()))


def _line(axes: Any, x: Sequence[float], y: Sequence[float], look: Look, marker: str) -> None:
    thin = look is OTHER
    axes.plot(
        x,
        y,
        color=look.colour,
        marker="" if thin else marker,
        linewidth=1.0 if thin else 1.8,
        linestyle=(0, look.dashes) if look.dashes else "-",
    )


def ablation_bars(systems: Sequence[SystemResult], looks: Mapping[str, Look], measure: str) -> Plot:
    """What each stage reaches in `measure`, in the order of the pipeline."""
    title = "What each stage brings"
    by_name = {system.name: system for system in systems if measure in system.measures}
    stages = [by_name[name] for name in STAGES if name in by_name]
    if len(stages) < 2:  # noqa: PLR2004
        names = ", ".join(STAGES[:4])
        return Plot(title, absent=f"it needs two or more of toolcrib's stages ({names}, ...)")
    rows: list[_Row] = []
    for stage in stages:
        interval = stage.measures[measure]

        def paint(axes: Any, y: float, colour: str, i: Any = interval) -> None:
            axes.barh(y, i.mean, height=0.26, color=colour)
            for edge, width in ((PAPER, 3.6), (INK, 1.6)):
                axes.plot([i.low, i.high], [y, y], color=edge, lw=width, solid_capstyle="butt")

        rows.append(_Row(stage.name, f"{interval.mean:.3f}", looks[stage.name], paint))
    caption = f"Mean {_spoken(measure)}; the thin line is the 95 % interval."
    top = max(stage.measures[measure].high for stage in stages)
    return Plot(title, caption, _rows(title, rows, lambda axes: axes.set_xlim(0, top * 1.02)))


def latency_bars(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """Milliseconds of a search, from the median to the 99th percentile, on a log scale."""
    title = "Time per query"
    timed = [system for system in systems if system.latency_ms.get("p50", 0) > 0]
    if not timed:
        return Plot(title, absent="no search was timed")
    rows: list[_Row] = []
    for system in timed:
        p50 = system.latency_ms["p50"]
        p99 = system.latency_ms.get("p99", p50)

        def paint(axes: Any, y: float, colour: str, low: float = p50, high: float = p99) -> None:
            axes.plot([low, high], [y, y], color=colour, linewidth=9, solid_capstyle="butt")
            axes.plot([low, low], [y - 0.21, y + 0.21], color=colour, linewidth=2.5)

        value = f"{milliseconds(p50)} · {milliseconds(p99)} ms"
        rows.append(_Row(system.name, value, looks[system.name], paint))

    def scale(axes: Any) -> None:
        axes.set_xscale("log")
        ends = [ms for system in timed for ms in system.latency_ms.values()]
        lower = _decade(min(ends), math.floor)
        axes.set_xlim(lower, max(10 * lower, _decade(max(ends), math.ceil)))
        axes.xaxis.set_major_formatter(_milliseconds)
        axes.minorticks_off()

    caption = "From the median (p50, the tick) to the 99th percentile; logarithmic scale."
    return Plot(title, caption, _rows(title, rows, scale))


def token_bars(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """Prompt tokens of what is returned, and the share that is saved."""
    title = "Prompt tokens per query"
    costly = [system for system in systems if system.prompt_tokens > 0]
    if not costly:
        return Plot(title, absent="no tools were returned")
    rows: list[_Row] = []
    for system in costly:
        tokens = system.prompt_tokens

        def paint(axes: Any, y: float, colour: str, tokens: float = tokens) -> None:
            axes.barh(y, tokens, height=0.26, color=colour)

        value = f"{tokens:,.0f} · {100 * system.tokens_saved:.1f} % saved"
        rows.append(_Row(system.name, value, looks[system.name], paint))

    def scale(axes: Any) -> None:
        axes.set_xlim(0, max(system.prompt_tokens for system in costly) * 1.02)
        axes.xaxis.set_major_formatter(_thousands)
        axes.locator_params(axis="x", nbins=5)

    caption = "Mean size of the returned definitions, and what is saved against sending every tool."
    return Plot(title, caption, _rows(title, rows, scale))


def milliseconds(ms: float) -> str:
    """Two or more significant digits, `0.41`, `4.1`, `41`."""
    return f"{ms:.2f}" if ms < 1 else f"{ms:.1f}" if ms < 10 else f"{ms:,.0f}"  # noqa: PLR2004


def _milliseconds(ms: float, _: object) -> str:
    return f"{ms:g} ms"


def _thousands(tokens: float, _: object) -> str:
    return f"{tokens:,.0f}"


def _decade(ms: float, towards: Callable[[float], int]) -> float:
    return 10.0 ** towards(math.log10(ms))


def _spoken(measure: str) -> str:
    return measure.replace("ndcg", "nDCG")


def _rows(title: str, rows: Sequence[_Row], scale: Callable[[Any], Any]) -> str:
    """A bar for each row, under its name and its figure."""
    height = ROW * len(rows) + 30

    def paint(figure: Any) -> None:
        axes = figure.add_axes((0.01, 26 / height, 0.97, 1 - 30 / height))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        for y, row in enumerate(rows):
            row.paint(axes, y + 0.2, row.look.colour)
            at: dict[str, Any] = {"va": MIDDLE, "transform": axes.get_yaxis_transform()}
            axes.text(0, y - 0.22, written(row.name, 36), color=INK, **at)
            axes.text(1, y - 0.22, row.value, color=MUTED, ha="right", **at)
        axes.set_yticks([])
        axes.tick_params(axis="x", labelsize=SMALL)
        axes.grid(visible=False, axis="y")
        scale(axes)
        keep_ticks_inside(axes)

    said = "; ".join(f"{row.name} {row.value}" for row in rows)
    return draw(paint, height, f"{title}: {said}")
