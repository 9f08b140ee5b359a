"""What is told of a text beside its vector: cues, entities, shape, and words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.router.context.cues import Cues, IntentCues, load_cues
from toolcrib.router.context.entities import EntityFinder
from toolcrib.router.context.model import LEAST_TEXTS, WORD_SCALE, fit_features, read

FINDER = EntityFinder()
SMALL = Cues(
    intents={"buy": IntentCues(leads=("get me",), phrases=("for sale",), need="act")},
    domains={"fruit": ("apple", "pear")},
)
TEXTS = ("get me apples", "get me a saw", "get me pears", "a saw for sale")


def reading(text):
    return read(text, FINDER.find(text))


def fitted(texts=TEXTS, cues=SMALL):
    return fit_features([reading(text) for text in texts], cues)


FITTED = fitted()


def given_part(text, cues=SMALL):
    """The features before the words'."""
    features = fitted(("alone",), cues)
    return features.of(reading(text))


def test_words_and_pairs_of_words_that_enough_texts_have_are_features():
    assert set(FITTED.places) == {"get", "me", "get me"}
    assert sum("get" in text for text in TEXTS) == LEAST_TEXTS
    assert sorted(FITTED.places.values()) == list(range(len(FITTED.rarity)))


def test_what_more_texts_have_says_less():
    features = fitted([*TEXTS, "a b", "a c", "a d"])
    assert features.rarity[features.places["a"]] < features.rarity[features.places["get"]]


def test_as_many_numbers_come_as_are_promised():
    assert FITTED.of(reading("get me something")).shape == (FITTED.width,)
    shipped = fit_features([reading("get me a saw")], load_cues())
    assert shipped.of(reading("get me a saw")).shape == (shipped.width,)


def test_the_words_of_a_text_are_together_of_one_length():
    for text in ("get it", "get me to the station"):
        words = FITTED.of(reading(text))[-len(FITTED.places) :]
        assert np.linalg.norm(words) == pytest.approx(WORD_SCALE)


def test_words_that_were_never_seen_are_no_features():
    words = FITTED.of(reading("zebra crossing"))[-len(FITTED.places) :]
    assert not words.any()


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("get me that", "that"),
        ("it is for sale", "it is for you"),
        ("an apple", "a plum"),
        ("mail ann@example.com", "mail somebody"),
        ("see https://example.com/a", "see there"),
        ("is it so?", "is it so"),
        ("look!", "look"),
        ("THIS IS BAD", "this is bad"),
        ("one\ntwo", "one two"),
        ("word " * 70, "word " * 50),
    ],
)
def test_cues_entities_and_shape_are_told(text, other):
    assert not np.array_equal(given_part(text), given_part(other))


def test_many_cues_of_one_label_count_little_more_than_two():
    assert np.array_equal(given_part("apple pear apple " + "x " * 9), given_part("pear pear " * 9))


def test_cues_are_told_whatever_the_case():
    assert np.array_equal(given_part("Get Me that"), given_part("get me that"))


def test_the_order_of_texts_changes_nothing():
    other = fitted(tuple(reversed(TEXTS)))
    assert (dict(other.places), other.rarity.tolist()) == (
        dict(FITTED.places),
        FITTED.rarity.tolist(),
    )


@given(st.text(max_size=300))
def test_any_text_has_finite_features_and_always_the_same(text):
    features = FITTED.of(reading(text))
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert np.array_equal(features, FITTED.of(reading(text)))
