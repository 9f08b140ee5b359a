"""Identifiers and texts are cut into words and terms in every script, and compared."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.text import (
    MAX_TERM_CHARS,
    STOPWORDS,
    jaccard,
    name_key,
    name_words,
    singular,
    split_identifier,
    split_words,
    tokenise,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=80)
"""Lone surrogates, controls and noncharacters among it."""

IDENTIFIERS = st.text("aBcDeXYZ019_-./ s", max_size=40)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getUserById", ["get", "User", "By", "Id"]),
        ("slack_post-message", ["slack", "post", "message"]),
        ("v2.items", ["v2", "items"]),
        ("XMLHttpRequest", ["XML", "Http", "Request"]),
        ("parseHTTPResponse", ["parse", "HTTP", "Response"]),
        ("__init__", ["init"]),
        ("s3_upload", ["s3", "upload"]),
        ("S3Upload", ["S3", "Upload"]),
        ("sha256sum", ["sha256", "sum"]),
        ("iPhone15Pro", ["i", "Phone", "15", "Pro"]),
        ("COVID19", ["COVID", "19"]),
        ("1a1", ["1", "a1"]),
        ("22a22", ["22", "a22"]),
        ("listURLs", ["list", "URL"]),
        ("VMsList", ["VM", "List"]),
        ("AsIs", ["As", "Is"]),
        ("ÄpfelZählen3", ["Äpfel", "Zählen", "3"]),
        ("ΝέαΛίστα", ["Νέα", "Λίστα"]),
        ("\x00\ud800", []),
        ("", []),
    ],
)
def test_an_identifier_is_cut_into_its_words(name: str, words: list[str]) -> None:
    assert split_identifier(name) == words


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        pytest.param("List open issues", ["list", "open", "issu"], id="stemmed"),
        pytest.param("running runs", ["run", "run"], id="one stem"),
        pytest.param("what is the weather", ["weather"], id="stop words"),
        pytest.param("what is it", ["what", "is", "it"], id="only stop words"),
        pytest.param("the user's calendar, don't", ["user", "calendar", "don"], id="apostrophes"),
        pytest.param("GitHub", ["git", "hub", "github"], id="a name of two parts"),
        pytest.param("OAuth2", ["o", "auth", "2", "oauth2"], id="a name of three parts"),
        pytest.param("getUserById", ["get", "user", "id"], id="four parts are no name"),
        pytest.param("PDFs URLs csvs", ["pdf", "url", "csv"], id="abbreviations"),
        pytest.param("DNS https access", ["dns", "http", "access"], id="an s of their own"),
        pytest.param("Böschung boschung", ["boschung", "boschung"], id="accents"),
        pytest.param("e\u0301tude étude", ["etud", "etud"], id="composed or not"),
        pytest.param("STRASSE Straße", ["strass", "strass"], id="sharp s"),
        pytest.param("ＦＵＬＬ ﬁle ½", ["full", "file", "1", "2"], id="compatibility forms"),
        pytest.param("ΑΘΉΝΑΣ αθηνας", ["αθηνασ", "αθηνασ"], id="Greek"),
        pytest.param("Ёлка елка", ["елка", "елка"], id="Cyrillic"),
        pytest.param("İstanbul", ["istanbul"], id="dotted capital"),
        pytest.param("हिन्दी खोज", ["हिन्दी", "खोज"], id="vowel signs stay"),
        pytest.param("العربيّة العربية", ["العربية", "العربية"], id="Arabic points"),
        pytest.param("שָׁלוֹם שלום", ["שלום", "שלום"], id="Hebrew points"),
        pytest.param("한국어 검색", ["한국어", "검색"], id="Hangul has spaces"),
        pytest.param("搜索", ["搜", "索", "搜索"], id="Han"),
        pytest.param("検索する", ["検", "索", "す", "る", "検索", "索す", "する"], id="Japanese"),
        pytest.param("ไทย", ["ไ", "ท", "ย", "ไท", "ทย"], id="Thai"),
        pytest.param("東京tower", ["東", "京", "東京", "tower"], id="Latin beside Han"),
        pytest.param("Tower東京Bay", ["tower", "東", "京", "東京", "bay"], id="Han within Latin"),
        pytest.param("infor\u00admation a\u200dbc", ["inform", "abc"], id="what has no width"),
        pytest.param("😀 C++ #!?", ["c"], id="no letters, no terms"),
        pytest.param("\u0301 \u0300", [], id="accents on nothing"),
        pytest.param("\x00abc\x00\ud800def", ["abc", "def"], id="controls and surrogates"),
        pytest.param("", [], id="empty"),
    ],
)
def test_a_text_becomes_terms(text: str, terms: list[str]) -> None:
    assert tokenise(text) == terms


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("github issue", "Create an issue on GitHub."),
        ("oauth token", "Issues an OAuth token."),
        ("postgresql", "Query a PostgreSQL database."),
        ("pdf", "Merge PDFs into one."),
        ("pdfs", "Make a PDF."),
        ("vm", "Restart VMs."),
        ("get user", "getUser"),
        ("getuser", "get_user getUser"),
        ("cafe", "Café"),
    ],
)
def test_a_query_finds_the_text_however_it_is_written(query: str, text: str) -> None:
    assert set(tokenise(query)) & set(tokenise(text))


def test_another_language_has_its_own_stems_and_a_word_without_an_end_is_cut() -> None:
    assert tokenise("Rechnungen", "german") == tokenise("Rechnung", "german")
    assert tokenise("invoices", "none") == ["invoices"]
    assert [len(term) for term in tokenise("x" * 8_000)] == [MAX_TERM_CHARS]


@given(ANY_TEXT)
def test_any_string_is_cut_and_no_term_is_empty_or_blank(text: str) -> None:
    for term in tokenise(text):
        assert term
        assert not any(letter.isspace() for letter in term)
        assert len(term) <= MAX_TERM_CHARS
        term.encode()
    folded = unicodedata.normalize("NFKC", text)
    if any(unicodedata.category(letter)[0] in "LN" and letter != "\u0640" for letter in folded):
        assert tokenise(text)


@given(IDENTIFIERS)
def test_terms_cut_again_stay_as_they_are(text: str) -> None:
    once = tokenise(text, "none")
    again = tokenise(" ".join(once), "none")
    # Only digits may be parted from letters again: `oauth2` is a term as a whole besides.
    assert set(once) <= set(again)
    assert set(again) - set(once) <= set(split_identifier(" ".join(once)))


@given(ANY_TEXT, ANY_TEXT)
def test_terms_of_two_texts_side_by_side_are_the_terms_of_both(one: str, other: str) -> None:
    both = tokenise(f"{one} \n {other}", "none")
    words = {*tokenise(one, "none"), *tokenise(other, "none")}
    assert set(both) <= words
    assert words - set(both) <= STOPWORDS


@given(st.text("aBcD0 _", max_size=30))
def test_words_of_an_identifier_hold_its_letters_in_order(text: str) -> None:
    assert "".join(split_identifier(text)) == "".join(filter(str.isalnum, text))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("tickets", "ticket"),
        ("policies", "policy"),
        ("branches", "branch"),
        ("classes", "class"),
        ("boxes", "box"),
        ("wishes", "wish"),
        ("less", "less"),
        ("is", "is"),
        ("bus", "bus"),
        ("team", "team"),
    ],
)
def test_a_plural_loses_its_ending(word, expected):
    assert singular(word) == expected


@given(st.text(max_size=200))
def test_words_lie_in_order_in_the_text_and_leave_only_white_space(text):
    words = split_words(text)
    assert words.bare == [text[start:end].lower().replace("’", "'") for start, end in words.spans]
    left, at = [], 0
    for start, end in words.spans:
        left.append(text[at:start])
        at = end
    assert "".join([*left, text[at:]]).strip() == ""


@pytest.mark.parametrize("name", ["create-Issue", "create issue", "CREATE_ISSUE", "createIssue"])
def test_spellings_of_one_name_are_squeezed_alike_and_have_the_same_words(name: str) -> None:
    assert name_key(name) == "createissue"
    assert name_words(name) == {"create", "issue"}
    assert name_key("Straße-2") == "strasse2"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_has_one_key_however_its_letters_are_coded(form: str) -> None:
    assert name_key(unicodedata.normalize(form, "führerschein_umtauschen")) == (
        "führerscheinumtauschen"
    )
    assert name_key("ｆüｈｒｅｒｓｃｈｅｉｎ ｕｍｔａｕｓｃｈｅｎ") == "führerscheinumtauschen"


def test_likeness_is_the_share_of_all_words_that_both_have() -> None:
    assert jaccard({"a", "b", "c"}, {"b", "c", "d"}) == 0.5
    assert jaccard({"a"}, {"b"}) == 0.0
    assert jaccard(set(), set()) == 1.0
