"""The logistic function, the softmax and the logistic fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toolcrib.numerics import (
    exclusive_probabilities,
    fit_logistic,
    log_softmax,
    sigmoid,
    softmax,
)

LOG_ODDS = st.floats(-1e6, 1e6)
ROWS = arrays(np.float64, (3, 4), elements=st.floats(-1e3, 1e3))


@given(LOG_ODDS, LOG_ODDS)
def test_the_sigmoid_rises_between_0_and_1_and_is_even_at_0(one, other):
    low, high = sorted((one, other))
    assert 0 < sigmoid(low) <= sigmoid(high) <= 1
    assert sigmoid(0.0) == 0.5


@given(ROWS)
def test_the_sigmoid_of_an_array_is_that_of_its_numbers(rows):
    assert sigmoid(rows) == pytest.approx(np.vectorize(lambda each: sigmoid(float(each)))(rows))


@given(ROWS)
def test_rows_of_a_softmax_add_up_to_1(rows):
    assert softmax(rows).sum(axis=-1) == pytest.approx(np.ones(3))
    assert np.exp(log_softmax(rows)) == pytest.approx(softmax(rows))


@given(st.dictionaries(st.text(max_size=3), LOG_ODDS, min_size=1))
def test_exclusive_probabilities_add_up_to_1_and_keep_the_order_of_the_odds(odds):
    shares = exclusive_probabilities(odds)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares[max(odds, key=odds.get)] == max(shares.values())


def test_the_fit_agrees_with_scikit_learn():
    # Here, as every worker of a run would load it, for a second.
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(300, 3))
    labels = inputs @ [1.5, -2.0, 0.3] + generator.logistic(size=300) > 0
    weighting = generator.uniform(0.5, 2.0, size=300)
    reference = LogisticRegression(C=1 / 2.0, fit_intercept=False, tol=1e-10)
    reference.fit(inputs, labels, sample_weight=weighting)
    fitted = fit_logistic(inputs, labels, ridge=2.0, sample_weights=weighting)
    assert fitted == pytest.approx(reference.coef_[0], abs=1e-5)
