"""The embedded engine keeps the contract, and keeps everything when it is opened again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import qdrant_edge as engine

from tests.store.conformance import StoreContract
from tests.store.samples import (
    LAYOUT,
    TOLERANCE,
    a_full_point,
    as_dict,
    dense_leg,
    multi_leg,
    point,
    sparse,
    sparse_leg,
    unit,
)
from toolcrib.encoders.base import FloatArray
from toolcrib.errors import StoreDamagedError, StoreError, StoreWriteError
from toolcrib.store.base import Layout, Store, point_id
from toolcrib.store.edge_query import CODES_FROM_NAMES, EF_WIDE, count_points, to_query
from toolcrib.store.filters import And, AnyOf, Equals, Filter
from toolcrib.store.qdrant_edge import (
    INDEXED_FROM_POINTS,
    OPTIMISE_FROM_POINTS,
    EdgeStore,
    engine_guard,
)


class TestEdgeStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with closing(EdgeStore.open(tmp_path / "crib", LAYOUT)) as store:
            yield store


def test_opening_again_finds_everything(tmp_path):
    # Over a corpus only live points count; without one, deleted ones do until they are cleared.
    lexical = sparse_leg({1: 1.0}, idf_corpus=And())
    legs = [dense_leg(unit(1)), multi_leg(unit(1)), lexical]
    written = a_full_point("kept", category="日本")
    with closing(EdgeStore.open(tmp_path, LAYOUT)) as store:
        store.upsert([written, a_full_point("gone"), a_full_point("changed")])
        store.delete([point_id("gone")])
        store.upsert([point("changed", dense=unit(0, 1))])
        store.write_meta({"model": "a"})
        before = [as_dict(hits) for hits in store.search(legs)]
    with closing(EdgeStore.open(tmp_path, LAYOUT)) as store:
        assert [as_dict(hits) for hits in store.search(legs)] == before
        assert store.retrieve([written.id])[0].payload == written.payload
        assert dict(store.read_meta()) == {"model": "a"}
        assert store.count() == 2


def _like_texts(count: int, seed: int, width: int = 128) -> FloatArray:
    """Vectors as texts have them, of few real dimensions: float32 [count, width], unit length."""
    mixing = np.random.default_rng(0).normal(size=(16, width))
    rows = np.random.default_rng(seed).normal(size=(count, 16)) @ mixing
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_a_scope_of_many_servers_finds_their_points_with_the_payload_as_given(tmp_path):
    wide = AnyOf("server", ["mail", *(f"server {n}" for n in range(CODES_FROM_NAMES))])
    with closing(EdgeStore.open(tmp_path, LAYOUT)) as store:
        others = [point(f"other {n}", server="desk") for n in range(INDEXED_FROM_POINTS)]
        store.upsert([point("found", server="mail"), *others])
        assert [(each.id, dict(each.payload)) for each in store.scroll(wide)] == [
            (point_id("found"), {"name": "found", "server": "mail"})
        ]


def test_a_payload_that_was_read_before_a_write_is_read_anew(tmp_path):
    kept, gone = point("kept", server="mail"), point("gone")
    with closing(EdgeStore.open(tmp_path, LAYOUT)) as store:
        store.upsert([kept, gone])
        assert len(store.retrieve([kept.id, gone.id, kept.id])) == 3
        store.upsert([point("kept", server="desk")])
        store.delete([gone.id])
        found = store.retrieve([kept.id, gone.id])
        assert [each.payload["server"] for each in found] == ["desk"]
        with store.renew(LAYOUT) as beside:
            beside.upsert([point("kept", server="files")])
        assert store.retrieve([kept.id])[0].payload["server"] == "files"


def test_a_flag_of_all_points_filters_again_after_a_point_without_it(tmp_path):
    enabled = Equals("enabled", value=True)
    with closing(EdgeStore.open(tmp_path, LAYOUT)) as store:
        for name, flag in (("on", "true"), ("off", "false")):
            store.upsert([point(name, enabled=flag)])
            assert [each.id for each in store.scroll(enabled, ())] == [point_id("on")]


def test_points_that_are_written_again_after_an_optimisation_lack_a_graph(tmp_path, monkeypatch):
    monkeypatch.setattr("toolcrib.store.qdrant_edge.OPTIMISE_FROM_POINTS", 30)
    points = [a_full_point(f"t{n}") for n in range(40)]
    with closing(EdgeStore.open(tmp_path, LAYOUT)) as store:
        store.upsert(points)
        store.optimise()
        assert store.info().optimised
        for _ in range(3):
            store.set_sparse("lexical", {each.id: sparse({9: 2.0}) for each in points[:10]})
        assert not store.info().optimised
        store.optimise()
        store.delete([each.id for each in points[:20]])
        assert store.info().optimised


@pytest.mark.slow
def test_scores_stay_exact_when_vectors_are_stored_as_int8(tmp_path):
    """Enough points for the engine to build its graph and to quantise."""
    layout = Layout(dense={"description": 128}, multi={}, sparse=())
    rows, queries = _like_texts(6000, seed=7), _like_texts(20, seed=8)
    points = [point(f"t{n}", dense=row) for n, row in enumerate(rows)]
    with closing(EdgeStore.open(tmp_path, layout)) as store:
        store.upsert(points)
        store.optimise()
        assert store.info().optimised
        answers = store.search([dense_leg(query, limit=10) for query in queries])
    recalled = 0
    for query, hits in zip(queries, answers, strict=True):
        cosines = dict(zip([p.id for p in points], (rows @ query).tolist(), strict=True))
        nearest = sorted(cosines, key=cosines.__getitem__, reverse=True)[:10]
        recalled += len({hit.id for hit in hits} & set(nearest))
        assert [hit.score for hit in hits] == pytest.approx(
            [cosines[hit.id] for hit in hits], abs=TOLERANCE
        )
        assert np.all(np.diff([hit.score for hit in hits]) <= 0)
    assert recalled >= 0.95 * 10 * len(queries)


@pytest.mark.slow
def test_optimising_again_without_a_write_does_nothing(tmp_path):
    """A point without a dense vector must not count as one that is yet to be indexed."""
    rows = _like_texts(OPTIMISE_FROM_POINTS + 1, seed=7, width=8)
    with closing(EdgeStore.open(tmp_path, LAYOUT, survives_power_cut=False)) as store:
        store.upsert([point(f"d{n}", dense=row) for n, row in enumerate(rows)])
        store.upsert([point(f"s{n}", terms={1: 1.0}) for n in range(OPTIMISE_FROM_POINTS + 1)])
        before = store.generation
        store.optimise()
        once = store.generation
        store.optimise()
        assert before != once == store.generation


@pytest.mark.slow
def test_what_is_nearest_within_a_filter_is_found_though_it_is_far_away(tmp_path, monkeypatch):
    """The graph leads to what is near, none of which the filter lets through."""
    rows, asked = _like_texts(6000, seed=7, width=384), _like_texts(1, seed=9, width=384)[0]
    queries = asked + 0.1 * _like_texts(20, seed=8, width=384)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    is_far = rows @ asked < np.quantile(rows @ asked, 0.25)
    servers = [f"far {n % 50}" if far else "near" for n, far in enumerate(is_far)]
    where = AnyOf("server", {*servers} - {"near"})
    layout = Layout(dense={"description": 384}, multi={}, sparse=())
    with closing(EdgeStore.open(tmp_path, layout, survives_power_cut=False)) as store:
        points = zip(rows, servers, strict=True)
        store.upsert([point(f"t{n}", dense=r, server=s) for n, (r, s) in enumerate(points)])
        store.optimise()

        def recall() -> float:
            answers = store.search([dense_leg(query, limit=10, where=where) for query in queries])
            found = [[hit.score for hit in hits] for hits in answers]
            best = np.sort(rows[is_far] @ queries.T, axis=0)[-10]
            return float(np.mean(best - TOLERANCE <= np.array(found).T))

        assert recall() == 1.0
        monkeypatch.setattr("toolcrib.store.edge_query.FULL_SCAN_MAX_POINTS", 0)
        assert recall() > 0.85


@pytest.mark.parametrize(
    ("left", "points", "way"),
    [
        (5_000, 20_000, "exact"),
        (10_000, 20_000, "wide"),
        (10_000, 200_000, "acorn"),
        (100_000, 200_000, "wide"),
        (500_000, 1_000_000, "acorn"),
    ],
)
def test_the_way_of_a_filtered_search_goes_by_what_is_left_and_by_how_much_there_is(
    left, points, way
):
    leg = dense_leg(np.ones(4, dtype=np.float32), limit=10, where=AnyOf("server", {"a"}))
    query = to_query(leg, leg.where, lambda where: points if where is None else left)
    params = query.params
    found = "exact" if params.exact else "acorn" if params.acorn else "wide"
    assert found == way


def test_a_large_graph_is_searched_wider():
    leg = dense_leg(np.ones(4, dtype=np.float32), limit=10)
    small, large = (to_query(leg, None, lambda _, n=n: n).params for n in (200_000, 1_000_000))
    assert (small.hnsw_ef, large.hnsw_ef) == (None, EF_WIDE)


def test_what_a_filter_leaves_is_counted_once_for_all_legs_of_a_search(tmp_path, monkeypatch):
    counted: list[Filter | None] = []

    def recorded(shard: engine.EdgeShard, where: Filter | None, *, exact: bool = True) -> int:
        counted.append(where)
        return count_points(shard, where, exact=exact)

    monkeypatch.setattr("toolcrib.store.edge_query.count_points", recorded)
    mail, desk = AnyOf("server", ["mail"]), AnyOf("server", ["desk"])
    with closing(EdgeStore.open(tmp_path, LAYOUT, survives_power_cut=False)) as store:
        store.upsert([point("t", dense=unit(1), terms={1: 1}, server="mail")])
        twice = [dense_leg(unit(1), where=mail)] * 2
        others = [sparse_leg({1: 1}, where=desk), dense_leg(unit(1), where=desk)]
        found = store.search([*twice, *others, dense_leg(unit(1))])
        assert [len(hits) for hits in found] == [1, 1, 0, 0, 1]
        assert counted == [None, mail, desk]
        store.search(twice)
        assert counted[3:] == [None, mail]


PLACE = Path("store")


class PanicException(BaseException):
    """Stands in for the Rust panic's class, which cannot be imported."""


def raised(error: BaseException) -> BaseException:
    with pytest.raises(BaseException) as caught, engine_guard(PLACE):  # noqa: PT011
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (Exception("Not existing vector"), StoreError, "store: Not existing vector"),
        (OSError(28, "No space left"), StoreWriteError, "store: No space left"),
        (Exception("Os { code: 28, kind: StorageFull }"), StoreWriteError, "disk is full"),
        (Exception("Os { code: 13, kind: Other }"), StoreWriteError, "the right to read"),
        (Exception("Permission denied (os error 13)"), StoreWriteError, "the right to read"),
        (PanicException("bounds"), StoreDamagedError, "store: bounds"),
    ],
)
def test_what_the_engine_raises_is_ours(error, kind, said):
    found = raised(error)
    assert type(found) is kind
    assert said in str(found)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StoreError("ours")])
def test_what_is_not_the_engines_passes(error):
    assert raised(error) is error
