"""Gate: one threshold, stated in three ways, and what an answer says by it, or withholds."""

from __future__ import annotations

import itertools
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.calibrations import CURVE, EASY, calibration, flat
from tests.retrieval.conftest import GENERAL, TOOLS, Open
from toolcrib import Crib, Equals, FindResult, Scope, ToolSpec
from toolcrib.errors import CalibrationError, QueryError, SettingsError
from toolcrib.records import ToolHit
from toolcrib.records.codec import as_json
from toolcrib.retrieval.gate import Assessor, GateSettings, Judgement, judge
from toolcrib.store.base import Store

CALIBRATION = calibration({}, threshold=0.3, curves={"": CURVE, "mail": EASY})
SHARES = st.floats(0, 1)


def _judged(confidence: float | None = 0.5, server: str = "", **settings: float) -> Judgement:
    return judge(GateSettings(**settings), CALIBRATION, confidence, server)


def _threshold(server: str = "", **settings: float) -> float | None:
    return _judged(0.5, server, **settings).threshold


@pytest.mark.parametrize(
    ("confidence", "fits", "reason"),
    [
        (0.62, True, "confidence 0.62 reaches the threshold 0.50 (as set)"),
        (0.50, True, "confidence 0.50 reaches the threshold 0.50 (as set)"),
        (0.41, False, "confidence 0.41 is below the threshold 0.50 (as set)"),
        (0.4996, False, "confidence 0.4996 is below the threshold 0.5000 (as set)"),
        (0.503, True, "confidence 0.503 reaches the threshold 0.500 (as set)"),
    ],
)
def test_what_reaches_the_threshold_fits_and_the_reason_says_why(confidence, fits, reason):
    judged = _judged(confidence, threshold=0.5)
    assert (judged.fits, judged.threshold, judged.reason) == (fits, 0.5, reason)


@given(confidence=SHARES, threshold=SHARES)
def test_a_reason_prints_different_numbers_differently(confidence, threshold):
    told = re.findall(
        r"(?:confidence|threshold) (\S+)", _judged(confidence, threshold=threshold).reason
    )
    assert (told[0] == told[1]) == (confidence == threshold)


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
    assert judge(GateSettings(), made, 0.8, "mail").reason == (
        "confidence 0.80 is below the threshold 0.90 (as calibrated for mail)"
    )
    assert judge(GateSettings(), made, 0.8, "files").threshold == made.threshold


def test_the_reason_names_what_was_asked_for_and_whose_curve_told() -> None:
    assert _judged(0.7, "mail", max_false_acceptance=0.1).reason == (
        "confidence 0.70 reaches the threshold 0.50 (for a false acceptance of 10% for mail)"
    )
    assert _judged(0.5, "files", target_precision=0.9).reason == (
        "confidence 0.50 is below the threshold 0.60 (for a precision of 90%)"
    )


def test_without_a_confidence_all_passes_and_the_reason_names_the_command() -> None:
    for made in (None, CALIBRATION):
        judged = judge(GateSettings(threshold=0.9), made, None, "mail")
        assert (judged.fits, judged.threshold) == (True, None)
        assert "toolcrib calibrate" in judged.reason


@pytest.mark.parametrize("server", ["", "mail"])
def test_a_false_acceptance_cannot_be_told_without_unanswerable_queries(server: str) -> None:
    positive = CURVE.model_copy(update={"false_acceptance": None})
    made = calibration({}, curves={"": positive, "mail": positive})
    with pytest.raises(CalibrationError, match=r"^gate\.max_false_acceptance: .*unanswerable"):
        judge(GateSettings(max_false_acceptance=0.1), made, 0.5, server)


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


@given(SHARES, SHARES, st.sampled_from(["", "mail", "files"]))
def test_stricter_wishes_never_lower_the_threshold(one: float, other: float, server: str) -> None:
    low, high = sorted((one, other))
    precise = [_threshold(server, target_precision=wish) or 0 for wish in (low, high)]
    assert precise[0] <= precise[1]
    lenient = [_threshold(server, max_false_acceptance=wish) or 0 for wish in (high, low)]
    assert lenient[0] <= lenient[1]


QUERY = "send a mail to somebody"


def ids(result: FindResult) -> list[str]:
    return [hit.id for hit in result.tools]


def said(result: FindResult) -> tuple[Any, ...]:
    return result.confidence, result.verdict, result.reason, result.threshold, result.fallback


