"""A specification as the legs read it: cleaned texts, weighted words, no shared prefixes."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import SpecError
from toolcrib.indexers.points import (
    MAX_ENCODED_CHARS,
    FieldWeights,
    clean,
    dense_text,
    digest_of,
    draft_passage,
    lexical_counts,
    passage_layout,
    shared_prefix,
)
from toolcrib.records import Passage, ToolSpec
from toolcrib.store.base import check_point, point_id
from toolcrib.store.payload import read_passage
from toolcrib.text import tokenise

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
NOTHING = FieldWeights(0, 0, 0, 0, 0, 0)
TERMS = st.lists(st.sampled_from(["get", "set", "user", "mail"]), max_size=4)


def _counts(
    spec: ToolSpec, weights: FieldWeights | None = None, prefix: tuple[str, ...] = ()
) -> dict[str, float]:
    return dict(lexical_counts(spec, LexicalEncoder(), weights or FieldWeights(), prefix))


class TestClean:
    """What a description says, without what only a machine sees."""

    @pytest.mark.parametrize(
        ("text", "cleaned"),
        [
            ("plain text", "plain text"),
            ("  two \n\n lines\tand a tab ", "two lines and a tab"),
            ("nul\x00and\x1bescape", "nul and escape"),
            ("infor\u00admation", "information"),
            ("zero\u200bwidth\ufeff", "zerowidth"),
            ("left \u202eright\u202c", "left right"),
            ("hidden\U000e0041\U000e0042 tag", "hidden tag"),
            ("half \ud800 surrogate", "half surrogate"),
            ("no\u00a0break and\u2003wide", "no break and wide"),
            ("Böschung 東京 ✓ 😀", "Böschung 東京 ✓ 😀"),
            ("\u200b\x00 ", ""),
            ("", ""),
        ],
    )
    def test_worked_by_hand(self, text, cleaned):
        assert clean(text) == cleaned

    @given(ANY_TEXT)
    def test_nothing_invisible_is_left_and_all_can_be_written(self, text):
        cleaned = clean(text)
        kinds = {unicodedata.category(letter) for letter in cleaned}
        assert not kinds & {"Cc", "Cf", "Cs"}
        assert "  " not in cleaned
        assert cleaned == cleaned.strip()
        cleaned.encode()

    @given(ANY_TEXT)
    def test_every_letter_stays_in_its_order(self, text):
        def letters(of: str) -> str:
            return "".join(letter for letter in of if letter.isalnum())

        assert letters(clean(text)) == letters(text)

    @given(ANY_TEXT)
    def test_cleaning_changes_no_term(self, text):
        assert tokenise(clean(text)) == tokenise(text)


class TestDenseText:
    """One line for the dense encoder."""

    @pytest.mark.parametrize(
        ("spec", "text"),
        [
            (
                ToolSpec(name="createIssue", server="code_host", description="Open one.\n\nNow."),
                "code_host create Issue: Open one. Now.",
            ),
            (ToolSpec(name="send_mail", description="Send."), "send mail: Send."),
            (ToolSpec(name="搜索", description=""), "搜索:"),
        ],
    )
    def test_it_is_server_name_in_words_and_description(self, spec, text):
        assert dense_text(spec) == text

    def test_a_manual_is_cut(self):
        spec = ToolSpec(name="x", description="word " * 10_000)
        assert len(dense_text(spec)) <= MAX_ENCODED_CHARS + len("x: ")

    @given(st.from_regex(r"\A[a-zA-Z_\-]*[a-z][a-zA-Z0-9_\-]{0,20}\Z"), ANY_TEXT)
    def test_it_is_one_clean_line_whatever_the_specification(self, name, about):
        text = dense_text(ToolSpec(name=name, description=about))
        assert text
        assert clean(text) == text


class TestLexicalCounts:
    """Each term counts as much as the fields that hold it."""

    SPEC = ToolSpec(
        name="send_mail",
        server="mailbox",
        description="Send mail.",
        input_schema={
            "type": "object",
            "properties": {
                "recipient": {"type": "string", "description": "The address"},
                "options": {"type": "object", "properties": {"urgent": {"type": "boolean"}}},
            },
        },
        category="office",
        tags=("post",),
        success_examples=("write to Anna",),
    )

    def test_worked_by_hand(self):
        assert _counts(self.SPEC) == pytest.approx(
            {
                "send": 3.0 + 1.0,
                "mail": 3.0 + 1.0,
                "mailbox": 1.0,
                "recipi": 0.5,
                "address": 0.5,
                "option": 0.5,
                "urgent": 0.5,
                "offic": 1.0,
                "post": 1.0,
                "write": 0.3,
                "anna": 0.3,
            }
        )

    @pytest.mark.parametrize(
        ("field", "terms"),
        [
            ("name", {"send", "mail"}),
            ("server", {"mailbox"}),
            ("description", {"send", "mail"}),
            ("parameters", {"recipi", "address", "option", "urgent"}),
            ("category", {"offic", "post"}),
            ("examples", {"write", "anna"}),
        ],
    )
    def test_each_field_has_its_weight(self, field, terms):
        counts = _counts(self.SPEC, replace(NOTHING, **{field: 2.0}))
        assert counts == dict.fromkeys(terms, 2.0)

    def test_a_prefix_that_all_siblings_share_does_not_count(self):
        spec = ToolSpec(name="slack_post_message")
        assert _counts(spec, prefix=("slack",)) == {"post": 3.0, "messag": 3.0}

    @pytest.mark.parametrize("name", ["slack", "mail_slack"])
    def test_a_name_that_is_the_prefix_or_has_another_keeps_it(self, name):
        counts = _counts(ToolSpec(name=name), prefix=("slack",))
        assert counts == dict.fromkeys(name.split("_"), 3.0)

    @pytest.mark.parametrize("field", ["description", "success_examples"])
    def test_no_field_is_read_without_an_end(self, field):
        long = "word " * 5_000
        spec = ToolSpec(name="x", **{field: long if field == "description" else (long, long)})
        assert _counts(spec)["word"] <= MAX_ENCODED_CHARS / len("word ")

    @pytest.mark.parametrize(
        "schema",
        [
            {},
            {"properties": None},
            {"properties": ["a", "b"]},
            {"properties": {"a": True}},
            {"properties": {"a": {"description": 7, "properties": "no"}}},
            {"properties": {"a": {"$ref": "#/properties/a"}}},
        ],
    )
    def test_an_odd_schema_is_read_as_far_as_it_goes(self, schema):
        counts = _counts(ToolSpec(name="tool", input_schema=schema))
        assert set(counts) <= {"tool", "a"}

    def test_a_schema_is_read_three_levels_down(self):
        schema: dict[str, object] = {}
        for level in ("four", "three", "two", "one"):
            schema = {"properties": {level: schema}}
        assert set(_counts(ToolSpec(name="x", input_schema=schema))) == {"x", "one", "two", "three"}

    @given(ANY_TEXT, ANY_TEXT, st.lists(ANY_TEXT, max_size=3))
    def test_any_text_gives_positive_finite_counts(self, about, server, examples):
        spec = ToolSpec(name="x1", description=about, server=server, success_examples=examples)
        counts = _counts(spec)
        assert all(0 < count < float("inf") for count in counts.values())
        assert all(counts)


class TestSharedPrefix:
    """What nine in ten names of a server begin with says nothing of each."""

    @pytest.mark.parametrize(
        ("names", "prefix"),
        [
            (["slack_post", "slack_read", "slack_find", "slack_list"], ("slack",)),
            (["a1_b1_get", "a1_b1_set", "a1_b1_add", "a1_b1_cut"], ("a1", "b1")),
            (["get_mail", "set_mail", "add_mail", "cut_mail"], ()),
            (["slack_post", "slack_read", "slack_find"], ()),
            (["slack_post", "slack_read", "slack_find", "other"], ()),
            (["slack", "slack", "slack", "slack"], ()),
            ([], ()),
        ],
    )
    def test_worked_by_hand(self, names, prefix):
        assert shared_prefix([tokenise(name) for name in names]) == prefix

    def test_one_name_in_ten_may_begin_otherwise(self):
        names = [["slack", f"word{number}"] for number in range(9)]
        assert shared_prefix([*names, ["other"]]) == ("slack",)
        assert shared_prefix([*names, ["other"], ["another"]]) == ()

    @given(st.lists(TERMS, max_size=15))
    def test_nine_in_ten_begin_with_it_and_have_more(self, names):
        prefix = shared_prefix(names)
        if prefix:
            size = len(prefix)
            having = [n for n in names if tuple(n[:size]) == prefix and len(n) > size]
            assert len(names) >= 4
            assert len(having) >= 0.9 * len(names)


DENSE, LEXICAL = DeterministicEncoder(), LexicalEncoder()
PART = Passage("handbook", "leave.md", "Ask a week before.", ("Leave", "Holidays"), 2, 340)
ANY_TEXT_PASSAGE = st.text(max_size=40)
PASSAGES = st.builds(
    Passage,
    collection=st.sampled_from(["a", "b.c"]),
    document=ANY_TEXT_PASSAGE,
    text=ANY_TEXT_PASSAGE,
    title=st.lists(ANY_TEXT_PASSAGE, max_size=3).map(tuple),
    position=st.integers(0, 2**31),
    start=st.integers(0, 2**31),
)


def checked_point(passage):
    """The point of a passage, which has one text and which every store takes."""
    made = draft_passage(passage, LEXICAL)
    assert len(made.texts) == 1
    point = made.point(DENSE.encode_documents(made.texts), LEXICAL, 10.0)
    check_point(point, passage_layout(DENSE.dimensions))
    return point


def test_the_dense_encoder_reads_the_headings_before_the_text():
    assert draft_passage(PART, LEXICAL).texts == ("Leave › Holidays: Ask a week before.",)
    assert draft_passage(replace(PART, title=()), LEXICAL).texts == ("Ask a week before.",)


@pytest.mark.parametrize("title", [("Leave",), ()])
def test_it_reads_no_further_than_an_encoder_does(title):
    [read] = draft_passage(replace(PART, title=title, text="x" * 99_999), LEXICAL).texts
    assert len(read) <= MAX_ENCODED_CHARS + len("Leave: ")


def test_words_of_headings_and_text_count_alike():
    counts = draft_passage(replace(PART, text="Leave a week before leaving."), LEXICAL).counts
    assert counts["leav"] == 3
    assert counts["holiday"] == counts["week"] == 1


def test_words_beyond_what_is_read_do_not_count():
    long = replace(PART, text="word " * MAX_ENCODED_CHARS + "zebra")
    assert "zebra" not in draft_passage(long, LEXICAL).counts


def test_a_draft_makes_a_point_that_every_store_takes():
    assert checked_point(PART).id == point_id("handbook/leave.md#2")


@given(PASSAGES)
def test_what_is_kept_gives_the_whole_passage_back(passage):
    payload = draft_passage(passage, LEXICAL).payload
    assert read_passage(json.loads(json.dumps(payload))) == passage


def test_ids_and_digests_never_change():
    assert str(point_id(PART.id)) == "2239207740643020987"
    assert digest_of(PART) == "106322eddca1061fcfb425aab932c3b0"


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


@pytest.mark.parametrize(
    "half", [{"text": "half \ud800"}, {"document": "\udcff.md"}, {"title": ("fine", "\udfff")}]
)
def test_half_a_character_is_refused_wherever_it_stands(half):
    with pytest.raises(SpecError, match="holds half a character"):
        draft_passage(replace(PART, **half), LEXICAL)


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "?!"])
def test_a_passage_without_words_can_still_be_kept(text):
    checked_point(Passage("a", "b", text))
