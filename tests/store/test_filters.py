"""What a filter means, which ones are refused, and how a server is told."""

from __future__ import annotations

from typing import Any

import pytest
from qdrant_client import models

from toolcrib.errors import QueryError
from toolcrib.records import Scope
from toolcrib.store.filters import (
    And,
    AnyOf,
    Equals,
    Filter,
    HasId,
    Not,
    Or,
    Range,
    all_of,
    from_scope,
    matches,
    validate,
)
from toolcrib.store.base import point_id
from toolcrib.store.server_requests import condition

PAYLOAD: dict[str, Any] = {
    "server": "acme",
    "tags": ["a", "b"],
    "enabled": "true",
    "cost_estimate": 1.5,
    "category": None,
    "requires": [],
}
ID = point_id("tool")

MEANINGS: list[tuple[Filter, bool]] = [
    (Equals("server", "acme"), True),
    (Equals("server", "Acme"), False),
    (Equals("server", "acm"), False),
    (Equals("tags", "b"), True),
    (Equals("tags", "a b"), False),
    (Equals("enabled", value=True), True),
    (Equals("enabled", value=False), False),
    (Equals("enabled", "true"), True),
    (Equals("category", ""), False),
    (Equals("category", "None"), False),
    (Equals("version", ""), False),
    (Equals("requires", ""), False),
    (AnyOf("tags", ["x", "b"]), True),
    (AnyOf("tags", ["x", "y"]), False),
    (AnyOf("tags", []), False),
    (AnyOf("enabled", [True, False]), True),
    (Range("cost_estimate", gt=1.5), False),
    (Range("cost_estimate", gte=1.5), True),
    (Range("cost_estimate", lt=1.5), False),
    (Range("cost_estimate", lte=1.5), True),
    (Range("cost_estimate", gt=1, lt=2), True),
    (Range("cost_estimate", gt=2, lt=1), False),
    (Range("cost_estimate"), True),
    (Range("avg_latency_ms"), False),
    (Range("avg_latency_ms", lt=5), False),
    (HasId(frozenset({ID, "x"})), True),
    (HasId(frozenset({"x"})), False),
    (HasId(frozenset()), False),
    (Not(Equals("server", "acme")), False),
    (Not(Range("avg_latency_ms", lt=5)), True),
    (And(), True),
    (Or(), False),
    (Not(And()), False),
    (And(Equals("server", "acme"), Equals("tags", "x")), False),
    (Or(Equals("server", "x"), Equals("tags", "a")), True),
]


@pytest.mark.parametrize(("where", "expected"), MEANINGS, ids=range(len(MEANINGS)))
def test_a_filter_means_what_it_says(where: Filter, expected: bool) -> None:
    assert matches(where, ID, PAYLOAD) is expected


@pytest.mark.parametrize("where", [where for where, _ in MEANINGS], ids=range(len(MEANINGS)))
def test_what_has_a_meaning_is_valid(where: Filter) -> None:
    validate(where)


REFUSED: dict[str, tuple[Filter, str]] = {
    "an unknown field": (Equals("colour", "red"), "an equality filter cannot use the field"),
    "a number compared": (Equals("cost_estimate", "1"), "an equality filter cannot use the field"),
    "a word in a range": (Range("server", gt=1), "a range filter cannot use the field 'server'"),
    "deep within": (
        Not(And(Or(AnyOf("x", ["y"])))),
        "cannot use the field 'x'; it can use always_",
    ),
}


