"""A turn takes what can be read of what comes with it; a decision is written whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from toolcrib.http.routes.turns import GuidanceBody, TurnBody
from toolcrib.records import (
    Attachment,
    Context,
    Decision,
    FindResult,
    KnowledgeResult,
    Message,
    Route,
    ToolHit,
    ToolSpec,
    Turn,
)
from toolcrib.records.codec import as_json
from toolcrib.records.turns import MAX_HISTORY_MESSAGES, MAX_TRAJECTORY_EVENTS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


# -- what comes with a turn ----------------------------------------------------------------


@pytest.mark.parametrize(
    "nonsense",
    [None, 7, "", "  ", {}, {"name": " "}, {"size": 3}, ["a.pdf"], {"name": ["a.pdf"]}, b"\xff"],
)
def test_what_is_no_attachment_is_counted_once_and_the_others_are_kept(nonsense):
    turn = Turn.model_validate({"attachments": ["a.pdf", nonsense, {"name": "b.pdf"}]})
    assert turn.attachments == (Attachment(name="a.pdf"), Attachment(name="b.pdf"))
    assert turn.unreadable == 1
    assert Turn.model_validate_json(turn.model_dump_json()) == turn


@pytest.mark.parametrize("nonsense", ["a.pdf", 7, {"name": "a.pdf"}, True])
def test_attachments_that_are_no_list_count_as_one_that_cannot_be_read(nonsense):
    turn = Turn.model_validate({"text": "see here", "attachments": nonsense})
    assert (turn.text, turn.attachments, turn.unreadable) == ("see here", (), 1)


@given(JSON)
def test_no_attachments_that_json_can_hold_cost_a_turn(nonsense):
    turn = Turn.model_validate({"text": "see here", "attachments": nonsense})
    entries = nonsense if isinstance(nonsense, list) else [nonsense]
    given_ = 0 if nonsense is None else len(entries)
    assert len(turn.attachments) + turn.unreadable == given_


@pytest.mark.parametrize("count", ["many", [1]])
def test_a_count_of_the_unreadable_that_is_no_number_is_refused_in_words(count):
    with pytest.raises(ValidationError, match="unreadable"):
        Turn.model_validate({"attachments": [7], "unreadable": count})


# -- what was said before --------------------------------------------------------------------


def test_the_last_messages_are_kept_and_those_that_are_not_looked_at_may_be_anything():
    kept = [f"message {number}" for number in range(MAX_HISTORY_MESSAGES)]
    said = [42, None, *[{"content": "hello"}] * 10_000, *({"content": text} for text in kept)]
    assert [each.content for each in Turn.model_validate({"history": said}).history] == kept


@pytest.mark.parametrize("said", [[42], ["hello"], 7, {"content": {"a": 1}}, [{"content": 7}]])
def test_a_history_that_cannot_be_read_is_refused_by_its_place(said):
    with pytest.raises(ValidationError, match="history"):
        Turn.model_validate({"history": said})


def test_the_texts_of_a_message_in_parts_are_joined():
    parts = [
        {"type": "text", "text": "look at this"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "and that"},
        {"type": "text", "text": 7},
        None,
    ]
    assert Message.model_validate({"content": parts}).content == "look at this\nand that"


@pytest.mark.parametrize(
    ("given", "role"),
    [
        ({"role": "model", "parts": [{"text": "hi"}]}, "assistant"),
        ({"role": "user", "parts": [{"type": "text", "text": "hi"}]}, "user"),
        ({"type": "ai", "content": "hi"}, "assistant"),
        ({"type": "human", "content": "hi"}, "user"),
        ({"type": "message", "role": "user", "content": "hi"}, "user"),
        ({"content": "hi"}, "user"),
    ],
    ids=str,
)
def test_messages_of_other_formats_keep_their_role_and_text(given, role):
    message = Message.model_validate(given)
    assert (message.role, message.content) == (role, "hi")


@pytest.mark.parametrize("role", [[], {}, 1, None])
def test_a_role_must_be_text(role):
    with pytest.raises(ValidationError):
        Message.model_validate({"role": role, "content": "hi"})


@pytest.mark.parametrize("content", [None, [], [{"type": "tool_use"}]])
def test_a_message_without_a_text_is_empty(content):
    message = Message.model_validate({"role": "assistant", "content": content, "tool_calls": []})
    assert (message.role, message.content) == ("assistant", "")


# -- what was detected and decided -------------------------------------------------------------


def test_a_decision_is_written_whole_and_as_json():
    found = FindResult("q", (ToolHit(1, 0.5, ToolSpec(name="dial")),), {"legs": 1.0}, 0.9)
    decision = Decision(
        "abc",
        Context("call Ana"),
        Route("tools", "a tool fits"),
        found,
        KnowledgeResult(signals=("map-missing:x",)),
        "call Ana",
        signals=("follow-up:1",),
        took_ms={"total": 1.23456},
        degraded=("entities",),
    )
    shown = json.loads(json.dumps(as_json(decision)))
    assert [item["id"] for item in shown["tools"]["tools"]] == ["dial"]
    assert shown["tools"].keys() >= {"verdict", "confidence", "reason", "threshold", "fallback"}
    assert shown["knowledge"]["verdict"] == "abstain"
    assert (shown["took_ms"], shown["degraded"]) == ({"total": 1.235}, ["entities"])
    assert (shown["signals"], shown["max_tool_calls"]) == (["follow-up:1"], 5)


@pytest.mark.parametrize("body", [Turn, TurnBody, GuidanceBody])
def test_a_trajectory_has_an_end(body):
    events = [{"type": "prompt", "text": "go on"}] * MAX_TRAJECTORY_EVENTS
    assert len(body(text="x", trajectory=events).trajectory) == MAX_TRAJECTORY_EVENTS
    with pytest.raises(ValidationError):
        body(text="x", trajectory=[*events, *events[:1]])
