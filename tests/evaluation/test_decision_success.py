"""Whether a decision was right: what people say first, then success, then calls of tools."""

from __future__ import annotations

import pytest

from tests.router.sample_decisions import MARCH, decision, found, known, record, said
from toolcrib.evaluation.decision_log import read_decisions
from toolcrib.evaluation.decision_success import (
    knowledge_right,
    route_right,
    tools_right,
    values,
)
from toolcrib.router.decision_log import outcome_record

SEND, READ = "mail/send", "mail/read"
FAILED = {"outcome": "failure"}
WORKED = {"outcome": "success"}


def logged(feedback=None, *outcomes, **fields):
    """A decision with this feedback, and calls as pairs of a tool and how it ended."""
    records = [record(decision(**fields))]
    records += [] if feedback is None else [said(**feedback)]
    records += [outcome_record("d1", *call, at=MARCH + 5) for call in outcomes]
    (one,) = read_decisions(records).decisions
    return one


@pytest.mark.parametrize(
    ("feedback", "right"),
    [
        (None, None),
        ({"tools": [SEND]}, None),
        ({"route": "tools"}, True),
        ({"route": "both"}, False),
        (WORKED, True),
        (FAILED, False),
        (FAILED | {"route": "tools"}, False),
    ],
)
def test_a_route_is_right_as_people_say_or_when_all_went_well(feedback, right):
    assert route_right(logged(feedback)) is right


@pytest.mark.parametrize(
    ("feedback", "right"),
    [
        (None, None),
        ({"route": "tools"}, None),
        ({"tools": [READ, SEND]}, True),
        ({"tools": [READ]}, False),
        ({"tools": []}, False),
        (WORKED, True),
        (WORKED | {"tools": [READ]}, False),
        (FAILED, False),
        (FAILED | {"tools": [SEND]}, False),
    ],
)
def test_the_first_tool_is_right_as_people_say_or_when_all_went_well(feedback, right):
    assert tools_right(logged(feedback, tools=found(SEND, READ))) is right


@pytest.mark.parametrize(
    ("calls", "right"),
    [
        ([(SEND, "success")], True),
        ([(SEND, "failure"), (READ, "success")], False),
        ([(READ, "success")], None),
    ],
)
def test_when_nobody_says_anything_a_call_of_the_first_tool_does(calls, right):
    assert tools_right(logged(None, *calls, tools=found(SEND, READ))) is right


@pytest.mark.parametrize(
    "tools",
    [
        found(verdict="abstain"),
        found("web/search", verdict="fallback", fallback=True),
    ],
)
def test_of_tools_that_were_withheld_only_that_none_is_right_is_known(tools):
    assert tools_right(logged({"tools": [SEND]}, tools=tools)) is None
    assert tools_right(logged({"tools": ["web/search"]}, tools=tools)) is None
    assert tools_right(logged(WORKED, tools=tools)) is None
    assert tools_right(logged({"tools": []}, tools=tools)) is False


def test_a_ranking_that_was_let_through_whatever_its_verdict_is_judged():
    let_through = found(SEND, verdict="abstain")
    assert tools_right(logged({"tools": [SEND]}, tools=let_through)) is True
    assert tools_right(logged(WORKED, tools=let_through)) is None


@pytest.mark.parametrize(
    ("feedback", "right"),
    [
        (None, None),
        ({"route": "knowledge"}, None),
        ({"collections": ["handbook"]}, True),
        ({"collections": ["contracts"]}, False),
        ({"collections": []}, False),
        (WORKED, True),
        (FAILED, False),
    ],
)
def test_the_first_collection_is_right_as_people_say_or_when_all_went_well(feedback, right):
    one = logged(feedback, kind="knowledge", knowledge=known("handbook", "contracts"))
    assert knowledge_right(one) is right


def test_no_collection_is_right_when_none_is():
    nothing = known(verdict="abstain")
    assert knowledge_right(logged({"collections": []}, kind="both", knowledge=nothing)) is True
    assert knowledge_right(logged(WORKED, kind="both", knowledge=nothing)) is None


@pytest.mark.parametrize("kind", ["none", "knowledge"])
def test_of_what_was_not_asked_nothing_is_known(kind):
    assert tools_right(logged(FAILED, kind=kind)) is None
    assert knowledge_right(logged(FAILED, kind="tools")) is None


def test_precision_and_recall_compare_what_was_returned_with_what_is_right():
    tools = found(SEND, READ, "files/read")
    measured = values(logged({"tools": [SEND, READ, "shop/refund", "a/b"]}, tools=tools))
    assert measured == {"tool_precision": 2 / 3, "tool_recall": 2 / 4}


def test_recall_needs_something_right_and_precision_something_returned():
    assert values(logged({"tools": []}, tools=found(SEND))) == {"tool_precision": 0.0}
    assert values(logged({"tools": [SEND]}, tools=found(verdict="abstain"))) == {"tool_recall": 0.0}


def test_an_empty_label_means_that_none_fits():
    assert values(logged({"intent": "", "domain": "office"})) == {"intent": 0, "domain": 1}


def test_each_field_of_feedback_is_measured_alone():
    one = logged(WORKED | {"route": "both", "collections": []})
    assert values(one) == {"success": 1, "route": 0, "knowledge": 1}
    assert values(logged()) == {}
