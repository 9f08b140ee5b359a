"""What every crib promises where a calibration says how sure an answer is."""

from __future__ import annotations

import pytest

from tests.conformance.contract_tools import MAIL, filled
from tests.conformance.contract_turns import lasting
from tests.retrieval.calibrations import calibration
from toolcrib.errors import QueryError


class Judging:
    @pytest.fixture(scope="class")
    @classmethod
    def judged(cls, new_both, behind):
        """Filled and calibrated once, for tests that only read."""
        both = filled(new_both())
        for crib in (behind(both.crib), both.twin):
            fingerprint = crib.tools.calibration_fingerprint()
            crib.tools.save_calibration(calibration(fingerprint, threshold=0.55))
        return both

    @pytest.mark.parametrize("gate", [True, False])
    @pytest.mark.parametrize("query", ["send a mail", "mail/read_mail", "who won the cup?", "zzz"])
    def test_answers_are_judged_alike(self, judged, query, gate):
        told = judged(lambda crib: crib.find_tools(query, 3, gate=gate))
        assert 0 <= told["confidence"] <= 1
        assert all(0 <= hit["probability"] <= 1 for hit in told["tools"])
        assert len(told["tools"]) == 3

    @pytest.mark.parametrize("coverage", [0, 0.5, 0.9, 0.99, 1])
    def test_as_many_tools_come_as_are_needed(self, judged, coverage):
        ask = {"gate": False, "coverage": coverage}
        told = judged(lambda crib: crib.find_tools("send a mail", "auto", **ask))
        assert told["tools"]
        judged(lambda crib: crib.find_tools("send a mail", "auto", scope=MAIL, **ask))

    @pytest.mark.parametrize("coverage", [-0.1, 7, float("nan")])
    def test_a_coverage_that_is_no_probability_is_told_alike(self, judged, coverage):
        raised = judged.fails(lambda crib: crib.find_tools("mail", "auto", coverage=coverage))
        assert raised.kind is QueryError
        judged(lambda crib: crib.find_tools("mail", 2, coverage=coverage))

    @pytest.mark.parametrize("least", [0, 0.2, 1])
    def test_what_is_hardly_right_is_left_out_alike(self, judged, least):
        told = judged(lambda crib: crib.find_tools("send a mail", least=least))
        assert all(hit["probability"] >= least for hit in told["tools"][1:])

    def test_a_least_that_is_no_probability_is_told_alike(self, judged):
        assert judged.fails(lambda crib: crib.find_tools("mail", least=7)).kind is QueryError

    def test_a_query_that_is_no_text_is_told_alike(self, judged):
        assert judged.fails(lambda crib: crib.find_tools(3)).kind is QueryError

    @pytest.mark.parametrize("k", [None, 2, "auto"])
    def test_turns_are_judged_alike(self, judged, k):
        told = judged(lambda crib: crib.route("send a mail to Ana", k=k), but=lasting)
        assert told["tools"]["confidence"] is not None
