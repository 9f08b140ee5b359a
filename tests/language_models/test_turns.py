"""Turn as a model is shown it: cut, marked as data; and labels read back from its words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from toolcrib.language_models.turns import (
    DATA_RULE,
    MAX_SHOWN_MESSAGE_CHARS,
    MAX_SHOWN_MESSAGES,
    MAX_SHOWN_TEXT_CHARS,
    Share,
    YesOrNo,
    prompt,
    read_label,
    show_turn,
    shown_messages,
)
from toolcrib.records import Message, Turn
from toolcrib.records.turns import MAX_ATTACHMENTS

ANSWER = Message(role="assistant", content="1. a,\n2. b")
TURN = Turn(
    text="archive the second one",
    history=(Message(content="list my repositories"), ANSWER),
    attachments=[{"name": "a.log", "mime": "text/plain"}, "b.pdf"],
)


def test_a_turn_is_shown_with_messages_files_and_notes():
    shown = show_turn(TURN, {"Findings": "sql", "Nothing": ""})
    assert shown == (
        "Messages before:\n1. user: list my repositories\n2. assistant: 1. a, 2. b\n\n"
        "Attached files:\na.log text/plain\nb.pdf\n\n"
        "Findings:\nsql\n\n"
        "The user now:\narchive the second one"
    )


def test_numbers_are_those_of_the_shown_messages():
    turn = Turn(text="x", history=tuple(Message(content=f"message {n}") for n in range(12)))
    assert len(shown_messages(turn)) == MAX_SHOWN_MESSAGES
    assert f"1. user: {shown_messages(turn)[0].content}\n" in show_turn(turn)


@given(st.text(), st.lists(st.text(), max_size=30), st.lists(st.text(min_size=1), max_size=30))
def test_a_shown_turn_is_bounded(text, history, names):
    turn = Turn(
        text=text * 9_000,
        history=tuple(Message(content=each * 9_000) for each in history),
        attachments=[{"name": each * 500} for each in names],
    )
    most = MAX_SHOWN_TEXT_CHARS + MAX_SHOWN_MESSAGES * (MAX_SHOWN_MESSAGE_CHARS + 20)
    assert len(show_turn(turn)) <= most + MAX_ATTACHMENTS * 121 + 100


def test_a_long_text_keeps_both_ends():
    shown = show_turn(Turn(text=f"why? {'x' * 20_000} fix it"))
    assert "why?" in shown
    assert shown.endswith("fix it")


def test_every_prompt_says_that_the_turn_is_data():
    rules, shown = prompt("Sort it.", show_turn(TURN))
    assert (rules.role, shown.role) == ("system", "user")
    assert rules.content.endswith(DATA_RULE)


# -- labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("tech", "tech"),
        (" Tech\n", "tech"),
        ("biotech", None),
        ("non-tech", None),
        ("The answer is tech.", "tech"),
        ("`tech-support`", "tech-support"),
        ("Tech-Support, not tech", "tech-support"),
        ("neither", None),
        ("", None),
        ("A.1", "a.1"),
        ("**Tech**", "tech"),
        ('"tech-support".', "tech-support"),
        ("Hotline", "tech-support"),
        ("call the hotline", "tech-support"),
        ("答案是退款类。", "退款"),
        ("答案是tech。", "tech"),
        ("คำตอบคือคืนเงิน", "คืนเงิน"),
    ],
)
def test_an_answer_is_matched_whole_then_by_word_the_longest_first(said, found):
    labels, aliases = ["tech", "tech-support", "a.1", "退款", "คืนเงิน"], {"hotline": "tech-support"}
    assert read_label(said, labels, aliases) == found


@given(st.lists(st.text(min_size=1), min_size=1, unique=True), st.data())
def test_an_id_that_is_said_exactly_is_found(ids, data):
    ids = [each.strip() for each in ids if each.strip()]
    if ids:
        said = data.draw(st.sampled_from(ids))
        assert read_label(said, ids) == said


# -- numbers and yes or no -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        *((Share, said, 0.9) for said in (0.9, 90, "0.9", "0,9", "90%", "90", "High")),
        *((Share, said, value) for said, value in ((1, 1.0), (-1, 0.0), ("0.5 %", 0.005))),
        (Share, "very low.", 0.3),
        *((YesOrNo, said, True) for said in (True, 1, 1.0, "true", "Yes.", "**yes**")),
        (YesOrNo, "YES, for the plot", True),
        *((YesOrNo, said, False) for said in (False, 0, "false", "No!", "no, it is not", "0")),
    ],
)
def test_a_confidence_and_a_yes_or_no_are_read_in_other_shapes(kind, said, value):
    read = TypeAdapter(kind).validate_python(said)
    assert read == pytest.approx(value)
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        *((Share, said) for said in (None, True, "sure", "", float("nan"), [0.9], "9 of 10")),
        *((YesOrNo, said) for said in (None, "maybe", "", "nobody", "0.9", 2, "It is not needed")),
    ],
)
def test_no_confidence_and_no_yes_or_no_is_made_up(kind, said):
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(said)
