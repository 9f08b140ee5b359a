"""Curves, the recommended threshold and the least probabilities, worked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.evaluation.acceptance import (
    MIN_SERVER_QUERIES,
    acceptance_curves,
    least_probabilities,
    recommended,
    server_thresholds,
)
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.evidence import LabelledEvidence
from toolcrib.retrieval.calibration import FEATURES, AcceptanceCurve, Floats

YES, NO = True, False


def _one(
    *right: bool,
    server: str = "",
    answerable: bool = True,
    lost: int = 0,
    weight: float = 1.0,
    hidden: bool = False,
) -> LabelledEvidence:
    query = LabelledQuery(
        "q", "text", relevant={"a": 1.0} if answerable else {}, answerable=answerable
    )
    known = np.zeros((len(right), len(FEATURES)))
    return LabelledEvidence(query, known, np.array(right, bool), server, lost, weight, hidden)


def _probabilities(*rows: Sequence[float]) -> list[Floats]:
    return [np.array(row) for row in rows]


def _at(curve: AcceptanceCurve, threshold: float) -> tuple[float, float, float | None]:
    place = curve.thresholds.index(threshold)
    false = None if curve.false_acceptance is None else curve.false_acceptance[place]
    return curve.precision[place], curve.true_acceptance[place], false


FOUR = [_one(YES), _one(NO, YES), _one(NO, answerable=False), _one(YES)]
SURE = _probabilities([0.9], [0.5, 0.3], [0.5], [0.2])


class TestCurves:
    """What accepting from a threshold on would have meant."""

    @pytest.mark.parametrize(
        ("threshold", "expected"),
        [
            pytest.param(0.0, (2 / 4, 1.0, 1.0), id="all are accepted"),
            pytest.param(0.2, (2 / 4, 1.0, 1.0), id="a threshold itself is reached"),
            pytest.param(0.21, (1 / 3, 2 / 3, 1.0), id="the last right one is turned away"),
            pytest.param(0.5, (1 / 3, 2 / 3, 1.0), id="just so"),
            pytest.param(0.51, (1.0, 1 / 3, 0.0), id="one is left"),
            pytest.param(1.0, (1.0, 0.0, 0.0), id="none: nothing wrong is accepted"),
        ],
    )
    def test_worked_by_hand(self, threshold: float, expected: tuple[float, float, float]) -> None:
        curve = acceptance_curves(FOUR, SURE)[""]
        assert curve.queries == 4
        assert _at(curve, threshold) == pytest.approx(expected, abs=1e-6)

    def test_hidden_queries_are_unanswerable_and_count_by_their_weight(self) -> None:
        shown = [_one(YES), _one(YES), _one(NO, hidden=True, weight=0.5)]
        curve = acceptance_curves(shown, _probabilities([0.9], [0.4], [0.6]))[""]
        assert _at(curve, 0.0) == pytest.approx((2 / 2.5, 1.0, 1.0))
        assert _at(curve, 0.5) == pytest.approx((1 / 1.5, 0.5, 1.0), abs=1e-6)
        assert _at(curve, 0.7) == pytest.approx((1.0, 0.5, 0.0))

    def test_without_unanswerable_queries_false_acceptance_is_unknown(self) -> None:
        curve = acceptance_curves([_one(YES), _one(NO)], _probabilities([0.9], [0.4]))[""]
        assert curve.false_acceptance is None

    def test_a_server_has_a_curve_of_its_own_where_it_has_queries_enough(self) -> None:
        shown = [_one(YES, server="big")] * MIN_SERVER_QUERIES
        shown += [_one(NO, server="small")] * (MIN_SERVER_QUERIES - 1)
        shown += [_one(NO)] * MIN_SERVER_QUERIES
        curves = acceptance_curves(shown, _probabilities([0.5]) * len(shown))
        assert set(curves) == {"", "big"}
        assert _at(curves["big"], 0.0)[0] == 1.0
        assert curves["big"].queries == MIN_SERVER_QUERIES
        assert curves[""].queries == len(shown)

    def test_a_server_without_answerable_queries_enough_has_no_threshold_of_its_own(self) -> None:
        shown = [_one(YES, server="useful")] * MIN_SERVER_QUERIES
        shown += [_one(NO, server="decoy", answerable=False)] * MIN_SERVER_QUERIES
        curves = acceptance_curves(shown, _probabilities([0.5]) * len(shown))
        assert server_thresholds(shown, curves) == {"useful": 0.5}

    @given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 1)), min_size=1))
    def test_shares_are_shares_and_acceptance_only_falls(
        self, cases: list[tuple[bool, bool, float]]
    ) -> None:
        shown = [_one(right and able, answerable=able) for right, able, _ in cases]
        curve = acceptance_curves(shown, _probabilities(*([p] for *_, p in cases)))[""]
        falling = [curve.true_acceptance, curve.false_acceptance or ()]
        assert all(list(shares) == sorted(shares, reverse=True) for shares in falling)
        assert all(0 <= share <= 1 for shares in (*falling, curve.precision) for share in shares)


class TestRecommended:
    """The highest threshold that turns hardly anything answerable away."""

    @staticmethod
    def _curve(*true_acceptance: float) -> AcceptanceCurve:
        steps = tuple(step / 10 for step in range(len(true_acceptance)))
        return AcceptanceCurve(
            queries=1, thresholds=steps, precision=steps, true_acceptance=true_acceptance
        )

    def test_worked_by_hand(self) -> None:
        assert recommended(self._curve(1.0, 0.98, 0.97, 0.96, 0.2)) == 0.2

    def test_nothing_is_turned_away_where_that_is_too_much_to_ask(self) -> None:
        assert recommended(self._curve(1.0, 0.5)) == 0.0


class TestLeastProbabilities:
    """How far down the ranking of each query one must go for all that it needs."""

    def test_worked_by_hand(self) -> None:
        shown = [
            _one(NO, YES, YES, NO),
            _one(YES, NO),
            _one(YES, NO, lost=1),
            _one(NO, NO, answerable=False),
            _one(NO, hidden=True),
        ]
        unseen = _probabilities([0.9, 0.6, 0.3, 0.1], [0.8, 0.1], [0.7, 0.6], [0.5, 0.4], [0.9])
        assert least_probabilities(shown, unseen) == (0.0, 0.3, 0.8)

    def test_they_ascend_and_are_thinned_out_to_a_bearable_number(self) -> None:
        values = np.random.default_rng(0).random(5000)
        least = least_probabilities([_one(YES)] * 5000, _probabilities(*values[:, None]))
        assert len(least) == 2000
        assert list(least) == sorted(least)
        quantiles = np.linspace(0, 1, 21)
        assert np.quantile(least, quantiles) == pytest.approx(
            np.quantile(values, quantiles), abs=2e-3
        )
