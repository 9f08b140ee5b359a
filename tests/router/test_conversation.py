"""What is searched with: the turn's own words, and what they lean on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Message, Turn
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.router.context.heuristic import HeuristicDetector
from toolcrib.router.conversation import HEAD, LONG, MAX_JOINED, TAIL, gist, search_text

LEANS = HeuristicDetector().leans


def said(*messages, now, role="user"):
    return Turn(text=now, history=tuple(Message(role=role, content=text) for text in messages))


def searched(turn, leans=LEANS):
    return search_text(turn, leans, DeterministicEncoder().encode_documents)


def never(_texts):
    raise AssertionError("nothing has to be encoded for this")


def test_without_history_it_is_the_text_alone():
    found = search_text(Turn(text="and for staging?"), LEANS, never)
    assert (found.text, found.follow_up, found.signals) == ("and for staging?", "first", ())


def test_only_what_the_user_said_is_leant_on():
    turn = said("I found three trains", now="and on Monday?", role="assistant")
    assert search_text(turn, LEANS, never).follow_up == "first"


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_an_empty_message_is_no_message(empty):
    assert search_text(said(empty, now="and on Monday?"), LEANS, never).follow_up == "first"


def test_what_says_nothing_alone_is_joined_with_what_was_said_before():
    found = search_text(said("trains from Graz to Vienna", now="and on Monday?"), LEANS, never)
    assert found.text == "trains from Graz to Vienna\nand on Monday?"
    assert (found.follow_up, found.signals) == ("joined", ("follow-up:1",))


def test_a_whole_request_stands_alone_and_says_that_the_topic_shifted():
    turn = said("trains from Graz to Vienna", now="translate the contract into French please")
    found = search_text(turn, LEANS, never)
    assert found.text == turn.text
    assert (found.follow_up, found.signals) == ("shifted", ("topic-shift",))


def test_of_several_messages_the_last_is_leant_on():
    found = searched(said("book a table", "trains from Graz to Vienna", now="and back?"))
    assert found.text == "trains from Graz to Vienna\nand back?"


def test_an_older_message_that_is_clearly_nearer_is_leant_on():
    turn = said("invoices of Brightwater Logistics", "zzz qqq", now="and the Brightwater ones?")
    found = searched(turn)
    assert found.text.startswith("invoices of Brightwater Logistics\n")
    assert found.signals == ("follow-up:2",)


def test_what_may_lean_but_is_near_to_nothing_is_a_new_topic():
    apart = np.eye(2, dtype=np.float32)
    turn = said("trains", now="send it to Ana")
    found = search_text(turn, lambda _text: 0.7, lambda texts: apart[: len(texts)])
    assert (found.follow_up, found.text) == ("shifted", turn.text)


def test_what_surely_leans_is_joined_though_it_is_near_to_nothing():
    apart = np.eye(3, dtype=np.float32)
    turn = said("trains", "planes", now="that one")
    found = search_text(turn, lambda _text: 1.0, lambda texts: apart[: len(texts)])
    assert (found.follow_up, found.text) == ("joined", "planes\nthat one")


def test_a_long_message_that_is_leant_on_does_not_drown_the_new_words():
    found = searched(said("word " * 5_000, now="and on Monday?"))
    assert len(found.text) <= MAX_JOINED + len("\nand on Monday?")
    assert found.text.endswith("\nand on Monday?")


def test_a_pasted_log_is_searched_by_its_two_ends():
    log = "why does this fail? " + "10:00 worker handled it\n" * 10_000 + "please fix the importer"
    found = search_text(Turn(text=log), LEANS, never)
    assert len(found.text) == HEAD + TAIL + 1
    assert found.text.startswith("why does this fail?")
    assert found.text.endswith("please fix the importer")
    assert found.signals == ("long-text",)


def test_a_text_that_is_just_short_enough_is_searched_whole():
    assert gist("x" * LONG) == "x" * LONG


def test_of_ten_thousand_messages_the_last_are_looked_at():
    many = [f"message number {n}" for n in range(10_000)]
    found = searched(said(*many, now="and that one?"))
    assert found.text == "message number 9999\nand that one?"


def test_messages_of_parts_are_read():
    parts = [{"type": "text", "text": "trains to Graz"}, {"type": "image_url"}, "x"]
    turn = Turn.model_validate(
        {"text": "and back?", "history": [{"content": parts}, {"content": None}]}
    )
    assert searched(turn).text == "trains to Graz\nand back?"


@given(
    now=st.text(max_size=200),
    history=st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=60))),
    leaning=st.floats(0, 1),
)
def test_the_turns_own_words_are_always_searched_with(now, history, leaning):
    turn = Turn(text=now, history=tuple(Message(role=r, content=c) for r, c in history))
    found = search_text(turn, lambda _text: leaning, DeterministicEncoder().encode_documents)
    assert found.text.endswith(gist(now))
    assert (found.text == gist(now)) == (found.follow_up != "joined")
    assert ("topic-shift" in found.signals) == (found.follow_up == "shifted")
