"""Charts of a report in SVG: paths and texts, which `svg.jinja` writes into a page.

Colours are names of the page's CSS variables, so that one drawing fits light and dark. Units are
CSS pixels at the drawing's own size, `WIDTH_PX` wide; y grows downwards. A chart without data is
replaced by the reason. Systems are drawn in order, in their looks.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from toolcrib.evaluation.measures import ReliabilityBin, expected_error, reliability_bins
from toolcrib.evaluation.results import SystemResult

WIDTH_PX = 380
"""Width on a phone, so that letters are never scaled down."""

TEXT_PX, SMALL_TEXT_PX = 11, 9.8
LETTER_WIDTH_PX = 6.3
"""Approximate width of a letter, to reserve space for names."""

NAME_GAP_PX = 13.0
LEFT, TOP = 36, 13
CURVES_HEIGHT, CURVES_BOTTOM = 262, 223

Pixel: TypeAlias = tuple[float, float]
Anchor: TypeAlias = Literal["start", "middle", "end"]

MARKERS = (
    "m-2.6 0a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0z",
    "m-2.5-2.5h5v5h-5z",
    "m0-3.2l3 5.4h-6z",
    "m0-3.4l3.4 3.4-3.4 3.4-3.4-3.4z",
    "m0 3.2l3-5.4h-6z",
    "m-1.1-3.2h2.2v2.1h2.1v2.2h-2.1v2.1h-2.2v-2.1h-2.1v-2.2h2.1z",
)
DASHES = ("", "9 3", "4 2.5", "11 3 3 3", "6 2", "2 2")


@dataclass(frozen=True, slots=True)
class Look:
    """Colour and shape of one system in every drawing.

    `marker`: a path around a point, `dashes`: in SVG's form.
    """

    colour: str
    marker: str = ""
    dashes: str = ""


LOOKS = tuple(Look(f"s{n}", *drawn) for n, drawn in enumerate(zip(MARKERS, DASHES, strict=True)))
GREYED_LOOK = Look("other")
"""Look of systems beyond the distinguishable colours."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Scale of values from `low` to `high` between the pixels `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Pixel of a value."""
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return round(self.start + (at - low) / ((high - low) or 1) * (self.end - self.start), 1)


@dataclass(frozen=True, slots=True)
class Path:
    """Line of this `width`, or a filled area without one; `d`: in SVG's form."""

    d: str
    colour: str
    width: float = 0
    dashes: str = ""
    opacity: float = 1


@dataclass(frozen=True, slots=True)
class WrittenText:
    """One line of text; `y` is its middle."""

    x: float
    y: float
    text: str
    colour: str
    anchor: Anchor
    size: float


@dataclass(slots=True)
class Drawing:
    """Paths and texts in drawing order, and a `label` that describes them."""

    height: float
    label: str
    width: int = WIDTH_PX
    paths: list[Path] = field(default_factory=list[Path])
    texts: list[WrittenText] = field(default_factory=list[WrittenText])

    def line(
        self, points: Iterable[Pixel], colour: str, width: float = 1.8, dashes: str = ""
    ) -> None:
        """Draw a line through these points."""
        self.paths.append(Path(_path_data(points), colour, width, dashes))

    def area(self, points: Iterable[Pixel], colour: str, opacity: float = 1) -> None:
        """Fill the polygon of these points."""
        self.paths.append(Path(f"{_path_data(points)}z", colour, opacity=opacity))

    def markers(self, points: Iterable[Pixel], look: Look) -> None:
        """Draw the look's marker at each point."""
        self.paths.append(Path("".join(f"M{x} {y}{look.marker}" for x, y in points), look.colour))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        anchor: Anchor = "start",
        size: float = TEXT_PX,
    ) -> None:
        """Write one line."""
        self.texts.append(WrittenText(round(x, 1), round(y, 1), text, colour, anchor, size))

    def grid(self, axis: Axis, ticks: Iterable[float], *, across: Pixel, upright: bool) -> None:
        """Thin lines at the ticks of an axis, `across` from one pixel to the other."""
        first, last = across
        for at in map(axis.place, ticks):
            ends = [(at, first), (at, last)] if upright else [(first, at), (last, at)]
            self.line(ends, "line", 0.8)

    def beside(self, x: float, ends: Sequence[tuple[float, str, Look]], span: Pixel) -> None:
        """Write each name near the pixel where its line ends, without overlaps.

        Names without space between the pixels of `span` are omitted, greyed systems' first.
        """
        room = int((span[1] - span[0]) / NAME_GAP_PX) + 1
        kept = sorted(
            sorted(ends, key=lambda end: end[2] is GREYED_LOOK)[:room], key=lambda end: end[0]
        )
        places = space_out([end[0] for end in kept], NAME_GAP_PX, *span)
        for y, (_, name, look) in zip(places, kept, strict=True):
            self.text(x, y, name, "muted" if look is GREYED_LOOK else look.colour)


@dataclass(frozen=True, slots=True)
class Plot:
    """Drawing with its caption, or the reason why it is missing (`absent`)."""

    title: str
    caption: str = ""
    drawing: Drawing | None = None
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """Line through points of rising x, with a name at its end.

    `band`: lowest and highest y of each point.
    """

    name: str
    look: Look
    points: Sequence[Pixel]
    band: Sequence[Pixel] = ()