class TestConfidence:
    """The probability that any tool answers, where something is calibrated."""

    def test_models_that_nothing_is_calibrated_for_have_none_and_all_passes(
        self, open_crib: Open
    ) -> None:
        found = open_crib().find_tools(QUERY, k=3)
        assert len(found.tools) == 3
        assert (found.confidence, found.verdict, found.threshold) == (None, "accept", None)
        assert "`toolcrib calibrate`" in found.reason
        assert [hit.probability for hit in found.tools] == [None] * 3

    def test_no_tool_is_likelier_and_the_probability_falls_along_the_ranking(
        self, open_crib: Open
    ) -> None:
        found = open_crib(calibration).find_tools(QUERY, k=5, gate=False)
        likely = [hit.probability or 0.0 for hit in found.tools]
        assert (found.confidence or 0.0) > likely[0]
        assert all(left >= right > 0 for left, right in pairwise(likely))
        assert likely[0] > likely[-1]

    def test_it_does_not_depend_on_how_many_tools_are_asked_for(self, own_crib: Open) -> None:
        crib = own_crib(calibration)
        crib.index_tools(
            [ToolSpec(name=f"parcel_{n}", description=f"Parcel {n} to send.") for n in range(9)]
        )
        whole = crib.find_tools("send a parcel", k=14, gate=False)
        for k in (1, 5, "auto"):
            part = crib.find_tools("send a parcel", k=k, gate=False)
            assert part.confidence == pytest.approx(whole.confidence)
            assert part.verdict == whole.verdict

    def test_being_called_by_name_puts_a_tool_first_and_says_nothing_of_the_fit(
        self, open_crib: Open
    ) -> None:
        found = open_crib(calibration).find_tools("please run track_parcel zzz qqq", gate=False)
        assert found.tools[0].score == 1.0
        # Taken for a score, the 1 would make it certain.
        assert 0 < (found.confidence or 0) < 0.7

    def test_the_contract_names_it_all(self, open_crib: Open) -> None:
        told = as_json(open_crib(flat, probability=0.75).find_tools(QUERY, k=1))
        assert told["confidence"] == told["tools"][0]["probability"] == 0.75
        assert (told["verdict"], told["threshold"], told["fallback"]) == ("accept", 0.5, False)
        assert told["reason"] == "confidence 0.75 reaches the threshold 0.50 (as calibrated)"


WITHHELD: dict[str, Any] = {"withhold": True}


class TestAbstaining:
    """What may not fit is marked; where the settings say so, it is withheld."""

    @pytest.mark.parametrize(("gate", "tools"), [({}, 5), (WITHHELD, 0)])
    def test_the_verdict_comes_with_the_reason_and_with_the_tools_unless_they_are_withheld(
        self, open_crib: Open, gate: dict[str, Any], tools: int
    ) -> None:
        found = open_crib(flat, gate=gate, probability=0.25).find_tools(QUERY)
        assert len(found.tools) == tools
        assert said(found) == (
            pytest.approx(0.25),
            "abstain",
            "confidence 0.25 is below the threshold 0.50 (as calibrated)",
            0.5,
            False,
        )

    def test_without_the_gate_comes_the_ranking_as_it_is_with_the_same_verdict(
        self, open_crib: Open
    ) -> None:
        crib = open_crib(flat, gate=WITHHELD, probability=0.25)
        found = crib.find_tools(QUERY, gate=False)
        assert len(found.tools) == 5
        assert said(found) == said(crib.find_tools(QUERY))

    def test_a_gate_that_is_switched_off_adds_the_verdict_alone(self, open_crib: Open) -> None:
        gate = {**WITHHELD, "fallback": GENERAL, "enabled": False}
        found = open_crib(flat, gate=gate, probability=0.25).find_tools("send_mail now", k=1)
        assert (len(found.tools), found.fallback) == (1, False)

    def test_a_tool_that_is_called_by_its_name_is_never_withheld(self, open_crib: Open) -> None:
        found = open_crib(flat, gate=WITHHELD, probability=0.25).find_tools("track_parcel")
        assert ids(found)[0] == "post/track_parcel"
        assert (found.verdict, found.reason) == ("accept", "called by its name")

    def test_where_no_tool_is_in_reach_there_is_nothing_to_judge(self, open_crib: Open) -> None:
        crib = open_crib(calibration)
        outside = crib.find_tools(QUERY, scope=Scope(servers=frozenset()))
        assert (outside.tools, outside.verdict, outside.confidence) == ((), "abstain", None)
        filtered = crib.find_tools(QUERY, where=Equals("server", "none"))
        assert "filter" in filtered.reason
        assert outside.reason == filtered.reason


