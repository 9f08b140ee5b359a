"""How much a turn leans on what was said: openers, words that refer back, brevity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.router.context.cues import load_cues
from toolcrib.router.context.phrases import words_of
from toolcrib.router.context.rules import follow_up_score

INDEXES = load_cues().indexes


def leans(text):
    return follow_up_score(words_of(text), INDEXES)


@pytest.mark.parametrize(
    "text",
    ["and for staging?", "what about the other one", "yes", "why?", "in German please", "the same"],
)
def test_a_turn_that_says_nothing_of_its_own_leans_wholly(text):
    assert leans(text) == 1


@pytest.mark.parametrize(
    "text",
    [
        "How do I write a good retro?",
        "book a room for tomorrow at nine",
        "deploy the billing service and restart it",
        "",
        "?!",
    ],
)
def test_a_turn_that_stands_alone_does_not(text):
    assert leans(text) < 0.5


@pytest.mark.parametrize(
    "text",
    [
        "do the same for team Heron",
        "send it to Bob in the support team",
        "and then what happens to orders in flight?",
    ],
)
def test_a_turn_that_may_lean_lies_between(text):
    assert 0.5 <= leans(text) < 1


def test_what_refers_back_late_may_refer_to_the_turn_itself():
    early, late = "restart it in the second region", "restart the worker in the region below it"
    assert leans(early) > leans(late) > 0


@given(st.text(max_size=100))
def test_it_is_between_nothing_and_all(text):
    assert 0 <= leans(text) <= 1
