"""A passage as the encoders read it, as it is kept, and how it is told that it changed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import SpecError
from toolcrib.indexers.passages import digest_of, draft_passage, passage_counts, passage_layout
from toolcrib.indexers.render import MAX_CHARS
from toolcrib.records import Passage
from toolcrib.store.base import check_point, point_id
from toolcrib.store.payload import read_passage

DENSE, LEXICAL = DeterministicEncoder(), LexicalEncoder()
PART = Passage("handbook", "leave.md", "Ask a week before.", ("Leave", "Holidays"), 2, 340)
ANY_TEXT = st.text(max_size=40)
PASSAGES = st.builds(
    Passage,
    collection=st.sampled_from(["a", "b.c"]),
    document=ANY_TEXT,
    text=ANY_TEXT,
    title=st.lists(ANY_TEXT, max_size=3).map(tuple),
    position=st.integers(0, 2**31),
    start=st.integers(0, 2**31),
)


def test_the_dense_encoder_reads_the_headings_before_the_text():
    assert draft_passage(PART, LEXICAL).texts() == ["Leave › Holidays: Ask a week before."]


def test_without_headings_it_reads_the_text_alone():
    assert draft_passage(replace(PART, title=()), LEXICAL).texts() == ["Ask a week before."]


def test_it_reads_what_is_shown():
    hidden = replace(PART, title=(), text="a\u200bsk\n\n now\x00")
    assert draft_passage(hidden, LEXICAL).texts() == ["ask now"]


@pytest.mark.parametrize(
    "title",
    [
        ("Leave",),
        (),
    ],
)
def test_it_reads_no_further_than_an_encoder_does(title):
    [read] = draft_passage(replace(PART, title=title, text="x" * 99_999), LEXICAL).texts()
    assert len(read) <= MAX_CHARS + len("Leave: ")


def test_words_of_headings_and_text_count_alike():
    counts = passage_counts(replace(PART, text="Leave a week before leaving."), LEXICAL)
    assert counts["leav"] == 3
    assert counts["holiday"] == counts["week"] == 1


def test_words_beyond_what_is_read_do_not_count():
    long = replace(PART, text="word " * MAX_CHARS + "zebra")
    assert "zebra" not in passage_counts(long, LEXICAL)


def test_a_draft_makes_a_point_that_every_store_takes():
    made = draft_passage(PART, LEXICAL)
    point = made.point(DENSE.encode_documents(made.texts()), LEXICAL, made.length)
    check_point(point, passage_layout(DENSE.dimensions))
    assert point.id == point_id("handbook/leave.md#2")
    assert made.rows == len(made.texts()) == 1


@given(PASSAGES)
def test_what_is_kept_gives_the_whole_passage_back(passage):
    payload = draft_passage(passage, LEXICAL).payload
    assert read_passage(json.loads(json.dumps(payload))) == passage


@given(PASSAGES, PASSAGES)
def test_two_passages_have_one_digest_only_if_they_are_equal(one, other):
    assert (digest_of(one) == digest_of(other)) == (one == other)


@pytest.mark.parametrize(
    "change",
    [
        {"collection": "other"},
        {"document": "other.md"},
        {"text": "Ask two weeks before."},
        {"title": ("Leave",)},
        {"title": ("Leave › Holidays",)},
        {"position": 3},
        {"start": 0},
    ],
)
def test_every_field_tells_that_a_passage_changed(change):
    assert digest_of(replace(PART, **change)) != digest_of(PART)


def test_ids_and_digests_are_the_same_in_another_process():
    code = (
        "from toolcrib.indexers.passages import digest_of\n"
        "from toolcrib.records import Passage\n"
        "from toolcrib.store.base import point_id\n"
        "p = Passage('handbook', 'leave.md', 'Ask a week before.', ('Leave', 'Holidays'), 2, 340)\n"
        "print(point_id(p.id), digest_of(p))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == [str(point_id(PART.id)), digest_of(PART)]


@pytest.mark.parametrize(
    "half",
    [{"text": "half \ud800"}, {"document": "\udcff.md"}, {"title": ("fine", "\udfff")}],
)
def test_half_a_character_is_refused_wherever_it_stands(half):
    with pytest.raises(SpecError, match="holds half a character"):
        draft_passage(replace(PART, **half), LEXICAL)


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "?!"])
def test_a_passage_without_words_can_still_be_kept(text):
    made = draft_passage(Passage("a", "b", text), LEXICAL)
    point = made.point(DENSE.encode_documents(made.texts()), LEXICAL, 10.0)
    check_point(point, passage_layout(DENSE.dimensions))
    assert np.isfinite(made.length)
