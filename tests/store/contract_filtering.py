"""What every store promises about filters: they mean what `filters.matches` says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.samples import dense_leg, point, unit
from toolcrib.store.base import Point, Store, point_id
from toolcrib.store.filters import And, AnyOf, Equals, Filter, HasId, Not, Or, Range, matches

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


def _joined(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(parts, max_size=3)
    return st.one_of(
        st.builds(Not, parts),
        several.map(lambda several: And(*several)),
        several.map(lambda several: Or(*several)),
    )


trees: st.SearchStrategy[Filter] = st.recursive(leaves, _joined, max_leaves=8)

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


def _expected(where: Filter, points: list[Point]) -> set[str]:
    return {p.id for p in points if matches(where, p.id, p.payload)}


class Filtering:
    """Inherited by `StoreContract`."""

    @pytest.mark.slow
    def test_a_filter_means_the_same_as_in_plain_python(self, store: Store) -> None:
        @settings(max_examples=100, deadline=None)
        @given(
            contents=st.lists(payloads, min_size=len(NAMES), max_size=len(NAMES)),
            wheres=st.lists(trees, min_size=1, max_size=4),
        )
        def holds(contents: list[dict[str, Any]], wheres: list[Filter]) -> None:
            # The same ids in every example: each replaces the points of the one before.
            points = [
                point(name, dense=unit(1), **content)
                for name, content in zip(NAMES, contents, strict=True)
            ]
            store.upsert(points)
            answers = store.search([dense_leg(unit(1), where=where) for where in wheres])
            for where, hits in zip(wheres, answers, strict=True):
                expected = _expected(where, points)
                assert {record.id for record in store.scroll(where)} == expected
                assert {hit.id for hit in hits} == expected
                assert store.count(where) == len(expected)

        holds()

    def test_an_empty_part_means_what_it_says(self, store: Store) -> None:
        store.upsert(
            [point("a", cost_estimate=0.5), point("b", cost_estimate=2), point("c", tags=["x"])]
        )
        found = {name: store.count(where) for name, (where, _) in EDGES.items()}
        assert found == {name: expected for name, (_, expected) in EDGES.items()}
        listed = {name: len(list(store.scroll(where))) for name, (where, _) in EDGES.items()}
        assert listed == found

    def test_scroll_gives_every_point_once_over_many_pages(self, store: Store) -> None:
        points = [point(f"t{n}", server="even" if n % 2 == 0 else "odd") for n in range(2100)]
        store.upsert(points)
        assert sorted(record.id for record in store.scroll()) == sorted(p.id for p in points)
        even = [record.id for record in store.scroll(Equals("server", "even"))]
        assert sorted(even) == sorted(p.id for p in points[::2])
        assert store.count() == 2100
        assert store.count(Equals("server", "even")) == 1050

    def test_scroll_gives_only_the_fields_asked_for(self, store: Store) -> None:
        written = point("a", server="acme", tags=["x"], schema={"deep": 1})
        store.upsert([written])
        assert [r.payload for r in store.scroll()] == [written.payload]
        asked = store.scroll(fields=["server", "schema", "not_there"])
        assert [r.payload for r in asked] == [{"server": "acme", "schema": {"deep": 1}}]
        assert [r.payload for r in store.scroll(fields=[])] == [{}]
