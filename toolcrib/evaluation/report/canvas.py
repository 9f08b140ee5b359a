"""Matplotlib's drawings as inline SVG that wears the colours and letters of the page around it.

A drawing is made in sentinel colours, which become CSS variables: the same picture is right in
light and dark. Units are CSS pixels at the drawing's own size, `WIDTH` wide.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

from toolcrib.errors import MissingExtraError

__all__ = [
    "INK",
    "LINE",
    "LOOKS",
    "MIDDLE",
    "MUTED",
    "NOTHING",
    "OTHER",
    "PAPER",
    "RIGHT",
    "SMALL",
    "WIDTH",
    "WRONG",
    "Look",
    "axes_beside",
    "draw",
    "keep_ticks_inside",
    "label_ends",
    "percent",
    "spread",
    "written",
]

WIDTH = 380
"""As a phone shows it, so that its letters are never shrunk."""

TEXT, SMALL = 11.0, 9.8
LABEL_GAP = 13.0
MIDDLE = "center_baseline"
LETTER = 6.3
EDGE = 0.04

INK, MUTED, LINE, PAPER = "#010101", "#010102", "#010103", "#010104"
RIGHT, WRONG, NOTHING = "#010201", "#010202", "#010203"


@dataclass(frozen=True, slots=True)
class Look:
    """How one system is drawn everywhere: told apart by shape as well as by colour.

    `name` is the CSS variable of the colour, without its dashes.
    """

    name: str
    colour: str
    marker: Literal["o", "s", "^", "D", "v", "P"]
    dashes: tuple[float, ...]


LOOKS = tuple(
    Look(f"s{n}", f"#0103{n:02x}", marker, dashes)
    for n, (marker, dashes) in enumerate(
        zip(
            ("o", "s", "^", "D", "v", "P"),
            ((), (5, 1.5), (2, 1.2), (6, 1.5, 1.5, 1.5), (3.5, 1), (1, 1)),
            strict=True,
        )
    )
)
OTHER = Look("other", "#010401", "o", ())
"""For systems beyond the colours that can be told apart."""

VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    LINE: "line",
    PAPER: "paper",
    RIGHT: "right",
    WRONG: "wrong",
    NOTHING: "nothing",
    OTHER.colour: OTHER.name,
} | {look.colour: look.name for look in LOOKS}

STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "toolcrib",
    "text.parse_math": False,
    "font.size": TEXT,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.labelsize": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "xtick.major.pad": 6,
    "ytick.major.pad": 5,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}"
NOT_DRAWN = {f"{SVG}metadata", f"{SVG}style"}
REFERENCE = re.compile(r"url\(#([^)]+)\)|^#(.+)$")
FONT = re.compile(r"font: (?:(\d{3}|bold) )?([\d.]+px) [^;]*")
COLOUR = re.compile(r"#[0-9a-f]{6}")
LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def draw(paint: Callable[[Any], None], height: float, label: str) -> str:
    """What `paint` draws on an empty figure, as an SVG element that `label` describes.

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    with _style() as figure_class:
        figure = figure_class(figsize=(WIDTH / 72, height / 72), dpi=72)
        paint(figure)
        for artist in figure.findobj():
            artist.set_clip_on(False)
        file = BytesIO()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=metadata)
    return _inline(file.getvalue(), label)


def axes_beside(figure: Any, names: Sequence[str]) -> Any:
    """Axes that leave room for these names on their right."""
    letters = max(map(len, names), default=0)
    return figure.add_axes((0.095, 0.15, 0.88 - min(letters * LETTER + 6, 130) / WIDTH, 0.8))


