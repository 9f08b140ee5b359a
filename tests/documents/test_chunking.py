"""Parts are cut at headings first, are never too large, and are slices of their text."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from toolcrib.documents.chunking import WINDOW_CHARS, approximate_tokens, split
from toolcrib.errors import MissingExtraError

ROOT = Path(__file__).parents[2]

GUIDE = """Before everything.

# The guide

How to begin.

## Install

Run the installer.

### On Linux

Use the archive.

# Reference

All of it.
"""

PIECES = [
    "# One\n\n",
    "## Two words\n\n",
    "### Three\n\n",
    "#### Four\n\n",
    "Plain words stand here, and more of them follow. " * 6 + "\n\n",
    "short\n\n",
    "```\n# no heading in a fence\n```\n\n",
    "> quoted\n> # no heading of the text\n\n",
    "- a list\n  - in a list\n\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
    "Underlined\n----------\n\n",
    "日本語の文章です。" * 20 + "\n\n",
    "<!-- note -->\n\n",
    "***\n\n",
]
markdown = st.lists(st.sampled_from(PIECES)).map("".join) | st.text(
    "#-=`>*_[]()|~ab1 \n\té", max_size=300
)


def titles(text, capacity=200, title=""):
    return [(part.title, part.text) for part in split(text, "markdown", capacity, title=title)]


def test_each_section_is_a_part_under_the_headings_above_it():
    assert titles(GUIDE, title="guide") == [
        (("guide",), "Before everything."),
        (("The guide",), "How to begin."),
        (("The guide", "Install"), "Run the installer."),
        (("The guide", "Install", "On Linux"), "Use the archive."),
        (("Reference",), "All of it."),
    ]


def test_a_document_without_a_first_heading_goes_by_its_own_title():
    assert titles("## Install\n\nRun it.", title="setup") == [(("setup", "Install"), "Run it.")]
    assert titles("Run it.") == [((), "Run it.")]


def test_what_looks_like_a_heading_in_code_or_a_quotation_is_none():
    text = "# Real\n\n```sh\n# a comment\nmake\n```\n\n> # quoted\n\n    # indented\n"
    assert titles(text) == [(("Real",), text.removeprefix("# Real\n\n").rstrip())]


def test_a_heading_is_named_by_its_words_alone():
    text = "The *new* `run()` [page](https://x.org)\nof ![logo](l.png) &amp; a\\_b\n===\n\nText."
    assert titles(text) == [(("The new run() page of logo & a_b",), "Text.")]


@pytest.mark.parametrize("marks", [" {#keys}", " ### {: #keys .new }", "{: #keys}"])
def test_a_heading_is_named_without_its_id(marks):
    assert titles(f"## Keys{marks}\n\nText.") == [(("Keys",), "Text.")]
    assert titles("## {#if}\n\nText.") == [(("{#if}",), "Text.")]


def test_a_heading_that_repeats_the_title_names_a_part_once():
    assert titles("# Keys\n\n## Keys\n\n### New\n\nText.") == [(("Keys", "New"), "Text.")]


def test_a_paragraph_above_a_line_of_dashes_is_no_heading():
    paragraph = "Words that go on and on. " * 15
    assert titles(f"# A\n\n{paragraph}\n---\n\nText.")[0][1].startswith("Words that go on")
    [(title, _)] = titles(f"#### {paragraph}\n\nText.", capacity=400)
    assert title == (paragraph[:300],)


def test_headings_below_the_third_level_stay_in_the_text_and_name_what_follows():
    text = f"# A\n\n#### First\n\n{'many words here ' * 40}\n\n#### Second\n\nLast words."
    parts = titles(text, capacity=100)
    assert {title for title, _ in parts} == {("A", "First")}
    assert parts[-1][1].endswith("#### Second\n\nLast words.")


def test_a_part_that_begins_with_a_deep_heading_is_named_by_it():
    names = [f"option-{n}" for n in range(6)]
    text = "# A\n\n" + "".join(f"#### {name}\n\n{'many words ' * 10}\n\n" for name in names)
    parts = titles(text, capacity=40)
    assert [title for title, _ in parts] == [("A", name) for name in names]
    assert all(part.startswith(f"#### {title[-1]}\n") for title, part in parts)


def test_the_first_row_of_a_table_names_its_later_rows_and_nothing_behind_it():
    rows = "".join(f"| Land {n} | {n}0 EUR |\n" for n in range(12))
    text = f"# A\n\n| Country | *Per* day |\n| --- | ---: |\n{rows}- Meals are {'not ' * 60}paid."
    *table, behind = titles(text, capacity=60)
    assert [title for title, _ in table[1:]] == [("A", "Country | Per day")] * (len(table) - 1)
    assert (table[0][0], behind[0]) == (("A",), ("A",))
    assert "".join(words for _, words in table).count("Country") == 1
    assert len(table) > 1


@pytest.mark.parametrize("text", ["a | b\nno rule\n", "|  |  |\n| --- | --- |\n"])
def test_a_paragraph_without_a_first_row_names_nothing(text):
    assert {title for title, _ in titles(text + "| c | d |\n" * 40, capacity=50)} == {()}


def test_a_table_without_rows_is_a_part():
    assert titles("| a | b |\n| --- | --- |") == [((), "| a | b |\n| --- | --- |")]


def test_headings_with_nothing_below_them_are_no_parts():
    assert titles("# A\n\n## B\n\n#### C\n\n---\n\n## D\n\nText.") == [(("A", "D"), "Text.")]
    assert titles("# A\n\n## B") == []


def test_the_fence_of_a_large_code_block_is_no_part_of_its_own():
    code = "".join(f"value_{n} = compute(value_{n - 1}, {n})\n" for n in range(40))
    parts = titles(f"{'Some words. ' * 40}\n\n```python\n{code}```\n")
    assert all(len(text.splitlines()) > 1 or text.startswith("Some") for _, text in parts)
    assert [text for _, text in titles("```\nx\n```")] == ["```\nx\n```"]


@pytest.mark.parametrize("kind", ["markdown", "text"])
@pytest.mark.parametrize("announced", ["**{}. How many users?**", "Plan {}:", "Is plan {} free?"])
def test_a_line_that_announces_what_follows_begins_a_part(announced, kind):
    pairs = [(announced.format(n), f"Plan {n} has {'many ' * n}users.") for n in range(20)]
    text = "\n\n".join(f"{lead_in}\n\n{answer}" for lead_in, answer in pairs)
    parts = [part.text for part in split(text, kind, 40)]
    assert len(parts) > 5
    for lead_in, answer in pairs:
        assert any(f"{lead_in}\n\n{answer}" in part for part in parts)


def test_a_line_stays_where_nothing_of_what_it_announces_fits_beside_it():
    text = f"Call it.\n\nOutput:\n\n{'word ' * 400}"
    first, *_ = split(text, "text", 20)
    assert first.text == "Call it.\n\nOutput:"


def test_a_text_that_is_no_markdown_has_no_headings():
    [part] = split("# include\n\nint x;", "text", 200, title="main.c")
    assert (part.title, part.text, part.start) == (("main.c",), "# include\n\nint x;", 0)


def test_the_page_on_which_a_part_begins_is_in_its_title():
    pages = "One. \f\fThree, which\fgoes on."
    parts = list(split(pages, "pages", 6, title="policy"))
    assert [(part.title, part.text) for part in parts] == [
        (("policy", "page 1"), "One."),
        (("policy", "page 3"), "Three, which\ngoes on."),
    ]
    assert all(pages[part.start :].startswith(part.text[:4]) for part in parts)


def test_without_the_splitter_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "semantic_text_splitter", None)
    with pytest.raises(MissingExtraError, match=r"reading documents needs the extra 'docs'"):
        list(split("text", "text", 200))


def test_a_line_longer_than_a_window_is_cut_between_words():
    words = [f"word{n}" for n in range(WINDOW_CHARS // 4)]
    parts = list(split(" ".join(words), "text", 200))
    assert " ".join(part.text for part in parts).split() == words


def test_a_word_longer_than_a_window_is_cut_anywhere():
    text = "x" * (WINDOW_CHARS + 10)
    assert "".join(part.text for part in split(text, "text", 200)) == text


@pytest.mark.parametrize("kind", ["markdown", "text"])
def test_a_part_of_the_handbook_is_at_most_half_as_large_again_to_the_bundled_model(kind):
    folder = ROOT / "toolcrib" / "encoders" / "models" / "toolcrib-encoder"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for part in split(page.read_text(encoding="utf-8"), kind, 200):
            assert len(tokenizer.encode(part.text, add_special_tokens=False).ids) <= 300


@given(st.lists(st.sampled_from(["word", "Straße", "検索", "x1", "и", "end"])), st.integers(5, 50))
def test_every_word_of_a_plain_text_is_in_some_part_and_in_its_order(words, capacity):
    parts = split(" ".join(words), "text", capacity)
    assert " ".join(part.text for part in parts).split() == words


@given(markdown, st.sampled_from(["markdown", "text", "pages"]), st.integers(10, 200))
def test_parts_are_slices_in_their_order_that_are_never_too_large(text, kind, capacity):
    end = 0
    for part in split(text, kind, capacity, title="t"):
        assert part.start >= end
        end = part.start + len(part.text)
        assert text[part.start : end] == part.text
        assert approximate_tokens(part.text) <= capacity
        assert re.search(r"[^\W_]", part.text)


@given(markdown, st.integers(10, 200))
def test_no_part_crosses_a_heading_that_cuts(text, capacity):
    parts = list(split(text, "markdown", capacity))
    assert parts == list(split(text, "markdown", capacity))
    for part in parts:
        outside = re.sub(r"```.*?```", "", part.text, flags=re.DOTALL)
        for heading in ("# One\n", "## Two words\n", "### Three\n", "Underlined\n---"):
            assert not re.search(rf"^{heading}", outside, re.MULTILINE)


@given(st.text())
def test_any_text_can_be_weighed_and_more_text_weighs_more(text):
    text = text.encode(errors="replace").decode()
    assert 0 <= approximate_tokens(text) <= approximate_tokens(f"{text} more words")
