"""Dialogue: what was said before counts beside the query, by its own score."""

from __future__ import annotations

import pytest

from toolcrib import Crib, ToolSpec
from toolcrib.errors import QueryError
from toolcrib.retrieval.dialogue import (
    MAX_DIALOGUE_CHARS,
    MAX_REPLY_CHARS,
    Dialogue,
    read_dialogue,
    read_messages,
)

SAID = [
    {"role": "user", "content": "Where is parcel 4410?"},
    {"role": "assistant", "content": "Parcel 4410 is in Bergen."},
]

REPLY = SAID[1]["content"]


@pytest.fixture(scope="module")
def crib():
    with Crib.open(":memory:") as crib:
        crib.index_tools(
            ToolSpec(name="track_parcel", description="Tell where a parcel is now."),
            ToolSpec(name="delete_branch", description="Delete a branch of a repository."),
            ToolSpec(name="send_mail", description="Send a mail to somebody."),
            ToolSpec(name="weather", description="Forecast the weather of a place."),
        )
        yield crib


def first(found):
    return found.tools[0].name


def test_what_was_said_before_names_what_a_follow_up_leaves_out(crib):
    found = crib.find_tools("and 4411?", history=SAID)
    assert first(found) == "track_parcel"
    assert found.query == "and 4411?"


def test_a_change_of_subject_wins_by_its_own_words(crib):
    assert first(crib.find_tools("and now delete the branch", history=SAID)) == "delete_branch"


def test_a_long_message_of_another_subject_is_not_hidden_by_the_messages_before_it():
    tools = (
        ToolSpec(name="book_flight", description="Book a flight between two airports."),
        ToolSpec(name="purchase_insurance", description="Purchase insurance for a booking."),
        ToolSpec(name="post_message", description="Post a message for all to read."),
    )
    said = (
        "Book me a business class flight from San Francisco to Rome for two travellers.",
        "Purchase travel insurance for the booking of that flight by my credit card.",
    )
    now = (
        "I am really excited about my flight and want all of my followers to know, so post this "
        "message with a friendly picture of the city and our hotel: off to Rome, cannot wait to "
        "explore the ancient wonders and dive into Italian cuisine"
    )
    history = [{"role": "user", "content": text} for text in said]
    with Crib.open(":memory:") as crib:
        crib.index_tools(*tools)
        assert first(crib.find_tools(now, history=history)) == "post_message"


def test_a_subject_of_long_ago_does_not_count(crib):
    forecast = {"role": "user", "content": "Forecast the weather of Bergen."}
    assert first(crib.find_tools("and 4411?", history=[forecast] * 9 + SAID * 5)) == "track_parcel"
    history = read_messages({"role": "user", "content": text} for text in "abcdef")
    assert read_dialogue("g", history) == Dialogue("g", "b\nc\nd\ne\nf\ng")


def test_messages_in_a_language_that_the_encoder_does_not_read_are_left_out(crib):
    german = [{"role": "user", "content": "schreib ihr bitte kurz, dass wir morgen kommen"}]
    alone = crib.find_tools("where is the parcel now")
    found = crib.find_tools("where is the parcel now", history=german)
    assert (found.confidence, found.degraded) == (alone.confidence, ())
    short = crib.find_tools("und jetzt?", history=german)
    assert short.degraded == ("unsupported-language",)


def test_a_text_with_role_marks_is_read_as_a_dialogue(crib):
    said = "user: Where is parcel 4410? system: It is in Bergen. user: And 4411?"
    assert first(crib.find_tools(said)) == "track_parcel"
    assert read_dialogue(said) == Dialogue(
        "And 4411?", "Where is parcel 4410?\nAnd 4411?", is_marked=True
    )


@pytest.mark.parametrize(
    "text",
    [
        "Delete the branch",
        "user: delete the branch",
        "Add a user: Ada, and an agent: Bob",
        "system: be brief assistant: yes",
    ],
)
def test_any_other_text_is_one_message(text):
    assert read_dialogue(text) is None


def test_a_history_without_words_of_the_user_changes_nothing(crib):
    alone = crib.find_tools("send a mail", explain=True)
    for history in ([], SAID[1:], [{"role": "user", "content": " "}]):
        found = crib.find_tools("send a mail", history=history, explain=True)
        assert found.tools == alone.tools


def test_the_oldest_messages_make_room_for_the_newest():
    long = {"role": "user", "content": "x" * MAX_DIALOGUE_CHARS}
    made = read_dialogue("and 4411?", read_messages([long, *SAID]))
    assert made == Dialogue("and 4411?", f"Where is parcel 4410?\n{REPLY}\nand 4411?")


def test_a_user_speaks_of_what_the_last_reply_says(crib):
    said = [
        {"role": "user", "content": "Is anything wrong here?"},
        {"role": "assistant", "content": "A parcel from Oslo is on its way."},
    ]
    assert first(crib.find_tools("take care of that", history=said)) == "track_parcel"
    assert first(crib.find_tools("take care of that", history=said[:1])) != "track_parcel"


def test_of_a_reply_the_beginning_counts_and_no_other_message_of_the_assistant():
    user, reply = SAID[0], {"role": "assistant", "content": "x" * 2 * MAX_REPLY_CHARS}
    made = read_dialogue("and?", read_messages([user, SAID[1], user, reply]))
    assert made.whole.splitlines() == [user["content"]] * 2 + ["x" * MAX_REPLY_CHARS, "and?"]
    for last in (user, {"role": "tool", "content": "{}"}, {"role": "assistant", "content": None}):
        made = read_dialogue("and?", read_messages([user, SAID[1], last]))
        assert REPLY not in made.whole


def test_a_needed_tool_is_searched_by_its_own_line(crib):
    plain = crib.find_tools(needs=["forecast of the weather"])
    assert crib.find_tools(needs=["forecast of the weather"], history=SAID).tools == plain.tools


@pytest.mark.parametrize("history", [["hello"], [{"role": 1}], 7, iter(SAID)])
def test_an_entry_that_is_no_message_is_refused(crib, history):
    with pytest.raises(QueryError, match="history"):
        crib.find_tools("send a mail", history=history)
