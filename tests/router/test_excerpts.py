"""What goes to the agent: in order, no text twice, few of a collection, no more than fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.records import Passage
from toolcrib.retrieval.fusion import LegScores
from toolcrib.retrieval.passages import RankedPassage
from toolcrib.router.knowledge import ALIKE, CHARS_A_TOKEN, estimated_tokens, select_passages

PLENTY = 1_000_000
TEN_WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa"


def ranked(*texts: str, collection: str = "notes") -> list[RankedPassage]:
    return [
        RankedPassage(Passage(collection, f"{n}.md", text), 1 / (n + 1), LegScores(0.5, 0.0))
        for n, text in enumerate(texts)
    ]


def texts(chosen) -> list[str]:
    return [each.passage.text for each in chosen]


def alike(one: str, other: str) -> bool:
    a, b = set(one.casefold().split()), set(other.casefold().split())
    return bool(a | b) and len(a & b) / len(a | b) >= ALIKE


def test_four_letters_are_about_a_token_and_nothing_is_free():
    assert [estimated_tokens(text) for text in ("", "a", "abcd", "a" * 400)] == [1, 1, 1, 100]


def test_of_nothing_nothing_is_chosen():
    assert select_passages([], 8, 1600) == []


def test_what_fits_is_chosen_in_its_order():
    assert texts(select_passages(ranked("one", "two", "three"), 8, PLENTY)) == [
        "one",
        "two",
        "three",
    ]


def test_each_collection_gives_no_more_than_its_share():
    found = [*ranked("a", "b", "c"), *ranked("d", "e", "f", collection="other")]
    assert texts(select_passages(found, 2, PLENTY)) == ["a", "b", "d", "e"]


def test_a_long_passage_leaves_room_for_a_shorter_one_after_it():
    found = ranked("first", "x" * 100 * CHARS_A_TOKEN, "last")
    assert texts(select_passages(found, 8, 10)) == ["first", "last"]


def test_the_first_is_kept_however_long_it_is_and_then_nothing_else_fits():
    found = ranked("x" * 100 * CHARS_A_TOKEN, "short")
    assert select_passages(found, 8, 10) == found[:1]


def test_a_budget_may_be_used_to_the_last_token():
    found = ranked("a" * 5 * CHARS_A_TOKEN, "b" * 5 * CHARS_A_TOKEN, "c")
    assert select_passages(found, 8, 10) == found[:2]


@pytest.mark.parametrize(
    "again",
    [
        TEN_WORDS,
        TEN_WORDS.upper(),
        "  ".join(reversed(TEN_WORDS.split())),
        f"{TEN_WORDS} lambda",
        TEN_WORDS.removesuffix(" kappa"),
    ],
)
def test_another_version_of_a_passage_is_left_out(again):
    assert texts(select_passages(ranked(TEN_WORDS, again, "else"), 8, PLENTY)) == [
        TEN_WORDS,
        "else",
    ]


@pytest.mark.parametrize("other", [f"{TEN_WORDS} lambda mu", "alpha beta", "", "альфа бета"])
def test_a_passage_that_says_more_or_less_is_no_other_version(other):
    assert texts(select_passages(ranked(TEN_WORDS, other), 8, PLENTY)) == [TEN_WORDS, other]


def test_another_version_from_another_collection_is_left_out_too():
    found = [*ranked(TEN_WORDS), *ranked(TEN_WORDS, "else", collection="other")]
    assert texts(select_passages(found, 8, PLENTY)) == [TEN_WORDS, "else"]


def test_a_version_that_is_left_out_costs_nothing():
    found = ranked("a b c d", "d c b a", "e")
    assert texts(select_passages(found, 2, 2)) == ["a b c d", "e"]


def test_what_did_not_fit_does_not_keep_out_another_version_of_it():
    long = " ".join(f"word{n}" for n in range(20))
    shorter = long.removesuffix(" word19")
    found = ranked("first", long, shorter)
    budget = estimated_tokens("first") + estimated_tokens(shorter)
    assert texts(select_passages(found, 8, budget)) == ["first", shorter]


words = st.lists(st.sampled_from("abcdefg"), max_size=12).map(" ".join)
found_passages = st.lists(st.tuples(st.sampled_from(["x", "y"]), words), max_size=12).map(
    lambda pairs: [
        RankedPassage(Passage(collection, f"{n}.md", text), 0.5, LegScores(0.5, 0.0))
        for n, (collection, text) in enumerate(pairs)
    ]
)


@given(found_passages, st.integers(1, 5), st.integers(1, 20))
def test_what_is_chosen_keeps_every_promise(found, per_collection, budget):
    kept = select_passages(found, per_collection, budget)
    assert kept == [each for each in found if each in kept]
    assert kept[:1] == found[:1]
    for name in ("x", "y"):
        assert sum(each.passage.collection == name for each in kept) <= per_collection
    assert len(kept) <= 1 or sum(map(estimated_tokens, texts(kept))) <= budget
    for place, each in enumerate(kept):
        assert not any(alike(each.passage.text, other) for other in texts(kept[:place]))


@given(found_passages, st.integers(1, 5), st.integers(1, 20))
def test_whatever_is_left_out_has_a_reason(found, per_collection, budget):
    kept = select_passages(found, per_collection, budget)
    for place, each in enumerate(found):
        above = [other for other in kept if other in found[:place]]
        same = [o for o in above if o.passage.collection == each.passage.collection]
        reasons = (
            len(same) == per_collection,
            estimated_tokens(each.passage.text) > budget - sum(map(estimated_tokens, texts(above))),
            any(alike(each.passage.text, other) for other in texts(above)),
        )
        assert (each not in kept) == (bool(above) and any(reasons))
