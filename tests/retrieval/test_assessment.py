"""What an answer says of itself: confidence, verdict, sets, and what the gate withholds."""

from __future__ import annotations

import itertools
from itertools import pairwise
from typing import Any

import pytest

from tests.retrieval.calibrations import CURVE, EASY, calibration, flat
from tests.retrieval.conftest import GENERAL, TOOLS, Open
from toolcrib import Crib, Equals, FindResult, Scope, ToolSpec
from toolcrib.errors import CalibrationError, QueryError
from toolcrib.records.codec import as_json

QUERY = "send a mail to somebody"


def ids(result: FindResult) -> list[str]:
    return [hit.id for hit in result.tools]


def said(result: FindResult) -> tuple[Any, ...]:
    return result.confidence, result.verdict, result.reason, result.threshold, result.fallback


class TestConfidence:
    """The probability that the first tool is right, where something is calibrated."""

    def test_models_that_nothing_is_calibrated_for_have_none_and_all_passes(
        self, open_crib: Open
    ) -> None:
        found = open_crib().find_tools(QUERY, k=3)
        assert len(found.tools) == 3
        assert (found.confidence, found.verdict, found.threshold) == (None, "accept", None)
        assert "`toolcrib calibrate`" in found.reason
        assert [hit.probability for hit in found.tools] == [None] * 3

    def test_it_is_that_of_the_first_tool_and_falls_along_the_ranking(
        self, open_crib: Open
    ) -> None:
        found = open_crib(calibration).find_tools(QUERY, k=5, gate=False)
        likely = [hit.probability or 0.0 for hit in found.tools]
        assert found.confidence == likely[0]
        assert all(left >= right > 0 for left, right in pairwise(likely))
        assert likely[0] > likely[-1]

    def test_it_does_not_depend_on_how_many_tools_are_asked_for(self, own_crib: Open) -> None:
        crib = own_crib(calibration)
        crib.index_tools(
            [ToolSpec(name=f"parcel_{n}", description=f"Parcel {n} to send.") for n in range(9)],
        )
        whole = crib.find_tools("send a parcel", k=14, gate=False)
        for k in (1, 5, "auto"):
            part = crib.find_tools("send a parcel", k=k, gate=False)
            assert part.confidence == pytest.approx(whole.confidence)
            assert part.verdict == whole.verdict

    def test_what_fits_better_is_surer(self, open_crib: Open) -> None:
        crib = open_crib(calibration)
        good = crib.find_tools("send a mail to somebody", gate=False).confidence or 0
        poor = crib.find_tools("zebra crossing", gate=False).confidence or 1
        assert good > poor

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


class TestAbstaining:
    """What does not fit is withheld, with the reason."""

    def test_nothing_comes_back_but_the_reason(self, open_crib: Open) -> None:
        found = open_crib(flat, probability=0.25).find_tools(QUERY)
        assert found.tools == ()
        assert said(found) == (
            pytest.approx(0.25),
            "abstain",
            "confidence 0.25 is below the threshold 0.50 (as calibrated)",
            0.5,
            False,
        )

    def test_without_the_gate_the_verdict_is_given_and_nothing_is_withheld(
        self, open_crib: Open
    ) -> None:
        crib = open_crib(flat, probability=0.25)
        found = crib.find_tools(QUERY, gate=False)
        assert len(found.tools) == 5
        assert said(found) == said(crib.find_tools(QUERY))

    def test_a_gate_that_is_switched_off_withholds_nothing(self, open_crib: Open) -> None:
        crib = open_crib(flat, gate={"enabled": False}, probability=0.25)
        found = crib.find_tools(QUERY)
        assert (len(found.tools), found.verdict) == (5, "abstain")

    def test_a_tool_that_is_called_by_its_name_is_never_withheld(self, open_crib: Open) -> None:
        found = open_crib(flat, probability=0.25).find_tools("track_parcel")
        assert ids(found)[0] == "post/track_parcel"
        assert (found.verdict, found.reason) == ("accept", "called by its name")

    async def test_the_asynchronous_twin_hands_the_gate_on(self, open_crib: Open) -> None:
        crib = open_crib(flat, probability=0.25)
        assert (await crib.afind_tools(QUERY)).tools == ()
        assert len((await crib.afind_tools(QUERY, gate=False)).tools) == 5

    def test_where_no_tool_is_in_reach_there_is_nothing_to_judge(self, open_crib: Open) -> None:
        found = open_crib(calibration).find_tools(QUERY, scope=Scope(servers=frozenset()))
        assert (found.tools, found.verdict, found.confidence) == ((), "abstain", None)
        assert found.reason

    def test_a_query_without_words_is_not_answered(self, open_crib: Open) -> None:
        found = open_crib(calibration).find_tools("?!")
        assert (found.verdict, found.reason) == ("abstain", "the query holds no words")


class TestThresholds:
    """The three ways to state one, through the settings."""

    @pytest.mark.parametrize(
        ("gate", "probability", "verdict"),
        [
            ({}, 0.55, "accept"),
            ({}, 0.45, "abstain"),
            ({"threshold": 0.8}, 0.75, "abstain"),
            ({"threshold": 0.7}, 0.75, "accept"),
            ({"target_precision": 0.9}, 0.55, "abstain"),
            ({"target_precision": 0.9}, 0.65, "accept"),
            ({"max_false_acceptance": 0.5}, 0.15, "abstain"),
            ({"max_false_acceptance": 0.5}, 0.25, "accept"),
        ],
    )
    def test_each_is_kept(
        self, open_crib: Open, gate: dict[str, float], probability: float, verdict: str
    ) -> None:
        crib = open_crib(flat, gate=gate, probability=probability)
        assert crib.find_tools(QUERY).verdict == verdict

    def test_the_first_tools_server_decides_over_the_curve(self, open_crib: Open) -> None:
        crib = open_crib(
            flat,
            gate={"target_precision": 0.9},
            probability=0.4,
            curves={"": CURVE, "mail": EASY},
        )
        mail, parcel = crib.find_tools("send a mail"), crib.find_tools("send a parcel")
        assert (mail.verdict, mail.threshold) == ("accept", 0.0)
        assert (parcel.verdict, parcel.threshold) == ("abstain", 0.6)

    def test_what_no_labelled_query_can_tell_is_an_error(self, open_crib: Open) -> None:
        crib = open_crib(
            flat,
            gate={"max_false_acceptance": 0.1},
            probability=0.4,
            curves={"": CURVE.model_copy(update={"false_acceptance": None})},
        )
        with pytest.raises(CalibrationError, match="max_false_acceptance"):
            crib.find_tools(QUERY)