def label_ends(axes: Any, ends: Sequence[tuple[float, str, Look]]) -> None:
    """Write each name beside the height (in data) where its line ends, none over another.

    Names that no room is left for are not written, greyed systems' first.
    """
    low, high = axes.get_ylim()
    span = axes.get_position().height * axes.figure.get_figheight() * 72
    room = int(span / LABEL_GAP) + 1
    kept = sorted(ends, key=lambda end: end[2] is OTHER)[:room]
    kept.sort(key=lambda end: end[0])
    heights = [(y - low) / (high - low) for y, _, _ in kept]
    for y, (_, text, look) in zip(spread(heights, LABEL_GAP / span), kept, strict=True):
        colour = MUTED if look is OTHER else look.colour
        axes.text(1.035, y, text, color=colour, va=MIDDLE, transform=axes.transAxes)


def keep_ticks_inside(axes: Any) -> None:
    """Labels of ticks at the ends of the x axis do not stand out beyond it."""
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    axes.set_xticks(ticks)
    to_axes = axes.transData + axes.transAxes.inverted()
    for tick, label in zip(ticks, axes.get_xticklabels(), strict=True):
        place = to_axes.transform((tick, 0))[0]
        label.set_ha("left" if place < EDGE else "right" if place > 1 - EDGE else "center")


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """The nearest places in [0, 1], by least squares, that are `gap` apart; `wanted` rises.

    Isotonic regression of what is left when each place gives up the room of those before it.
    """
    from scipy.optimize import isotonic_regression  # pyright: ignore[reportMissingTypeStubs]

    if not wanted:
        return []
    before = [gap * place for place in range(len(wanted))]
    fitted: Any = isotonic_regression([y - b for y, b in zip(wanted, before, strict=True)])
    found: list[float] = fitted.x.tolist()
    return [max(0.0, min(y, 1.0 - before[-1])) + b for y, b in zip(found, before, strict=True)]


def written(name: str, most: int) -> str:
    """A name on one line of at most so many characters, without any that XML forbids."""
    printable = "".join("�" if unicodedata.category(c) in {"Cc", "Cs"} else c for c in name)
    line = " ".join(printable.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def percent(share: float, _: object = None) -> str:
    """`0.5` as `50 %`, not to be broken; also as matplotlib asks for the label of a tick."""
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


@contextmanager
def _style() -> Generator[Any]:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise MissingExtraError("the evaluation report", "eval") from missing
    untyped: Any = mpl
    with untyped.rc_context(dict(STYLE)), warnings.catch_warnings():
        # The reader's browser draws the letters; here they are only measured.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield Figure


def _inline(svg: bytes, label: str) -> str:
    root = ET.fromstring(svg)  # noqa: S314 - it was made a moment ago
    referred = {
        found.group(1) or found.group(2)
        for element in root.iter()
        for value in element.attrib.values()
        if (found := REFERENCE.search(value))
    }
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag in NOT_DRAWN or _is_invisible(c)]:
            parent.remove(child)
    drawing = f"{zlib.crc32(svg):08x}-"
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        element.attrib = {
            key.removeprefix(XLINK): _attribute(key, value, drawing)
            for key, value in element.attrib.items()
            if key != "id" or value in referred
        }
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return re.sub(r">\s+<", "><", ET.tostring(root, encoding="unicode"))


def _is_invisible(element: ET.Element) -> bool:
    """The background of a figure or its axes, or the group of a tick that has no line."""
    return element.attrib.get("style") == "fill: none" or (
        element.tag == f"{SVG}g" and not any(e.tag != f"{SVG}g" for e in element.iter())
    )


def _attribute(key: str, value: str, drawing: str) -> str:
    """References made unique to the drawing, as a page holds many; colours made variables."""
    if key == "id":
        return drawing + value
    value = REFERENCE.sub(lambda found: found[0].replace("#", f"#{drawing}", 1), value)
    if key != "style":
        return LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}", value)
    weight = FONT.search(value)
    bold = f"; font-weight: {weight[1]}" if weight and weight[1] else ""
    sized = FONT.sub(lambda font: f"font-size: {font[2]}{bold}", value)
    return COLOUR.sub(lambda colour: f"var(--{VARIABLES[colour[0]]})", sized)
