"""The rules that ship can be read, and are found by the words of a text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.indexers.audit.rules import read_phrase
from toolcrib.indexers.audit.rules import Rule, Rulebook, rulebook

RULE = Rule("rude", "conduct", "warning", "it is rude", None, names=False)


def book(*phrases):
    return Rulebook([(RULE, read_phrase(phrase, {}, {})) for phrase in phrases])


def test_every_phrase_that_ships_is_a_regular_expression():
    for _, phrase in rulebook():
        re.compile(phrase.regex)


def test_every_rule_says_why_in_words_that_follow_a_tools_name():
    for rule, _ in rulebook():
        assert not rule.why.endswith(".")
        assert rule.severity in ("info", "warning", "block")


def test_a_phrase_is_only_tried_where_all_that_it_needs_is_there():
    rules = book("keep quiet", "keep (calm|still)", "be quiet*")
    tried = [phrase.text for _, phrase in rules.possible("keep it quietly")]
    assert tried == ["keep quiet"]
    assert list(rules.possible("nothing of that")) == []


def test_words_may_begin_with_what_is_needed():
    assert len(list(book("instruct* us").possible("instructions for us"))) == 1
    assert list(book("instruct* us").possible("a destructive use")) == []


@given(st.lists(st.sampled_from(["keep", "quiet", "calm", "be", "still", "it", "now"]), max_size=6))
def test_no_phrase_that_matches_is_passed_over(words):
    rules = book("keep quiet", "be ~1 calm", "(still|calm) .. now")
    text = f"\0{' '.join(words)}\0"
    matching = {phrase.text for _, phrase in rules if phrase.search(text)}
    assert matching <= {phrase.text for _, phrase in rules.possible(text)}
