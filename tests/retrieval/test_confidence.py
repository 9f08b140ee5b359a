"""Probabilities: what they are made of, what they must be, and what must not move them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.calibrations import calibration, flat
from toolcrib import Crib, Settings
from toolcrib.errors import CalibrationError
from toolcrib.retrieval.confidence import (
    COMPETITORS,
    FEATURES,
    NOTHING,
    SHARP,
    SOFT,
    Calibration,
    Floats,
    default_calibration,
    features,
    read_calibration,
)
from toolcrib.retrieval.fusion import LegScores

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=COMPETITORS + 20)
RANKED = SCORES.map(lambda scores: sorted(scores, reverse=True))
WEIGHTS = st.lists(st.floats(-50, 50), min_size=len(FEATURES), max_size=len(FEATURES))


def _legs(scores: Sequence[float]) -> list[LegScores]:
    return [LegScores(dense=score, lexical=10 * score) for score in scores]


def _column(name: str, scores: Sequence[float], legs: Sequence[LegScores] = ()) -> list[float]:
    return features(scores, legs or _legs(scores))[:, FEATURES.index(name)].tolist()


class TestFeatures:
    """What is known of a candidate, worked by hand."""

    def test_a_lonely_candidate_as_good_as_nothing_is_a_coin_toss(self) -> None:
        assert _column("share_sharp", [NOTHING]) == pytest.approx([0.0])
        assert _column("share_soft", [NOTHING]) == pytest.approx([0.0])

    def test_two_that_are_as_good_as_nothing_have_a_third_each(self) -> None:
        third = math.log(1 / 2)
        assert _column("share_sharp", [NOTHING, NOTHING]) == pytest.approx([third, third])

    @pytest.mark.parametrize(
        ("name", "temperature"), [("share_sharp", SHARP), ("share_soft", SOFT)]
    )
    def test_a_share_is_a_softmax_of_its_temperature(self, name: str, temperature: float) -> None:
        # Three times as likely as nothing: a share of 3/4. Beside one more, of 3/5 and 1/5.
        above = NOTHING + temperature * math.log(3)
        assert _column(name, [above]) == pytest.approx([math.log(3)])
        expected = [math.log(3 / 2), math.log(1 / 4)]
        assert _column(name, [above, NOTHING]) == pytest.approx(expected)

    def test_rank_and_distance_to_the_first(self) -> None:
        scores = [0.9, 0.6, 0.5]
        assert _column("log_rank", scores) == pytest.approx([0, math.log(2), math.log(3)])
        assert _column("is_first", scores) == [1, 0, 0]
        assert _column("gap", scores) == pytest.approx([0, 0.3, 0.4])

    def test_the_best_of_each_leg_is_marked(self) -> None:
        legs = [LegScores(0.2, 7.0), LegScores(0.8, 1.0), LegScores(0.8, 0.0)]
        assert _column("best_dense", [0.5, 0.4, 0.3], legs) == [0, 1, 1]
        assert _column("best_lexical", [0.5, 0.4, 0.3], legs) == [1, 0, 0]

    def test_where_no_word_matched_none_is_the_best_by_words(self) -> None:
        legs = [LegScores(0.2), LegScores(0.1)]
        assert _column("best_lexical", [0.5, 0.4], legs) == [0, 0]

    def test_no_candidates_have_no_features(self) -> None:
        assert features([], []).shape == (0, len(FEATURES))

    @given(SCORES)
    def test_they_are_always_numbers(self, scores: list[float]) -> None:
        known = features(scores, _legs(scores))
        assert known.shape == (len(scores), len(FEATURES))
        assert np.isfinite(known).all()

    @given(st.lists(st.floats(0.3, 1), min_size=COMPETITORS, max_size=COMPETITORS + 5), RANKED)
    def test_what_stands_below_the_competitors_changes_nothing_above(
        self, first: list[float], below: list[float]
    ) -> None:
        top = sorted(first, reverse=True)
        scores = top + [0.3 * score for score in below]
        alone, crowded = features(top, _legs(top)), features(scores, _legs(scores))
        assert crowded[: len(top)] == pytest.approx(alone)


class TestProbabilities:
    """In (0, 1), never rising along the ranking, for any weights."""

    @staticmethod
    def _probabilities(made: Calibration, scores: Sequence[float]) -> list[float]:
        return made.probabilities(features(scores, _legs(scores))).tolist()

    @given(RANKED, WEIGHTS, st.floats(-2000, 2000))
    def test_of_any_calibration(
        self, scores: list[float], weights: list[float], offset: float
    ) -> None:
        made = calibration({}, weights=tuple(weights), offset=offset)
        found = self._probabilities(made, scores)
        assert all(0 < probability < 1 for probability in found)
        assert all(left >= right for left, right in pairwise(found))

    @given(SCORES)
    def test_of_the_shipped_one_in_any_order_of_scores(self, scores: list[float]) -> None:
        found = self._probabilities(default_calibration(), scores)
        assert all(0 < probability < 1 for probability in found)
        assert all(left >= right for left, right in pairwise(found))

    def test_they_are_the_logistic_function_worked_by_hand(self) -> None:
        weights = tuple(float(name == "log_rank") * -1 for name in FEATURES)
        made = calibration({}, weights=weights, offset=math.log(3))
        # Odds of 3, 3/2 and 3/3 at ranks 1, 2 and 3.
        assert self._probabilities(made, [0.9, 0.8, 0.7]) == pytest.approx([3 / 4, 3 / 5, 1 / 2])

    def test_a_lower_one_is_cut_to_what_stands_above_it(self) -> None:
        weights = tuple(float(name == "log_rank") for name in FEATURES)
        made = calibration({}, weights=weights)
        assert self._probabilities(made, [0.9, 0.8, 0.7]) == pytest.approx([0.5, 0.5, 0.5])

    def test_none_for_none(self) -> None:
        assert flat({}, 0.5).probabilities(features([], [])).shape == (0,)

    def test_the_shipped_one_is_surer_of_what_stands_out(self) -> None:
        def first(*scores: float) -> float:
            return self._probabilities(default_calibration(), scores)[0]

        assert first(0.9, 0.3, 0.2) > first(0.9, 0.88, 0.87)
        assert first(0.9, 0.3, 0.2) > first(0.1, 0.09, 0.08)


class TestMismatch:
    """A calibration holds for the models and settings that it was made with."""

    IDENTITY: dict[str, Any] = {"dense": "a", "fusion": {"dense": 0.5}, "reranker": None}  # noqa: RUF012

    def test_the_same_identity_holds(self) -> None:
        assert calibration(self.IDENTITY).mismatch(dict(self.IDENTITY)) == ""

    def test_all_that_differs_is_named_with_both_values(self) -> None:
        now = self.IDENTITY | {"dense": "b", "fusion": {"dense": 0.6}}
        assert calibration(self.IDENTITY).mismatch(now) == (
            "dense 'a', now 'b'; fusion {'dense': 0.5}, now {'dense': 0.6}"
        )

    def test_what_only_one_of_them_has_differs(self) -> None:
        assert calibration(self.IDENTITY).mismatch(self.IDENTITY | {"new": 1}) == (
            "new None, now 1"
        )


class TestReading:
    """What was stored comes back; what is broken is refused with its field."""

    def test_what_was_stored_comes_back(self) -> None:
        made = calibration({"dense": "a", "fusion": {"lexical": 2 / 3}})
        assert read_calibration(made.model_dump(mode="json"), "here") == made

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"weights": [1.0]}, "weights: Tuple should have at least"),
            ({"weights": None}, "weights: Input should be a valid tuple"),
            ({"threshold": 1.5}, "threshold: Input should be less than or equal to 1"),
            ({"offset": "much"}, "offset: Input should be a valid number"),
            ({"curves": {"": {"queries": 1}}}, "curves..thresholds: Field required"),
            ({"figures": {}}, "figures.ece: Field required"),
            ({"from_the_future": 1}, "from_the_future: Extra inputs are not permitted"),
        ],
    )
    def test_what_is_broken_is_refused_with_its_field(
        self, change: dict[str, Any], reason: str
    ) -> None:
        stored = calibration({}).model_dump(mode="json") | change
        with pytest.raises(CalibrationError) as caught:
            read_calibration(stored, "the index")
        assert str(caught.value).startswith(f"the index: {reason}")
        assert str(caught.value).endswith("; run `toolcrib calibrate` again")

    def test_what_lacks_a_field_is_refused_with_it(self) -> None:
        stored = calibration({}).model_dump(mode="json")
        del stored["offset"]
        with pytest.raises(CalibrationError, match=r"^the index: offset: Field required; run"):
            read_calibration(stored, "the index")


class TestShipped:
    """The calibration of the package."""

    def test_it_holds_for_the_settings_that_come_with_it(self) -> None:
        with Crib.open(":memory:", settings=Settings()) as crib:
            assert default_calibration().mismatch(crib.tools.calibration_fingerprint()) == ""
            assert crib.tools.calibration() == default_calibration()

    def test_it_can_answer_all_that_a_gate_may_ask(self) -> None:
        shipped = default_calibration()
        curve = shipped.curves[""]
        assert curve.false_acceptance is not None
        assert list(curve.thresholds) == sorted(curve.thresholds)
        assert list(shipped.needed) == sorted(shipped.needed)
        assert 0 < shipped.threshold < 0.5
        lengths = {len(curve.precision), len(curve.true_acceptance), len(curve.false_acceptance)}
        assert lengths == {len(curve.thresholds)}


def test_features_are_floats() -> None:
    known: Floats = features([0.5], _legs([0.5]))
    assert known.dtype == np.float64
