"""Log-odds become probabilities, however far out they lie."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.retrieval.calibration import logistic, softmax

ODDS = st.floats(-1e6, 1e6)


@given(ODDS, ODDS)
def test_the_logistic_rises_between_0_and_1_and_is_even_at_0(one, other):
    low, high = sorted((one, other))
    assert 0 < logistic(low) <= logistic(high) <= 1
    assert logistic(0.0) == 0.5


@given(st.dictionaries(st.text(max_size=3), ODDS, min_size=1))
def test_shares_add_up_to_one_and_keep_the_order_of_the_odds(odds):
    shares = softmax(odds)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares[max(odds, key=odds.get)] == max(shares.values())


def test_of_two_things_the_softmax_is_the_logistic_of_their_difference():
    assert softmax({"a": 1.5, "b": 0.2})["a"] == pytest.approx(logistic(1.3))
    assert logistic(math.log(3)) == pytest.approx(0.75)
