"""Arguments against schemas: what is told, which drafts are known, and that it ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolcrib.integrations.arguments import argument_errors, describe_parameters, matches_pattern

LINE = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
ORDER = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "maxLength": 5},
        "count": {"type": ["integer", "null"], "minimum": 1},
        "gift": {"type": "boolean"},
        "to": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "lines": {"type": "array", "items": LINE},
        "how": {"oneOf": [{"type": "object"}, {"type": "array", "minItems": 2}]},
        "size": {"enum": ["s", "m", 7]},
    },
    "required": ["item"],
    "additionalProperties": False,
}


def branching(depth: int):
    """A schema whose work doubles at every level."""
    levels = {f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(depth)}
    levels[f"l{depth}"] = {"type": "string"}
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
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_what_is_allowed(given, told):
    assert list(argument_errors(ORDER, given)) == told


def test_an_unknown_property_is_told_with_those_that_there_are():
    (told,) = argument_errors(ORDER, {"item": "cup", "conut": 1})
    assert "no property 'conut'; did you mean 'count'? it knows 'item', 'count'" in told


def need(name: str) -> dict[str, object]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


EITHER = [need("mail"), need("phone")]


@pytest.mark.parametrize("rule", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    "alternatives", [EITHER, [{"required": ["mail"]}, {"required": ["phone"]}]]
)
def test_where_no_alternative_fits_the_fault_of_each_is_told(rule, alternatives):
    known = {"mail": {"type": "string"}, "phone": {"type": "string"}}
    schema = {"type": "object", "properties": known, rule: alternatives}

    assert argument_errors(schema, {}) == (
        "arguments: 'mail' is missing (text), or 'phone' is missing (text)",
    )


def test_the_types_of_alternatives_are_told_where_none_has_the_type_of_the_value():
    schema = {"properties": {"to": {"anyOf": EITHER}}}

    assert argument_errors(schema, {"to": 3}) == ("to: must be an object, not a number 3",)


def test_a_value_that_fits_several_alternatives_is_told_so():
    (told,) = argument_errors({"oneOf": EITHER}, {"mail": "a", "phone": "b"})

    assert "several alternatives" in told


class CountedDict(dict[str, int]):
    """Arguments that count the names that were looked at."""

    steps = 0

    def __iter__(self):
        for name in super().__iter__():
            self.steps += 1
            yield name


def test_no_more_faults_are_looked_for_than_are_told():
    many = CountedDict({f"p{n}": n for n in range(1_000)})
    schema = {"properties": {"to": {}}, "required": ["to"], "additionalProperties": False}
    assert len(argument_errors(schema, many)) == 5
    assert many.steps < 1_500  # the validator itself looks at each once


def test_no_more_is_told_than_can_be_mended_at_once():
    many = {"properties": {f"p{n}": {"type": "integer"} for n in range(20)}}
    told = argument_errors(many, {f"p{n}": "y" * 10_000 for n in range(20)})

    assert len(told) == 5
    assert all(len(line) < 300 for line in told)
    (nothing,) = argument_errors({"additionalProperties": False}, {"x": 1})
    assert nothing == "arguments: there is no property 'x'; it takes none"


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

    assert bool(argument_errors(one, {"n": given})) is not fits


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
    assert argument_errors(schema, {"x": {"x": 1}}) == ()


def test_patterns_hold_in_schemas():
    date = {"properties": {"d": {"pattern": r"^\d{4}-\d{2}-\d{2}$"}}}
    keys = {"patternProperties": {"^(x+)+$": {"type": "string"}}, "additionalProperties": False}

    assert argument_errors(date, {"d": "today"}) == (
        r"d: must match the pattern ^\d{4}-\d{2}-\d{2}$",
    )
    assert not argument_errors(date, {"d": "2026-11-22"})
    assert not argument_errors(date, {"d": 7})
    assert not argument_errors(keys, {"x" * 40 + "y": 7})


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"^[a-z]+$", "abc", True),
        (r"^[a-z]+$", "abc1", False),
        (r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", "no mail", False),
        (r"^(red|green|blue)$", "grey", False),
        (r"(?i)^yes?$", "NO", False),
        (r"^(ab)+$", "aba", False),
        (r"^[a-z]+$", "Müller", False),
    ],
)
def test_patterns_are_held_to(pattern, text, matches):
    assert matches_pattern(pattern, text) is matches


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(\w+)\1$", "x"),
        (r"^(?=.*\d)x", "y"),
        (r"((a*){5000}){5000}", "b"),
        (r"^\w+$", "Müller!"),
        (r"^[a-z]+$", "1" * 5_000),
        ("(", "7"),
        ("\ud800", "7"),
    ],
    ids=["back", "ahead", "large", "letters", "long", "none", "surrogate"],
)
def test_what_only_the_server_can_tell_is_left_to_it(pattern, text):
    assert matches_pattern(pattern, text)


@pytest.mark.parametrize(
    "pattern", [r"^(a+)+$", "(a|a)*b", "a?" * 40 + "a" * 40 + "b", r".*.*.*.*x", r"(\d+)*x"]
)
def test_patterns_that_keep_other_engines_busy_for_years_are_held_to_at_once(pattern):
    assert not matches_pattern(pattern, "a" * 60 + "!")


def test_lists_are_compared_for_equal_items_only_while_that_is_quick():
    unique = {"properties": {"x": {"uniqueItems": True}}}

    assert argument_errors(unique, {"x": [1, 1]}) == ("x: [1, 1] has non-unique elements",)
    assert not argument_errors(unique, {"x": [{"a": 1}] * 5_000})


simple = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text("abc", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("id", max_size=2), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*ORDER["properties"], "else"]), simple))
def test_what_fits_is_what_the_schema_library_says(given):
    assert bool(argument_errors(ORDER, given)) is not Draft202012Validator(ORDER).is_valid(given)


def test_parameters_are_told_in_one_line():
    properties = {
        "b": {},
        "a": {"type": "string"},
        "c": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        "d": {"allOf": []},
        "e": "nonsense",
    }
    assert describe_parameters({"properties": properties, "required": ["a"]}) == (
        "a (text, required), b (anything), c (a whole number or null), d (see its schema), "
        "e (anything)"
    )
    assert describe_parameters({}) == "no arguments"
    assert describe_parameters({"properties": {f"p{n}": {} for n in range(30)}}).endswith(
        "and 10 more"
    )
