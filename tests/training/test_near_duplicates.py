"""Texts that say the same are found whatever their case and signs, and others are let be."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.errors import MissingExtraError
from toolcrib.training.near_duplicates import HeldOut, clusters

LONG = "please show me every open issue of the website that nobody has looked at since last March"

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
"""Lone surrogates among it."""

SENTENCES = st.lists(st.sampled_from(["red", "green", "blue"]), min_size=1, max_size=6).map(
    " ".join
)


def slid(by, word="word"):
    """Twenty words; a text slid by one word says the same, one slid by six does not."""
    return " ".join(f"{word}{n}" for n in range(by, by + 20))


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(LONG, id="itself"),
        pytest.param(LONG.upper(), id="another case"),
        pytest.param(",\n".join(LONG.split()) + "?!", id="other signs and spaces"),
        pytest.param(LONG.replace("March", "April"), id="a last word"),
        pytest.param(f"Hi, {LONG}", id="a first word"),
    ],
)
def test_a_text_is_like_one_that_differs_little(same):
    assert same in HeldOut([LONG])
    assert HeldOut([LONG]).like(same) == [LONG]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("tell me the weather in Oslo", id="nothing shared"),
        pytest.param(" ".join(reversed(LONG.split())), id="the words in another order"),
        pytest.param(LONG[: len(LONG) // 2], id="its first half"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_text_is_not_like_one_that_differs_much(other):
    assert other not in HeldOut([LONG])


def test_texts_of_few_words_are_alike_as_a_whole_only():
    held = HeldOut(["list issues", "mail"])
    assert "List issues!" in held
    assert "list issue" not in held
    assert "issues" not in held


def test_nothing_is_like_a_text_where_none_is_held():
    assert LONG not in HeldOut()


def test_all_that_are_alike_are_told_in_order_and_once():
    ways = [LONG.replace(letter, letter.upper()) for letter in "bdfhikmnoprst"]
    held = HeldOut([*ways, "mail"])
    for way in ways:
        held.add(way)
    assert held.like(LONG) == sorted(ways)


def test_texts_that_share_half_of_what_they_say_are_not_alike():
    pairs = ((slid(0, f"word{n}x"), slid(6, f"word{n}x")) for n in range(150))
    assert not [one for one, other in pairs if one in HeldOut([other])]


@given(ANY_TEXT)
@settings(max_examples=50)
def test_any_text_is_like_itself(text):
    assert text in HeldOut([text])


@given(SENTENCES, SENTENCES)
@settings(max_examples=50)
def test_likeness_goes_both_ways(one, other):
    assert (one in HeldOut([other])) == (other in HeldOut([one]))


def test_texts_are_together_through_a_chain():
    chain = [slid(by) for by in (3, 4, 5, 6, 2, 1, 0)]
    assert slid(6) not in HeldOut([slid(0)])
    assert clusters(["mail", *chain]) == [[0], [1, 2, 3, 4, 5, 6, 7]]


def test_a_text_that_links_two_clusters_joins_them():
    apart = [slid(0), slid(6), slid(0).upper(), slid(6).upper()]
    assert clusters(apart) == [[0, 2], [1, 3]]
    between = [slid(by) for by in range(1, 6)]
    assert clusters([*apart, *between]) == [list(range(9))]


def test_of_no_texts_there_are_no_clusters():
    assert clusters([]) == []


@given(st.lists(SENTENCES, max_size=12))
@settings(max_examples=50)
def test_every_place_is_in_one_cluster_and_clusters_are_in_order(texts):
    found = clusters(texts)
    assert sorted(place for group in found for place in group) == list(range(len(texts)))
    assert all(group == sorted(group) for group in found)
    assert found == sorted(found)


@given(st.lists(SENTENCES, max_size=12))
@settings(max_examples=50)
def test_texts_that_are_alike_are_in_one_cluster(texts):
    home = {place: number for number, group in enumerate(clusters(texts)) for place in group}
    for place, text in enumerate(texts):
        held = HeldOut([text])
        assert {home[other] for other, o in enumerate(texts) if o in held} == {home[place]}


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(MissingExtraError, match=r"near duplicates needs .*toolcrib\[train\]"):
        HeldOut()
