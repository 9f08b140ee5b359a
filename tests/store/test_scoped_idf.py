"""Word frequencies within a corpus are remembered, and are always those of what is stored now."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.store.samples import LAYOUT, as_dict, point, sparse, sparse_leg
from toolcrib.records import Scope
from toolcrib.records.scope import MAX_FILTER_VALUES
from toolcrib.store import edge_query, filters
from toolcrib.store.base import LegQuery, Point, point_id
from toolcrib.store.edge_query import EdgeSearch, to_query
from toolcrib.store.filters import (
    MAX_CACHED_BYTES,
    And,
    AnyOf,
    Equals,
    Filter,
    HasId,
    Not,
    bytes_of_filter,
    from_scope,
)
from toolcrib.store.qdrant_edge import EdgeStore

MAIL, DESK = Equals("server", "mail"), Equals("server", "desk")
CORPORA: list[Filter] = [
    MAIL,
    DESK,
    AnyOf("server", ["mail", "desk"]),
    Not(MAIL),
    And(DESK, Not(Equals("name", "t3"))),
    And(),
    HasId(frozenset({point_id("t1"), point_id("t5")})),
    Equals("server", "nowhere"),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EdgeStore]:
    with closing(EdgeStore.open(tmp_path, LAYOUT, survives_power_cut=False)) as opened:
        yield opened


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The terms of each count from now on."""
    counted = edge_query._idf_factors
    terms: list[list[int]] = []

    def recorded(shard: Any, using: str, corpus: Any, new: list[int]) -> dict[int, float]:
        terms.append(new)
        return counted(shard, using, corpus, new)

    monkeypatch.setattr(edge_query, "_idf_factors", recorded)
    return terms


def counted_by_engine(store: EdgeStore, leg: LegQuery) -> dict[int, float]:
    shard = store._open_shard()
    hits: Sequence[Any] = shard.query(to_query(leg, leg.where, store.count))
    return {hit.id: hit.score for hit in hits}


def some_points(chance: random.Random, count: int) -> list[Point]:
    return [
        point(
            f"t{chance.randrange(40)}",
            terms={term: chance.uniform(0.1, 3) for term in chance.sample(range(12), 4)},
            server=chance.choice(["mail", "desk", "files"]),
        )
        for _ in range(count)
    ]


def write(store: EdgeStore, chance: random.Random) -> None:
    kind = chance.choice(["nothing", "upsert", "set_sparse", "delete", "optimise", "renew"])
    if kind == "upsert":
        store.upsert(some_points(chance, chance.randrange(1, 6)))
    elif kind == "set_sparse":
        known = [record.id for record in store.scroll(None, ())]
        store.set_sparse("lexical", {i: sparse({chance.randrange(12): 1.0}) for i in known[:3]})
    elif kind == "delete":
        store.delete([point_id(f"t{chance.randrange(40)}") for _ in range(4)])
    elif kind == "optimise":
        store.optimise()
    elif kind == "renew":
        with store.renew(LAYOUT) as beside:
            beside.upsert(some_points(chance, 30))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_engines_own_count_after_any_writes(store, seed, monkeypatch):
    monkeypatch.setattr("toolcrib.store.qdrant_edge.OPTIMISE_FROM_POINTS", 1)
    chance = random.Random(seed)
    store.upsert(some_points(chance, 40))
    for _ in range(25):
        write(store, chance)
        legs = [
            sparse_leg(
                # The last ones are in no point.
                {term: chance.uniform(0.1, 2) for term in chance.sample(range(14), 5)},
                where=chance.choice([None, MAIL, DESK]),
                idf_corpus=chance.choice(CORPORA),
            )
            for _ in range(6)
        ]
        for leg, hits in zip(legs, store.search(legs), strict=True):
            assert as_dict(hits) == pytest.approx(counted_by_engine(store, leg), rel=1e-5)
            assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)


@pytest.mark.parametrize("seed", range(3))
def test_scores_depend_on_what_is_stored_and_not_on_its_history(store, seed, tmp_path, monkeypatch):
    monkeypatch.setattr("toolcrib.store.qdrant_edge.OPTIMISE_FROM_POINTS", 1)
    chance = random.Random(seed)
    kept = {each.id: each for each in some_points(chance, 40)}
    store.upsert(list(kept.values()))
    store.optimise()
    for turn in range(8):
        written = {each.id: each for each in some_points(chance, 5)}
        removed = chance.sample(sorted(kept), 3)
        store.upsert(list(written.values()))
        store.delete(removed)
        kept = {i: each for i, each in (kept | written).items() if i not in removed}
        leg = sparse_leg({term: chance.uniform(0.1, 2) for term in range(12)})
        with closing(EdgeStore.open(tmp_path / f"fresh-{turn}", LAYOUT)) as fresh:
            fresh.upsert(list(kept.values()))
            (expected,), (found,) = fresh.search([leg]), store.search([leg])
        assert as_dict(found) == pytest.approx(as_dict(expected), rel=1e-5)


