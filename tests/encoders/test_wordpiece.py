"""WordPiece against the package `tokenizers`, which is the reference for every token and place."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER
from toolcrib.encoders.wordpiece import MAX_WORD_CHARS, WordPiece, is_wordpiece

DOCUMENT: dict[str, Any] = json.loads(
    (MODELS_FOLDER / DEFAULT_MODEL / "tokenizer.json").read_bytes()
)
CASED = copy.deepcopy(DOCUMENT)
CASED["normalizer"] |= {"lowercase": False, "handle_chinese_chars": False}
CASED["post_processor"] = {"type": "BertProcessing", "cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}

BLOCKS = ((0x0, 0x58A), (0x2000, 0x206F), (0x20A0, 0x20B5), (0x3041, 0x30FF), (0x4E00, 0x9FA5))
CHARACTERS = st.one_of(
    st.characters(min_codepoint=first, max_codepoint=last, exclude_categories=("Cn",))
    for first, last in BLOCKS
)
"""Of blocks without a character newer than Unicode 8, which is the reference's."""

WORDS = st.sampled_from(
    (
        *(
            "send",
            "Käse",
            "naïve",
            "ΣΊΣΥΦΟΣ",
            "İstanbul",
            "日本語",
            "한국어",
            "[SEP]",
            "getUserById",
        ),
        *("a\u0301b", "don't", "\u200b", "\t\n", "\x0b", "½", "ﬁ", "#channel", "e-mail", "x" * 101),
        *("🙂", "..."),
    )
)
TEXTS = st.lists(WORDS | st.text(CHARACTERS, max_size=8), max_size=12).flatmap(
    lambda words: st.sampled_from([" ", "", "  "]).map(lambda glue: glue.join(words))
)


DOCUMENTS = {"folded": DOCUMENT, "cased": CASED}
WHOLE = {name: Tokenizer.from_str(json.dumps(each)) for name, each in DOCUMENTS.items()}


def reference(name: str, max_tokens: int | None) -> Tokenizer:
    made = WHOLE[name]
    made.no_truncation() if max_tokens is None else made.enable_truncation(max_tokens)
    return made


@pytest.mark.parametrize("name", DOCUMENTS)
@given(text=TEXTS, max_tokens=st.sampled_from([None, 3, 5, 16]))
@example(text="", max_tokens=None)
@example(text="y" * MAX_WORD_CHARS + " " + "y" * (MAX_WORD_CHARS + 1), max_tokens=None)
def test_a_text_has_the_tokens_and_places_of_the_reference(
    name: str, text: str, max_tokens: int | None
) -> None:
    found = WordPiece(DOCUMENTS[name], max_tokens).encode(text)
    wanted = reference(name, max_tokens).encode(text)
    assert (found.ids, found.offsets) == (wanted.ids, wanted.offsets)


@given(
    first=st.integers(0, 12), second=st.integers(0, 12), max_tokens=st.sampled_from([None, 5, 8, 9])
)
def test_a_pair_is_cut_as_the_reference_cuts_it(
    first: int, second: int, max_tokens: int | None
) -> None:
    pair = "cat " * first, "dog " * second
    found = WordPiece(DOCUMENT, max_tokens).encode(*pair)
    assert found.ids == reference("folded", max_tokens).encode(*pair).ids


def test_a_character_that_is_newer_than_the_reference_is_cut_as_its_kind_is() -> None:
    plain, marked = (
        WordPiece(DOCUMENT, None).encode(text).ids for text in ("a b", "a\U00011839 b")
    )
    assert plain == marked


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"type": "Unigram"}},
        {"model": {**DOCUMENT["model"], "continuing_subword_prefix": "@@"}},
        {"normalizer": None},
        {"normalizer": {**DOCUMENT["normalizer"], "clean_text": False}},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"post_processor": None},
        {"post_processor": {"type": "RobertaProcessing"}},
        {"added_tokens": [{**DOCUMENT["added_tokens"][0], "lstrip": True}]},
    ],
)
def test_what_would_be_read_in_another_way_is_left_to_the_package(change: dict[str, Any]) -> None:
    assert is_wordpiece(DOCUMENT)
    assert not is_wordpiece({**DOCUMENT, **change})


@pytest.mark.parametrize(
    ("word", "meant"),
    [("serch", "search"), ("paymnet", "payment"), ("creaate", "create"), ("looin", "")],
)
def test_a_common_word_is_one_slip_from_an_unknown_word(word: str, meant: str) -> None:
    assert WordPiece(DOCUMENT, None).common_word(word) == meant


def test_names_identifiers_addresses_and_inflections_are_no_unknown_words() -> None:
    text = (
        "Serch cached chats, ask Mraia in #mesages of mesages/x, x_mesages, mesages.io, mesages()"
    )
    assert WordPiece(DOCUMENT, None).unknown_words(text) == ["serch"]
