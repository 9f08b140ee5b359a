"""Calibration: probabilities, what they are made of, and where they are kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.calibrations import calibration, flat
from toolcrib import Crib, Settings, ToolSpec, build
from toolcrib.errors import CalibrationError
from toolcrib.indexers.points import layout
from toolcrib.retrieval.calibration import (
    FEATURES,
    NO_TOOL_SCORE,
    RANKED_COMPETITORS,
    SHARP_TEMPERATURE,
    SOFT_TEMPERATURE,
    Calibration,
    default_calibration,
    differences,
    features,
    lexical_calibration,
    load_calibration,
    save_calibration,
    usable_calibration,
)
from toolcrib.retrieval.fusion import FusionWeights, LegScores, convex
from toolcrib.retrieval.legs import Head, pack_head
from toolcrib.store.base import Store, point_id

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=RANKED_COMPETITORS + 20)
RANKED = SCORES.map(lambda scores: sorted(scores, reverse=True))
TERMS = 2
WEIGHTS = st.lists(st.floats(-50, 50), min_size=len(FEATURES), max_size=len(FEATURES))


def _legs(scores: Sequence[float]) -> list[LegScores]:
    return [LegScores(dense=score, lexical=10 * score) for score in scores]


def _column(name: str, scores: Sequence[float], legs: Sequence[LegScores] = ()) -> list[float]:
    return features(scores, legs or _legs(scores), TERMS)[:, FEATURES.index(name)].tolist()


class TestFeatures:
    """What is known of a candidate, worked by hand."""

    def test_a_lonely_candidate_as_good_as_nothing_is_a_coin_toss(self) -> None:
        assert _column("share_sharp", [NO_TOOL_SCORE]) == pytest.approx([0.0])
        assert _column("share_soft", [NO_TOOL_SCORE]) == pytest.approx([0.0])

    @pytest.mark.parametrize(
        ("name", "temperature"),
        [("share_sharp", SHARP_TEMPERATURE), ("share_soft", SOFT_TEMPERATURE)],
    )
    def test_a_share_is_a_softmax_of_its_temperature(self, name: str, temperature: float) -> None:
        # Three times as likely as nothing: a share of 3/4. Beside one more, of 3/5 and 1/5.
        above = NO_TOOL_SCORE + temperature * math.log(3)
        assert _column(name, [above]) == pytest.approx([math.log(3)])
        expected = [math.log(3 / 2), math.log(1 / 4)]
        assert _column(name, [above, NO_TOOL_SCORE]) == pytest.approx(expected)

    def test_rank_and_distance_to_the_first(self) -> None:
        scores = [0.9, 0.6, 0.5]
        assert _column("log_rank", scores) == pytest.approx([0, math.log(2), math.log(3)])
        assert _column("is_first", scores) == [1, 0, 0]
        assert _column("gap", scores) == pytest.approx([0, 0.3, 0.4])

    def test_the_best_of_each_leg_is_marked(self) -> None:
        legs = [LegScores(0.2, 7.0), LegScores(0.8, 1.0), LegScores(0.8, 0.0)]
        assert _column("best_dense", [0.5, 0.4, 0.3], legs) == [0, 1, 1]
        assert _column("best_lexical", [0.5, 0.4, 0.3], legs) == [1, 0, 0]

    def test_the_best_raw_scores_are_those_of_the_query(self) -> None:
        legs = [LegScores(0.2, 100.0), LegScores(0.8, 4.0)]
        assert _column("top_dense", [0.5, 0.4], legs) == [0.8, 0.8]
        assert _column("top_lexical", [0.5, 0.4], legs) == pytest.approx([1 - math.exp(-1)] * 2)
        assert _column("top_term", [0.5, 0.4], legs) == [20.0, 20.0]
        assert _column("top_term", [0.4], legs[1:]) == [4.0 / TERMS]

    def test_where_no_word_matched_none_is_the_best_by_words(self) -> None:
        legs = [LegScores(0.2), LegScores(0.1)]
        assert _column("best_lexical", [0.5, 0.4], legs) == [0, 0]

    def test_no_candidates_have_no_features(self) -> None:
        assert features([], [], TERMS).shape == (0, len(FEATURES))

    @given(SCORES)
    def test_they_are_always_numbers(self, scores: list[float]) -> None:
        known = features(scores, _legs(scores), TERMS)
        assert known.shape == (len(scores), len(FEATURES))
        assert np.isfinite(known).all()

    @given(
        st.lists(st.floats(0.3, 1), min_size=RANKED_COMPETITORS, max_size=RANKED_COMPETITORS + 5),
        RANKED,
    )
    def test_what_stands_below_the_competitors_changes_nothing_above(
        self, first: list[float], below: list[float]
    ) -> None:
        top = sorted(first, reverse=True)
        scores = top + [0.3 * score for score in below]
        alone, crowded = features(top, _legs(top), TERMS), features(scores, _legs(scores), TERMS)
        assert crowded[: len(top)] == pytest.approx(alone)


class TestProbabilities:
    """In (0, 1), never rising along the ranking, for any weights."""

    @staticmethod
    def _probabilities(made: Calibration, scores: Sequence[float]) -> list[float]:
        return made.probabilities(features(scores, _legs(scores), TERMS), 1.0).tolist()

    @given(RANKED, WEIGHTS, st.floats(-2000, 2000))
    def test_of_any_calibration(
        self, scores: list[float], weights: list[float], offset: float
    ) -> None:
        made = calibration({}, weights=tuple(weights), offset=offset)
        found = self._probabilities(made, scores)
        assert all(0 < probability < 1 for probability in found)
        assert all(left >= right for left, right in pairwise(found))

    def test_they_are_the_logistic_function_worked_by_hand(self) -> None:
        weights = tuple(float(name == "log_rank") * -1 for name in FEATURES)
        made = calibration({}, weights=weights, offset=math.log(3))
        # Odds of 3, 3/2 and 3/3 at ranks 1, 2 and 3.
        assert self._probabilities(made, [0.9, 0.8, 0.7]) == pytest.approx([3 / 4, 3 / 5, 1 / 2])


class TestMismatch:
    """A calibration holds for the models and settings that it was made with."""

    IDENTITY: dict[str, Any] = {"dense": "a", "fusion": {"dense": 0.5}, "reranker": None}  # noqa: RUF012

    def test_all_that_differs_is_named_with_both_values(self) -> None:
        now = self.IDENTITY | {"dense": "b", "fusion": {"dense": 0.6}}
        assert differences(self.IDENTITY, now) == (
            "dense 'a', now 'b'; fusion {'dense': 0.5}, now {'dense': 0.6}"
        )

    def test_what_only_one_of_them_has_differs(self) -> None:
        assert differences(self.IDENTITY, self.IDENTITY | {"new": 1}) == "new None, now 1"


class TestShipped:
    """The calibration of the package."""

    def test_it_holds_for_the_settings_that_come_with_it(self) -> None:
        with Crib.open(":memory:", settings=Settings()) as crib:
            assert default_calibration().identity == crib.tools.calibration_fingerprint()
            assert crib.tools.calibration() == default_calibration()

    def test_it_can_answer_all_that_a_gate_may_ask(self) -> None:
        shipped = default_calibration()
        curve = shipped.curves[""]
        assert curve.false_acceptance is not None
        assert list(curve.thresholds) == sorted(curve.thresholds)
        assert list(shipped.needed) == sorted(shipped.needed)
        assert 0 < shipped.threshold < 0.8
        lengths = {len(curve.precision), len(curve.true_acceptance), len(curve.false_acceptance)}
        assert lengths == {len(curve.thresholds)}

    def test_words_alone_are_judged_by_it_whatever_the_encoder_is(self) -> None:
        shipped = default_calibration()
        other = {**shipped.identity, "dense": "another"}
        assert lexical_calibration(None, other) == shipped.lexical
        assert lexical_calibration(calibration(other), other) == shipped.lexical
        own = calibration(other, lexical=calibration(other))
        assert lexical_calibration(own, other) == own.lexical
        assert lexical_calibration(None, {**other, "fusion": {}}) is None


IDENTITY: dict[str, Any] = {"dense": "a", "fusion": {"dense": 1 / 3}, "reranker": None}
TOOLS = [ToolSpec(name="send_mail", description="Send a mail."), ToolSpec(name="read_file")]


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    opened = build.open_store(":memory:", settings, layout(8))
    yield opened
    opened.close()


class TestStore:
    """In the small document of the index, under a key of its own."""

    def test_what_is_saved_is_loaded(self, store: Store) -> None:
        made = calibration(IDENTITY)
        save_calibration(store, IDENTITY, made)
        assert load_calibration(store, IDENTITY) == made

    def test_what_else_is_kept_there_stays(self, store: Store) -> None:
        store.write_meta({"identity": {"dense": "a"}})
        save_calibration(store, IDENTITY, calibration(IDENTITY))
        save_calibration(store, IDENTITY, None)
        assert store.read_meta() == {"identity": {"dense": "a"}}

    def test_without_one_the_shipped_one_serves_where_it_holds(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        for load in (load_calibration, usable_calibration):
            assert load(store, default_calibration().identity) == default_calibration()
            assert load(store, IDENTITY) is None
        assert caplog.text == ""

    def test_one_for_other_models_is_not_saved(self, store: Store) -> None:
        with pytest.raises(CalibrationError) as caught:
            save_calibration(store, IDENTITY | {"dense": "b"}, calibration(IDENTITY))
        assert str(caught.value) == (
            "the calibration was made with dense 'a', now 'b'; run `toolcrib calibrate` again"
        )
        assert store.read_meta() == {}

    @pytest.mark.parametrize(
        "change",
        [{"dense": "b"}, {"fusion": {"dense": 0.5}}, {"reranker": {"name": "r", "weight": 0.5}}],
    )
    def test_one_for_other_models_or_settings_is_refused_and_a_warning_says_why(
        self, store: Store, caplog: pytest.LogCaptureFixture, change: dict[str, Any]
    ) -> None:
        save_calibration(store, IDENTITY, calibration(IDENTITY))
        [name] = change
        with pytest.raises(CalibrationError) as caught:
            load_calibration(store, IDENTITY | change)
        assert str(caught.value).startswith(f"the calibration was made with {name} ")
        assert "`toolcrib calibrate`" in str(caught.value)
        assert usable_calibration(store, IDENTITY | change) is None
        [record] = caplog.records
        assert record.levelname == "WARNING"
        assert record.message.startswith(str(caught.value))

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"weights": [1.0]}, "weights: Tuple should have at least"),
            ({"weights": None}, "weights: Input should be a list"),
            ({"threshold": 1.5}, "threshold: Input should be less than or equal to 1"),
            ({"offset": "much"}, "offset: Input should be a valid number"),
            ({"curves": {"": {"queries": 1}}}, "curves..thresholds: Field required"),
            ({"figures": {}}, "figures.ece: Field required"),
            ({"from_the_future": 1}, "from_the_future: unknown field"),
        ],
    )
    def test_a_broken_one_is_refused_and_the_field_is_named(
        self,
        store: Store,
        caplog: pytest.LogCaptureFixture,
        change: dict[str, Any],
        reason: str,
    ) -> None:
        store.write_meta({"calibration": calibration(IDENTITY).model_dump(mode="json") | change})
        with pytest.raises(CalibrationError) as caught:
            load_calibration(store, IDENTITY)
        assert str(caught.value).startswith(f"the calibration of this index: {reason}")
        assert str(caught.value).endswith("; run `toolcrib calibrate` again")
        assert usable_calibration(store, IDENTITY) is None
        assert reason in caplog.text


class TestCrib:
    """The same, as a library user meets it."""

    @pytest.fixture
    def folder(self, tmp_path: Path, settings: Settings) -> Path:
        """An index whose calibration gives every tool 0.75."""
        with Crib.open(tmp_path / "s", settings=settings) as crib:
            crib.index_tools(*TOOLS)
            crib.tools.save_calibration(flat(crib.tools.calibration_fingerprint(), 0.75))
        return tmp_path / "s"

    def test_it_is_in_use_at_once_and_gone_at_once(self, crib: Crib) -> None:
        crib.index_tools(*TOOLS)
        assert crib.find_tools("send mail").confidence is None
        crib.tools.save_calibration(flat(crib.tools.calibration_fingerprint(), 0.75))
        assert crib.find_tools("send mail").confidence == pytest.approx(0.75)
        crib.tools.save_calibration(None)
        assert crib.find_tools("send mail").confidence is None

    def test_a_rebuild_keeps_it(self, folder: Path, settings: Settings) -> None:
        for rebuild in (True, False):
            with Crib.open(folder, settings=settings, rebuild=rebuild) as crib:
                assert crib.find_tools("send mail").confidence == pytest.approx(0.75)

    def test_after_a_rebuild_with_another_model_it_is_refused(
        self, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = Settings.model_validate({"encoder": {"dense": "deterministic:32"}})
        for rebuild in (True, False):
            with Crib.open(folder, settings=other, rebuild=rebuild) as crib:
                assert crib.find_tools("send mail").confidence is None
                with pytest.raises(CalibrationError, match="was made with dense 'determ"):
                    crib.tools.calibration()
        assert "`toolcrib calibrate`" in caplog.text

    def test_a_broken_one_keeps_nobody_from_searching_and_a_new_one_mends_it(
        self, folder: Path, settings: Settings
    ) -> None:
        with Crib.open(folder, settings=settings) as crib:
            crib.tools.store.write_meta({"calibration": {"weights": []}})
        with Crib.open(folder, settings=settings) as crib:
            assert crib.find_tools("send mail").verdict == "accept"
            crib.tools.save_calibration(flat(crib.tools.calibration_fingerprint(), 0.6))
            assert crib.find_tools("send mail").confidence == pytest.approx(0.6)

    def test_one_can_be_tried_without_keeping_it(self, folder: Path, settings: Settings) -> None:
        with Crib.open(folder, settings=settings) as crib:
            crib.tools.use_calibration(flat(crib.tools.calibration_fingerprint(), 0.6))
            assert crib.find_tools("send mail").confidence == pytest.approx(0.6)
        with Crib.open(folder, settings=settings) as crib:
            assert crib.find_tools("send mail").confidence == pytest.approx(0.75)


HEAD = pack_head(
    ["a", "b", "c"],
    np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=np.float32),
    np.array([0.0, 0.5, 0.0], dtype=np.float32),
)
QUERY = np.array([1.0, 0.0], dtype=np.float32)
A, B, C = map(point_id, "abc")


def test_probabilities_are_those_of_a_softmax_over_the_candidates() -> None:
    known = HEAD.log_probabilities(QUERY, [A, B])
    total = math.exp(1.0) + math.exp(0.5)
    assert known == pytest.approx({A: 1.0 - math.log(total), B: 0.5 - math.log(total)}, abs=1e-5)


def test_a_tool_out_of_reach_changes_no_other_tools_probability() -> None:
    among_all = HEAD.log_probabilities(QUERY, [A, B, C])
    alone = HEAD.log_probabilities(QUERY, [B])
    assert sum(math.exp(value) for value in among_all.values()) == pytest.approx(1.0, abs=1e-5)
    assert alone == pytest.approx({B: 0.0}, abs=1e-6)


def test_tools_that_it_never_saw_are_left_out() -> None:
    assert HEAD.log_probabilities(QUERY, [point_id("new")]) == {}
    assert set(HEAD.log_probabilities(QUERY, [point_id("new"), A])) == {A}


def test_it_is_kept_as_json_to_half_precision() -> None:
    again = Head.model_validate_json(HEAD.model_dump_json())
    assert again == HEAD
    assert again.log_probabilities(QUERY, [A, B, C]) == HEAD.log_probabilities(QUERY, [A, B, C])


def test_its_word_joins_the_score_and_examples_count_in_full() -> None:
    weights = FusionWeights(dense=1.0, lexical=0.0, examples=0.4, head=0.1)
    taught = LegScores(dense=0.3, examples=0.8, head=-1.0)
    plain = LegScores(dense=0.3, examples=0.8)
    fused = convex({"taught": taught, "plain": plain}, weights)
    assert fused == pytest.approx({"taught": 0.8 - 0.1, "plain": 0.3 + 0.4 * 0.5})
