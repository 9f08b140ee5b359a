"""Batches are full, of one source or of all, and no example comes twice."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.training.batches import batches

SOURCES = st.lists(st.sampled_from("abc"), max_size=60)
SIZES = st.integers(1, 9)
SHARES = st.floats(0, 1)
SEEDS = st.integers()


def sources_of(batch, sources):
    return {sources[place] for place in batch}


@given(SOURCES, SIZES, SHARES, SEEDS)
def test_every_example_comes_once_but_for_a_last_few(sources, size, share, seed):
    drawn = batches(sources, size, homogeneous=share, seed=seed)
    places = list(chain.from_iterable(drawn))
    assert len(set(places)) == len(places)
    assert set(places) <= set(range(len(sources)))
    assert len(sources) - len(places) < size


@given(SOURCES, SIZES, SHARES, SEEDS)
def test_every_batch_is_full(sources, size, share, seed):
    drawn = batches(sources, size, homogeneous=share, seed=seed)
    assert all(len(batch) == size for batch in drawn)


@given(SOURCES, SIZES, SHARES, SEEDS)
def test_of_every_source_at_least_its_share_comes_in_batches_of_its_own(sources, size, share, seed):
    drawn = batches(sources, size, homogeneous=share, seed=seed)
    for source in set(sources):
        own = sum(sources_of(batch, sources) == {source} for batch in drawn)
        assert own >= int(sources.count(source) * share) // size


@given(SOURCES, SIZES, SHARES, SEEDS)
def test_the_order_is_the_seeds(sources, size, share, seed):
    first, second = (batches(sources, size, homogeneous=share, seed=seed) for _ in range(2))
    assert first == second


def test_another_seed_is_another_order():
    sources = ["a", "b"] * 20
    assert len({str(batches(sources, 4, seed=seed)) for seed in range(5)}) == 5


def test_all_may_be_of_one_source():
    sources = ["a"] * 8 + ["b"] * 12
    drawn = batches(sources, 4, homogeneous=1)
    assert sorted(min(sources_of(batch, sources)) for batch in drawn) == ["a"] * 2 + ["b"] * 3
    assert all(len(sources_of(batch, sources)) == 1 for batch in drawn)


def test_which_examples_meet_in_a_batch_of_one_source_is_the_seeds():
    met = [set(map(frozenset, batches(["a"] * 40, 4, homogeneous=1, seed=n))) for n in (1, 2)]
    assert met[0] != met[1]


def test_none_need_be_of_one_source():
    sources = ["a"] * 50 + ["b"] * 50
    drawn = batches(sources, 10, homogeneous=0)
    assert all(sources_of(batch, sources) == {"a", "b"} for batch in drawn)


def test_batches_of_one_source_and_mixed_ones_take_turns():
    sources = ["a"] * 100 + ["b"] * 100
    kinds = [len(sources_of(batch, sources)) for batch in batches(sources, 10)]
    assert kinds.count(1) == kinds.count(2) == 10
    assert kinds not in (sorted(kinds), sorted(kinds, reverse=True))


@pytest.mark.parametrize("count", [0, 3])
def test_too_few_examples_make_no_batch(count):
    assert batches(["a"] * count, 4) == []
