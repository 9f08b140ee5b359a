"""Turns on their way to a service."""

from __future__ import annotations

import pytest

from toolcrib import Message, Scope, ToolHit, ToolSpec, Turn
from toolcrib.client.turns import (
    alternates,
    detect,
    feedback,
    find_knowledge,
    report_outcome,
    route,
)
from toolcrib.errors import FeedbackError, QueryError, UnknownToolError

SEND = ToolSpec(name="send", server="mail", category="mail")
HIT = ToolHit(1, 0.5, SEND, {"fits": 0.5})


def test_a_turn_is_sent_as_far_as_it_says_something():
    turn = Turn(
        text="and him",
        history=(Message(content="tell her"),),
        attachments=("a.pdf",),
        scope=Scope(tags=frozenset({"safe"})),
        max_sensitivity="internal",
    )
    assert detect("hello").body == {"text": "hello"}
    assert detect(turn).body == {
        "text": "and him",
        "history": [{"content": "tell her"}],
        "attachments": [{"name": "a.pdf"}],
        "scope": {"tags": ["safe"], "without_safety_tags": []},
        "max_sensitivity": "internal",
    }


def test_how_to_decide_goes_along():
    body = route("hello", k=2, budget_ms=50, shown=("mail/send",)).body
    assert body == {
        "text": "hello",
        "k": 2,
        "budget_ms": 50,
        "shown": ["mail/send"],
        "shape": "full",
    }


def test_what_json_has_no_word_for_is_a_bad_query():
    with pytest.raises(QueryError, match="the turn holds a value that JSON cannot"):
        route(Turn(text="hello", metadata={"what": object()}))


def test_what_cannot_be_asked_is_told_before_anything_is_sent():
    with pytest.raises(QueryError, match="k is 0"):
        route("hello", k=0)
    with pytest.raises(QueryError, match="k is -1"):
        alternates("mail/send", "hello", k=-1)
    with pytest.raises(QueryError, match="the question is empty"):
        find_knowledge("?!")
    with pytest.raises(UnknownToolError, match="no tool has the id ''"):
        alternates("", "hello")


def test_alternates_come_with_their_specifications():
    call = alternates("mail/sned", "send it", decision_id="d-1")
    told = {**HIT.as_dict(), "spec": SEND.model_dump(mode="json")}
    assert call.read({"tools": [told]}) == (HIT,)
    assert call.body == {
        "failed_tool": "mail/sned",
        "turn": {"text": "send it"},
        "decision_id": "d-1",
        "k": 3,
        "shape": "full",
    }


def test_what_is_told_twice_would_be_there_twice():
    assert not report_outcome("d-1", "mail/send", "failure").repeatable
    assert not feedback("d-1", note="well").repeatable
    assert route("hello").repeatable


def test_feedback_is_sent_as_far_as_something_is_said():
    assert feedback("d-1", tools=["mail/send"], intent="").body == {
        "decision_id": "d-1",
        "tools": ["mail/send"],
        "intent": "",
    }


@pytest.mark.parametrize(
    ("said", "why"),
    [({}, "^feedback: .*at least one"), ({"tool": "x"}, "^tool: "), ({"route": "x"}, "^route: ")],
)
def test_feedback_that_cannot_be_understood_is_not_sent(said, why):
    with pytest.raises(FeedbackError, match=why):
        feedback("d-1", **said)
