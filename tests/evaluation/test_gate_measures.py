"""A confidence judged: cases worked by hand, and what no order of queries may change."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import MissingExtraError
from toolcrib.evaluation.measures import (
    gate_measures,
    reliability_bins,
    verdict_measures,
)

CONFIDENCE = np.array([0.9, 0.8, 0.6, 0.4, 0.2])
CORRECT = np.array([True, True, False, True, False])
ANSWERABLE = np.array([True, True, False, True, False])

CASES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0]), st.booleans(), st.booleans()),
    min_size=1,
    max_size=40,
)


def _arrays(cases: list[tuple[float, bool, bool]]):
    confidence, correct, answerable = zip(*cases, strict=True)
    # A first tool can only be right where some tool is.
    right = np.array(correct) & np.array(answerable)
    return np.array(confidence), right, np.array(answerable)


def test_separation_worked_by_hand():
    gates = gate_measures(CONFIDENCE, CORRECT, ANSWERABLE)
    # Of 3 x 2 pairs only (0.4, 0.6) is in the wrong order.
    assert gates["auroc"] == pytest.approx(5 / 6)
    # Precision at the ranks of the answerable ones: 1/1, 2/2, 3/4.
    assert gates["auprc"] == pytest.approx((1 + 1 + 3 / 4) / 3)
    # To accept all three, the threshold falls to 0.4, and 0.6 comes along.
    assert gates["false_acceptance@95"] == pytest.approx(1 / 2)


def test_calibration_worked_by_hand():
    gates = gate_measures(CONFIDENCE, CORRECT, ANSWERABLE)
    # Fewer queries than bins: each is a bin of its own.
    assert gates["ece"] == pytest.approx((0.1 + 0.2 + 0.6 + 0.6 + 0.2) / 5)
    assert gates["brier"] == pytest.approx((0.01 + 0.04 + 0.36 + 0.36 + 0.04) / 5)
    assert "ece_first" not in gates


def test_the_first_tool_is_judged_by_its_own_probability():
    first = CONFIDENCE / 2
    gates = gate_measures(CONFIDENCE, CORRECT, ANSWERABLE, first)
    assert gates["ece_first"] == pytest.approx(np.abs(first - CORRECT).mean())
    assert gates["ece"] == gate_measures(CONFIDENCE, CORRECT, ANSWERABLE)["ece"]


def test_risk_is_that_of_the_surest_four_fifths():
    assert gate_measures(CONFIDENCE, CORRECT, ANSWERABLE)["risk@80"] == pytest.approx(1 / 4)


def test_correlation_is_pearsons():
    gates = gate_measures(CONFIDENCE, CORRECT, ANSWERABLE)
    # Means 0.58 and 0.6; covariance 0.36 of sums, variances 0.328 and 1.2 of sums.
    assert gates["correlation"] == pytest.approx(0.36 / (0.328 * 1.2) ** 0.5)


def test_bins_hold_as_equal_a_count_as_can_be():
    confidence = np.linspace(0, 1, 32)
    bins = reliability_bins(confidence, confidence > 0.5)
    assert len(bins) == 15
    assert sorted(one.count for one in bins) == [2] * 13 + [3] * 2
    assert [one.confidence for one in bins] == sorted(one.confidence for one in bins)


def test_a_constant_confidence_that_is_the_hit_rate_is_perfectly_calibrated():
    confidence = np.full(60, 0.5)
    correct = np.arange(60) < 30
    gates = gate_measures(confidence, correct, correct, confidence)
    assert gates["ece"] == gates["ece_first"] == pytest.approx(0)
    assert gates["risk@80"] == pytest.approx(0.5)
    assert "correlation" not in gates


def test_without_both_kinds_of_queries_there_is_nothing_to_separate():
    everything = np.ones(5, dtype=bool)
    for answerable in (everything, ~everything):
        gates = gate_measures(CONFIDENCE, CORRECT & answerable, answerable)
        assert not gates.keys() & {"auroc", "auprc", "false_acceptance@95"}
        assert {"ece", "brier", "risk@80"} <= gates.keys()


def test_a_confidence_beyond_one_is_no_probability_but_still_separates():
    gates = gate_measures(CONFIDENCE * 10, CORRECT, ANSWERABLE)
    assert not gates.keys() & {"ece", "brier"}
    assert gates["auroc"] == pytest.approx(5 / 6)


def test_without_queries_there_are_no_gates():
    empty = np.array([])
    assert gate_measures(empty, empty.astype(bool), empty.astype(bool)) == {}


def test_verdicts_are_shares_and_accepted_precision_looks_at_accepted_ones_only():
    verdicts = ["accept", "accept", "fallback", "abstain"]
    correct = np.array([True, False, True, False])
    assert verdict_measures(verdicts, correct) == {
        "accepted": 0.5,
        "fallback": 0.25,
        "abstained": 0.25,
        "accepted_precision": 0.5,
    }
    assert "accepted_precision" not in verdict_measures(["abstain"], np.array([False]))


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(MissingExtraError, match=r"toolcrib\[eval\]"):
        gate_measures(CONFIDENCE, CORRECT, ANSWERABLE)


@given(CASES)
def test_shares_are_shares(cases: list[tuple[float, bool, bool]]):
    gates = gate_measures(*_arrays(cases))
    assert all(0 <= value <= 1 for name, value in gates.items() if name != "correlation")


@given(CASES, st.randoms(use_true_random=False))
def test_the_order_of_the_queries_changes_nothing(cases, random):
    shuffled = list(cases)
    random.shuffle(shuffled)
    assert gate_measures(*_arrays(shuffled)) == pytest.approx(gate_measures(*_arrays(cases)))


@given(CASES)
def test_all_bins_together_hold_all_queries_and_their_hit_rate(cases):
    confidence, correct, _ = _arrays(cases)
    bins = reliability_bins(confidence, correct)
    assert sum(one.count for one in bins) == len(cases)
    assert sum(one.count * one.accuracy for one in bins) == pytest.approx(correct.sum())
