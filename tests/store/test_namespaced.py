"""A namespace keeps the contract of a store, whatever its neighbours in the same store hold."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.store.conformance import PartContract
from tests.store.samples import LAYOUT, a_full_point, dense_leg, point, sparse, sparse_leg, unit
from toolcrib.errors import BadPointError, StoreError
from toolcrib.store.base import Store, point_id
from toolcrib.store.filters import Equals, HasId, Not
from toolcrib.store.namespaced import NamespacedStore, namespaces_of
from toolcrib.store.qdrant_edge import EdgeStore

NEIGHBOURS = ("acme", "zoo")


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("house")
    with closing(EdgeStore.open(folder, LAYOUT)) as store:
        yield store


@pytest.fixture
def shared(house: Store) -> Iterator[Store]:
    yield house
    for name in namespaces_of(house):
        NamespacedStore(house, name).clear()
    house.delete([record.id for record in house.scroll()])


class TestAmongNeighbours(PartContract):
    """The contract, with neighbours on both sides that hold the same ids and terms."""

    @pytest.fixture
    def store(self, shared: Store) -> Store:
        for name in NEIGHBOURS:
            neighbour = NamespacedStore(shared, name)
            neighbour.write_meta({"whose": name})
            neighbour.upsert([a_full_point(f"t{n}", category=name) for n in range(12)])
            neighbour.upsert([a_full_point("full"), point("create issue", terms={1: 9.0, 4: 1.0})])
        return NamespacedStore(shared, "mine")


@pytest.fixture
def two(shared: Store) -> tuple[NamespacedStore, NamespacedStore]:
    return NamespacedStore(shared, "one"), NamespacedStore(shared, "two")


def test_no_payload_names_the_namespace(two):
    one, _ = two
    one.upsert([a_full_point("full")])
    (kept,) = one.scroll()
    assert "namespace" not in kept.payload
    assert one.retrieve([kept.id]) == [kept]


def test_ids_in_filters_are_ones_own(two):
    one, other = two
    for store in two:
        store.upsert([point("a", dense=unit(1)), point("b", dense=unit(1))])
    only = HasId(frozenset({point_id("a")}))
    (hits,) = one.search([dense_leg(unit(1), where=only)])
    assert [hit.id for hit in hits] == [point_id("a")]
    assert [r.id for r in other.scroll(Not(only))] == [point_id("b")]


def test_reading_goes_on_behind_a_point_even_when_it_is_gone(two):
    one, other = two
    one.upsert([point(f"t{n}", dense=unit(1)) for n in range(9)])
    other.upsert([point(f"n{n}", dense=unit(1)) for n in range(9)])
    everything = [record.id for record in one.scroll()]
    one.delete([everything[3]])
    assert [r.id for r in one.scroll(after=everything[3])] == everything[4:]


def test_clearing_one_leaves_the_other(two, shared):
    for store in two:
        store.write_meta({"a": 1})
        store.upsert([a_full_point("full")])
    one, other = two
    one.clear()
    assert (one.count(), one.read_meta()) == (0, {})
    assert (other.count(), other.read_meta()) == (1, {"a": 1})
    assert namespaces_of(shared) == ["two"]


def test_one_namespace_is_not_renewed_alone(two):
    with pytest.raises(StoreError, match="--rebuild"):
        two[0].renew(LAYOUT)


def test_closing_a_namespace_leaves_the_shared_store_open(two, shared):
    two[0].close()
    assert shared.count() == 0
    assert two[1].info().points == 0


NAMES = st.sampled_from(["a", "b", "c"])
TERMS = st.dictionaries(st.integers(1, 3), st.sampled_from([0.5, 1.0]), min_size=1)


class Tenants(RuleBasedStateMachine):
    """Each of three tenants has a store of its own as its model."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="tenants-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        self._shared = EdgeStore.open(folder / "shared", LAYOUT)
        self._pairs = {
            name: (NamespacedStore(self._shared, name), EdgeStore.open(folder / name, LAYOUT))
            for name in ("one", "two", "three")
        }

    @rule(who=st.sampled_from(["one", "two", "three"]), name=NAMES, terms=TERMS, sign=st.booleans())
    def write(self, who, name, terms, sign) -> None:
        for store in self._pairs[who]:
            store.upsert([point(name, dense=unit(1 if sign else -1), terms=terms, server=who)])

    @rule(who=st.sampled_from(["one", "two", "three"]), name=NAMES)
    def delete(self, who, name) -> None:
        for store in self._pairs[who]:
            store.delete([point_id(name)])

    @rule(who=st.sampled_from(["one", "two", "three"]), name=NAMES, terms=TERMS)
    def weigh(self, who, name, terms) -> None:
        if self._pairs[who][1].retrieve([point_id(name)]):
            for store in self._pairs[who]:
                store.set_sparse("lexical", {point_id(name): sparse(terms)})

    @rule(who=st.sampled_from(["one", "two", "three"]), size=st.integers(0, 9))
    def note(self, who, size) -> None:
        for store in self._pairs[who]:
            store.write_meta({"size": size})

    @invariant()
    def nobody_can_tell_that_there_are_others(self) -> None:
        for mine, alone in self._pairs.values():
            legs = [
                dense_leg(unit(1)),
                sparse_leg({1: 1.0, 2: 0.5}, idf_corpus=Not(Equals("server", "x"))),
            ]
            ours, theirs = mine.search(legs), alone.search(legs)
            assert [dict(hits) for hits in ours] == [dict(hits) for hits in theirs]
            assert mine.count() == alone.count()
            payloads = [{r.id: r.payload for r in store.scroll()} for store in (mine, alone)]
            assert payloads[0] == payloads[1]
            assert mine.read_meta() == alone.read_meta()

    def teardown(self) -> None:
        self._shared.close()
        for _, alone in self._pairs.values():
            alone.close()
        self._folder.cleanup()


def test_tenants_never_see_each_other():
    run_state_machine_as_test(Tenants, settings=settings(max_examples=4, stateful_step_count=12))


@pytest.mark.parametrize(
    "write",
    [
        lambda store, foreign: store.upsert([point("new"), replace(point("x"), id=foreign)]),
        lambda store, foreign: store.set_sparse("lexical", {foreign: sparse({9: 1.0})}),
        lambda store, foreign: store.delete([foreign]),
    ],
)
def test_an_id_with_the_number_of_a_neighbours_point_does_not_reach_it(shared, write):
    acme, zoo = (NamespacedStore(shared, name) for name in NEIGHBOURS)
    acme.upsert([a_full_point("theirs")])
    (kept,) = shared.scroll(Equals("namespace", "acme"))
    # What zoo calls by this number lies where acme's point is.
    with pytest.raises(BadPointError, match="'zoo'"):
        write(zoo, zoo._shift_id(kept.id))
    assert [record.payload["name"] for record in acme.scroll()] == ["theirs"]
    assert [len(hits) for hits in acme.search([dense_leg(unit(1)), sparse_leg({1: 1.0})])] == [1, 1]
    assert zoo.count() == 0
