"""What a log of decisions tells, in figures."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.sample_decisions import MARCH, believable, decision, found, known, record, said
from toolcrib.evaluation.decisions import Latency, Rate, summarise
from toolcrib.router.decision_log import outcome_record

DAY_S = 86_400


def many(count, **fields):
    """Decisions that are alike but for their ids."""
    return [record(id=f"{number}", **fields) for number in range(count)]


def timed(id, kind, ms):
    return record(decision(id, kind, took_ms={"total": ms}))


def test_an_empty_log_has_no_figures():
    summary = summarise([])
    assert (summary.decisions, summary.since, summary.latency) == (0, "", None)
    assert summary.routes == summary.rates == summary.reliability == {}
    assert summary.periods == ()


def test_times_are_told_for_each_route_and_for_all():
    log = [timed(f"t{n}", "tools", float(n)) for n in range(101)] + [timed("k", "knowledge", 7.0)]
    summary = summarise(log)
    assert list(summary.routes) == ["tools", "knowledge"]
    assert summary.routes["tools"].count == 101
    assert summary.routes["tools"].latency == Latency(50.0, 95.0, 99.0)
    assert summary.routes["knowledge"].latency == Latency(7.0, 7.0, 7.0)
    assert summary.latency is not None
    assert summary.latency.p99 == pytest.approx(98.99)


def test_a_rate_is_a_mean_over_the_decisions_that_it_is_known_of():
    log = [*many(4), said("0", route="tools"), said("1", route="both"), said("2", intent="ask")]
    summary = summarise(log)
    assert summary.rates == {"route": Rate(0.5, 2), "intent": Rate(1.0, 1)}
    assert (summary.decisions, summary.feedback) == (4, 3)


def test_a_reported_call_counts_as_something_said():
    log = [*many(2), outcome_record("0", "mail/send", "success", at=MARCH)]
    assert summarise(log).feedback == 1


def test_confidence_is_held_against_success():
    log = []
    for number in range(40):
        sure = 0.9 if number < 20 else 0.4
        log.append(record(decision(str(number), tools=found("a/a", sure=sure), sure=None)))
        right = number < 18 or 20 <= number < 24
        log.append(said(str(number), tools=["a/a" if right else "b/b"]))
    summary = summarise(log)
    assert list(summary.reliability) == ["tools"]
    tools = summary.reliability["tools"]
    low, high = tools.bins
    assert (low.confidence, low.accuracy, low.count) == pytest.approx((0.4, 0.2, 20))
    assert (high.confidence, high.accuracy, high.count) == pytest.approx((0.9, 0.9, 20))
    assert (tools.ece, tools.count) == (pytest.approx(0.1), 40)


def test_a_failed_decision_counts_as_wrong_whatever_was_sure():
    log = [record(decision(kind="both")), said(outcome="failure")]
    for one in summarise(log).reliability.values():
        assert (one.bins[0].accuracy, one.count) == (0.0, 1)
    assert set(summarise(log).reliability) == {"route", "tools", "knowledge"}


def test_where_nothing_is_calibrated_there_is_no_confidence_to_judge():
    log = [record(decision(tools=found("a/a", sure=None), sure=None)), said(outcome="success")]
    assert summarise(log).reliability == {}


def test_verdicts_are_counted_where_turns_went():
    log = [
        record(decision("a")),
        record(decision("b", tools=found(verdict="abstain"))),
        record(decision("c", "knowledge", knowledge=known("x", verdict="fallback"))),
        record(decision("d", "none")),
        record(decision("e", "general", tools=found("w/w", verdict="fallback", fallback=True))),
    ]
    assert summarise(log).verdicts == {
        "tools": {"accept": 1, "abstain": 1, "fallback": 1},
        "knowledge": {"fallback": 1},
    }


def test_stages_that_were_missing_are_counted_once_a_decision_most_frequent_first():
    missing = [("rerank",), ("store", "rerank"), ("rerank", "rerank"), ()]
    log = [record(decision(str(n), degraded=stages)) for n, stages in enumerate(missing)]
    assert list(summarise(log).degraded.items()) == [("rerank", 3), ("store", 1)]


def test_of_a_turn_that_went_to_both_the_better_verdict_counts():
    both = decision(kind="both", tools=found(verdict="abstain"), knowledge=known("x"))
    (period,) = summarise([record(both)]).periods
    assert period.verdicts == {"accept": 1}


def test_a_turn_that_needed_nothing_has_no_verdict():
    (period,) = summarise([record(kind="none")]).periods
    assert (period.verdicts, period.routes) == ({}, {"none": 1})


@pytest.mark.parametrize(
    ("span_s", "step_s"),
    [(0, 60), (1800, 60), (2400, 300), (DAY_S, 3600), (30 * DAY_S, DAY_S), (9e8, 91 * DAY_S)],
)
def test_the_longer_the_log_the_longer_its_periods(span_s, step_s):
    log = [record(id="a"), record(id="b", at=MARCH + span_s)]
    assert summarise(log).step_s == step_s


def test_periods_begin_at_round_times_and_empty_ones_are_left_out():
    log = [record(id=str(n), at=MARCH + 100 + DAY_S * day) for n, day in enumerate((0, 0, 9))]
    first, last = summarise(log).periods
    assert (first.start, last.start) == ("2026-03-01T00:00:00+00:00", "2026-03-10T00:00:00+00:00")
    assert (first.routes, last.routes) == ({"tools": 2}, {"tools": 1})


def test_records_that_cannot_be_read_are_counted():
    assert summarise([record(), {"kind": "decision"}]).unreadable == 1


def test_a_summary_is_json():
    summary = summarise(believable(120))
    assert json.loads(json.dumps(asdict(summary)))["decisions"] == 120


@given(st.permutations(believable(30)))
def test_the_order_of_the_records_does_not_matter(records):
    shuffled, straight = summarise(records), summarise(believable(30))
    assert dict(shuffled.routes) == dict(straight.routes)
    assert shuffled.rates.keys() == straight.rates.keys()
    for name, rate in shuffled.rates.items():
        assert (rate.value, rate.of) == pytest.approx((straight.rates[name].value, rate.of))
    for period, other in zip(shuffled.periods, straight.periods, strict=True):
        assert (period.start, dict(period.verdicts)) == (other.start, dict(other.verdicts))


@given(st.integers(1, 60))
def test_every_decision_is_in_one_route_and_in_one_period(count):
    summary = summarise(believable(count))
    assert sum(one.count for one in summary.routes.values()) == count
    assert sum(sum(period.routes.values()) for period in summary.periods) == count
