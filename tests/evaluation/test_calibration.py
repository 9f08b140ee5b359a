"""Fitting: probabilities that hold on queries never seen, from truths that are known."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.retrieval.calibrations import calibration
from toolcrib.errors import CalibrationError, MissingExtraError
from toolcrib.evaluation.calibration import FOLDS, MIN_QUERIES, _folds, calibrate
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.evidence import LabelledEvidence
from toolcrib.evaluation.gate_measures import gate_measures, reliability_bins
from toolcrib.retrieval.calibration import FEATURES, Calibration, Floats, read_calibration

IDENTITY: dict[str, Any] = {"dense": "a", "features": 1}
TRUTH = np.resize([1.5, -1.0, 0.5], len(FEATURES)) * np.linspace(1, 0.2, len(FEATURES))
OFFSET = -2.5
TOOLS = 10


def _drawn(count: int, seed: int = 0, offset: float = OFFSET) -> list[LabelledEvidence]:
    """Queries whose tools are right with the probability that `TRUTH` says, best first."""
    rng = np.random.default_rng(seed)
    found: list[LabelledEvidence] = []
    for place in range(count):
        known = rng.normal(size=(TOOLS, len(FEATURES)))
        known = known[np.argsort(-known @ TRUTH)]
        right = rng.random(TOOLS) < _truth(known, offset)
        found.append(_evidence(f"query {seed} {place}", known, right))
    return found


def _truth(known: Floats, offset: float = OFFSET) -> Floats:
    return 1 / (1 + np.exp(-(known @ TRUTH + offset)))


def _evidence(text: str, known: Floats, right: Any, server: str = "s") -> LabelledEvidence:
    labels = {f"tool {place}": 1.0 for place in np.flatnonzero(right)}
    query = LabelledQuery(text, text, relevant=labels, answerable=bool(labels))
    return LabelledEvidence(query, known, np.asarray(right, bool), server, lost=0)


def _start(weights: Floats, offset: float) -> Calibration:
    return calibration(IDENTITY, weights=tuple(weights.tolist()), offset=offset)


def _firsts(made: Calibration, evidence: Sequence[LabelledEvidence]) -> Floats:
    return np.array([made.probabilities(one.features)[0] for one in evidence])


def _log_loss(made: Calibration, evidence: Sequence[LabelledEvidence]) -> float:
    p, right = _firsts(made, evidence), np.array([one.first_is_right for one in evidence])
    return float(-np.log(np.where(right, p, 1 - p)).mean())


@pytest.fixture(scope="module")
def fresh() -> list[LabelledEvidence]:
    return _drawn(2000, seed=99)


@pytest.fixture(scope="module")
def fitted() -> Calibration:
    return calibrate(_drawn(1000), IDENTITY)


class TestHolding:
    """What comes out is a probability, on queries that had no part in it."""

    def test_the_confidence_is_calibrated_on_fresh_queries(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        right = np.array([one.first_is_right for one in fresh])
        answerable = np.array([one.answerable for one in fresh])
        assert 0.3 < right.mean() < 0.7
        assert gate_measures(_firsts(fitted, fresh), right, answerable)["ece"] < 0.04

    def test_so_is_the_probability_of_every_tool(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        p = np.concatenate([fitted.probabilities(one.features) for one in fresh])
        right = np.concatenate([one.right for one in fresh])
        bins = reliability_bins(p, right)
        assert sum(one.count * abs(one.confidence - one.accuracy) for one in bins) / len(p) < 0.02

    def test_they_are_those_of_the_truth(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        true = np.array([_truth(one.features)[0] for one in fresh])
        assert np.abs(_firsts(fitted, fresh) - true).mean() < 0.03

    def test_its_own_figures_are_what_fresh_queries_say(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        assert fitted.figures.log_loss == pytest.approx(_log_loss(fitted, fresh), abs=0.04)
        assert fitted.figures.queries == fitted.queries == 1000
        assert fitted.figures.ece < 0.06

    def test_its_curve_says_what_accepting_means_for_fresh_queries(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        curve = fitted.curves[""]
        p, right = _firsts(fitted, fresh), np.array([one.first_is_right for one in fresh])
        for threshold in (0.0, 0.3, 0.6):
            promised = curve.precision[curve.thresholds.index(threshold)]
            assert right[p >= threshold].mean() == pytest.approx(promised, abs=0.05)

    def test_the_threshold_turns_hardly_anything_answerable_away(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        able = [one for one in fresh if one.answerable]
        assert (_firsts(fitted, able) >= fitted.threshold).mean() > 0.94


class TestWhichWay:
    """The calibration that is there, the same rescaled, or a new one: what holds best."""

    def test_what_is_right_already_is_left_as_it_is(self) -> None:
        made = calibrate(_drawn(60, seed=1), IDENTITY, start=_start(TRUTH, OFFSET))
        assert made.method == "default"
        assert made.weights == pytest.approx(tuple(TRUTH))
        assert made.offset == OFFSET

    def test_what_is_only_too_sure_of_itself_is_rescaled(
        self, fresh: list[LabelledEvidence]
    ) -> None:
        start = _start(3 * TRUTH, 3 * OFFSET + 2)
        made = calibrate(_drawn(60, seed=1), IDENTITY, start=start)
        assert made.method == "rescaled"
        ratios = np.array(made.weights) / TRUTH
        assert ratios == pytest.approx(np.full(len(FEATURES), ratios[0]))
        assert _log_loss(made, fresh) < _log_loss(start, fresh)

    def test_what_is_wrong_is_fitted_anew(self, fresh: list[LabelledEvidence]) -> None:
        start = _start(TRUTH[::-1].copy(), OFFSET)
        made = calibrate(_drawn(600, seed=1), IDENTITY, start=start)
        assert made.method == "fitted"
        assert _log_loss(made, fresh) < _log_loss(start, fresh)

    def test_without_one_there_is_nothing_but_to_fit(self) -> None:
        assert calibrate(_drawn(60, seed=1), IDENTITY).method == "fitted"

    def test_a_ranking_is_never_turned_round(self) -> None:
        start = _start(-TRUTH, OFFSET)
        made = calibrate(_drawn(60, seed=1), IDENTITY, start=start)
        turned = np.array(made.weights) @ TRUTH
        assert turned >= 0 or made.method == "default"

    def test_what_it_started_from_is_not_what_is_kept(self) -> None:
        start = _start(TRUTH, OFFSET).model_copy(update={"seed": 5, "identity": {"dense": "b"}})
        made = calibrate(_drawn(60, seed=1), IDENTITY, start=start, seed=3)
        assert (made.identity, made.seed, made.queries) == (IDENTITY, 3, 60)


class TestTooLittle:
    """What labels cannot tell is said, not guessed."""

    def test_too_few_queries(self) -> None:
        with pytest.raises(CalibrationError, match=rf"^29 labelled queries .*{MIN_QUERIES}, some"):
            calibrate(_drawn(29), IDENTITY)
        assert calibrate(_drawn(30), IDENTITY).queries == 30

    def test_hidden_queries_do_not_make_up_for_real_ones(self) -> None:
        shown = _drawn(20)
        with pytest.raises(CalibrationError, match=r"^20 labelled queries"):
            calibrate([*shown, *_twins(shown)], IDENTITY)

    @pytest.mark.parametrize(("right", "which"), [(False, "no"), (True, "every")])
    def test_first_tools_that_are_all_right_or_all_wrong(self, right: bool, which: str) -> None:
        shown = [
            _evidence(one.query.text, one.features, np.array([right] + [not right] * (TOOLS - 1)))
            for one in _drawn(40)
        ]
        with pytest.raises(CalibrationError, match=f"^{which} labelled query has a right tool on"):
            calibrate(shown, IDENTITY)

    @pytest.mark.parametrize("seed", range(3))
    def test_a_single_right_tool_is_too_little_as_well(self, seed: int) -> None:
        shown = [
            _evidence(one.query.text, one.features, np.arange(TOOLS) == (0 if place == 0 else -1))
            for place, one in enumerate(_drawn(40))
        ]
        with pytest.raises(CalibrationError, match="tell apart"):
            calibrate(shown, IDENTITY, seed=seed)

    def test_scikit_learn_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
        with pytest.raises(MissingExtraError, match=r"toolcrib\[eval\]") as caught:
            calibrate(_drawn(40), IDENTITY)
        assert caught.value.extra == "eval"


def _twins(shown: Sequence[LabelledEvidence]) -> list[LabelledEvidence]:
    """The same queries, their right tools out of reach."""
    return [
        replace(
            one,
            features=one.features[~one.right],
            right=np.zeros((~one.right).sum(), bool),
            weight=1 / 9,
            hidden=True,
        )
        for one in shown
        if not one.right.all()
    ]


class TestSeeds:
    """The same data and seed give the same calibration."""

    def test_twice_the_same(self) -> None:
        assert calibrate(_drawn(80), IDENTITY, seed=7) == calibrate(_drawn(80), IDENTITY, seed=7)

    def test_the_order_of_the_queries_does_not_matter(self) -> None:
        made, turned = (calibrate(some, IDENTITY) for some in (_drawn(80), _drawn(80)[::-1]))
        assert made.weights == pytest.approx(turned.weights, rel=1e-4)
        assert made.needed == pytest.approx(turned.needed, abs=1e-4)
        assert made.data_digest == turned.data_digest

    def test_another_seed_parts_the_queries_in_another_way(self) -> None:
        one, other = (calibrate(_drawn(80), IDENTITY, seed=seed) for seed in (0, 1))
        assert (one.seed, other.seed) == (0, 1)
        assert one.figures != other.figures

    def test_the_digest_is_of_texts_and_labels(self) -> None:
        shown = _drawn(40)
        digests = {calibrate(some, IDENTITY).data_digest for some in (shown, shown, shown[:39])}
        text, labels = replace(shown[0].query, text="?"), replace(shown[0].query, relevant={"x": 1})
        for query in (text, labels):
            changed = [replace(shown[0], query=query), *shown[1:]]
            digests.add(calibrate(changed, IDENTITY).data_digest)
        assert len(digests) == 4


class TestHiddenTwins:
    """Queries asked again without their tools stand for unanswerable ones, and tell no secrets."""

    def test_a_twin_is_never_in_another_fold(self) -> None:
        shown = _drawn(200)
        hidden = _twins(shown)
        folds = _folds([*shown, *hidden], seed=0)
        fold = {one.query.text: at for one, at in zip(shown, folds, strict=False)}
        of_hidden = folds[len(shown) :]
        assert [fold[one.query.text] for one in hidden] == of_hidden.tolist()
        assert np.bincount(folds[: len(shown)]).tolist() == [200 // FOLDS] * FOLDS

    def test_figures_are_of_real_queries_alone(self) -> None:
        shown = [one for one in _drawn(200) if one.answerable]
        made = calibrate([*shown, *_twins(shown)], IDENTITY)
        assert made.queries == made.figures.queries == len(shown)
        assert made.figures.auroc is None

    def test_they_tell_what_would_be_accepted_wrongly(self) -> None:
        shown = [one for one in _drawn(200) if one.answerable]
        alone, with_twins = (
            calibrate(shown, IDENTITY),
            calibrate([*shown, *_twins(shown)], IDENTITY),
        )
        assert alone.curves[""].false_acceptance is None
        assert with_twins.curves[""].false_acceptance is not None
        assert len(with_twins.needed) == len(alone.needed)

    def test_their_digest_is_that_of_the_queries(self) -> None:
        shown = _drawn(60)
        both = calibrate([*shown, *_twins(shown)], IDENTITY)
        assert both.data_digest == calibrate(shown, IDENTITY).data_digest


class TestServers:
    """A curve of its own for every server that has queries enough."""

    def test_a_busy_server_is_told_apart(self) -> None:
        easy = [replace(one, first_server="easy") for one in _drawn(150, 1, offset=1.0)]
        hard = [replace(one, first_server="hard") for one in _drawn(150, 2)]
        made = calibrate([*easy, *hard], IDENTITY)
        assert set(made.curves) == {"", "easy", "hard"}
        assert made.curves["easy"].precision[0] > made.curves["hard"].precision[0]
        assert made.server_thresholds["easy"] > made.server_thresholds["hard"]


def test_what_was_fitted_can_be_kept_and_read(fitted: Calibration) -> None:
    assert read_calibration(fitted.model_dump(mode="json"), "here") == fitted
    assert fitted.mismatch(IDENTITY) == ""
