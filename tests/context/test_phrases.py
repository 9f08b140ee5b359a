"""Phrases are found by hash: on word borders, whatever the case, the longest first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.context.phrases import MAX_PHRASE_WORDS, PhraseIndex
from toolcrib.text import singular, split_words


def found(phrases, text, **options):
    words = split_words(text)
    matches = PhraseIndex(((phrase, "x") for phrase in phrases), **options).find(words)
    return [text[words.spans[m.first][0] : words.spans[m.last - 1][1]] for m in matches]


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("retry policy", "our Retry  Policy is old", ["Retry  Policy"]),
        ("retry policy", "retry\npolicy", ["retry\npolicy"]),
        ("order", "reorder the orders in border", []),
        ("list-files", "run List-Files now", ["List-Files"]),
        ("list-files", "list files, list - files", []),
        ("next.js", "next.js, not what comes next. JS is fine", ["next.js"]),
        ("send_mail", "(send_mail)", ["send_mail"]),
        ("@scope/pack", "use @scope/pack here", ["@scope/pack"]),
        ("don't", "Don’t do it", ["Don’t"]),
        ("straße", "STRASSE Straße", ["Straße"]),
        ("東京", "in 東京 today", ["東京"]),
    ],
)
def test_a_phrase_is_found_on_word_borders_whatever_the_case(phrase, text, expected):
    assert found([phrase], text) == expected


def test_a_phrase_without_spaces_is_also_found_inside_a_run_of_letters():
    assert found(["马上"], "请马上发") == []
    assert found(["马上", "马上发"], "请马上发", inside=True) == ["请马上发"]
    assert found(["hat"], "what", inside=True) == []


def test_of_phrases_that_begin_together_the_longest_is_found():
    assert found(["not", "not urgent", "not urgent at all"], "not urgent at home") == ["not urgent"]


def test_a_phrase_keeps_all_its_labels_in_their_order_once():
    index = PhraseIndex([("queue", "architecture"), ("Queue", "code"), ("queue", "code")])
    assert [match.labels for match in index.find(split_words("a queue"))] == [
        ("architecture", "code")
    ]


def test_phrases_without_words_and_phrases_that_are_too_long_are_left_out():
    assert found(["", "  ", "a " * (MAX_PHRASE_WORDS + 1)], "a " * 30) == []
    assert found(["a " * MAX_PHRASE_WORDS], "a " * MAX_PHRASE_WORDS) == [
        ("a " * MAX_PHRASE_WORDS).strip()
    ]


def test_a_phrase_is_looked_up_at_one_word():
    index, words = PhraseIndex([("roll back", "x")]), split_words("please roll back")
    assert index.at(words, 0) is None
    match = index.at(words, 1)
    assert match is not None
    assert (match.phrase, match.first, match.last) == ("roll back", 1, 3)


def test_with_a_fold_both_sides_are_folded():
    assert found(["open tickets"], "any open ticket?", fold=singular) == ["open ticket"]
    assert found(["story point"], "Story Points", fold=singular) == ["Story Points"]


@given(st.lists(st.sampled_from(["a", "b", "c-d", "e"]), min_size=1, max_size=8))
def test_a_text_contains_itself_as_a_phrase(parts):
    text = " ".join(parts)
    expected = [text] if len(split_words(text).bare) <= MAX_PHRASE_WORDS else []
    assert found([text], text) == expected
