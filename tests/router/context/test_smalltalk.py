"""Small talk is a turn that asks for nothing."""

from __future__ import annotations

import pytest

from toolcrib.router.context.cues import load_cues
from toolcrib.router.context.phrases import words_of
from toolcrib.router.context.rules import smalltalk_of

INDEXES = load_cues().indexes


def told(text):
    return smalltalk_of(words_of(text), INDEXES)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hi", "greeting"),
        ("Good morning, team!", "greeting"),
        ("thanks!", "thanks"),
        ("Thank you so much, Corinna", "thanks"),
        ("ok bye, see you tomorrow", "farewell"),
        ("who are you?", "assistant"),
        ("hey, are you a human or a bot", "assistant"),
    ],
)
def test_small_talk_is_told_by_kind(text, kind):
    assert told(text).label == kind


@pytest.mark.parametrize(
    "text",
    [
        "thanks, now deploy it",
        "hi, the checkout is broken",
        "hello, where is the invoice",
        "good morning, create a ticket",
        "deploy it",
        "what is a good greeting for a customer",
        "",
        "?!",
    ],
)
def test_a_turn_that_asks_for_something_is_none(text):
    assert told(text).label is None


def test_words_that_are_left_over_make_it_less_sure():
    assert told("thanks").confidence > told("thanks, Corinna").confidence


def test_the_phrase_that_was_heard_is_its_signal():
    assert told("good night, all").signals == ("'good night'",)
