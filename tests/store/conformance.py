"""The contract of a store, executable: what every engine must do, whatever it is made of.

To hold a new engine to it, inherit and supply the fixture `store`, open on an empty place with
the layout `tests.store.samples.LAYOUT`:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path: Path) -> Iterator[Store]:
            with closing(MyStore.open(tmp_path, LAYOUT)) as store:
                yield store
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.samples import (
    HALF_TOLERANCE,
    LAYOUT,
    TOLERANCE,
    WIDTH,
    a_full_point,
    as_dict,
    by_id,
    dense_leg,
    multi_leg,
    point,
    random_units,
    sparse,
    sparse_leg,
    sparse_scores,
    unit,
)
from toolcrib.encoders.base import SparseVector
from toolcrib.errors import BadPointError, StoreError
from toolcrib.store.base import Layout, LegQuery, Store, point_id
from toolcrib.store.filters import And, AnyOf, Equals, Filter, HasId, Not, Or, Range, matches

PAYLOADS: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "many scripts": {"category": "日本語 العربية हिन्दी 🧰 e\u0301 \u200b\x00 'quotes\" \\ \n"},
    "long text": {"description": "word " * 40_000},
    "nesting": {"schema": {"type": "object", "properties": {"a.b": {"enum": [1, None, "x"]}}}},
    "every kind of value": {"a": None, "b": True, "c": 3, "d": -2.5, "e": [], "f": {}, "g": "x"},
    "strange names": {"": 1, "a b": 2, "a.b[]": 3, "ключ": 4},
}

DOCUMENTS = {
    "create issue": {1: 1.2, 2: 0.8},
    "close issue": {1: 0.9, 3: 1.1},
    "send mail": {4: 1.5, 5: 0.7},
    "read mail": {4: 0.4, 6: 1.0, 4_294_967_295: 0.3},
}
ACME: Filter = Equals("server", "acme")

NAMES = [f"t{n}" for n in range(5)]
WORDS = ["a", "A", "b", "true", "", "a b", "a.b", 'say "hi"', "ünï", "日本"]
MANY = [f"server {n}" for n in range(30)]
NUMBERS = [-2.5, 0, 1, 1.5, 1e9]
NUMBER_FIELDS = ["cost_estimate", "avg_latency_ms"]

words = st.sampled_from(WORDS)
numbers = st.sampled_from(NUMBERS)
bounds = st.none() | numbers

payloads = st.fixed_dictionaries(
    {},
    optional={
        "server": words | st.none(),
        "tags": st.lists(words, max_size=3) | st.none(),
        "enabled": st.sampled_from(["true", "false"]),
        "cost_estimate": numbers | st.none(),
        "avg_latency_ms": numbers,
    },
)

leaves: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Equals, st.sampled_from(["server", "tags"]), words),
    st.builds(Equals, st.just("enabled"), st.booleans()),
    st.builds(AnyOf, st.sampled_from(["server", "tags"]), st.lists(words, max_size=3)),
    # A wide scope, which the embedded engine asks in another way.
    st.builds(lambda few: AnyOf("server", [*few, *MANY]), st.lists(words, max_size=3)),
    st.builds(AnyOf, st.just("enabled"), st.lists(st.booleans(), max_size=2)),
    st.builds(Range, st.sampled_from(NUMBER_FIELDS), bounds, bounds, bounds, bounds),
    st.builds(HasId, st.frozensets(st.sampled_from([point_id(n) for n in (*NAMES, "unknown")]))),
)


def joined_filters(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(parts, max_size=3)
    return st.one_of(
        st.builds(Not, parts),
        several.map(lambda several: And(*several)),
        several.map(lambda several: Or(*several)),
    )


trees: st.SearchStrategy[Filter] = st.recursive(leaves, joined_filters, max_leaves=8)

EDGES: dict[str, tuple[Filter, int]] = {
    "and of nothing": (And(), 3),
    "or of nothing": (Or(), 0),
    "not and of nothing": (Not(And()), 0),
    "not or of nothing": (Not(Or()), 3),
    "and of both": (And(Or(), And()), 0),
    "or of both": (Or(Or(), And()), 3),
    "any of nothing": (AnyOf("tags", []), 0),
    "not any of nothing": (Not(AnyOf("tags", [])), 3),
    "no ids": (HasId(frozenset()), 0),
    "not no ids": (Not(HasId(frozenset())), 3),
    "an id that cannot be": (HasId(frozenset({-1, point_id("a")})), 1),
    "a range without bounds": (Range("cost_estimate"), 2),
    "not a range without bounds": (Not(Range("cost_estimate")), 1),
}
"""With three points, two of which have a cost."""


def _found(store: Store, **how: Any) -> list[list[str]]:
    """Ids of the hits of a question to each kind of vector."""
    legs = [dense_leg(unit(1), **how), multi_leg(unit(1), **how), sparse_leg({1: 1.0}, **how)]
    return [[hit.id for hit in hits] for hits in store.search(legs)]


class PartContract:
    """The contract of a store, and of one tenant's part of a store."""

    # -- writing

    def test_a_new_store_is_empty(self, store):
        assert store.count() == 0
        assert list(store.scroll()) == []
        assert dict(store.read_meta()) == {}
        assert store.search([dense_leg(unit(1)), sparse_leg({1: 1.0})]) == [[], []]

    @pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
    def test_a_payload_comes_back_as_it_was_written(self, store, payload):
        written = a_full_point(**payload)
        store.upsert([written])
        (record,) = store.retrieve([written.id])
        assert record.payload == written.payload

    def test_writing_an_id_again_replaces_payload_and_vectors(self, store):
        store.upsert([a_full_point("tool", category="old", tags=["gone"])])
        store.upsert([point("tool", dense=unit(0, 1), category="new")])
        (record,) = store.retrieve([point_id("tool")])
        assert record.payload == {"name": "tool", "category": "new"}
        legs = [dense_leg(unit(0, 1)), multi_leg(unit(1)), sparse_leg({1: 1.0})]
        dense, multi, lexical = store.search(legs)
        assert [hit.score for hit in dense] == pytest.approx([1.0])
        assert (multi, lexical) == ([], [])
        assert store.count() == 1

    def test_of_one_id_twice_in_a_call_the_last_one_stays(self, store):
        store.upsert([point("tool", category="first"), point("tool", category="second")])
        (record,) = store.retrieve([point_id("tool")])
        assert record.payload["category"] == "second"

    def test_writing_nothing_does_nothing(self, store):
        store.upsert([])
        store.delete([])
        store.set_sparse("lexical", {})
        assert (store.count(), store.retrieve([]), store.search([])) == (0, [], [])

    def test_a_deleted_point_is_gone_from_everything(self, store):
        store.upsert([a_full_point("kept"), a_full_point("gone")])
        store.delete([point_id("gone"), point_id("never there")])
        assert [record.id for record in store.scroll()] == [point_id("kept")]
        assert store.retrieve([point_id("gone")]) == []
        assert _found(store) == [[point_id("kept")]] * 3
        store.upsert([a_full_point("gone")])
        assert store.count() == 2

    def test_retrieve_keeps_the_order_asked_and_leaves_unknown_ids_out(self, store):
        names = ["d", "a", "c", "b"]
        store.upsert([point(name) for name in sorted(names)])
        store.delete(["github/create_issue"])
        asked = [point_id(name) for name in ("unknown", *names)]
        found = store.retrieve(["github/create_issue", *asked])
        assert [record.id for record in found] == asked[1:]

    def test_vectors_come_as_they_were_written(self, store):
        full = a_full_point("full")
        store.upsert([full, point("bare", dense=unit(0, 1))])
        asked = [point_id(name) for name in ("full", "unknown", "bare")]
        (dense,), (multi,) = full.dense, full.multi
        assert set(store.vectors(asked, dense)) == {asked[0], asked[2]}
        found = store.vectors(asked, multi)
        assert set(found) == {full.id}
        np.testing.assert_allclose(found[full.id], full.multi[multi], atol=1e-3)

    def test_entries_of_the_meta_document_are_replaced_one_by_one(self, store):
        store.write_meta({"model": "a", "nested": {"old": [1, 2.5, None]}, "名": "前"})
        assert store.read_meta()["nested"] == {"old": [1, 2.5, None]}
        assert store.read_meta()["名"] == "前"
        store.write_meta({"nested": {"new": True}, "名": None})
        store.upsert([point("tool")])
        assert dict(store.read_meta()) == {"model": "a", "nested": {"new": True}}
        store.write_meta({})
        assert dict(store.read_meta()) == {"model": "a", "nested": {"new": True}}
        store.write_meta({"model": None, "nested": None, "unknown": None})
        assert dict(store.read_meta()) == {}

    def test_a_bad_point_is_refused_and_nothing_of_the_call_is_written(self, store):
        store.upsert([a_full_point("before")])
        with pytest.raises(BadPointError):
            store.upsert([a_full_point("z"), point("bad", dense=2 * unit(1))])
        assert [record.id for record in store.scroll()] == [point_id("before")]
        store.upsert([a_full_point("next")])
        (hits,) = store.search([dense_leg(unit(1))])
        assert {hit.id for hit in hits} == {point_id("before"), point_id("next")}

    def test_set_sparse_replaces_that_vector_and_nothing_else(self, store):
        store.upsert([a_full_point("tool", category="kept"), a_full_point("other")])
        store.set_sparse("lexical", {point_id("tool"): sparse({9: 2.0})})
        legs = [sparse_leg({9: 1.0}), sparse_leg({1: 1.0}), dense_leg(unit(1))]
        new, old, dense = store.search(legs)
        assert [hit.id for hit in new] == [point_id("tool")]
        assert [hit.id for hit in old] == [point_id("other")]
        assert len(dense) == 2
        assert store.retrieve([point_id("tool")])[0].payload["category"] == "kept"

    @pytest.mark.parametrize(
        ("using", "name", "indices"),
        [
            ("nowhere", "a", [1, 2]),
            ("description", "a", [1, 2]),
            ("lexical", "unknown", [1, 2]),
            ("lexical", "a", [5, 5]),
        ],
    )
    def test_set_sparse_refuses_what_cannot_be_replaced(self, store, using, name, indices):
        store.upsert([a_full_point("a"), a_full_point("b")])
        vector = SparseVector(np.array(indices, np.uint32), np.ones(2, np.float32))
        with pytest.raises(StoreError):
            store.set_sparse(using, {point_id(name): vector})
        dense, sparsely = store.search([dense_leg(unit(1)), sparse_leg({5: 1.0})])
        assert (len(dense), sparsely, store.count()) == (2, [], 2)

    def test_info_tells_the_engine_the_place_and_the_points(self, store):
        store.upsert([point("a"), point("b")])
        info = store.info()
        assert info.points == 2
        assert info.engine
        assert info.location

    def test_a_closed_store_says_so_and_closes_twice(self, store):
        store.close()
        store.close()
        for use in (store.count, lambda: store.upsert([point("late")]), store.read_meta):
            with pytest.raises(StoreError, match="closed"):
                use()

    # -- searching

    def test_dense_scores_are_cosines_best_first(self, store):
        rows = random_units(50)
        store.upsert([point(f"t{n}", dense=row) for n, row in enumerate(rows)])
        (query,) = random_units(1, seed=8)
        (hits,) = store.search([dense_leg(query, limit=50)])
        cosines = rows @ query
        assert [hit.id for hit in hits] == [point_id(f"t{n}") for n in np.argsort(-cosines)]
        assert [hit.score for hit in hits] == pytest.approx(-np.sort(-cosines), abs=TOLERANCE)

    def test_a_multivector_scores_by_its_best_row(self, store):
        rows = random_units(40).reshape(10, 4, WIDTH)
        store.upsert([point(f"t{n}", multi=rows[n, : n % 4 + 1]) for n in range(10)])
        (query,) = random_units(1, seed=8)
        best = {f"t{n}": float((rows[n, : n % 4 + 1] @ query).max()) for n in range(10)}
        (hits,) = store.search([multi_leg(query)])
        assert as_dict(hits) == pytest.approx(by_id(best), abs=HALF_TOLERANCE)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    @pytest.mark.parametrize(
        "query",
        [{1: 1.0}, {1: 0.5, 4: 2.0}, {2: 1.0, 3: 1.0, 6: 1.0}, {4_294_967_295: 1.0}, {1: 1, 77: 1}],
    )
    def test_sparse_scores_are_weights_times_idf(self, store, query):
        store.upsert([point(name, terms=terms) for name, terms in DOCUMENTS.items()])
        store.upsert([point("without any terms", dense=unit(1))])
        (hits,) = store.search([sparse_leg(query)])
        expected = by_id(sparse_scores(query, DOCUMENTS))
        assert as_dict(hits) == pytest.approx(expected, abs=TOLERANCE)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    @pytest.mark.parametrize("query", [{}, {99: 1.0}], ids=["no term", "a term nowhere"])
    def test_a_sparse_query_without_a_shared_term_finds_nothing(self, store, query):
        store.upsert([a_full_point()])
        assert store.search([sparse_leg(query)]) == [[]]

    def test_a_vector_without_terms_is_no_document(self, store):
        store.upsert([point(name, terms=terms) for name, terms in DOCUMENTS.items()])
        store.upsert([point(f"mute {n}", terms={}) for n in range(20)])
        expected = by_id(sparse_scores({1: 1.0}, DOCUMENTS))
        plain, scoped = store.search([sparse_leg({1: 1.0}), sparse_leg({1: 1.0}, idf_corpus=And())])
        assert as_dict(plain) == pytest.approx(expected, abs=TOLERANCE)
        assert as_dict(scoped) == pytest.approx(expected, abs=TOLERANCE)

    def test_a_point_is_found_only_by_the_vectors_that_it_has(self, store):
        store.upsert([point("dense", dense=unit(1)), point("multi", multi=unit(1)[np.newaxis])])
        store.upsert([point("sparse", terms={1: 1.0}), point("none")])
        assert _found(store) == [[point_id(kind)] for kind in ("dense", "multi", "sparse")]
        assert store.count() == 4

    def test_queries_of_one_call_are_answered_each_for_itself(self, store):
        rows = random_units(30)
        store.upsert(
            [
                point(f"t{n}", dense=row, multi=rows[n : n + 1], terms={n % 5: 1.0})
                for n, row in enumerate(rows)
            ]
        )
        legs = [
            dense_leg(unit(1), limit=3),
            sparse_leg({2: 1.0}, limit=4),
            dense_leg(unit(0, 1), limit=0),
            multi_leg(unit(0, 1), limit=5),
            dense_leg(unit(1), limit=7, where=Equals("name", "t3")),
        ]
        together = store.search(legs)
        alone = [store.search([leg])[0] for leg in legs]
        # Equal scores may come in either order.
        for found, expected in zip(together, alone, strict=True):
            assert sorted(h.score for h in found) == pytest.approx(
                sorted(h.score for h in expected)
            )
        assert [len(hits) for hits in together] == [3, 4, 0, 5, 1]

    @pytest.mark.parametrize("limit", [0, 1, 7, 1000])
    def test_a_limit_is_kept_in_every_leg(self, store, limit):
        store.upsert([a_full_point(f"t{n}") for n in range(10)])
        assert [len(hits) for hits in _found(store, limit=limit)] == [min(limit, 10)] * 3

    def test_a_filter_works_inside_every_leg(self, store):
        """A filter on the result would leave nothing: the nearest are all out of scope."""
        store.upsert([a_full_point(f"near {n}", server="globex") for n in range(20)])
        far = {"dense": unit(1, 9), "multi": unit(1, 9)[None], "terms": {1: 0.1}}
        store.upsert([point("far", server="acme", **far)])
        assert _found(store, limit=1, where=ACME) == [[point_id("far")]] * 3

    def test_points_outside_the_corpus_change_no_score(self, store):
        store.upsert([point(name, terms=t, server="acme") for name, t in DOCUMENTS.items()])
        leg = sparse_leg({1: 1.0, 4: 1.0}, where=ACME, idf_corpus=ACME)
        (before,) = store.search([leg])
        store.upsert([point(f"other {n}", terms={1: 3.0}, server="globex") for n in range(30)])
        (after,) = store.search([leg])
        store.delete([point_id(f"other {n}") for n in range(15)])
        (later,) = store.search([leg])
        expected = pytest.approx(by_id(sparse_scores({1: 1.0, 4: 1.0}, DOCUMENTS)), abs=TOLERANCE)
        assert as_dict(before) == as_dict(after) == as_dict(later) == expected

    def test_the_corpus_may_be_wider_than_the_filter(self, store):
        store.upsert([point(name, terms=t, server="acme") for name, t in DOCUMENTS.items()])
        store.upsert([point("outside", terms={1: 1.0}, server="globex")])
        narrow = And(ACME, Not(Equals("name", "close issue")))
        (hits,) = store.search([sparse_leg({1: 1.0}, where=narrow, idf_corpus=ACME)])
        expected = sparse_scores({1: 1.0}, DOCUMENTS)
        del expected["close issue"]
        assert as_dict(hits) == pytest.approx(by_id(expected), abs=TOLERANCE)

    def test_a_corpus_means_nothing_to_vectors_that_are_not_sparse(self, store):
        store.upsert([a_full_point()])
        legs = [dense_leg(unit(1), idf_corpus=ACME), multi_leg(unit(1), idf_corpus=ACME)]
        for hits in store.search(legs):
            assert [hit.score for hit in hits] == pytest.approx([1.0], abs=TOLERANCE)

    @pytest.mark.parametrize(
        "leg",
        [LegQuery("nowhere", unit(1), 3), dense_leg(unit(1)[:3]), multi_leg(unit(1)[:3])],
        ids=["an unknown vector", "too narrow for dense", "too narrow for multi"],
    )
    def test_an_impossible_query_is_refused_and_the_store_goes_on(self, store, leg):
        store.upsert([a_full_point()])
        with pytest.raises(StoreError):
            store.search([leg])
        assert len(store.search([dense_leg(unit(1))])[0]) == 1

    def test_optimising_changes_no_answer(self, store):
        rows = random_units(200)
        store.upsert([point(f"t{n}", dense=row, terms={n % 7: 1.0}) for n, row in enumerate(rows)])
        legs = [dense_leg(unit(1, 2, 3), limit=20), sparse_leg({3: 1.0}, limit=50)]
        before = [as_dict(hits) for hits in store.search(legs)]
        store.optimise()
        after = [as_dict(hits) for hits in store.search(legs)]
        assert after == [pytest.approx(scores, abs=TOLERANCE) for scores in before]

    # -- filtering

    @pytest.mark.slow
    def test_a_filter_means_the_same_as_in_plain_python(self, store):
        @settings(max_examples=100, deadline=None)
        @given(
            contents=st.lists(payloads, min_size=len(NAMES), max_size=len(NAMES)),
            wheres=st.lists(trees, min_size=1, max_size=4),
        )
        def holds(contents: list[dict[str, Any]], wheres: list[Filter]) -> None:
            # The same ids in every example: each replaces the points of the one before.
            named = zip(NAMES, contents, strict=True)
            points = [point(name, dense=unit(1), **content) for name, content in named]
            store.upsert(points)
            answers = store.search([dense_leg(unit(1), where=where) for where in wheres])
            for where, hits in zip(wheres, answers, strict=True):
                expected = {p.id for p in points if matches(where, p.id, p.payload)}
                assert {record.id for record in store.scroll(where)} == expected
                assert {hit.id for hit in hits} == expected
                assert store.count(where) == len(expected)

        holds()

    def test_an_empty_part_means_what_it_says(self, store):
        store.upsert(
            [point("a", cost_estimate=0.5), point("b", cost_estimate=2), point("c", tags=["x"])]
        )
        found = {name: store.count(where) for name, (where, _) in EDGES.items()}
        assert found == {name: expected for name, (_, expected) in EDGES.items()}
        listed = {name: len(list(store.scroll(where))) for name, (where, _) in EDGES.items()}
        assert listed == found

    def test_scroll_gives_every_point_once_over_many_pages(self, store):
        points = [point(f"t{n}", server="even" if n % 2 == 0 else "odd") for n in range(2100)]
        store.upsert(points)
        for where, expected in ((None, points), (Equals("server", "even"), points[::2])):
            found = sorted(record.id for record in store.scroll(where))
            assert found == sorted(p.id for p in expected)
            assert store.count(where) == len(expected)

    def test_scroll_gives_only_the_fields_asked_for(self, store):
        written = point("a", server="acme", tags=["x"], schema={"deep": 1})
        store.upsert([written])
        assert [r.payload for r in store.scroll()] == [written.payload]
        asked = store.scroll(fields=["server", "schema", "not_there"])
        assert [r.payload for r in asked] == [{"server": "acme", "schema": {"deep": 1}}]
        assert [r.payload for r in store.scroll(fields=[])] == [{}]