class TestThresholds:
    """The three ways to state one, through the settings."""

    def test_the_first_tools_server_decides_over_the_curve(self, open_crib: Open) -> None:
        crib = open_crib(
            flat, gate={"target_precision": 0.9}, probability=0.4, curves={"": CURVE, "mail": EASY}
        )
        mail, parcel = crib.find_tools("send a mail"), crib.find_tools("send a parcel")
        assert (mail.verdict, mail.threshold) == ("accept", 0.0)
        assert (parcel.verdict, parcel.threshold) == ("abstain", 0.6)


class TestFallback:
    """The general tool behind what may not fit, where the caller may use it."""

    GATE: dict[str, Any] = {"fallback": GENERAL}  # noqa: RUF012

    @pytest.mark.parametrize(("gate", "others"), [({}, 2), (WITHHELD, 0)])
    def test_it_comes_last_or_alone_and_is_called_what_it_is(
        self, open_crib: Open, gate: dict[str, Any], others: int
    ) -> None:
        crib = open_crib(flat, gate={**self.GATE, **gate}, probability=0.25)
        found = crib.find_tools(QUERY, k=2)
        assert (len(found.tools), ids(found)[-1]) == (others + 1, GENERAL)
        last = found.tools[-1]
        assert (last.rank, last.rule, last.probability) == (others + 1, "fallback", None)
        assert said(found) == (
            pytest.approx(0.25),
            "fallback",
            "confidence 0.25 is below the threshold 0.50 (as calibrated)",
            0.5,
            True,
        )

    def test_one_that_was_found_keeps_its_place_and_is_marked_there(self, open_crib: Open) -> None:
        crib = open_crib(flat, gate=self.GATE, probability=0.25)
        found = crib.find_tools("look up on the web", k=3)
        assert (len(found.tools), found.tools[0].id, found.fallback) == (3, GENERAL, True)
        assert [hit.rule for hit in found.tools] == ["fallback", None, None]

    def test_a_tool_that_is_switched_off_is_no_fallback(self, own_crib: Open) -> None:
        crib = own_crib(flat, probability=0.25)
        assert crib.find_tools(QUERY).verdict == "fallback"
        crib.index_tools(TOOLS[-1].model_copy(update={"enabled": False}))
        found = crib.find_tools(QUERY)
        assert (GENERAL in ids(found), found.verdict) == (False, "abstain")

    @pytest.mark.parametrize(
        "scope",
        [
            Scope(servers=frozenset({"mail", "post"})),
            Scope(without_safety_tags=frozenset({"open_world"})),
        ],
    )
    def test_a_tool_that_the_caller_may_not_use_is_no_fallback(
        self, own_crib: Open, scope: Scope
    ) -> None:
        crib = own_crib(flat, probability=0.25)
        crib.index_tools(TOOLS[-1].model_copy(update={"safety_tags": ("open_world",)}))
        found = crib.find_tools(QUERY, scope=scope)
        assert (GENERAL in ids(found), found.verdict, found.fallback) == (False, "abstain", False)
        assert crib.find_tools(QUERY, scope=scope, gate=False).verdict == "abstain"

    def test_where_nothing_is_found_at_all_it_comes_as_well(self, open_crib: Open) -> None:
        crib = open_crib(flat, gate=self.GATE, probability=0.75)
        found = crib.find_tools(QUERY, where=Equals("server", "nowhere"))
        assert (ids(found), found.verdict, found.confidence) == ([GENERAL], "fallback", None)


class TestScope:
    """What a caller may not use changes nothing that is said."""

    MINE = Scope(servers=frozenset({"mail", "post", "web"}))
    THEIRS = tuple(
        ToolSpec(name=f"send_mail{n}", server="secret", description="Send a mail to somebody. " * n)
        for n in range(40)
    )

    def test_tools_out_of_scope_change_neither_confidence_nor_verdict(self, own_crib: Open) -> None:
        crib = own_crib(calibration)

        def answers(scope: Scope | None) -> list[Any]:
            queries = (QUERY, "send_mail", "where is my parcel", "zebra")
            asked = itertools.product(queries, (1, 5, "auto"), (True, False))
            return [
                (said(found), found.tools, found.degraded)
                for query, k, gate in asked
                for found in [crib.find_tools(query, k, scope=scope, gate=gate)]
            ]

        before, all_before = answers(self.MINE), answers(None)
        crib.index_tools(*self.THEIRS)
        assert answers(self.MINE) == before == all_before
        # They are no straw men: without the scope they are heard.
        assert answers(None) != all_before


