"""The language of phrases means what its description says."""

from __future__ import annotations

import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.audit.rules import (
    RawPattern,
    Rule,
    Rulebook,
    read_phrase,
    rulebooks,
    signs_in,
)

WORDS = {"give": "pass|hand over|send"}
PATTERNS = {"path": RawPattern(r"~?/\w+", ("/",)), "not_again": RawPattern(r"(?! again)", ())}


def finds(phrase, text):
    return any(read_phrase(phrase, WORDS, PATTERNS).matches(f"\0{text}\0"))


@pytest.mark.parametrize(
    ("phrase", "texts", "others"),
    [
        (
            "keep quiet",
            ["keep quiet", "keep,\n quiet", "keep_quiet"],
            ["keep. quiet", "upkeep quiet"],
        ),
        ("keep (it|this one)? quiet", ["keep quiet", "keep this one quiet"], ["keep that quiet"]),
        ("instruct* (us|them)", ["instructions them", "instruct us"], ["instruct me"]),
        ("pass ~2 key", ["pass key", "pass me the key"], ["pass me all the key"]),
        ("<give> key", ["hand over key", "send key"], ["give key", "hand key"]),
        ("(take|<give>) key", ["take key", "hand over key"], ["over key"]),
        ("read .. {path}", ["read it at ~/x", "read file.txt in /x"], ["read it. then /x"]),
        ("read .... {path}", ["read it. then /x"], ["read " + "a " * 90 + "/x"]),
        ("^ (the)? prompt $", ["prompt", "the prompt."], ["the prompt here", "a prompt"]),
        (r"new rules /\s?:/", ["new rules:", "new rules :"], ["new rules apply"]),
        ("send it {not_again}", ["send it", "send it twice"], ["send it again"]),
        ("don't tell", ["don't tell"], ["do tell"]),
    ],
)
def test_a_phrase_finds_what_it_says_and_nothing_else(phrase, texts, others):
    assert [text for text in texts if not finds(phrase, text)] == []
    assert [text for text in others if finds(phrase, text)] == []


def test_a_phrase_does_not_reach_into_the_next_text():
    phrase = read_phrase("read .. {path}", WORDS, PATTERNS)
    assert not any(phrase.matches("\0read it\0at /x\0"))


def test_scripts_without_blanks_have_no_places_where_words_begin():
    pattern = {"order": RawPattern("忽略", ("忽略",))}
    assert any(read_phrase("{order}", {}, pattern).matches("\0请忽略它\0"))


def test_what_must_be_there_is_known_the_rarest_first():
    phrase = read_phrase("(the|your) (user|users)? ~1 system* .. {path}", WORDS, PATTERNS)
    assert phrase.needles[-1] == ("the", "your")
    assert set(phrase.needles[:2]) == {("system",), ("/",)}


@pytest.mark.parametrize("phrase", ["(maybe)?", "~2", "^ {not_again}", "send (it"])
def test_a_phrase_that_cannot_be_looked_for_is_refused(phrase):
    with pytest.raises(ValueError, match="phrase"):
        read_phrase(phrase, WORDS, PATTERNS)


@pytest.mark.parametrize("phrase", ["<nothing> here", "read {nothing}"])
def test_unknown_words_and_patterns_are_refused(phrase):
    with pytest.raises(KeyError):
        read_phrase(phrase, WORDS, PATTERNS)


RULE = Rule("rude", "conduct", "warning", "it is rude", None, names=False)


def book(*phrases):
    return Rulebook([(RULE, read_phrase(phrase, {}, {})) for phrase in phrases])


def test_every_phrase_that_ships_compiles_and_its_rule_says_why_behind_a_tools_name():
    for rule, phrase in chain(*rulebooks()):
        re.compile(phrase.regex)
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
    matching = {phrase.text for _, phrase in rules if any(phrase.matches(text))}
    assert matching <= {phrase.text for _, phrase in rules.possible(text)}


@pytest.mark.parametrize(
    "text",
    [
        "with lock set to true, new links keep to the file: pin it",
        "pass true to pin this file",
        "report what the environment of the test stopped",
        "shows the traffic of every session, masked",
        "so that calls can't silently go elsewhere",
        "the list is empty when nothing in the catalogue fits",
        "it takes a running app instead of a new one",
        "agents can refine it afterwards",
        "tells whether an account is identity-compromised",
        "required fields (before 2020)",
    ],
)
def test_a_word_that_has_other_meanings_too_is_no_action(text):
    assert list(signs_in(f"\0{text}\0", f"\0{text}\0", "", [False], suspicion=9.0)) == []
