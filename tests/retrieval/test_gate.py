"""The gate: one threshold, stated in three ways, looked up in curves drawn by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.calibrations import CURVE, EASY, calibration
from toolcrib.errors import CalibrationError, SettingsError
from toolcrib.retrieval.gate import GATE_TEXTS, Gate, GateReason, GateSettings, Judgement

CALIBRATION = calibration({}, threshold=0.3, curves={"": CURVE, "mail": EASY})
SHARES = st.floats(0, 1)


def _judged(confidence: float | None = 0.5, server: str = "", **settings: float) -> Judgement:
    return Gate(GateSettings(**settings), CALIBRATION).judge(confidence, server)


def _threshold(server: str = "", **settings: float) -> float | None:
    return _judged(0.5, server, **settings).threshold


@pytest.mark.parametrize(
    ("confidence", "fits", "reason"),
    [
        (0.62, True, "confidence 0.62 reaches the threshold 0.50 (as set)"),
        (0.50, True, "confidence 0.50 reaches the threshold 0.50 (as set)"),
        (0.41, False, "confidence 0.41 is below the threshold 0.50 (as set)"),
    ],
)
def test_what_reaches_the_threshold_fits_and_the_reason_says_why(confidence, fits, reason):
    judged = _judged(confidence, threshold=0.5)
    assert (judged.fits, judged.threshold, judged.reason) == (fits, 0.5, reason)


def test_every_reason_has_its_text() -> None:
    assert set(GATE_TEXTS) == set(GateReason)


def test_nothing_set_means_what_the_calibration_recommends() -> None:
    judged = _judged(0.31)
    assert (judged.fits, judged.threshold) == (True, 0.3)
    assert judged.reason.endswith("(as calibrated)")
    assert not _judged(0.29).fits


@pytest.mark.parametrize(
    ("precision", "threshold"),
    [
        pytest.param(0.5, 0.0, id="all may pass"),
        pytest.param(0.6, 0.2, id="between two steps the higher one"),
        pytest.param(0.75, 0.6, id="what is reached and lost again does not count"),
        pytest.param(0.9, 0.6, id="exactly reached"),
        pytest.param(0.99, 1.0, id="only certainty"),
    ],
)
def test_a_precision_is_looked_up_from_above(precision: float, threshold: float) -> None:
    assert _threshold(target_precision=precision) == threshold


@pytest.mark.parametrize(
    ("share", "threshold"),
    [(1.0, 0.0), (0.5, 0.2), (0.3, 0.4), (0.1, 0.6), (0.05, 0.8), (0.0, 1.0)],
)
def test_a_false_acceptance_is_looked_up_from_above(share: float, threshold: float) -> None:
    assert _threshold(max_false_acceptance=share) == threshold


def test_a_server_with_a_curve_of_its_own_has_its_own_threshold() -> None:
    assert _threshold("mail", target_precision=0.9) == 0.0
    assert _threshold("mail", max_false_acceptance=0.1) == 0.5
    assert _threshold("files", target_precision=0.9) == 0.6
    assert _threshold("", target_precision=0.9) == 0.6


def test_what_is_recommended_for_a_server_goes_before_what_is_for_all() -> None:
    made = CALIBRATION.model_copy(update={"server_thresholds": {"mail": 0.9}})
    gate = Gate(GateSettings(), made)
    assert gate.judge(0.8, "mail").reason == (
        "confidence 0.80 is below the threshold 0.90 (as calibrated for mail)"
    )
    assert gate.judge(0.8, "files").threshold == made.threshold


def test_the_reason_names_what_was_asked_for_and_whose_curve_told() -> None:
    assert _judged(0.7, "mail", max_false_acceptance=0.1).reason == (
        "confidence 0.70 reaches the threshold 0.50 (for a false acceptance of 10% for mail)"
    )
    assert _judged(0.5, "files", target_precision=0.9).reason == (
        "confidence 0.50 is below the threshold 0.60 (for a precision of 90%)"
    )


def test_one_gate_keeps_servers_apart() -> None:
    gate = Gate(GateSettings(target_precision=0.9), CALIBRATION)
    verdicts = [gate.judge(0.4, server).fits for server in ("mail", "files", "mail", "")]
    assert verdicts == [True, False, True, False]


def test_without_a_confidence_all_passes_and_the_reason_names_the_command() -> None:
    for made in (None, CALIBRATION):
        judged = Gate(GateSettings(threshold=0.9), made).judge(None, "mail")
        assert (judged.fits, judged.threshold) == (True, None)
        assert "toolcrib calibrate" in judged.reason


@pytest.mark.parametrize("server", ["", "mail"])
def test_a_false_acceptance_cannot_be_told_without_unanswerable_queries(server: str) -> None:
    positive = CURVE.model_copy(update={"false_acceptance": None})
    made = calibration({}, curves={"": positive, "mail": positive})
    gate = Gate(GateSettings(max_false_acceptance=0.1), made)
    with pytest.raises(CalibrationError, match=r"^gate\.max_false_acceptance: .*unanswerable"):
        gate.judge(0.5, server)


@pytest.mark.parametrize(
    "given_together",
    [
        {"threshold": 0.5, "target_precision": 0.9},
        {"threshold": 0.0, "max_false_acceptance": 0.0},
        {"target_precision": 0.9, "max_false_acceptance": 0.1},
        {"threshold": 0.5, "target_precision": 0.9, "max_false_acceptance": 0.1},
    ],
)
def test_a_threshold_is_stated_in_one_way_only(given_together: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=r"^gate: give one of threshold, target_precision and"):
        GateSettings(**given_together)


def test_verdicts_have_words() -> None:
    fits, not_so = _judged(0.9, threshold=0.5), _judged(0.1, threshold=0.5)
    assert fits.verdict(fell_back=False) == "accept"
    assert not_so.verdict(fell_back=True) == "fallback"
    assert not_so.verdict(fell_back=False) == "abstain"


@given(SHARES, SHARES, st.sampled_from(["", "mail", "files"]))
def test_stricter_wishes_never_lower_the_threshold(one: float, other: float, server: str) -> None:
    low, high = sorted((one, other))
    precise = [_threshold(server, target_precision=wish) or 0 for wish in (low, high)]
    assert precise[0] <= precise[1]
    lenient = [_threshold(server, max_false_acceptance=wish) or 0 for wish in (high, low)]
    assert lenient[0] <= lenient[1]


@given(SHARES, SHARES)
def test_a_surer_answer_is_never_turned_away_where_a_less_sure_one_passes(
    one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert _judged(low).fits <= _judged(high).fits