WIDER = Layout(dense={"description": 16}, multi={"examples": 4}, sparse=("lexical", "titles"))


def _renew_and_fail(store: Store) -> None:
    with store.renew(WIDER) as beside:
        beside.upsert([point("new")])
        raise ZeroDivisionError


class StoreContract(PartContract):
    """The contract of a whole store, which another store can replace."""

    def test_the_new_store_takes_the_place_of_the_old(self, store):
        store.upsert([a_full_point("old")])
        store.write_meta({"model": "old"})
        with store.renew(LAYOUT) as beside:
            assert (beside.count(), dict(beside.read_meta())) == (0, {})
            beside.upsert([a_full_point("new")])
            beside.write_meta({"model": "new"})
            assert _found(store) == [[point_id("old")]] * 3
        assert dict(store.read_meta()) == {"model": "new"}
        assert _found(store) == [[point_id("new")]] * 3
        assert store.count() == 1

    def test_the_new_store_may_have_another_layout(self, store):
        store.upsert([a_full_point("old")])
        wide = random_units(1, width=16)[0]
        with store.renew(WIDER) as beside:
            beside.upsert([point("new", dense=wide)])
        store.upsert([point("later", dense=wide)])
        (hits,) = store.search([dense_leg(wide)])
        assert {hit.id for hit in hits} == {point_id("new"), point_id("later")}
        with pytest.raises(BadPointError):
            store.upsert([a_full_point("too narrow")])

    def test_a_store_can_be_renewed_again_and_after_a_failure(self, store):
        for attempt in range(3):
            with store.renew(LAYOUT) as beside:
                beside.upsert([a_full_point(f"t{attempt}")])
            with pytest.raises(ZeroDivisionError):
                _renew_and_fail(store)
        assert [record.id for record in store.scroll()] == [point_id("t2")]
        store.upsert([a_full_point("later")])
        assert store.count() == 2