class TestFallback:
    """The general tool in place of what does not fit, where the caller may use it."""

    GATE: dict[str, Any] = {"fallback": GENERAL}  # noqa: RUF012

    def test_it_comes_alone_and_is_called_what_it_is(self, open_crib: Open) -> None:
        found = open_crib(flat, gate=self.GATE, probability=0.25).find_tools(QUERY)
        assert ids(found) == [GENERAL]
        assert found.tools[0].rank == 1
        assert said(found) == (
            pytest.approx(0.25),
            "fallback",
            "confidence 0.25 is below the threshold 0.50 (as calibrated)",
            0.5,
            True,
        )

    def test_where_something_fits_it_stays_away(self, open_crib: Open) -> None:
        found = open_crib(flat, gate=self.GATE, probability=0.75).find_tools(QUERY, k=1)
        assert (ids(found), found.verdict, found.fallback) == (["mail/send_mail"], "accept", False)

    def test_a_tool_that_is_not_there_is_no_fallback(self, open_crib: Open) -> None:
        crib = open_crib(flat, gate={"fallback": "no/such"}, probability=0.25)
        found = crib.find_tools(QUERY)
        assert (found.tools, found.verdict, found.fallback) == ((), "abstain", False)

    def test_a_tool_that_is_switched_off_is_no_fallback(self, own_crib: Open) -> None:
        crib = own_crib(flat, probability=0.25)
        assert ids(crib.find_tools(QUERY)) == [GENERAL]
        crib.index_tools(TOOLS[-1].model_copy(update={"enabled": False}))
        assert (crib.find_tools(QUERY).tools, crib.find_tools(QUERY).verdict) == ((), "abstain")

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
        assert (found.tools, found.verdict, found.fallback) == ((), "abstain", False)
        assert crib.find_tools(QUERY, scope=scope, gate=False).verdict == "abstain"

    def test_without_the_gate_the_ranking_comes_back(self, open_crib: Open) -> None:
        found = open_crib(flat, gate=self.GATE, probability=0.25).find_tools(QUERY, gate=False)
        assert (len(found.tools), found.verdict, found.fallback) == (5, "fallback", False)

    def test_where_nothing_is_found_at_all_it_comes_as_well(self, open_crib: Open) -> None:
        crib = open_crib(flat, gate=self.GATE, probability=0.75)
        found = crib.find_tools(QUERY, where=Equals("server", "nowhere"))
        assert (ids(found), found.verdict, found.confidence) == ([GENERAL], "fallback", None)


class TestScope:
    """What a caller may not use changes nothing that is said."""

    MINE = Scope(servers=frozenset({"mail", "post", "web"}))
    # As long as the others on average, so that the mean length stays what it was.
    THEIRS = tuple(
        ToolSpec(name=f"send_mail{n}", server="secret", description="Send a mail to somebody.")
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

    def test_a_narrower_question_is_judged_by_what_it_leaves(self, open_crib: Open) -> None:
        crib = open_crib(calibration)
        found = crib.find_tools(QUERY, where=Equals("server", "post"), gate=False)
        assert found.tools[0].server == "post"
        assert (found.confidence or 1) < (crib.find_tools(QUERY, gate=False).confidence or 0)


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

    def test_ninety_five_percent_unless_told_otherwise(self, open_crib: Open) -> None:
        crib = open_crib(calibration)
        assert crib.find_tools(QUERY, "auto").tools == (
            crib.find_tools(QUERY, "auto", coverage=0.95).tools
        )

    def test_a_promise_that_cannot_be_kept_returns_all_and_says_so(self, open_crib: Open) -> None:
        found = open_crib(calibration).find_tools(QUERY, "auto", coverage=0.99, gate=False)
        assert len(found.tools) == len(TOOLS)
        assert found.degraded == ("coverage",)

    def test_no_coverage_at_all_is_the_first_tool(self, open_crib: Open) -> None:
        found = open_crib(calibration).find_tools(QUERY, "auto", coverage=0.0, gate=False)
        assert ids(found) == ["mail/send_mail"]

    @pytest.mark.parametrize("coverage", [-0.5, 1.5])
    def test_an_impossible_coverage_is_an_error(self, open_crib: Open, coverage: float) -> None:
        with pytest.raises(QueryError, match=f"coverage is {coverage}"):
            open_crib(calibration).find_tools(QUERY, "auto", coverage=coverage)

    def test_the_gate_holds_for_sets_as_well(self, open_crib: Open) -> None:
        found = open_crib(flat, probability=0.25).find_tools(QUERY, "auto", coverage=0.5)
        assert (found.tools, found.verdict) == ((), "abstain")

    def test_an_empty_index_has_an_empty_set(self, crib: Crib) -> None:
        crib.save_calibration(calibration(crib.calibration_identity()))
        found = crib.find_tools(QUERY, "auto")
        assert (found.tools, found.verdict) == ((), "abstain")
