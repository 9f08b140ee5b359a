"""A label wins by votes; its confidence grows with its lead."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.router.context.phrases import Match
from toolcrib.router.context.rules import Estimate, estimate, phrase_weights

LABELS = ("code", "api", "legal")
VOTES = st.dictionaries(st.sampled_from(LABELS), st.floats(0, 20), max_size=3)


def match(phrase, *labels):
    return Match(phrase, labels, 0, len(phrase.split()))


def test_a_phrase_votes_once_and_for_several_labels_in_parts():
    found = [match("queue", "code", "api"), match("queue", "code", "api"), match("test", "code")]
    assert phrase_weights(found) == {"code": 1.5, "api": 0.5}


def test_a_longer_phrase_weighs_more():
    assert phrase_weights([match("open source licence now", "legal")]) == {"legal": 2.0}


def test_the_label_with_the_most_votes_wins_with_what_spoke_for_it():
    told = estimate({"api": 2.0, "code": 1.0}, LABELS, [match("header", "api"), match("x", "code")])
    assert told.label == "api"
    assert told.signals == ("'header'",)
    assert told.confidence == pytest.approx(math.e**2 / (math.e**2 + math.e + 1))


def test_of_equal_labels_the_first_wins():
    assert estimate({"legal": 1.0, "api": 1.0}, LABELS, []).label == "api"


def test_without_a_vote_there_is_no_label():
    assert estimate({}, LABELS, []) == estimate({"api": 0.0}, LABELS, []) == Estimate(None, 0.3)
    assert estimate({"other": 3.0}, (), []).label is None


@given(VOTES, st.floats(0.1, 5))
def test_a_confidence_is_a_probability_that_grows_with_the_votes_of_the_winner(votes, sharpness):
    told = estimate(votes, LABELS, [], sharpness=sharpness)
    assert 0 < told.confidence <= 1
    if told.label is not None:
        more = {**votes, told.label: votes[told.label] + 1}
        assert estimate(more, LABELS, [], sharpness=sharpness).confidence >= told.confidence
