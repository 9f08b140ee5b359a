"""A language model tells what a turn refers to; where it fails, words and vectors do."""

from __future__ import annotations

import pytest

from toolcrib import Attachment, Crib, Message, Settings, ToolSpec, Turn
from toolcrib.errors import SettingsError
from toolcrib.language_models.testing import ChatServer
from toolcrib.router.conversation import CONVERSATION_BY_MODEL

SAID = (
    Message(content="list the repositories of the web team"),
    Message(role="assistant", content="1. storefront, 2. checkout"),
)
TURN = Turn(text="archive the second one", history=SAID)
ANSWER = {"leans_on": 2, "request": "archive the repository checkout"}


def decided(reply, faults=(), *, turn=TURN, timeout_s=60.0, **named):
    """What a crib searches a turn with, what it lacks, its signals, and what the model was told."""
    with ChatServer(reply, faults) as server:
        uses = {"conversation": {"timeout_s": timeout_s}}
        llm = {**server.settings, "attempts": 1, "uses": uses}
        given = {"encoder": {"dense": "deterministic"}, "context": {"detector": "heuristic"}}
        settings = Settings.model_validate({"llm": llm, **given})
        with Crib.open(":memory:", settings=settings) as crib:
            crib.index_tools(ToolSpec(name="archive_repository"))
            made = crib.route(turn, **named)
        return made, server.requests


def test_a_reference_is_named_as_the_conversation_names_it():
    made, (asked,) = decided(ANSWER)
    assert made.search_text == "archive the repository checkout"
    assert {"follow-up:1", CONVERSATION_BY_MODEL} <= set(made.signals)
    assert made.degraded == ()
    assert made.took_ms["llm"] > 0
    assert [usage.use for usage in made.usage] == ["conversation"]
    for told in ("1. user: list the repositories", "2. assistant: 1. storefront", "second one"):
        assert told in asked.text


def test_a_new_topic_is_searched_alone_whatever_its_words_look_like():
    made, _ = decided({"leans_on": None})
    assert made.search_text == TURN.text
    assert {"topic-shift", CONVERSATION_BY_MODEL} <= set(made.signals)


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        *((ANSWER, fault) for fault in ("error", "not-json", "wrong-schema", "garbage")),
        *(
            (reply, None)
            for reply in ({}, {"error": "overloaded"}, {"request": "archive checkout"})
        ),
        *(({"leans_on": number, "request": "x"}, None) for number in (3, 0)),
        ({"leans_on": 1, "request": "?"}, None),
    ],
)
def test_where_it_fails_or_tells_nothing_of_use_words_and_vectors_tell(reply, fault):
    made, _ = decided(lambda _: reply, lambda _: fault)
    assert made.search_text == f"{SAID[0].content}\n{TURN.text}"
    assert made.degraded == ("conversation-llm",)
    assert CONVERSATION_BY_MODEL not in made.signals


def test_it_is_bounded_by_its_own_time_and_by_that_of_the_turn():
    made, _ = decided(ANSWER, lambda _: "slow", timeout_s=0.05)
    assert made.degraded == ("conversation-llm-late",)
    made, asked = decided(ANSWER, budget_ms=0)
    assert (asked, "llm" in made.degraded) == ([], True)


def test_without_a_history_nothing_is_asked():
    made, asked = decided(ANSWER, turn=Turn(text="archive the second one"))
    assert (asked, made.degraded) == ([], ())


SECRET = Message(content="my card is 4111 1111 1111 1111, archive the second one")


LONG = "so it is. " * 900


@pytest.mark.parametrize(
    "above",
    [
        {"text": SECRET.content},
        {"text": f"{LONG}{SECRET.content}"},
        {"history": (SECRET,)},
        {"history": (Message(role="assistant", content=LONG), SECRET)},
        {"history": (SECRET, *SAID * 5)},
        {"needs": (SECRET.content,)},
        {"step": SECRET.content},
        {"attachments": (Attachment(name=f"{SECRET.content}.pdf"),)},
        {"metadata": {"about": {"order": SECRET.content}}},
        {"metadata": {"before": LONG, "order": SECRET.content, "after": LONG}},
    ],
    ids=lambda above: next(iter(above)),
)
def test_what_is_above_the_ceiling_is_shown_to_no_model(above):
    turn = TURN.model_copy(update={"max_sensitivity": "internal", **above})
    made, asked = decided(ANSWER, turn=turn)
    assert asked == []
    assert CONVERSATION_BY_MODEL not in made.signals


def test_the_use_without_a_model_is_an_error():
    settings = Settings.model_validate({"llm": {"uses": {"conversation": {"timeout_s": 1}}}})
    with pytest.raises(SettingsError, match="set llm"):
        Crib.open(":memory:", settings=settings)