def test_equal_points_stay_equal(store):
    store.upsert([point(f"t{n}", terms={1: 0.7, 2: 1.3}, server="mail") for n in range(5)])
    store.upsert([point(f"u{n}", terms={2: 1.3, 3: 0.2}, server="desk") for n in range(4)])
    (hits,) = store.search([sparse_leg({1: 0.9, 2: 0.4}, where=MAIL, idf_corpus=MAIL)])
    assert len(hits) == 5
    assert len({hit.score for hit in hits}) == 1


def test_a_term_is_counted_once_between_two_writes(store, counts):
    store.upsert([point(name, terms={1: 1.0, 2: 1.0}, server="mail") for name in ("a", "b")])
    first, wider = sparse_leg({1: 1.0, 7: 1.0}, idf_corpus=MAIL), {1: 0.5, 2: 1.0, 7: 1.0}
    store.search([first, first])
    store.search([sparse_leg(wider, where=MAIL, idf_corpus=Equals("server", "mail"))])
    assert counts == [[1, 7], [2]]
    store.search([sparse_leg(wider, idf_corpus=DESK)])
    assert counts[2:] == [[1, 2, 7]]
    store.delete([point_id("a")])
    store.search([first])
    assert counts[3:] == [[1, 7]]


def test_what_is_remembered_is_bounded(store, counts, monkeypatch):
    store.upsert([point("a", terms={1: 1.0}, server="mail")])
    sizes = [bytes_of_filter(corpus) + 2 * edge_query.TERM_BYTES for corpus in (MAIL, DESK, And())]
    monkeypatch.setattr(edge_query, "MAX_CACHED_BYTES", sum(sizes) - 1)
    store._search = EdgeSearch(store._open_shard(), LAYOUT, None)
    legs = [sparse_leg({1: 1.0}, idf_corpus=corpus) for corpus in (MAIL, DESK, And())]
    for leg in (*legs, legs[1], legs[2], legs[0]):
        store.search([leg])
    assert len(counts) == 4
    too_many = sparse_leg(dict.fromkeys(range(9), 1.0), idf_corpus=DESK)
    for _ in range(2):
        store.search([too_many])
    assert [len(terms) for terms in counts[4:]] == [9, 9]


def test_wide_scopes_take_no_more_memory_however_many_there_are(store):
    store.upsert([point("a", terms={1: 1.0}, server="mail")])
    for number in range(50):
        names = [f"{number}/{n}" for n in range(MAX_FILTER_VALUES - 1)]
        where = from_scope(Scope(servers=frozenset(["mail", *names])))
        (hits,) = store.search([sparse_leg({1: 1.0}, where=where, idf_corpus=where)])
        assert [hit.id for hit in hits] == [point_id("a")]
    for cache in (store._open_search()._idf, filters._SORTED_NAMES, edge_query._CONDITIONS):
        assert 0 < len(cache) < 50
        assert cache.size <= MAX_CACHED_BYTES


def test_a_count_that_a_write_overtakes_is_not_kept(store, monkeypatch):
    store.upsert([point(f"t{n}", terms={n % 2: 1.0}, server="mail") for n in range(6)])
    counted = edge_query._idf_factors

    def overtaken(*given: Any) -> dict[int, float]:
        found = counted(*given)
        new = [point(f"u{n}", terms={1: 2.0}) for n in range(9)]
        writer = threading.Thread(target=store.upsert, args=(new,))
        writer.start()
        writer.join()
        return found

    leg = sparse_leg({1: 1.0}, idf_corpus=And())
    with monkeypatch.context() as patch:
        patch.setattr(edge_query, "_idf_factors", overtaken)
        store.search([leg])
    assert as_dict(store.search([leg])[0]) == pytest.approx(counted_by_engine(store, leg))


def test_threads_that_search_and_one_that_writes_end_in_agreement(store):
    chance = random.Random(5)
    store.upsert(some_points(chance, 40))
    over = threading.Event()

    def searching(seed: int) -> None:
        mine = random.Random(seed)
        while not over.is_set():
            terms = dict.fromkeys(mine.sample(range(14), 5), 1.0)
            store.search([sparse_leg(terms, idf_corpus=mine.choice(CORPORA))])

    with ThreadPoolExecutor(4) as pool:
        searches = [pool.submit(searching, seed) for seed in range(4)]
        for _ in range(30):
            store.upsert(some_points(chance, 2))
        over.set()
    assert [each.exception() for each in searches] == [None] * 4
    for corpus in CORPORA:
        leg = sparse_leg(dict.fromkeys(range(14), 1.0), idf_corpus=corpus)
        expected = pytest.approx(counted_by_engine(store, leg), rel=1e-5)
        assert as_dict(store.search([leg])[0]) == expected
