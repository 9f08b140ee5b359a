"""What every store promises about writing and reading back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.store.samples import a_full_point, dense_leg, multi_leg, point, sparse, sparse_leg, unit
from toolcrib.encoders.base import SparseVector
from toolcrib.errors import BadPointError, StoreError
from toolcrib.store.base import Store, point_id

PAYLOADS: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "many scripts": {"category": "日本語 العربية हिन्दी 🧰 e\u0301 \u200b\x00 'quotes\" \\ \n"},
    "long text": {"description": "word " * 40_000},
    "nesting": {"schema": {"type": "object", "properties": {"a.b": {"enum": [1, None, "x"]}}}},
    "every kind of value": {"a": None, "b": True, "c": 3, "d": -2.5, "e": [], "f": {}, "g": "x"},
    "strange names": {"": 1, "a b": 2, "a.b[]": 3, "ключ": 4},
}


class Writing:
    """Inherited by `StoreContract`."""

    def test_a_new_store_is_empty(self, store: Store) -> None:
        assert store.count() == 0
        assert list(store.scroll()) == []
        assert dict(store.read_meta()) == {}
        assert store.search([dense_leg(unit(1)), sparse_leg({1: 1.0})]) == [[], []]

    @pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
    def test_a_payload_comes_back_as_it_was_written(
        self, store: Store, payload: dict[str, Any]
    ) -> None:
        written = a_full_point(**payload)
        store.upsert([written])
        (record,) = store.retrieve([written.id])
        assert record.payload == written.payload

    def test_writing_an_id_again_replaces_payload_and_vectors(self, store: Store) -> None:
        store.upsert([a_full_point("tool", category="old", tags=["gone"])])
        store.upsert([point("tool", dense=unit(0, 1), category="new")])
        (record,) = store.retrieve([point_id("tool")])
        assert record.payload == {"name": "tool", "category": "new"}
        dense, multi, lexical = store.search(
            [dense_leg(unit(0, 1)), multi_leg(unit(1)), sparse_leg({1: 1.0})]
        )
        assert [hit.score for hit in dense] == pytest.approx([1.0])
        assert (multi, lexical) == ([], [])
        assert store.count() == 1

    def test_of_one_id_twice_in_a_call_the_last_one_stays(self, store: Store) -> None:
        store.upsert([point("tool", category="first"), point("tool", category="second")])
        (record,) = store.retrieve([point_id("tool")])
        assert record.payload["category"] == "second"

    def test_writing_nothing_does_nothing(self, store: Store) -> None:
        store.upsert([])
        store.delete([])
        store.set_sparse("lexical", {})
        assert (store.count(), store.retrieve([]), store.search([])) == (0, [], [])

    def test_a_deleted_point_is_gone_from_everything(self, store: Store) -> None:
        store.upsert([a_full_point("kept"), a_full_point("gone")])
        store.delete([point_id("gone"), point_id("never there")])
        assert [record.id for record in store.scroll()] == [point_id("kept")]
        assert store.retrieve([point_id("gone")]) == []
        legs = [dense_leg(unit(1)), multi_leg(unit(1)), sparse_leg({1: 1.0})]
        for hits in store.search(legs):
            assert [hit.id for hit in hits] == [point_id("kept")]
        store.upsert([a_full_point("gone")])
        assert store.count() == 2

    def test_retrieve_keeps_the_order_asked_and_leaves_unknown_ids_out(self, store: Store) -> None:
        names = ["d", "a", "c", "b"]
        store.upsert([point(name) for name in sorted(names)])
        store.delete(["github/create_issue"])
        asked = [point_id(name) for name in ("unknown", *names)]
        found = store.retrieve(["github/create_issue", *asked])
        assert [record.id for record in found] == asked[1:]

    def test_vectors_come_as_they_were_written(self, store: Store) -> None:
        full = a_full_point("full")
        store.upsert([full, point("bare", dense=unit(0, 1))])
        asked = [point_id(name) for name in ("full", "unknown", "bare")]
        (dense,), (multi,) = full.dense, full.multi
        assert set(store.vectors(asked, dense)) == {asked[0], asked[2]}
        found = store.vectors(asked, multi)
        assert set(found) == {full.id}
        np.testing.assert_allclose(found[full.id], full.multi[multi], atol=1e-3)

    def test_entries_of_the_meta_document_are_replaced_one_by_one(self, store: Store) -> None:
        store.write_meta({"model": "a", "nested": {"old": [1, 2.5, None]}, "名": "前"})
        assert dict(store.read_meta()) == {
            "model": "a",
            "nested": {"old": [1, 2.5, None]},
            "名": "前",
        }
        store.write_meta({"nested": {"new": True}, "名": None})
        store.upsert([point("tool")])
        assert dict(store.read_meta()) == {"model": "a", "nested": {"new": True}}
        store.write_meta({})
        assert dict(store.read_meta()) == {"model": "a", "nested": {"new": True}}
        store.write_meta({"model": None, "nested": None, "unknown": None})
        assert dict(store.read_meta()) == {}

    def test_a_bad_point_is_refused_and_nothing_of_the_call_is_written(self, store: Store) -> None:
        store.upsert([a_full_point("before")])
        with pytest.raises(BadPointError):
            store.upsert([a_full_point("z"), point("bad", dense=2 * unit(1))])
        assert [record.id for record in store.scroll()] == [point_id("before")]
        store.upsert([a_full_point("next")])
        (hits,) = store.search([dense_leg(unit(1))])
        assert {hit.id for hit in hits} == {point_id("before"), point_id("next")}

    def test_set_sparse_replaces_that_vector_and_nothing_else(self, store: Store) -> None:
        store.upsert([a_full_point("tool", category="kept"), a_full_point("other")])
        store.set_sparse("lexical", {point_id("tool"): sparse({9: 2.0})})
        new, old, dense = store.search(
            [sparse_leg({9: 1.0}), sparse_leg({1: 1.0}), dense_leg(unit(1))]
        )
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
    def test_set_sparse_refuses_what_cannot_be_replaced(self, store, using, name, indices) -> None:
        store.upsert([a_full_point("a"), a_full_point("b")])
        vector = SparseVector(np.array(indices, np.uint32), np.ones(2, np.float32))
        with pytest.raises(StoreError):
            store.set_sparse(using, {point_id(name): vector})
        dense, sparsely = store.search([dense_leg(unit(1)), sparse_leg({5: 1.0})])
        assert (len(dense), sparsely, store.count()) == (2, [], 2)

    def test_info_tells_the_engine_the_place_and_the_points(self, store: Store) -> None:
        store.upsert([point("a"), point("b")])
        info = store.info()
        assert info.points == 2
        assert info.engine
        assert info.location

    def test_a_closed_store_says_so_and_closes_twice(self, store: Store) -> None:
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.count()
        with pytest.raises(StoreError, match="closed"):
            store.upsert([point("late")])
