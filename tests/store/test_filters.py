"""What a filter means, which ones are refused, and how it goes over the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.store.conformance import joined_filters
from toolcrib.errors import QueryError
from toolcrib.records import Scope
from toolcrib.records.codec import faults
from toolcrib.records.scope import MAX_FILTER_VALUES
from toolcrib.store.base import point_id
from toolcrib.store.filters import (
    KEYWORD_FIELDS,
    MAX_FILTER_DEPTH,
    NUMBER_FIELDS,
    And,
    AnyOf,
    Equals,
    Filter,
    FilterField,
    FilterJson,
    HasId,
    Not,
    Or,
    Range,
    all_of,
    filter_to_json,
    from_scope,
    matches,
    read_filter,
    validate,
)

PAYLOAD: dict[str, Any] = {
    "server": "acme",
    "tags": ["a", "b"],
    "enabled": "true",
    "cost_estimate": 1.5,
    "category": None,
    "requires": [],
    "safety_tags": ["read-only"],
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
    validate(where)
    assert matches(where, ID, PAYLOAD) is expected


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (Equals("colour", "red"), "an equality filter cannot use the field"),
        (Equals("cost_estimate", "1"), "an equality filter cannot use the field"),
        (Range("server", gt=1), "a range filter cannot use the field 'server'"),
        (Not(And(Or(AnyOf("x", ["y"])))), "cannot use the field 'x'; it can use always_"),
        *(
            (where, "value of server must be a text, true or false, not")
            for where in (Equals("server", ["a"]), Equals("server", None), AnyOf("server", [1]))
        ),
    ],
    ids=str,
)
def test_a_field_or_value_that_cannot_be_filtered_on_is_refused(where, words):
    with pytest.raises(QueryError, match=words):
        validate(where)


def test_what_is_refused_names_what_can_be_written() -> None:
    with pytest.raises(QueryError, match="category") as unknown:
        validate(Equals("name", "send"))
    assert "name_key" not in str(unknown.value)
    no_filter: Any = {"server": "mail"}
    with pytest.raises(QueryError, match="Equals"):
        validate(no_filter)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (Scope(servers=frozenset({"acme"})), True),
        (Scope(servers=frozenset({"globex"})), False),
        (Scope(servers=frozenset()), False),
        (Scope(without_safety_tags=frozenset({"read-only"})), False),
        (Scope(tags=frozenset({"b", "x"})), True),
        (Scope(categories=frozenset({"mail"})), False),
        (Scope(servers=frozenset({"acme"}), tags=frozenset({"x"})), False),
        (Scope(without_safety_tags=frozenset({"destructive"})), True),
        (Scope(without_safety_tags=frozenset({"destructive", "x"}), tags=frozenset({"a"})), True),
    ],
)
def test_a_scope_allows_what_fits_all_of_it(scope: Scope, expected: bool) -> None:
    where = from_scope(scope)
    assert matches(where, ID, PAYLOAD) is expected
    assert from_scope(Scope()) is from_scope(None) is None


def test_joining_keeps_what_is_there() -> None:
    acme, tagged = Equals("server", "acme"), Equals("tags", "a")
    assert all_of() is None
    assert all_of(None, None) is None
    assert all_of(None, acme) == acme
    assert all_of(acme, None, tagged) == And(acme, tagged)


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), float("-inf"), 10**400, "1"])
def test_a_bound_is_a_number_that_json_can_hold(bound):
    with pytest.raises(QueryError, match=f"'cost_estimate' has gte={bound!r}"):
        Range("cost_estimate", gte=bound)


KEYWORDS = st.sampled_from(["server", "tags", "enabled", "deprecated"])
VALUES = st.text(max_size=8).filter(lambda text: text.isprintable()) | st.booleans()
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32)
LEAVES = st.one_of(
    st.builds(Equals, KEYWORDS, VALUES),
    st.builds(AnyOf, KEYWORDS, st.lists(VALUES, max_size=3)),
    st.builds(Range, st.just("cost_estimate"), NUMBERS, NUMBERS, NUMBERS, NUMBERS),
)
FILTERS = st.recursive(LEAVES, joined_filters, max_leaves=6)


def from_json(fields: Any) -> Filter:
    return read_filter(TypeAdapter(FilterJson).validate_python(fields))


@given(FILTERS)
def test_there_and_back_it_is_the_same_filter(where):
    wire = json.loads(json.dumps(filter_to_json(where)))
    assert from_json(wire) == where


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (None, None),
        ({}, None),
        ({"field": "server"}, None),
        ({"field": "server", "equals": 3}, None),
        ({"field": "enabled", "equals": 1}, None),
        ({"field": "cost_estimate", "range": {"lt": "3"}}, None),
        ({"field": "server", "equals": "a", "any_of": ["b"]}, None),
        ({"field": "cost_estimate", "range": {"below": 3}}, None),
        ({"field": "cost_estimate", "range": {"lt": float("nan")}}, None),
        ({"not": {"field": "nope", "equals": "a"}}, "cannot use the field 'nope'"),
        ({"field": "namespace", "equals": "other"}, "cannot use the field 'namespace'"),
        ({"field": "server", "range": {"lt": 1}}, "cannot use the field 'server'"),
    ],
    ids=str,
)
def test_what_is_no_filter_is_refused(fields, said):
    with pytest.raises(QueryError if said else ValidationError, match=said):
        from_json(fields)


def test_a_filter_is_not_nested_without_end():
    where = {"field": "server", "equals": "a"}
    for _ in range(MAX_FILTER_DEPTH):
        where = {"not": where}
    with pytest.raises(QueryError, match="deep"):
        from_json(where)


@pytest.mark.parametrize("field", ["servers", "tags", "categories", "without_safety_tags"])
def test_a_scope_has_a_bounded_number_of_names(field):
    widest = frozenset(map(str, range(MAX_FILTER_VALUES)))
    assert from_scope(Scope(**{field: widest})) is not None
    with pytest.raises(QueryError, match=field):
        Scope(**{field: widest | {"one more"}})


@pytest.mark.parametrize("field", ["servers", "tags", "without_safety_tags", "collections"])
def test_one_text_is_no_set_of_names(field):
    with pytest.raises(QueryError, match=f"{field} .* not 'destructive'"):
        Scope(**{field: "destructive"})
    with pytest.raises(QueryError, match="must be a list, not 'destructive'"):
        AnyOf("safety_tags", "destructive")


def test_a_ceiling_that_is_no_level_is_refused_at_once():
    with pytest.raises(QueryError, match="'secret'; it must be one of public, internal, pii"):
        Scope(max_sensitivity="secret")


def test_a_filter_has_a_bounded_number_of_values_in_all_of_its_parts():
    half = [str(n) for n in range(MAX_FILTER_VALUES // 2)]
    widest = And(AnyOf("server", half), Not(Or(AnyOf("tags", half))))
    validate(widest)
    with pytest.raises(QueryError, match=str(MAX_FILTER_VALUES)):
        validate(And(widest, Equals("category", "one more")))


def test_numbers_of_points_stay_at_home():
    with pytest.raises(QueryError, match="numbers of points"):
        filter_to_json(HasId(frozenset({1})))


def test_the_schema_names_the_fields_that_each_kind_of_filter_can_use():
    parts = TypeAdapter(FilterJson).json_schema()["$defs"]
    fields = {name: part["properties"].get("field") for name, part in parts.items()}
    assert set(fields["EqualsJson"]["enum"]) == KEYWORD_FIELDS
    assert set(fields["AnyOfJson"]["enum"]) == KEYWORD_FIELDS
    assert set(fields["RangeJson"]["enum"]) == NUMBER_FIELDS


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"or": [{"field": "server", "equals": "a"}]}, "where"),
        ({"field": "server", "equals": 3}, "equals"),
        ({"all": [{"field": "server", "equal": "a"}]}, "all.0"),
        ({"not": {"field": "cost_estimate", "range": {"below": 3}}}, "not.range.below"),
        ({"field": "server", "equals": "a", "any_of": ["b"]}, "any_of"),
    ],
    ids=str,
)
def test_a_wrong_filter_has_the_faults_of_its_own_kind_alone(fields, place):
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(FilterField).validate_json(json.dumps(fields))
    assert {found for found, _ in faults(caught.value, "where")} == {place}
