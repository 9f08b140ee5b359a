"""Fitting: probabilities that hold on queries never seen, from truths that are known."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.calibrations import calibration
from toolcrib import Crib, Settings, ToolSpec
from toolcrib.errors import CalibrationError, MissingExtraError
from toolcrib.evaluation.calibrate import (
    CALIBRATION_FOLDS,
    MIN_QUERIES,
    MIN_SERVER_QUERIES,
    CalibrationFit,
    LabelledEvidence,
    _folds,
    acceptance_curves,
    calibrate,
    figures_of,
    fit_head,
    learn,
    least_probabilities,
    recommended_threshold,
    server_thresholds,
)
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.measures import gate_measures, reliability_bins
from toolcrib.numerics import Floats
from toolcrib.retrieval.calibration import (
    FEATURES,
    QUERY_FEATURES,
    RAW_QUERY_FEATURES,
    AcceptanceCurve,
    Answerability,
    Calibration,
    Figures,
    differences,
    lexical_calibration,
)

IDENTITY: dict[str, Any] = {"dense": "a", "features": 2}
TRUTH = np.resize([1.5, -1.0, 0.5], len(FEATURES)) * np.linspace(1, 0.2, len(FEATURES))
OFFSET = -3.0
ABLE, SHIFT = np.linspace(2.0, 0.0, len(QUERY_FEATURES)), 2.0
"""How likely anything answers: of ten queries about eight."""

TOOLS = 10


def _drawn(count: int, seed: int = 0, offset: float = OFFSET) -> list[LabelledEvidence]:
    """Queries that `ABLE` says are answerable, and tools that are right then as `TRUTH` says."""
    rng = np.random.default_rng(seed)
    found: list[LabelledEvidence] = []
    for place in range(count):
        known = rng.normal(size=(TOOLS, len(FEATURES)))
        known = known[np.argsort(-known @ TRUTH)]
        about = rng.normal(size=len(QUERY_FEATURES))
        able = rng.random() < 1 / (1 + np.exp(-(about @ ABLE + SHIFT)))
        right = (rng.random(TOOLS) < _truth(known, offset)) & able
        found.append(_evidence(f"query {seed} {place}", known, right, about, able=bool(able)))
    return found


def _truth(known: Floats, offset: float = OFFSET) -> Floats:
    return 1 / (1 + np.exp(-(known @ TRUTH + offset)))


def _evidence(
    text: str, known: Floats, right: Any, about: Floats | None = None, *, able: bool = True
) -> LabelledEvidence:
    labels = {f"tool {place}": 1.0 for place in np.flatnonzero(right)}
    if able and not labels:
        labels = {"one that was not found": 1.0}
    query = LabelledQuery(text, text, relevant=labels, answerable=bool(labels))
    about = np.zeros(len(QUERY_FEATURES)) if about is None else about
    labelled = np.asarray(right, bool)
    return LabelledEvidence(
        query, known, about, labelled, "s", lost=int(able and not labelled.any())
    )


def _start(weights: Floats, offset: float) -> Calibration:
    able = Answerability(weights=tuple(ABLE.tolist()), offset=SHIFT)
    return calibration(IDENTITY, weights=tuple(weights.tolist()), offset=offset, answerability=able)


def _sure(made: Calibration, evidence: Sequence[LabelledEvidence]) -> Floats:
    return np.array([made.confidence(one.features, one.about) for one in evidence])


def _all(made: Calibration, one: LabelledEvidence) -> Floats:
    return made.probabilities(one.features, made.confidence(one.features, one.about))


def _firsts(made: Calibration, evidence: Sequence[LabelledEvidence]) -> Floats:
    return np.array([_all(made, one)[0] for one in evidence])


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

    def test_confidence_and_first_tool_are_calibrated_on_fresh_queries(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        right = np.array([one.first_is_right for one in fresh])
        able = np.array([one.answerable for one in fresh])
        assert 0.2 < right.mean() < 0.7
        measured = gate_measures(_sure(fitted, fresh), right, able, _firsts(fitted, fresh))
        assert measured["ece"] < 0.04
        assert measured["ece_first"] < 0.04

    def test_no_tool_is_likelier_than_that_anything_answers(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        assert (_firsts(fitted, fresh) < _sure(fitted, fresh)).all()

    def test_so_is_the_probability_of_every_tool(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        p = np.concatenate([_all(fitted, one) for one in fresh])
        right = np.concatenate([one.right for one in fresh])
        bins = reliability_bins(p, right)
        assert sum(one.count * abs(one.confidence - one.accuracy) for one in bins) / len(p) < 0.02

    def test_its_own_figures_are_what_fresh_queries_say(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        measured = figures_of(fitted, fresh)
        assert fitted.figures.log_loss == pytest.approx(measured.log_loss, abs=0.04)
        assert fitted.figures.auroc == pytest.approx(measured.auroc, abs=0.03)
        assert fitted.figures.queries == fitted.queries == 1000
        assert fitted.figures.ece < 0.06

    def test_its_curve_says_what_accepting_means_for_fresh_queries(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        curve = fitted.curves[""]
        p, right = _sure(fitted, fresh), np.array([one.first_is_right for one in fresh])
        for threshold in (0.0, 0.3, 0.6):
            promised = curve.precision[curve.thresholds.index(threshold)]
            assert right[p >= threshold].mean() == pytest.approx(promised, abs=0.05)

    def test_the_threshold_turns_hardly_anything_answerable_away(
        self, fitted: Calibration, fresh: list[LabelledEvidence]
    ) -> None:
        able = [one for one in fresh if one.answerable]
        assert (_sure(fitted, able) >= fitted.threshold).mean() > 0.94


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
        made = calibrate(_drawn(80, seed=1), IDENTITY, start=start)
        assert made.method == "rescaled"
        ratios = np.array(made.weights) / TRUTH
        assert ratios == pytest.approx(np.full(len(FEATURES), ratios[0]))
        assert _log_loss(made, fresh) < _log_loss(start, fresh)

    def test_a_confidence_that_is_too_low_is_rescaled_whatever_the_folds_do_to_its_order(
        self,
    ) -> None:
        start = _start(TRUTH, OFFSET)
        low = Answerability(weights=start.answerability.weights, offset=SHIFT - 3)
        drawn = _drawn(40, seed=4)
        made = calibrate(drawn, IDENTITY, start=start.model_copy(update={"answerability": low}))
        right = calibrate(drawn, IDENTITY, start=start)
        assert made.answerability.offset > low.offset
        assert made.figures.auroc == right.figures.auroc

    def test_what_is_wrong_is_fitted_anew(self, fresh: list[LabelledEvidence]) -> None:
        start = _start(TRUTH[::-1].copy(), OFFSET)
        made = calibrate(_drawn(600, seed=1), IDENTITY, start=start)
        assert made.method == "fitted"
        assert _log_loss(made, fresh) < _log_loss(start, fresh)

    def test_new_weights_leave_the_scores_of_the_query_itself_out(self) -> None:
        made = calibrate(_drawn(60, seed=1), IDENTITY, start=None)
        weights = dict(zip(FEATURES, made.weights, strict=True))
        assert {weights.pop(name) for name in RAW_QUERY_FEATURES} == {0.0}
        assert all(weights.values())

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
        with pytest.raises(
            CalibrationError, match=rf"^29 labelled queries .*{MIN_QUERIES}, better some"
        ):
            calibrate(_drawn(29), IDENTITY)
        with pytest.raises(CalibrationError, match=r"^1 labelled query is"):
            calibrate(_drawn(1), IDENTITY)
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

    def test_a_single_right_tool_is_too_little_as_well(self) -> None:
        shown = [
            _evidence(one.query.text, one.features, np.arange(TOOLS) == (0 if place == 0 else -1))
            for place, one in enumerate(_drawn(40))
        ]
        with pytest.raises(CalibrationError, match="too few have wrong ones"):
            calibrate(shown, IDENTITY)


def _mixed(count: int, seed: int) -> list[LabelledEvidence]:
    """One query in twenty has no answer, which the best cosine tells and nothing else does.

    All else tells whether the first tool is right, and misleads where no tool is.
    """
    rng = np.random.default_rng(seed)
    found: list[LabelledEvidence] = []
    for place in range(count):
        able = rng.random() > 0.05
        known = np.zeros((2, len(FEATURES)))
        known[0, FEATURES.index("is_first")] = 1
        known[:, FEATURES.index("share_soft")] = rng.normal(0 if able else 1), -2
        about = rng.normal(size=len(QUERY_FEATURES))
        about[COSINE] = rng.normal(2.5 if able else 0)
        first = able and rng.random() < 1 / (1 + np.exp(-2 * known[0, 1]))
        right = [first, able and not first]
        found.append(_evidence(f"mixed {seed} {place}", known, right, about, able=able))
    return found


COSINE = QUERY_FEATURES.index("top_meaning")


class TestUnanswerable:
    """What tells that nothing fits is not given up for what tells the tools apart."""

    @pytest.mark.slow
    @pytest.mark.parametrize("count", [300, 1500])
    def test_no_worse_than_the_best_single_score(self, count: int) -> None:
        fresh = _mixed(4000, 9)
        able = np.array([one.answerable for one in fresh])
        right = np.array([one.first_is_right for one in fresh])
        cosine = np.array([one.about[COSINE] for one in fresh])
        made = calibrate(_mixed(count, 1), IDENTITY)
        ours, single = (gate_measures(p, right, able) for p in (_sure(made, fresh), cosine))
        assert ours["auroc"] > single["auroc"] - 0.01
        assert ours["false_acceptance@95"] < single["false_acceptance@95"] + 0.06
        assert ours["ece"] < 0.1

    def test_rare_ones_are_taken_for_a_tenth(self) -> None:
        fresh = _mixed(2000, 9)
        made = calibrate(_mixed(1500, 1), IDENTITY)
        assert 0.85 < _sure(made, fresh).mean() < 0.93

    def test_its_figures_say_all_that_there_is_to_say(self) -> None:
        made = calibrate(_mixed(300, 1), IDENTITY).figures
        assert None not in made.model_dump().values()
        assert figures_of(calibrate(_mixed(300, 1), IDENTITY), _mixed(300, 2)).queries == 300

    def test_what_falls_is_named(self) -> None:
        made = calibration(IDENTITY)
        worse = Figures(ece=0.2, ece_first=0.3, log_loss=1.0, auroc=0.5, false_acceptance=0.9)
        better = Figures(ece=0.001, ece_first=0.1, log_loss=0.1, auroc=0.99, false_acceptance=0.1)
        bad = made.model_copy(update={"figures": worse})
        assert CalibrationFit(bad, better).falls == (
            "auroc",
            "false_acceptance",
            "ece",
            "ece_first",
        )
        assert CalibrationFit(made.model_copy(update={"figures": better}), worse).falls == ()
        assert CalibrationFit(made, None).falls == ()
        assert CalibrationFit(made, Figures(ece=0.5, log_loss=0.1)).falls == ()


def _twins(shown: Sequence[LabelledEvidence]) -> list[LabelledEvidence]:
    """The same queries, their right tools out of reach."""
    return [
        replace(
            one,
            features=one.features[~one.right],
            about=one.about - 1,
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
        assert (
            np.bincount(folds[: len(shown)]).tolist()
            == [200 // CALIBRATION_FOLDS] * CALIBRATION_FOLDS
        )

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


class TestServers:
    """A curve of its own for every server that has queries enough."""

    def test_a_busy_server_is_told_apart(self) -> None:
        easy = [replace(one, first_server="easy") for one in _drawn(150, 1, offset=1.0)]
        hard = [replace(one, first_server="hard") for one in _drawn(150, 2)]
        made = calibrate([*easy, *hard], IDENTITY)
        assert set(made.curves) == {"", "easy", "hard"}
        assert made.curves["easy"].precision[0] > made.curves["hard"].precision[0]
        assert made.server_thresholds["easy"] != made.server_thresholds["hard"]


def test_what_was_fitted_can_be_kept_and_read(fitted: Calibration) -> None:
    assert Calibration.model_validate(fitted.model_dump(mode="json")) == fitted
    assert differences(fitted.identity, IDENTITY) == ""


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
    known, about = np.zeros((len(right), len(FEATURES))), np.zeros(len(QUERY_FEATURES))
    labels = np.array(right, bool)
    return LabelledEvidence(query, known, about, labels, server, lost, weight, hidden)


def _probabilities(*rows: Sequence[float]) -> list[Floats]:
    return [np.array(row) for row in rows]


def _at(curve: AcceptanceCurve, threshold: float) -> tuple[float, float, float | None]:
    place = curve.thresholds.index(threshold)
    false = None if curve.false_acceptance is None else curve.false_acceptance[place]
    return curve.precision[place], curve.true_acceptance[place], false


FOUR = [_one(YES), _one(NO, YES), _one(NO, answerable=False), _one(YES)]
SURE = (0.9, 0.5, 0.5, 0.2)


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
        curve = acceptance_curves(shown, (0.9, 0.4, 0.6))[""]
        assert _at(curve, 0.0) == pytest.approx((2 / 2.5, 1.0, 1.0))
        assert _at(curve, 0.5) == pytest.approx((1 / 1.5, 0.5, 1.0), abs=1e-6)
        assert _at(curve, 0.7) == pytest.approx((1.0, 0.5, 0.0))

    def test_without_unanswerable_queries_false_acceptance_is_unknown(self) -> None:
        curve = acceptance_curves([_one(YES), _one(NO)], (0.9, 0.4))[""]
        assert curve.false_acceptance is None

    def test_a_server_has_a_curve_of_its_own_where_it_has_queries_enough(self) -> None:
        shown = [_one(YES, server="big")] * MIN_SERVER_QUERIES
        shown += [_one(NO, server="small")] * (MIN_SERVER_QUERIES - 1)
        shown += [_one(NO)] * MIN_SERVER_QUERIES
        curves = acceptance_curves(shown, [0.5] * len(shown))
        assert set(curves) == {"", "big"}
        assert _at(curves["big"], 0.0)[0] == 1.0
        assert curves["big"].queries == MIN_SERVER_QUERIES
        assert curves[""].queries == len(shown)

    def test_a_server_without_answerable_queries_enough_has_no_threshold_of_its_own(self) -> None:
        shown = [_one(YES, server="useful")] * MIN_SERVER_QUERIES
        shown += [_one(NO, server="decoy", answerable=False)] * MIN_SERVER_QUERIES
        curves = acceptance_curves(shown, [0.5] * len(shown))
        assert server_thresholds(shown, curves) == {"useful": 0.5}

    @given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 1)), min_size=1))
    def test_shares_are_shares_and_acceptance_only_falls(
        self, cases: list[tuple[bool, bool, float]]
    ) -> None:
        shown = [_one(right and able, answerable=able) for right, able, _ in cases]
        curve = acceptance_curves(shown, [p for *_, p in cases])[""]
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
        assert recommended_threshold(self._curve(1.0, 0.98, 0.97, 0.96, 0.2)) == 0.2

    def test_nothing_is_turned_away_where_that_is_too_much_to_ask(self) -> None:
        assert recommended_threshold(self._curve(1.0, 0.5)) == 0.0


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


TOPICS = {
    "bank/balance": ("account balance", "how much money", "my balance", "money left", "funds"),
    "bank/transfer": ("send money", "transfer funds", "pay a friend", "wire money", "pay rent"),
    "bank/block": ("lost card", "block my card", "card stolen", "freeze the card", "stop card"),
}


def _tools(examples: int = 5) -> list[ToolSpec]:
    return [
        ToolSpec(
            name=key.partition("/")[2],
            server="bank",
            description=key.partition("/")[2],
            success_examples=texts[:examples],
        )
        for key, texts in TOPICS.items()
    ]


def _queries() -> list[LabelledQuery]:
    asked = [
        LabelledQuery(f"{key}-{n}", f"{text} {extra}", "dev", {key: 1.0})
        for key, texts in TOPICS.items()
        for n, (text, extra) in enumerate(
            zip(texts, ("now", "please", "today", "", "quick"), strict=True)
        )
    ]
    nothing = ("weather in Rome", "play a song", "cook pasta", "learn Greek", "walk the dog")
    return [
        *(
            LabelledQuery(f"{q.id}-{n}", f"{q.text} {n}", "dev", q.relevant)
            for q in asked
            for n in "ab"
        ),
        *(LabelledQuery(text, text, "dev", answerable=False) for text in nothing),
    ]


@pytest.fixture
def bank(settings: Settings) -> Iterator[Crib]:
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(_tools())
        yield crib


def test_a_head_is_fitted_where_nearly_every_tool_has_five_examples(bank: Crib) -> None:
    head = fit_head(bank)
    assert head is not None
    assert head.ids == tuple(sorted(TOPICS))


def test_two_tools_are_enough(bank: Crib) -> None:
    bank.remove_tools("bank/block")
    head = fit_head(bank)
    assert head is not None
    assert len(head.offsets) == len(head.ids) == 2


@pytest.mark.parametrize("examples", [0, 4])
def test_fewer_examples_make_no_head(settings: Settings, examples: int) -> None:
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(_tools(examples))
        assert fit_head(crib) is None


def test_some_tools_without_examples_make_no_head(bank: Crib) -> None:
    bank.index_tools(ToolSpec(name="other", description="Something else."))
    assert fit_head(bank) is None


def test_the_head_speaks_in_every_answer_once_it_is_in_use(bank: Crib) -> None:
    before = bank.find_tools("stop my card", explain=True, gate=False)
    fitted = learn(bank, _queries()).calibration
    bank.tools.save_calibration(fitted)
    after = bank.find_tools("stop my card", explain=True, gate=False)
    assert all("head" not in hit.legs for hit in before.tools)
    assert all(hit.legs["head"] <= 0 for hit in after.tools)
    assert after.tools[0].id == "bank/block"
    assert after.confidence is not None


def test_without_a_head_learning_is_calibrating(settings: Settings) -> None:
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(_tools(1))
        fitted = learn(crib, _queries()).calibration
    assert fitted.head is None
    assert fitted.queries == 35


def test_a_missing_extra_is_named_before_any_query(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    asked: list[int] = []
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(_tools(1))
        with pytest.raises(MissingExtraError, match=r"toolcrib\[eval\]"):
            learn(crib, _queries(), progress=lambda done, _: asked.append(done))
    assert asked == []


def test_a_calibration_by_words_that_stays_is_measured_on_these_queries(
    settings: Settings,
) -> None:
    """With too few queries that share a word with a tool, the shipped calibration stays."""
    foreign = [
        LabelledQuery(f"f-{n}", f"qux{n} zork{n}", "dev", {"bank/block": 1.0}) for n in range(40)
    ]
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(_tools(1))
        identity = crib.tools.calibration_fingerprint()
        shipped = lexical_calibration(None, identity)
        fitted = learn(crib, [*foreign, *_queries()[:20]]).calibration.lexical
    assert shipped is not None
    assert fitted is not None
    assert fitted.weights == shipped.weights
    assert 0 < fitted.figures.queries <= 20 < shipped.figures.queries
