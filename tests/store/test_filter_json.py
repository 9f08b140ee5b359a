"""A filter goes over the wire and comes back as it was; what is none is refused in words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from toolcrib.errors import QueryError
from toolcrib.store.filters import (
    MAX_DEPTH,
    FilterJson,
    filter_from_json,
    filter_to_json,
)
from toolcrib.store.filters import (
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    And,
    AnyOf,
    Equals,
    HasId,
    Not,
    Or,
    Range,
)

KEYWORDS = st.sampled_from(["server", "tags", "enabled", "deprecated"])
VALUES = st.text(max_size=8).filter(lambda text: text.isprintable()) | st.booleans()
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32)
LEAVES = st.one_of(
    st.builds(Equals, KEYWORDS, VALUES),
    st.builds(AnyOf, KEYWORDS, st.lists(VALUES, max_size=3)),
    st.builds(Range, st.just("cost_estimate"), NUMBERS, NUMBERS, NUMBERS, NUMBERS),
)
FILTERS = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.builds(Not, part),
        st.lists(part, max_size=3).map(lambda parts: And(*parts)),
        st.lists(part, max_size=3).map(lambda parts: Or(*parts)),
    ),
    max_leaves=6,
)


@given(FILTERS)
def test_there_and_back_it_is_the_same_filter(where):
    wire = json.loads(json.dumps(filter_to_json(where)))
    assert filter_from_json(wire) == where


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (None, "no filter"),
        ({}, "no filter"),
        ({"field": "server"}, "no filter"),
        ({"field": "server", "equals": 3}, "no filter"),
        ({"field": "enabled", "equals": 1}, "no filter"),
        ({"field": "cost_estimate", "range": {"lt": "3"}}, "no filter"),
        ({"field": "server", "equals": "a", "any_of": ["b"]}, "no filter"),
        ({"field": "cost_estimate", "range": {"below": 3}}, "no filter"),
        ({"field": "cost_estimate", "range": {"lt": float("nan")}}, "no filter"),
        ({"not": {"field": "nope", "equals": "a"}}, "cannot use the field 'nope'"),
        ({"field": "namespace", "equals": "other"}, "cannot use the field 'namespace'"),
        ({"field": "server", "range": {"lt": 1}}, "cannot use the field 'server'"),
    ],
    ids=str,
)
def test_what_is_no_filter_is_refused(fields, said):
    with pytest.raises(QueryError, match=said):
        filter_from_json(fields)


def test_a_filter_is_not_nested_without_end():
    where = {"field": "server", "equals": "a"}
    for _ in range(MAX_DEPTH):
        where = {"not": where}
    with pytest.raises(QueryError, match="deep"):
        filter_from_json(where)


def test_numbers_of_points_stay_at_home():
    with pytest.raises(QueryError, match="numbers of points"):
        filter_to_json(HasId(frozenset({1})))


def test_the_schema_names_the_fields_that_each_kind_of_filter_can_use():
    parts = TypeAdapter(FilterJson).json_schema()["$defs"]
    fields = {name: part["properties"].get("field") for name, part in parts.items()}
    assert set(fields["EqualsJson"]["enum"]) == KEYWORD_FIELDS
    assert set(fields["AnyOfJson"]["enum"]) == KEYWORD_FIELDS
    assert set(fields["RangeJson"]["enum"]) == NUMBER_FIELDS
