"""Queries are dealt out by shares, and those that say the same are never torn apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.training.near_duplicates import clusters
from toolcrib.training.splits import DEV, TEST, TRAIN, split_anew, with_dev

WAYS = (str, str.upper, str.title, "{}!".format, "¿{}?".format)
"""Ways to write a text that leave what it says."""

TEXTS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(WAYS)), max_size=40).map(
    lambda drawn: [way(f"say number {n}") for n, way in drawn]
)


def asked(texts, split="test"):
    queries = (LabelledQuery(f"q{n}", text, split, {"t": 1}) for n, text in enumerate(texts))
    return DataSet("asked", (), tuple(queries))


def words(count):
    """As many texts that have nothing in common."""
    return [f"word{n}" for n in range(count)]


def sizes(data):
    return Counter(query.split for query in data.queries)


def shown(query):
    """The query but for its split."""
    return replace(query, split="")


@given(TEXTS, st.integers())
@settings(max_examples=50)
def test_no_query_is_lost_or_moved(texts, seed):
    data = asked(texts)
    dealt = split_anew(data, seed)
    assert list(map(shown, dealt.queries)) == list(map(shown, data.queries))
    assert {query.split for query in dealt.queries} <= {TRAIN, DEV, TEST}


@given(TEXTS, st.integers())
@settings(max_examples=50)
def test_what_says_the_same_is_never_torn_apart(texts, seed):
    split = {}
    for query in split_anew(asked(texts), seed).queries:
        said = query.text.casefold().strip("¿?!")
        assert split.setdefault(said, query.split) == query.split


def test_queries_of_the_sample_data_stay_with_their_like(sample):
    data = replace(sample, queries=sample.queries * 2)
    queries = split_anew(data).queries
    for group in clusters([query.text for query in queries]):
        assert len({queries[place].split for place in group}) == 1


def test_queries_that_have_nothing_in_common_are_dealt_out_by_the_shares():
    assert sizes(split_anew(asked(words(100)))) == {TRAIN: 60, DEV: 15, TEST: 25}


@pytest.mark.parametrize("seed", range(8))
def test_a_large_cluster_goes_whole_and_no_split_goes_without(seed):
    dealt = split_anew(asked(["the same"] * 20 + words(80)), seed)
    assert len({query.split for query in dealt.queries[:20]}) == 1
    assert min(sizes(dealt)[split] for split in (TRAIN, DEV, TEST)) > 10
    assert sizes(dealt)[TRAIN] <= 60


def test_the_deal_is_the_seeds():
    data = asked(words(50))
    assert split_anew(data, 1) == split_anew(data, 1)
    assert split_anew(data, 1) != split_anew(data, 2)


def test_no_queries_are_no_splits():
    assert split_anew(asked([])).queries == ()


def mixed(*splits):
    data = asked(words(len(splits)))
    queries = zip(data.queries, splits, strict=True)
    return replace(data, queries=tuple(replace(query, split=split) for query, split in queries))


def test_a_tenth_of_the_training_queries_becomes_development():
    assert sizes(with_dev(mixed(*[TRAIN, TEST] * 40))) == {TRAIN: 36, DEV: 4, TEST: 40}


def test_test_queries_stay_where_they_are_and_all_keep_their_order():
    data = mixed(*[TRAIN, TEST, TRAIN] * 20)
    grown = with_dev(data)
    assert list(map(shown, grown.queries)) == list(map(shown, data.queries))
    assert grown.split(TEST) == data.split(TEST)


@given(TEXTS, st.integers())
@settings(max_examples=50)
def test_development_queries_repeat_no_training_query(texts, seed):
    grown = with_dev(asked(texts, TRAIN), seed)
    said = {
        split: {query.text.casefold().strip("¿?!") for query in grown.split(split)}
        for split in (TRAIN, DEV)
    }
    assert not said[TRAIN] & said[DEV]


def test_a_set_with_development_queries_keeps_them():
    data = mixed(*[TRAIN] * 30, DEV)
    assert with_dev(data) is data


def test_a_set_without_training_queries_is_left_alone():
    data = mixed(TEST, TEST)
    assert with_dev(data) is data


def test_the_choice_of_development_queries_is_the_seeds():
    data = mixed(*[TRAIN] * 50)
    assert with_dev(data, 1) == with_dev(data, 1)
    assert with_dev(data, 1) != with_dev(data, 2)