def curve_chart(
    label: str,
    curves: Sequence[Curve],
    axes: tuple[Axis, Axis],
    ticks: tuple[Mapping[float, str], Mapping[float, str]],
    x_title: str,
    *,
    line: float = 1.8,
    grid: bool = True,
    diagonal: bool = False,
) -> Drawing:
    """Curves with their names beside them; the first lies on top.

    Only `low`, `high` and `log` of the `axes` count. `x_title` names x; `diagonal` draws x = y.
    """
    drawing = Drawing(CURVES_HEIGHT, label)
    longest = max((len(curve.name) for curve in curves), default=0)
    right = WIDTH_PX - 10 - min(longest * LETTER_WIDTH_PX + 6, 130)
    inset = 0.04 * (right - LEFT)
    x = Axis(axes[0].low, axes[0].high, LEFT + inset, right - inset, axes[0].log)
    y = Axis(axes[1].low, axes[1].high, CURVES_BOTTOM, TOP)
    if grid:
        drawing.grid(x, ticks[0], across=(TOP, CURVES_BOTTOM), upright=True)
    drawing.grid(y, ticks[1], across=(LEFT, right), upright=False)
    drawing.line([(LEFT, CURVES_BOTTOM), (right, CURVES_BOTTOM)], "line", 0.8)
    for value, text in ticks[0].items():
        drawing.text(x.place(value), CURVES_BOTTOM + 13, text, "muted", "middle", SMALL_TEXT_PX)
    for value, text in ticks[1].items():
        drawing.text(LEFT - 5, y.place(value), text, "muted", "end", SMALL_TEXT_PX)
    drawing.text((LEFT + right) / 2, CURVES_BOTTOM + 31, x_title, "muted", "middle")
    if diagonal:
        both = [(x.place(at), y.place(at)) for at in (0, 1)]
        drawing.line(both, "muted", 1, "2 2")
    for curve in reversed(curves):
        _draw_curve(drawing, curve, (x, y), line)
    ends = [(y.place(curve.points[-1][1]), curve.name, curve.look) for curve in curves]
    drawing.beside(right + 8, ends, (TOP, CURVES_BOTTOM))
    return drawing


def _draw_curve(drawing: Drawing, curve: Curve, axes: tuple[Axis, Axis], line: float) -> None:
    (x, y), look = axes, curve.look
    places = [(x.place(at), y.place(value)) for at, value in curve.points]
    if curve.band:
        over = [(at, y.place(high)) for (at, _), (_, high) in zip(places, curve.band, strict=True)]
        under = [(at, y.place(low)) for (at, _), (low, _) in zip(places, curve.band, strict=True)]
        drawing.area([*over, *reversed(under)], look.colour, 0.1)
    drawing.line(places, look.colour, 1 if look is GREYED_LOOK else line, look.dashes)
    if look is not GREYED_LOOK:
        drawing.markers(places, look)


def round_steps(low: float, high: float, most: int = 5, least: float = 0.0) -> list[float]:
    """At most `most` + 1 round values from `low` to `high`, at least `least` apart."""
    rough = (high - low) / most or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(least, next(s * power for s in (1, 2, 5, 10) if s * power >= 0.999 * rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * number, 9) for number in range(first, last + 1)]


def space_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Nearest places from `low` to `high`, by least squares, `gap` apart; `wanted` rises.

    Colliding names become a block around their middle, until no blocks collide.
    """
    blocks: list[tuple[float, int]] = []
    for place in wanted:
        blocks.append((place, 1))
        while len(blocks) > 1 and blocks[-2][0] + blocks[-2][1] * gap > blocks[-1][0]:
            (first, count), (second, more) = blocks[-2:]
            both = count + more
            blocks[-2:] = [((first * count + (second - count * gap) * more) / both, both)]
    places = [start + gap * number for start, count in blocks for number in range(count)]
    last = len(places) - 1
    return [
        min(max(place, low + gap * number), high - gap * (last - number))
        for number, place in enumerate(places)
    ]


def one_line(name: str, most: int) -> str:
    """Name on one line of at most so many characters, without characters that XML forbids."""
    printable = "".join("�" if unicodedata.category(c) in {"Cc", "Cs"} else c for c in name)
    line = " ".join(printable.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def percent(share: float) -> str:
    """`0.5` as `50 %` with a no-break space."""
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def milliseconds(ms: float) -> str:
    """Milliseconds with two or more significant digits, `0.41`, `4.1`, `41`."""
    return f"{ms:.2f}" if ms < 1 else f"{ms:.1f}" if ms < 10 else f"{ms:,.0f}"  # noqa: PLR2004


def _path_data(points: Iterable[Pixel]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


# -- charts of a report ----------------------------------------------------------------------

FIFTH_TICKS = {fifth / 5: percent(fifth / 5) for fifth in range(6)}
MAX_CHART_NAME_CHARS, MAX_SHORT_CHART_NAME_CHARS = 21, 14
MAX_RELIABILITY_CURVES = 4
BAR_PX, ROW_PX = 9.6, 37


def recall_curves(systems: Sequence[SystemResult], looks: Mapping[str, Look]) -> Plot:
    """Recall by the number of returned tools, with 95 % bands."""
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
            one_line(name, MAX_CHART_NAME_CHARS),
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
    """Share of queries that any tool answers, by confidence, in 15 bins of equal count.

    A system with some confidences has 0 for queries without one. At most four systems are drawn,
    because lines around the diagonal cross.
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
    caption = "Share of queries that any tool answers, by confidence; the dotted line is perfect."
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
            f"{one_line(name, MAX_SHORT_CHART_NAME_CHARS)} {errors[name]}",
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
        (FIFTH_TICKS, FIFTH_TICKS),
        "confidence",
        line=1.2,
        diagonal=True,
    )
    caption += " Beside the names, the expected calibration error (ECE)."
    return Plot(title, caption, drawing)
