"""Drawings: names beside lines, safe text, and colours that can be read."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.report.charts import (
    GREYED_LOOK,
    LOOKS,
    Axis,
    Curve,
    Drawing,
    curve_chart,
    one_line,
    round_steps,
    space_out,
)

TEXT_COLOURS = ("ink", "muted", "s0", "s1", "s2", "s3", "s4", "s5", "right", "wrong")
CSS = (files("toolcrib.report") / "style.css").read_text("utf-8")


def test_names_that_collide_part_evenly_around_their_middle():
    assert space_out([0.5, 0.5], 0.2, 0, 1) == pytest.approx([0.4, 0.6])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10).map(sorted))
def test_names_keep_their_order_their_distance_and_the_page(wanted: list[float]):
    places = space_out(wanted, 0.1, 0, 1)
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    assert all(b - a >= 0.1 - 1e-9 for a, b in pairwise(places))


@given(st.text(), st.integers(1, 30))
def test_a_written_name_is_one_short_line(name: str, most: int):
    line = one_line(name, most)
    assert len(line) <= most
    assert "\n" not in line


def test_a_long_name_ends_in_an_ellipsis():
    assert one_line("semantic-router-hybrid", 10) == "semantic-…"


def test_places_rise_with_values_also_on_a_log_scale():
    assert [Axis(0, 4, 100, 200).place(value) for value in (0, 1, 4)] == [100, 125, 200]
    assert [Axis(1, 100, 0, 10, log=True).place(value) for value in (1, 10, 100)] == [0, 5, 10]
    assert Axis(3, 3, 5, 9).place(3) == 5


@pytest.mark.parametrize(
    ("low", "high", "least", "steps"),
    [
        (0, 1, 0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 332, 1, [0, 100, 200, 300]),
        (0, 2, 1, [0, 1, 2]),
        (-0.3, 0.3, 0, [-0.2, 0, 0.2]),
    ],
)
def test_steps_are_round(low: float, high: float, least: float, steps: list[float]):
    assert round_steps(low, high, least=least) == steps


@given(st.floats(-1e3, 1e3), st.floats(1e-2, 1e6))
def test_there_are_few_steps_and_all_within(low: float, span: float):
    steps = round_steps(low, low + span)
    assert len(steps) <= 6
    assert all(low - 1e-6 * span <= step <= low + span + 1e-6 * span for step in steps)


def test_names_without_room_are_left_out_greyed_systems_first():
    drawing = Drawing(50, "names")
    drawing.beside(0, [(n, f"n{n}", GREYED_LOOK if n < 5 else LOOKS[0]) for n in range(9)], (0, 50))
    assert [one.text for one in drawing.texts] == ["n0", "n5", "n6", "n7", "n8"][-4:]


def test_a_curve_is_drawn_with_its_band_its_marks_and_its_name():
    unit = Axis(0, 1, 0, 1)
    curves = [
        Curve("ours", LOOKS[1], [(0, 0.5), (1, 1)], [(0.4, 0.6), (0.9, 1)]),
        Curve("theirs", GREYED_LOOK, [(0, 0.2), (1, 0.3)]),
    ]
    drawing = curve_chart("two", curves, (unit, unit), ({0: "0"}, {}), "x")
    greyed, band, line, marks = drawing.paths[-4:]
    assert (greyed.colour, band.opacity, line.dashes) == ("other", 0.1, LOOKS[1].dashes)
    assert marks.d.count("M") == 2
    assert {"ours", "theirs", "x"} <= {one.text for one in drawing.texts}


def theme(block: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_the_guidelines_say():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(scheme: int):
    colours = theme(CSS.split("@media (prefers-color-scheme: dark)")[scheme])
    for name in TEXT_COLOURS:
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
    assert contrast(colours["ink"], colours["warn"]) >= 4.5
    assert contrast(colours["other"], colours["paper"]) >= 3
