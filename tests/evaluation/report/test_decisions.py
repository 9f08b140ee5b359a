"""The page about a log: one document, complete without a network, and safe to open."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluation.report.test_page import FETCHING, HOSTILE, Reader
from tests.router.sample_decisions import MARCH, believable, decision, record, said
from toolcrib.evaluation.decisions import DecisionSummary, summarise
from toolcrib.evaluation.report.decisions import (
    RATES,
    reliability_plot,
    render_decisions,
    route_latency,
    route_mix,
    verdicts_over_time,
)


@pytest.fixture(scope="module")
def summary() -> DecisionSummary:
    return summarise(believable())


@pytest.fixture(scope="module")
def written(summary: DecisionSummary) -> str:
    return render_decisions(summary)


@pytest.fixture(scope="module")
def reader(written: str) -> Reader:
    return Reader(written)


def read(*records: object) -> Reader:
    return Reader(render_decisions(summarise(records)))


def test_the_page_is_well_formed_and_holds_every_drawing(reader: Reader):
    assert reader.tags.count("h1") == reader.tags.count("title") == reader.tags.count("main") == 1
    assert reader.tags.count("svg") == 4
    assert "left out" not in reader.text


def test_nothing_is_loaded_from_anywhere(written: str, reader: Reader):
    assert {"script", "link", "iframe", "img", "object"}.isdisjoint(reader.tags)
    fetched = [value or "" for _, name, value in reader.attributes if name in FETCHING]
    assert all(value.startswith("#") for value in fetched)
    assert all(target.startswith("#") for target in re.findall(r"url\(\s*['\"]?([^)]*)", written))


def test_the_first_sentence_says_where_turns_go_and_how_fast(
    summary: DecisionSummary, reader: Reader
):
    most, one = next(iter(summary.routes.items()))
    assert most == "tools"
    share = f"{100 * one.count / 600:.0f}\N{NO-BREAK SPACE}%"
    lead = f"600 decisions: {share} of the turns go to tools, and half are decided within"
    assert " ".join(lead.split()) in reader.text


def test_the_tables_say_what_the_drawings_show(summary: DecisionSummary, reader: Reader):
    for name, one in summary.routes.items():
        assert f" {name} {one.count} " in reader.text
    for name in summary.rates:
        assert RATES[name] in reader.text
    assert f"rerank {summary.degraded['rerank']}" in reader.text


def test_every_rate_has_words():
    told = said(outcome="success", route="tools", intent="", domain="", tools=["a"], collections=[])
    assert set(summarise([record(), told]).rates) == set(RATES)


def test_a_log_that_nobody_said_anything_about_says_so():
    text = read(record()).text
    assert "so nobody knows which were right" in text
    assert "Is the confidence a probability?: left out" in text
    assert "Every stage of every decision was there in time." in text


def test_small_talk_alone_has_no_verdicts_and_takes_a_page_all_the_same():
    text = read(record(decision(kind="none", took_ms={}))).text
    assert "100 % of the turns go nowhere" in text
    assert "Verdicts over time: left out, as no turn went to tools or passages" in text
    assert "Time per decision: left out, as no decision was timed" in text


def test_a_log_without_decisions_is_a_page_that_says_so():
    reader = read({"kind": "decision"})
    assert "Nothing was decided." in reader.text
    assert "svg" not in reader.tags


def test_a_stage_with_a_hostile_name_is_shown_and_does_nothing():
    reader = read(record(decision(degraded=(HOSTILE, "\ud800"))))
    assert "script" not in reader.tags
    assert HOSTILE.split("</svg>")[1] in reader.text


DAY_S = 86_400


def label(plot):
    return plot.drawing.label


def texts(plot):
    return [one.text for one in plot.drawing.texts]


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
    assert over(*days).drawing


def test_confidence_is_drawn_by_whose_it_is_with_its_error():
    log = [record(decision(kind="both", sure=0.9)), said(route="both", tools=["mail/send"])]
    plot = reliability_plot(summarise(log))
    assert label(plot).endswith(
        "tools 0.200, 1 judged; route 0.100, 1 judged",
    )


def test_what_cannot_be_drawn_says_why():
    nothing = summarise([])
    plots = (route_mix, route_latency, verdicts_over_time, reliability_plot)
    assert all(plot(nothing).absent and not plot(nothing).drawing for plot in plots)
