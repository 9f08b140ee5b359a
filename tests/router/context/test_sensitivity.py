"""The highest level that an entity or a phrase speaks for, and what spoke for it."""

from __future__ import annotations

import pytest

from toolcrib.records.context import Entity
from toolcrib.router.context.cues import load_cues
from toolcrib.router.context.entities import EntityFinder
from toolcrib.router.context.phrases import words_of
from toolcrib.router.context.pii import graded

CUES = load_cues()


def sensitivity_of(text, entities):
    return graded(entities, CUES.indexes.sensitivity.find(words_of(text)))


def level_of(text):
    return sensitivity_of(text, EntityFinder().find(text))[0]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("what is a closure in Python", "public"),
        ("what is our retry policy", "internal"),
        ("why does 10.0.0.7 not answer", "internal"),
        ("write to ann@example.com", "pii"),
        ("my password is Sommer2024!", "pii"),
        ("the diagnosis of a patient", "pii"),
        ("how much insulin may I give", "safety_critical"),
        ("our robot arm ignores the emergency stop, tell ann@example.com", "safety_critical"),
    ],
)
def test_the_highest_level_counts(text, level):
    assert level_of(text) == level


def test_names_of_tools_are_the_companys_own():
    entity = Entity("tool", "send_mail", 0, 9)
    assert sensitivity_of("send_mail", (entity,)) == ("internal", ("holds tool",))


def test_a_tool_whose_name_is_a_plain_word_says_nothing():
    assert sensitivity_of("find it", (Entity("tool", "find", 0, 4),)) == ("public", ())


def test_a_signal_names_the_type_and_the_phrase_and_no_personal_data():
    text = "ann@example.com, bob@example.com, her home address"
    entities = EntityFinder().find(text)
    assert sensitivity_of(text, entities) == (
        "pii",
        ("holds email", "says 'home address'"),
    )


def test_what_says_nothing_has_no_signal():
    assert sensitivity_of("", ()) == ("public", ())
