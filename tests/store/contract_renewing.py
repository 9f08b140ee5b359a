"""What every store promises about being replaced by another, built beside it."""

from __future__ import annotations

import pytest

from tests.store.samples import (
    LAYOUT,
    a_full_point,
    dense_leg,
    multi_leg,
    point,
    random_units,
    sparse_leg,
    unit,
)
from toolcrib.errors import BadPointError
from toolcrib.store.base import Layout, Store, point_id

WIDER = Layout(dense={"description": 16}, multi={"examples": 4}, sparse=("lexical", "titles"))


def _renew_and_fail(store: Store) -> None:
    with store.renew(WIDER) as beside:
        beside.upsert([point("new")])
        raise ZeroDivisionError


class Renewing:
    """Inherited by `StoreContract`."""

    def test_the_new_store_takes_the_place_of_the_old(self, store: Store) -> None:
        store.upsert([a_full_point("old")])
        store.write_meta({"model": "old"})
        with store.renew(LAYOUT) as beside:
            assert (beside.count(), dict(beside.read_meta())) == (0, {})
            beside.upsert([a_full_point("new")])
            beside.write_meta({"model": "new"})
            (hits,) = store.search([dense_leg(unit(1))])
            assert [hit.id for hit in hits] == [point_id("old")]
        assert dict(store.read_meta()) == {"model": "new"}
        legs = [dense_leg(unit(1)), multi_leg(unit(1)), sparse_leg({1: 1.0})]
        for hits in store.search(legs):
            assert [hit.id for hit in hits] == [point_id("new")]
        assert store.count() == 1

    def test_the_new_store_may_have_another_layout(self, store: Store) -> None:
        store.upsert([a_full_point("old")])
        wide = random_units(1, width=16)[0]
        with store.renew(WIDER) as beside:
            beside.upsert([point("new", dense=wide)])
        store.upsert([point("later", dense=wide)])
        (hits,) = store.search([dense_leg(wide)])
        assert {hit.id for hit in hits} == {point_id("new"), point_id("later")}
        with pytest.raises(BadPointError):
            store.upsert([a_full_point("too narrow")])

    def test_a_store_can_be_renewed_again_and_after_a_failure(self, store: Store) -> None:
        for attempt in range(3):
            with store.renew(LAYOUT) as beside:
                beside.upsert([a_full_point(f"t{attempt}")])
            with pytest.raises(ZeroDivisionError):
                _renew_and_fail(store)
        assert [record.id for record in store.scroll()] == [point_id("t2")]
        store.upsert([a_full_point("later")])
        assert store.count() == 2