@pytest.mark.parametrize(("where", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_field_that_cannot_be_filtered_on_is_refused(where: Filter, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        validate(where)


def test_no_scope_is_no_restriction() -> None:
    assert from_scope(None) is None
    assert from_scope(Scope()) is None


def test_a_scope_of_one_kind_is_that_condition() -> None:
    assert from_scope(Scope(servers=frozenset({"b", "a"}))) == AnyOf("server", ["a", "b"])


def test_an_empty_scope_allows_nothing() -> None:
    where = from_scope(Scope(servers=frozenset()))
    assert where is not None
    assert not matches(where, ID, PAYLOAD)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (Scope(servers=frozenset({"acme"})), True),
        (Scope(servers=frozenset({"globex"})), False),
        (Scope(tags=frozenset({"b", "x"})), True),
        (Scope(categories=frozenset({"mail"})), False),
        (Scope(servers=frozenset({"acme"}), tags=frozenset({"x"})), False),
        (Scope(without_safety_tags=frozenset({"destructive"})), True),
        (Scope(without_safety_tags=frozenset({"destructive", "x"}), tags=frozenset({"a"})), True),
    ],
)
def test_a_scope_allows_what_fits_all_of_it(scope: Scope, expected: bool) -> None:
    where = from_scope(scope)
    assert where is not None
    assert matches(where, ID, PAYLOAD) is expected


def test_a_tool_with_a_forbidden_safety_tag_is_outside() -> None:
    where = from_scope(Scope(without_safety_tags=frozenset({"destructive"})))
    assert where is not None
    assert not matches(where, ID, {"safety_tags": ["read-only", "destructive"]})


def test_joining_keeps_what_is_there() -> None:
    acme, tagged = Equals("server", "acme"), Equals("tags", "a")
    assert all_of() is None
    assert all_of(None, None) is None
    assert all_of(None, acme) == acme
    assert all_of(acme, None, tagged) == And(acme, tagged)


# -- how a server is told ----------------------------------------------------------------------

NOTHING: dict[str, list[str]] = {"has_id": []}
TRANSLATIONS: list[tuple[Filter, Any]] = [
    (Equals("server", "acme"), {"key": "server", "match": {"value": "acme"}}),
    (Equals("enabled", value=True), {"key": "enabled", "match": {"value": "true"}}),
    (AnyOf("tags", ["a", "b"]), {"key": "tags", "match": {"any": ["a", "b"]}}),
    (AnyOf("tags", []), NOTHING),
    (Range("cost_estimate", gt=1, lte=2), {"key": "cost_estimate", "range": {"gt": 1, "lte": 2}}),
    (HasId(frozenset({ID})), {"has_id": [ID]}),
    (HasId(frozenset({ID, -1, 2**64})), {"has_id": [ID]}),
    (Not(Equals("tags", "a")), {"must_not": [{"key": "tags", "match": {"value": "a"}}]}),
    (And(), {"must": []}),
    (Or(), NOTHING),
    (Or(Or(), And()), {"should": [NOTHING, {"must": []}]}),
    (
        And(Equals("server", "acme"), Not(Or(Equals("tags", "a"), Equals("tags", "b")))),
        {
            "must": [
                {"key": "server", "match": {"value": "acme"}},
                {
                    "must_not": [
                        {
                            "should": [
                                {"key": "tags", "match": {"value": "a"}},
                                {"key": "tags", "match": {"value": "b"}},
                            ],
                        },
                    ],
                },
            ],
        },
    ),
]


@pytest.mark.parametrize(("where", "expected"), TRANSLATIONS, ids=range(len(TRANSLATIONS)))
def test_a_server_is_told_the_same(where: Filter, expected: Any) -> None:
    told = condition(where)
    assert isinstance(told, models.Filter)
    assert told.model_dump(mode="json", exclude_none=True) == {"must": [expected]}


def test_no_filter_is_told_as_none() -> None:
    assert condition(None) is None


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), float("-inf")])
def test_a_bound_that_json_cannot_hold_is_refused(bound: float) -> None:
    with pytest.raises(QueryError) as refused:
        condition(Not(Range("cost_estimate", gte=bound)))
    assert str(refused.value) == (
        f"the range filter on 'cost_estimate' has gte={bound}; "
        "give a finite number, or leave the bound out"
    )