class TestLeast:
    """Tools that are hardly right are left out, where somebody says from when on."""

    @pytest.mark.parametrize("k", [1, 5])
    def test_what_is_below_is_left_out_but_never_the_first(self, open_crib: Open, k: int) -> None:
        crib = open_crib(calibration)
        likely = [hit.probability or 0 for hit in crib.find_tools(QUERY, k).tools]
        for least in (0.0, *likely, 1.0):
            found = crib.find_tools(QUERY, k, least=least)
            assert len(found.tools) == max(1, sum(each >= least for each in likely))

    def test_one_that_is_called_by_its_name_stays(self, open_crib: Open) -> None:
        found = open_crib(flat, probability=0.25).find_tools("send_mail track_parcel", least=0.9)
        assert {"mail/send_mail", "post/track_parcel"} == set(ids(found))

    def test_the_settings_say_it_for_all_searches_but_those_that_say_otherwise(
        self, open_crib: Open
    ) -> None:
        crib = open_crib(flat, tools={"least": 0.5}, probability=0.25)
        counts = [
            len(crib.find_tools(QUERY, **options).tools)
            for options in ({}, {"least": 0.0}, {"gate": False}, {"gate": False, "least": 0.5})
        ]
        assert counts == [1, 5, 5, 1]

    def test_where_nothing_is_calibrated_nothing_is_left_out(self, open_crib: Open) -> None:
        assert len(open_crib().find_tools(QUERY, least=1.0).tools) == 5

    @pytest.mark.parametrize("least", [-0.1, 1.1, float("nan")])
    def test_it_is_a_probability(self, open_crib: Open, least: float) -> None:
        with pytest.raises(QueryError, match=r"^least is "):
            open_crib().find_tools(QUERY, least=least)


class TestSets:
    """`k="auto"`: as few tools as hold all that are needed."""

    def test_without_a_calibration_there_is_no_telling(self, open_crib: Open) -> None:
        with pytest.raises(CalibrationError, match="`toolcrib calibrate`"):
            open_crib().find_tools(QUERY, "auto")

    def test_all_from_the_quantile_on_belong_to_the_set(self, open_crib: Open) -> None:
        crib = open_crib(calibration)
        for coverage, least in ((0.5, 0.5), (0.9, 0.1), (0.95, 0.05)):
            found = crib.find_tools(QUERY, "auto", coverage=coverage, gate=False)
            whole = crib.find_tools(QUERY, 5, gate=False)
            expected = [h.id for h in whole.tools if (h.probability or 0) >= least]
            assert ids(found) == (expected or ids(whole)[:1])
            assert found.degraded == ()

    def test_the_settings_say_the_coverage_where_a_search_does_not(self, open_crib: Open) -> None:
        crib = open_crib(calibration, tools={"coverage": 0.5})
        assert ids(crib.find_tools(QUERY, "auto")) == ids(
            open_crib(calibration).find_tools(QUERY, "auto", coverage=0.5)
        )

    def test_a_promise_that_cannot_be_kept_returns_all_and_says_so(self, open_crib: Open) -> None:
        found = open_crib(calibration).find_tools(QUERY, "auto", coverage=0.99, gate=False)
        assert len(found.tools) == len(TOOLS)
        assert found.degraded == ("coverage",)

    def test_by_words_without_a_calibration_of_them_nothing_is_promised(
        self, indexed: Store
    ) -> None:
        by_words = Assessor(indexed, GateSettings(), calibration({})).by_words
        hits = [ToolHit(1, 0.5, TOOLS[0])]
        assert by_words.complete(hits, None) == (hits, ("coverage",))

    def test_an_empty_index_has_an_empty_set(self, crib: Crib) -> None:
        crib.tools.save_calibration(calibration(crib.tools.calibration_fingerprint()))
        found = crib.find_tools(QUERY, "auto")
        assert (found.tools, found.verdict) == ((), "abstain")
