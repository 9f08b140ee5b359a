"""Arguments against schemas: what is told, which drafts are known, and that it ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolcrib.gateway.arguments import faults
from toolcrib.gateway.faults import parameters

ORDER = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "maxLength": 5},
        "count": {"type": ["integer", "null"], "minimum": 1},
        "gift": {"type": "boolean"},
        "to": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": {"type": "integer"}},
                "required": ["id"],
            },
        },
        "how": {"oneOf": [{"type": "object"}, {"type": "array", "minItems": 2}]},
        "size": {"enum": ["s", "m", 7]},
    },
    "required": ["item"],
    "additionalProperties": False,
}


def branching(depth: int):
    """A schema whose work doubles at every level."""
    levels = {f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(depth)} | {
        f"l{depth}": {"type": "string"}
    }
    return {"$defs": levels, "properties": {"x": {"$ref": "#/$defs/l0"}}}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"item": "cup"}, []),
        ({"item": "cup", "count": None, "to": None}, []),
        ({}, ["arguments: 'item' is missing (text)"]),
        ({"item": 7}, ["item: must be text, not a number 7"]),
        ({"item": "cup", "gift": "yes"}, ['gift: must be true or false, not text "yes"']),
        ({"item": "cup", "gift": None}, ["gift: must be true or false, not null"]),
        ({"item": "cup", "count": True}, ["count: must be a whole number or null, not true"]),
        ({"item": "cup", "count": 0}, ["count: 0 is less than the minimum of 1"]),
        ({"item": "cup", "to": 3}, ["to: must be text or null, not a number 3"]),
        ({"item": "cup", "lines": [{"id": 1}, {}]}, ["lines[1]: 'id' is missing (a whole number)"]),
        ({"item": "cup", "lines": {}}, ["lines: must be a list, not an object"]),
        ({"item": "cup", "how": [1]}, ["how: [1] is too short"]),
        ({"item": "teapot"}, ["item: 'teapot' is too long"]),
        ({"item": "cup", "size": 8}, ['size: must be one of "s", "m", 7, not a number 8']),
        (
            {"item": "cup", "conut": 1},
            [
                (
                    "arguments: there is no property 'conut'; did you mean 'count'? "
                    "it knows 'item', 'count', 'gift', 'to', 'lines', 'how', 'size'"
                )
            ],
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_what_is_allowed(given, told):
    assert list(faults(ORDER, given)) == told


def test_no_more_is_told_than_can_be_mended_at_once():
    many = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(20)}}

    assert len(faults(many, {f"p{n}": n for n in range(20)})) == 5


def test_where_nothing_is_allowed_that_is_told():
    nothing = {"type": "object", "additionalProperties": False}

    assert faults(nothing, {"x": 1}) == ("arguments: there is no property 'x'; it takes none",)


def test_long_values_are_cut():
    (told,) = faults({"properties": {"x": {"type": "integer"}}}, {"x": "y" * 10_000})

    assert len(told) < 300


@pytest.mark.parametrize(
    ("draft", "schema", "given", "fits"),
    [
        ("http://json-schema.org/draft-04/schema#", {"exclusiveMinimum": True}, 1, False),
        ("http://json-schema.org/draft-07/schema#", {"exclusiveMinimum": 1}, 1, False),
        ("https://json-schema.org/draft/2020-12/schema", {"exclusiveMinimum": 1}, 2, True),
        ("urn:example:unknown", {"exclusiveMinimum": 1}, 1, False),
    ],
)
def test_the_draft_is_the_one_that_the_schema_names(draft, schema, given, fits):
    one = {"$schema": draft, "properties": {"n": {"type": "number", "minimum": 1, **schema}}}

    assert bool(faults(one, {"n": given})) is not fits


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"properties": []},
        {"$schema": ["no", "text"], "required": ["y"]},
        {"properties": {"x": {"$ref": "https://example.invalid/schema.json"}}},
        {"properties": {"x": {"$ref": "#/$defs/missing"}}},
        {"$ref": "#"},
        {"description": "x" * 300_000, "required": ["y"]},
        branching(60),
    ],
    ids=["type", "shape", "draft", "elsewhere", "nowhere", "endless", "huge", "branching"],
)
def test_what_cannot_be_checked_is_left_to_the_server(schema):
    assert faults(schema, {"x": {"x": 1}}) == ()


def test_patterns_hold_where_they_can_be_trusted():
    date = {"properties": {"d": {"pattern": r"^\d{4}-\d{2}-\d{2}$"}}}
    evil = {"properties": {"d": {"pattern": r"^(\d+)+$"}}}
    keys = {"patternProperties": {"^(x+)+$": {"type": "string"}}, "additionalProperties": False}

    assert faults(date, {"d": "today"}) == (r"d: must match the pattern ^\d{4}-\d{2}-\d{2}$",)
    assert not faults(date, {"d": "2026-11-22"})
    assert not faults(date, {"d": 7})
    assert not faults(evil, {"d": "1" * 40 + "x"})
    assert not faults(keys, {"x" * 40 + "y": 7})


def test_lists_are_compared_for_equal_items_only_while_that_is_quick():
    unique = {"properties": {"x": {"uniqueItems": True}}}

    assert faults(unique, {"x": [1, 1]}) == ("x: [1, 1] has non-unique elements",)
    assert not faults(unique, {"x": [{"a": 1}] * 5_000})


simple = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text("abc", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("id", max_size=2), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*ORDER["properties"], "else"]), simple))
def test_what_fits_is_what_the_schema_library_says(given):
    assert bool(faults(ORDER, given)) is not Draft202012Validator(ORDER).is_valid(given)


def test_parameters_are_told_in_one_line():
    told = parameters(
        {
            "properties": {
                "b": {},
                "a": {"type": "string"},
                "c": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
                "d": {"allOf": []},
                "e": "nonsense",
            },
            "required": ["a"],
        }
    )

    assert told == (
        "a (text, required), b (anything), c (a whole number or null), d (see its schema), "
        "e (anything)"
    )
    assert parameters({}) == "no arguments"
    assert parameters({"properties": {f"p{n}": {} for n in range(30)}}).endswith("and 10 more")
