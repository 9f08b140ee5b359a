"""What every crib promises about turns: read, decided, and helped on after a failure."""

from __future__ import annotations

import pytest

from tests.conformance.contract_documents import QUESTION, with_passages
from tests.conformance.contract_tools import MAIL, TOOLS, filled
from toolcrib import Attachment, Message, Scope, ToolSpec, Turn
from toolcrib.errors import QueryError, UnknownDecisionError

THINK = ToolSpec(name="think", server="agent", description="Take a moment.", always_active=True)
TURNS = (
    "send a mail to ana@example.org",
    "hello!",
    QUESTION,
    "Who won the cup?",
    "",
    "?!",
    Turn(text="and now him", history=(Message(content="send a mail to Ana"),)),
    Turn(
        text="what does it say?",
        attachments=(Attachment(name="letter.pdf", mime="application/pdf"), Attachment(name="a")),
        metadata={"channel": "chat", "nested": {"n": [1, 2.5, None]}},
        trajectory=({"tool": "mail/read_mail", "ok": True},),
    ),
    Turn(text="read the file of the patient", max_sensitivity="internal"),
    Turn(text="read the file of the patient", scope=Scope(max_sensitivity="public")),
    Turn(text="send something", scope=MAIL),
    Turn(text="größere Pakete schicken 📦", unreadable=2),
)


def lasting(decision):
    """A decision without what no two of them share."""
    return {**decision, "id": len(decision["id"])}


class Turns:
    @pytest.fixture(scope="class")
    @classmethod
    def ready(cls, new_both):
        """Filled once: a turn changes nothing that another one sees."""
        both = with_passages(filled(new_both()))
        both(lambda crib: crib.index_tools(THINK))
        return both

    @pytest.mark.parametrize("turn", TURNS, ids=str)
    def test_a_turn_is_read_and_decided_alike(self, ready, turn):
        read = ready(lambda crib: crib.detect(turn))
        told = ready(lambda crib: crib.route(turn), but=lasting)
        assert set(told) >= {"context", "route", "tools", "knowledge", "signals"}
        assert read["sensitivity"] in {"public", "internal", "pii", "safety_critical"}

    def test_a_decision_holds_whole_tools(self, ready):
        decision = ready.crib.route("send a mail to somebody")
        assert decision.context.text == "send a mail to somebody"
        assert all(hit.tool in (*TOOLS, THINK) for hit in decision.tools.tools)
        assert decision.tools.tools[0].tool == THINK

    def test_how_much_is_asked_for_is_what_comes(self, ready):
        told = ready(lambda crib: crib.route("send a mail", k=1), but=lasting)
        assert len(told["tools"]["tools"]) == 2
        shown = ("post/track_parcel", "mail/read_mail")
        told = ready(lambda crib: crib.route("send a mail", shown=shown), but=lasting)
        assert {*shown} <= {hit["id"] for hit in told["tools"]["tools"]}
        told = ready(lambda crib: crib.route("send a mail", budget_ms=0), but=lasting)
        assert told["degraded"]

    def test_another_tool_is_proposed_for_one_that_failed(self, ready):
        turn = Turn(text="send a mail to Ana", scope=Scope(servers=frozenset({"mail", "post"})))
        told = ready(lambda crib: crib.alternates("mail/send_mail", turn, k=2))
        assert len(told) == 2
        assert ready.crib.alternates("mail/send_mail", turn, k=1)[0].tool in TOOLS
        ready(lambda crib: crib.alternates("mail/send_mail", "send a mail to Ana"))

    def test_what_failed_before_is_not_proposed_again(self, ready):
        def after_a_failure(crib):
            decision = crib.route("send a mail to Ana")
            first, *_ = crib.alternates("mail/send_mail", "send a mail", decision_id=decision.id)
            crib.report_outcome(decision.id, first.id, "failure", took_ms=12.5)
            again = crib.alternates("mail/send_mail", "send a mail", decision_id=decision.id)
            crib.report_outcome(decision.id, first.id, "success")
            return first, again

        first, again = ready(after_a_failure)
        assert first["id"] not in {hit["id"] for hit in again}

    def test_what_would_have_been_right_can_be_said(self, ready):
        def say(crib, **said):
            decision = crib.route("send a mail to Ana")
            return crib.feedback(decision.id, **said)

        assert ready(lambda crib: say(crib, tools=["mail/send_mail"], outcome="success")) is None
        assert ready(lambda crib: say(crib, route="knowledge", collections=[], note="n")) is None

    def test_of_a_decision_that_is_none_nothing_can_be_said(self, ready):
        for crib in (ready.crib, ready.twin):
            with pytest.raises(UnknownDecisionError, match="'d-1'"):
                crib.feedback("d-1", tools=["mail/send_mail"])

    def test_it_says_what_follows_a_failure(self, ready):
        step = ready.crib.recovery.next_step(TimeoutError(), 1)
        assert step.action == ready.twin.recovery.next_step(TimeoutError(), 1).action == "retry"

    def test_a_stuck_agent_hears_the_same_of_it(self, ready):
        failed = ({"name": "mail/send_mail", "error": "550 refused", "at": 1.0},) * 3
        turn = Turn(text="send a mail to Ana", trajectory=failed)
        told = ready(lambda crib: crib.guidance(turn))
        assert [each["key"] for each in told["injections"]] == ["alternate-tool"]
        decided = ready(lambda crib: crib.route(turn), but=lasting)
        assert decided["guidance"] == told["injections"]
        assert ready(lambda crib: crib.guidance(turn, given=("alternate-tool", "doom-loop")))

    async def test_twins_answer_as_their_methods_do(self, both):
        async with both.crib, both.twin:
            told = await both.later(lambda crib: crib.aindex_tools(*TOOLS, server="mail"))
            assert told["added"] == 6
            found = await both.later(lambda crib: crib.afind_tools("send a mail", 2, explain=True))
            assert found == both(lambda crib: crib.find_tools("send a mail", 2, explain=True))
            told = await both.later(lambda crib: crib.aroute("send a mail", k=1), but=lasting)
            again = both(lambda crib: crib.route("send a mail", k=1), but=lasting)
            assert lasting(told) == lasting(again)
            with pytest.raises(QueryError, match="the query is empty"):
                await both.crib.afind_tools("")
