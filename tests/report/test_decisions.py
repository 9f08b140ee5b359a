"""The page about a log: one document, complete without a network, and safe to open."""

from __future__ import annotations

import re

import pytest

from tests.report.test_page import FETCHING, HOSTILE, Reader
from tests.router.sample_decisions import believable, decision, record, said
from toolcrib.evaluation.decisions import DecisionSummary, summarise
from toolcrib.evaluation.tables import RATES
from toolcrib.report.decisions import render_decisions


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
    assert reader.tags.count("svg") == 2
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
    assert set(summarise([record(kind="both"), told]).rates) == set(RATES)


def test_a_log_that_nobody_said_anything_about_says_so():
    text = read(record()).text
    assert "the accuracy is unknown" in text
    assert "Is the confidence a probability?: left out" in text
    assert "Every stage" in text


def test_small_talk_alone_has_no_verdicts_and_takes_a_page_all_the_same():
    text = read(record(decision(kind="none", took_ms={}))).text
    assert "100 % of the turns go nowhere" in text
    assert "Time per decision: left out, as nothing was timed" in text


def test_a_log_without_decisions_is_a_page_that_says_so():
    reader = read({"kind": "decision"})
    assert "The log has no decisions." in reader.text
    assert "svg" not in reader.tags


def test_a_stage_with_a_hostile_name_is_shown_and_does_nothing():
    reader = read(record(decision(degraded=(HOSTILE, "\ud800"))))
    assert "script" not in reader.tags
    assert HOSTILE.split("</svg>")[1] in reader.text


def labels(*records: object) -> list[str]:
    return read(*records).values("svg", "aria-label")


def test_times_are_from_the_median_to_the_slowest_of_a_hundred():
    log = [record(decision(str(n), took_ms={"total": float(n)})) for n in range(1, 102)]
    assert labels(*log) == ["Time per decision: tools 51 · 100 ms"]


def test_confidence_is_drawn_by_whose_it_is_with_its_error():
    log = [record(decision(kind="both", sure=0.9)), said(route="both", tools=["mail/send"])]
    assert labels(*log)[-1].endswith("tools 0.200; route 0.100")
