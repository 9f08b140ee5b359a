"""A query is cut where one errand ends and the next begins, and nowhere within a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.encoders.onnx import MAX_CLAUSES, clauses

PIECES = ["book", "Ann", "and", "Then", "so", " ", "  ", "\n", ", ", ". ", "?!", ";", "é", "東京"]
TEXTS = st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def parts(text: str) -> list[str]:
    return [text[start:end] for start, end in clauses(text)]


def letters(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("book a table, then text Ann", ["book a table,", "then text Ann"]),
        ("Is it warm? Turn it off!", ["Is it warm?", "Turn it off!"]),
        ("one; two: three. four! five", ["one;", "two:", "three.", "four!", "five"]),
        ("pay the bill...  write to Tom", ["pay the bill...", "write to Tom"]),
        ("pay the bill.\nwrite to Tom", ["pay the bill.", "write to Tom"]),
        ("pay the bill\n\nwrite to Tom", ["pay the bill", "write to Tom"]),
        ("find the file AND mail it", ["find the file", "AND mail it"]),
    ],
)
def test_a_query_is_cut_at_punctuation_and_before_conjunctions(
    text: str, expected: list[str]
) -> None:
    assert parts(text) == expected


@pytest.mark.parametrize(
    "word",
    ["and", "then", "also", "after", "afterwards", "before", "but", "so", "plus", "finally"],
)
def test_every_conjunction_begins_a_clause(word: str) -> None:
    assert parts(f"do this {word} do that") == ["do this", f"{word} do that"]


@pytest.mark.parametrize(
    "text",
    [
        "list open issues",
        "use v1.2 of a,b at 10:30 on example.com",
        "sandbox the android handset soon",
        "and book a table",
        "salt and",
        "What is the weather like?",
        "what is the weather like ? ",
    ],
)
def test_a_plain_query_is_one_clause(text: str) -> None:
    assert parts(text) == [text.strip()]


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_where_there_is_no_text_there_is_no_clause(text: str) -> None:
    assert clauses(text) == []


def test_of_too_many_clauses_the_longest_stay_in_their_order() -> None:
    text = "four. b. eleven. to. seventeen. a hundred. nine. three"
    assert parts(text) == ["four.", "eleven.", "seventeen.", "a hundred.", "nine.", "three"]


def test_of_equally_long_clauses_the_first_stay() -> None:
    assert clauses("go. " * 9) == [(at, at + 3) for at in range(0, 4 * MAX_CLAUSES, 4)]


@given(TEXTS)
def test_clauses_lie_in_order_inside_the_text_and_hold_more_than_white_space(text: str) -> None:
    spans = clauses(text)
    ends = [0, *(end for _, end in spans)]
    assert len(spans) <= MAX_CLAUSES
    assert all(end <= start for end, (start, _) in zip(ends, spans, strict=False))
    assert ends[-1] <= len(text)
    assert all(text[start:end].strip() for start, end in spans)


@given(TEXTS)
def test_no_letter_is_lost_where_the_clauses_are_few(text: str) -> None:
    found = parts(text)
    assert len(found) == MAX_CLAUSES or letters("".join(found)) == letters(text)


@given(TEXTS)
def test_a_clause_is_not_cut_again(text: str) -> None:
    assert all(parts(part) == [part] for part in parts(text))


def test_a_run_of_spaces_does_not_cost_the_square_of_its_length() -> None:
    # One that did would need minutes here.
    assert clauses("a" + " " * 200_000 + "b") == [(0, 200_002)]
