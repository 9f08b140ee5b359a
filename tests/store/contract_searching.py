"""What every store promises about scores, filters inside the legs, and limits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.store.samples import (
    HALF_TOLERANCE,
    TOLERANCE,
    WIDTH,
    a_full_point,
    as_dict,
    by_id,
    dense_leg,
    multi_leg,
    point,
    random_units,
    sparse_leg,
    sparse_scores,
    unit,
)
from toolcrib.errors import StoreError
from toolcrib.store.base import LegQuery, Store, point_id
from toolcrib.store.filters import And, Equals, Filter, Not

DOCUMENTS = {
    "create issue": {1: 1.2, 2: 0.8},
    "close issue": {1: 0.9, 3: 1.1},
    "send mail": {4: 1.5, 5: 0.7},
    "read mail": {4: 0.4, 6: 1.0, 4_294_967_295: 0.3},
}
ACME: Filter = Equals("server", "acme")


class Searching:
    """Inherited by `StoreContract`."""

    def test_dense_scores_are_cosines_best_first(self, store: Store) -> None:
        rows = random_units(50)
        store.upsert([point(f"t{n}", dense=row) for n, row in enumerate(rows)])
        (query,) = random_units(1, seed=8)
        (hits,) = store.search([dense_leg(query, limit=50)])
        cosines = rows @ query
        assert [hit.id for hit in hits] == [point_id(f"t{n}") for n in np.argsort(-cosines)]
        assert [hit.score for hit in hits] == pytest.approx(-np.sort(-cosines), abs=TOLERANCE)

    def test_a_multivector_scores_by_its_best_row(self, store: Store) -> None:
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
    def test_sparse_scores_are_weights_times_idf(
        self, store: Store, query: dict[int, float]
    ) -> None:
        store.upsert([point(name, terms=terms) for name, terms in DOCUMENTS.items()])
        store.upsert([point("without any terms", dense=unit(1))])
        (hits,) = store.search([sparse_leg(query)])
        expected = by_id(sparse_scores(query, DOCUMENTS))
        assert as_dict(hits) == pytest.approx(expected, abs=TOLERANCE)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    @pytest.mark.parametrize("query", [{}, {99: 1.0}], ids=["no term", "a term nowhere"])
    def test_a_sparse_query_without_a_shared_term_finds_nothing(
        self, store: Store, query: dict[int, float]
    ) -> None:
        store.upsert([a_full_point()])
        assert store.search([sparse_leg(query)]) == [[]]

    def test_a_vector_without_terms_is_no_document(self, store: Store) -> None:
        store.upsert([point(name, terms=terms) for name, terms in DOCUMENTS.items()])
        store.upsert([point(f"mute {n}", terms={}) for n in range(20)])
        expected = by_id(sparse_scores({1: 1.0}, DOCUMENTS))
        plain, scoped = store.search([sparse_leg({1: 1.0}), sparse_leg({1: 1.0}, idf_corpus=And())])
        assert as_dict(plain) == pytest.approx(expected, abs=TOLERANCE)
        assert as_dict(scoped) == pytest.approx(expected, abs=TOLERANCE)

    def test_a_point_is_found_only_by_the_vectors_that_it_has(self, store: Store) -> None:
        store.upsert(
            [
                point("dense", dense=unit(1)),
                point("multi", multi=unit(1)[np.newaxis]),
                point("sparse", terms={1: 1.0}),
                point("none"),
            ]
        )
        legs = [dense_leg(unit(1)), multi_leg(unit(1)), sparse_leg({1: 1.0})]
        found = [[hit.id for hit in hits] for hits in store.search(legs)]
        assert found == [[point_id("dense")], [point_id("multi")], [point_id("sparse")]]
        assert store.count() == 4

    def test_queries_of_one_call_are_answered_each_for_itself(self, store: Store) -> None:
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
        assert [sorted(h.score for h in hits) for hits in together] == [
            pytest.approx(sorted(h.score for h in hits)) for hits in alone
        ]
        assert [len(hits) for hits in together] == [3, 4, 0, 5, 1]

    @pytest.mark.parametrize("limit", [0, 1, 7, 1000])
    def test_a_limit_is_kept_in_every_leg(self, store: Store, limit: int) -> None:
        store.upsert([a_full_point(f"t{n}") for n in range(10)])
        legs = [
            dense_leg(unit(1), limit=limit),
            multi_leg(unit(1), limit=limit),
            sparse_leg({1: 1.0}, limit=limit),
        ]
        assert [len(hits) for hits in store.search(legs)] == [min(limit, 10)] * 3

    def test_a_filter_works_inside_every_leg(self, store: Store) -> None:
        """A filter on the result would leave nothing: the nearest are all out of scope."""
        store.upsert([a_full_point(f"near {n}", server="globex") for n in range(20)])
        store.upsert(
            [point("far", dense=unit(1, 9), multi=unit(1, 9)[None], terms={1: 0.1}, server="acme")]
        )
        legs = [
            dense_leg(unit(1), limit=1, where=ACME),
            multi_leg(unit(1), limit=1, where=ACME),
            sparse_leg({1: 1.0}, limit=1, where=ACME),
        ]
        for hits in store.search(legs):
            assert [hit.id for hit in hits] == [point_id("far")]

    def test_points_outside_the_corpus_change_no_score(self, store: Store) -> None:
        store.upsert([point(name, terms=t, server="acme") for name, t in DOCUMENTS.items()])
        leg = sparse_leg({1: 1.0, 4: 1.0}, where=ACME, idf_corpus=ACME)
        (before,) = store.search([leg])
        store.upsert([point(f"other {n}", terms={1: 3.0}, server="globex") for n in range(30)])
        (after,) = store.search([leg])
        store.delete([point_id(f"other {n}") for n in range(15)])
        (later,) = store.search([leg])
        expected = pytest.approx(by_id(sparse_scores({1: 1.0, 4: 1.0}, DOCUMENTS)), abs=TOLERANCE)
        assert as_dict(before) == as_dict(after) == as_dict(later) == expected

    def test_the_corpus_may_be_wider_than_the_filter(self, store: Store) -> None:
        store.upsert([point(name, terms=t, server="acme") for name, t in DOCUMENTS.items()])
        store.upsert([point("outside", terms={1: 1.0}, server="globex")])
        narrow = And(ACME, Not(Equals("name", "close issue")))
        (hits,) = store.search([sparse_leg({1: 1.0}, where=narrow, idf_corpus=ACME)])
        expected = sparse_scores({1: 1.0}, DOCUMENTS)
        del expected["close issue"]
        assert as_dict(hits) == pytest.approx(by_id(expected), abs=TOLERANCE)

    def test_a_corpus_means_nothing_to_vectors_that_are_not_sparse(self, store: Store) -> None:
        store.upsert([a_full_point()])
        legs = [dense_leg(unit(1), idf_corpus=ACME), multi_leg(unit(1), idf_corpus=ACME)]
        for hits in store.search(legs):
            assert [hit.score for hit in hits] == pytest.approx([1.0], abs=TOLERANCE)

    @pytest.mark.parametrize(
        "leg",
        [LegQuery("nowhere", unit(1), 3), dense_leg(unit(1)[:3]), multi_leg(unit(1)[:3])],
        ids=["an unknown vector", "too narrow for dense", "too narrow for multi"],
    )
    def test_an_impossible_query_is_refused_and_the_store_goes_on(
        self, store: Store, leg: LegQuery
    ) -> None:
        store.upsert([a_full_point()])
        with pytest.raises(StoreError):
            store.search([leg])
        assert len(store.search([dense_leg(unit(1))])[0]) == 1

    def test_optimising_changes_no_answer(self, store: Store) -> None:
        rows = random_units(200)
        store.upsert([point(f"t{n}", dense=row, terms={n % 7: 1.0}) for n, row in enumerate(rows)])
        legs = [dense_leg(unit(1, 2, 3), limit=20), sparse_leg({3: 1.0}, limit=50)]
        before = [as_dict(hits) for hits in store.search(legs)]
        store.optimise()
        after = [as_dict(hits) for hits in store.search(legs)]
        assert after == [pytest.approx(scores, abs=TOLERANCE) for scores in before]
