"""A language model reads the whole turn; where it fails, what others told of it stands."""

from __future__ import annotations

import json

import pytest

from toolcrib import Context, Entity, Message, Settings, Turn, build
from toolcrib.context.by_model import MODEL_READ_SIGNAL
from toolcrib.language_models.testing import ChatServer

SAID = {
    "intent": "debug",
    "domain": "code",
    "urgency": "high",
    "sensitivity": "internal",
    "smalltalk": None,
    "need": "act",
    "confidence": 0.8,
}
KNOWN = Context(
    "restart it",
    intent=None,
    domain="code",
    confidences={"intent": 0.3, "domain": 0.9, "need": 0.5},
    confidence=0.3,
    signals=("out-of-scope:intent", "holds email"),
)
TURN = Turn(
    text="restart it",
    history=(Message(content="the checkout pods hang"),),
    attachments=[{"name": "pods.log", "mime": "text/plain"}],
    metadata={"channel": "incident-7"},
)


def read(reply, faults=(), known=KNOWN, turn=TURN, **named):
    with ChatServer(reply, faults) as server:
        llm = {**server.settings, "attempts": 1, "uses": {"context": {"timeout_s": 60}}}
        settings = {"llm": llm, "context": {"detector": "llm"}}
        reader = build.make_reader(Settings.model_validate(settings))
        assert reader is not None
        return *reader.read(turn, known, **named), server.requests


def test_labels_are_the_models_and_who_agrees_is_believed_more():
    context, lacking, (asked,) = read(SAID)
    assert (context.intent, context.domain, context.need) == ("debug", "code", "act")
    assert (context.urgency, context.sensitivity) == ("high", "internal")
    assert context.confidences == {"intent": 0.8, "domain": 0.9, "need": 0.8}
    assert context.confidence == 0.8
    assert context.signals == ("holds email", MODEL_READ_SIGNAL)
    assert lacking == ()
    # It reads all of the turn, and examples of the labels.
    for told in ("the checkout pods hang", "pods.log text/plain", "incident-7", "- code:"):
        assert told in asked.text


def test_small_talk_asks_for_nothing():
    context, _, _ = read({**SAID, "smalltalk": "thanks"})
    assert (context.smalltalk, context.intent, context.need) == ("thanks", None, None)
    assert context.urgency == "low"


def test_personal_data_stays_so_whatever_the_model_says():
    card = Entity("card", "4111 1111 1111 1111", 0, 19)
    known = Context("4111 1111 1111 1111", entities=(card,), sensitivity="pii")
    context, _, _ = read({**SAID, "sensitivity": "public"}, known=known)
    assert (context.sensitivity, context.entities) == ("pii", (card,))


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        *((SAID, fault) for fault in ("made-up-labels", "not-json", "error", "wrong-schema")),
        *((reply, None) for reply in ({}, {"error": "overloaded"}, {"confidence": 0.9})),
    ],
)
def test_what_fails_or_tells_no_label_leaves_the_others_answer(reply, fault):
    context, lacking, _ = read(lambda _: reply, lambda _: fault)
    assert (context, lacking) == (KNOWN, ("context-llm",))


def test_what_is_late_leaves_it_too():
    context, lacking, _ = read(SAID, lambda _: "slow", max_s=0.05)
    assert (context, lacking) == (KNOWN, ("context-llm-late",))


def test_a_field_that_is_missing_or_wrong_stays_what_it_was_and_is_marked():
    told = {name: value for name, value in SAID.items() if name != "domain"}
    context, lacking, _ = read(lambda _: told | {"urgency": "extreme"})
    assert (context.intent, context.domain, context.urgency) == ("debug", KNOWN.domain, "low")
    assert context.confidences == {"intent": 0.8, "domain": 0.9, "need": 0.8}
    assert lacking == ("context-llm:domain", "context-llm:urgency")


def test_a_thought_is_not_the_reading():
    thought = json.dumps(SAID | {"intent": "ask"})
    context, lacking, asked = read(f"<think>{thought}</think>\n{json.dumps(SAID)}")
    assert (context.intent, lacking, len(asked)) == ("debug", (), 1)
