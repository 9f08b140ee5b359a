"""Drawings of a log: what they say in words, and times that people can read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.sample_decisions import MARCH, decision, found, record, said
from toolcrib.evaluation.decisions import summarise
from toolcrib.evaluation.report.decision_plots import (
    reliability_plot,
    route_latency,
    route_mix,
    verdicts_over_time,
)

DAY_S = 86_400


def label(plot):
    return re.search(r'aria-label="([^"]*)"', plot.svg)[1]


def texts(plot):
    return re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg)


def over(*days):
    """A decision on each of these days."""
    log = [record(id=str(n), at=MARCH + day * DAY_S) for n, day in enumerate(days)]
    return verdicts_over_time(summarise(log))


def test_routes_are_named_with_their_counts_and_shares():
    log = [record(id=str(n)) for n in range(3)] + [record(id="k", kind="knowledge")]
    plot = route_mix(summarise(log))
    said_in_words = label(plot).replace("\N{NO-BREAK SPACE}", " ")
    assert said_in_words == "Routes: tools 3 · 75 %; knowledge 1 · 25 %"


def test_times_are_from_the_median_to_the_slowest_of_a_hundred():
    log = [record(decision(str(n), took_ms={"total": float(n)})) for n in range(1, 102)]
    assert label(route_latency(summarise(log))) == "Time per decision: tools 51 · 100 ms"


def test_a_time_that_is_a_power_of_ten_has_a_scale_too():
    plot = route_latency(summarise([record(decision(took_ms={"total": 10.0}))]))
    assert {"10 ms", "100 ms"} <= set(texts(plot))


def test_verdicts_are_counted_over_all_periods():
    log = [
        record(decision("a")),
        record(decision("b", tools=found(verdict="abstain")), at=MARCH + DAY_S),
        record(decision("c"), at=MARCH + 2 * DAY_S),
    ]
    assert label(verdicts_over_time(summarise(log))) == "Verdicts over time: accept 2; abstain 1"


@pytest.mark.parametrize(
    ("days", "every", "ticks"),
    [
        ((0,), "minute", ["00:00"]),
        ((0, 0.1), "5 minutes", ["00:00", "00:30", "01:00", "01:30", "02:00"]),
        ((0, 3), "4 hours", ["1 Mar", "2 Mar", "3 Mar", "4 Mar"]),
        ((0, 20), "day", ["5 Mar", "12 Mar", "19 Mar"]),
        ((0, 2000), "91 days", ["Dec 2027", "Dec 2029"]),
    ],
)
def test_times_are_written_as_finely_as_the_log_is_long(days, every, ticks):
    plot = over(*days)
    assert f"every {every};" in plot.caption
    written = [text for text in texts(plot) if re.search(r"\d:\d|[A-Z]", text)]
    assert written == ticks


@given(st.lists(st.floats(0, 40_000), min_size=1, max_size=8))
def test_any_span_can_be_drawn(days):
    assert over(*days).svg


def test_confidence_is_drawn_by_whose_it_is_with_its_error():
    log = [record(decision(kind="both", sure=0.9)), said(route="both", tools=["mail/send"])]
    plot = reliability_plot(summarise(log))
    assert label(plot).endswith(
        "tools 0.200, 1 judged; route 0.100, 1 judged",
    )


def test_what_cannot_be_drawn_says_why():
    nothing = summarise([])
    plots = (route_mix, route_latency, verdicts_over_time, reliability_plot)
    assert all(plot(nothing).absent and not plot(nothing).svg for plot in plots)
