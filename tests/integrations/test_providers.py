"""Schemas that no provider refuses, and the way back from the names in them."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from tests.conftest import rounds
from tests.integrations.schemas import any_schema
from toolcrib import ToolSpec
from toolcrib.errors import QueryError
from toolcrib.integrations.formats import Definitions, export, restore_arguments
from toolcrib.integrations.providers import (
    Definition,
    Provider,
    UnfitSchemaError,
    fit_definition,
    fit_schema,
    provider_rules,
    refusals,
    rename_arguments,
    rename_properties,
    safe_names,
)

TEXT, COUNT = {"type": "string"}, {"type": "integer"}


def fit(**schema):
    return fit_schema({"type": "object", **schema}).schema


def properties(**named):
    return fit(properties=named)["properties"]


# -- rules -----------------------------------------------------------------------------------------


def test_every_rule_names_its_source_and_its_day():
    for rule in provider_rules():
        assert rule.source.startswith("https://")
        assert len(rule.read.split("-")) == 3
    assert {rule.provider for rule in provider_rules()} == set(Provider)


@pytest.mark.parametrize(
    ("name", "schema", "refusing"),
    [
        ("get.it", {"type": "object"}, {"anthropic", "openai", "bedrock"}),
        ("2d", {"type": "object"}, {"gemini"}),
        ("get", {}, set(Provider)),
        ("get", {"type": "object", "anyOf": [{}]}, {"anthropic", "openai"}),
        ("get", {"type": "object", "not": {}}, {"openai"}),
        ("get", {"type": "object", "properties": {"$top": COUNT}}, {"anthropic"}),
        ("get", {"type": "object", "properties": {"a": {"type": "array"}}}, {"openai", "gemini"}),
        ("get", {"type": "object", "required": ["a"]}, {"gemini"}),
        ("get", {"type": "object", "properties": {"a": {"required": ["b"]}}}, {"gemini"}),
        ("get", {"type": "object", "properties": None}, set(Provider)),
        ("get", {"type": "object", "properties": {"a": {"$ref": "#/no"}}}, set(Provider)),
        ("get", {"type": "object", "properties": {"a": TEXT}}, set()),
    ],
)
def test_a_provider_refuses_what_its_rules_forbid(name, schema, refusing):
    given = Definition(name, "Gets.", schema)
    assert {each for each in Provider if list(refusals(each, given))} == refusing


# -- one object ------------------------------------------------------------------------------------


def test_a_schema_that_needs_no_change_stays():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {**TEXT, "x-mine": 1}},
        "required": ["a"],
    }
    assert fit_schema(schema).schema == schema


def test_alternatives_at_the_root_become_one_object_and_words():
    found = fit_schema(
        {
            "type": "object",
            "properties": {"page": TEXT},
            "required": ["page"],
            "anyOf": [
                {"properties": {"text": TEXT}, "required": ["text"]},
                {"properties": {"url": TEXT}, "required": ["url"]},
            ],
        }
    )
    named = {"page": TEXT, "text": TEXT, "url": TEXT}
    assert found.schema == {"type": "object", "properties": named, "required": ["page"]}
    assert found.note == "Give one of: text; url."


def test_what_every_branch_requires_is_required_and_constants_are_listed():
    circle = {"properties": {"kind": {"const": "circle"}, "r": COUNT}, "required": ["kind", "r"]}
    square = {"properties": {"kind": {"const": "square"}, "a": COUNT}, "required": ["kind"]}
    found = fit_schema({"oneOf": [circle, square, {"type": "null"}]})
    kinds = {"enum": ["circle", "square"]}
    assert found.schema["properties"] == {"kind": kinds, "r": COUNT, "a": COUNT}
    assert found.schema["required"] == ["kind"]
    assert 'kind "circle", r; kind "square"' in found.note


def test_parts_are_joined_and_a_required_name_has_a_property():
    part = {"properties": {"b": COUNT}, "required": ["b", "c"]}
    found = fit(properties={"a": TEXT}, required=["a"], allOf=[part])
    assert found["properties"] == {"a": TEXT, "b": COUNT, "c": {}}
    assert found["required"] == ["a", "b", "c"]
    inner = {"type": "object", "required": ["b"], "oneOf": [{"properties": {"b": COUNT}}]}
    assert properties(a=inner)["a"] == {**inner, "properties": {"b": {}}}


@pytest.mark.parametrize(
    "schema",
    [{"type": "array"}, {"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}],
)
def test_arguments_that_are_no_object_cannot_be_expressed(schema):
    with pytest.raises(UnfitSchemaError, match="not an object"):
        fit_schema(schema)
    assert fit_definition(schema, "")[0]["type"] == "object"


# -- JSON Schema 2020-12 ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        (
            {"type": "array", "items": [TEXT, COUNT]},
            {"type": "array", "prefixItems": [TEXT, COUNT], "items": {}},
        ),
        (
            {"type": "array", "items": [TEXT], "additionalItems": False},
            {"type": "array", "prefixItems": [TEXT], "items": {}, "maxItems": 1},
        ),
        (
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            COUNT | {"exclusiveMinimum": 0},
        ),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, COUNT | {"maximum": 9}),
        ({"type": "float"}, {"type": "number"}),
        ({"type": "str, optional"}, {"type": "string"}),
        ({"type": "List[int]"}, {"type": "array", "items": {}}),
        ({"type": "Map<string, int>, optional"}, {"type": "object"}),
        ({"type": "string[]"}, {}),
        ({"type": "int"}, COUNT),
        ({"type": "any"}, {}),
        ({"type": "STRING"}, TEXT),
        ({"type": ["str", "none"]}, {"type": ["string", "null"]}),
        (
            {"type": "tuple", "items": {"type": "float"}},
            {"type": "array", "items": {"type": "number"}},
        ),
        ({"type": "dict", "properties": None}, {"type": "object", "properties": {}}),
        ({"type": "string", "pattern": "(", "title": None}, TEXT | {"description": "Pattern: ("}),
        ({"type": "string", "enum": None, "minLength": "1"}, TEXT),
        ({"type": "string", "enum": ["a", 1, None]}, TEXT | {"enum": ["a"]}),
        ({"type": "number", "enum": [1, 2.5, True]}, {"type": "number", "enum": [1, 2.5]}),
        ({"enum": ["a", 1]}, {"enum": ["a", 1]}),
        (
            {"type": "array", "items": TEXT, "enum": ["a", "b"]},
            {"type": "array", "items": TEXT | {"enum": ["a", "b"]}},
        ),
        (COUNT | {"enum": ["1", "2"]}, COUNT | {"description": 'Values: ["1", "2"]'}),
        (None, {}),
        (True, True),
    ],
)
def test_a_schema_is_written_in_2020_12(written, changed):
    assert properties(a=written) == {"a": changed}


def test_a_property_that_requires_itself_is_required_by_its_object():
    inner = {"type": "object", "properties": {"b": {**TEXT, "required": True}}}
    found = fit(properties={"a": {**TEXT, "required": True}, "c": inner}, required=None)
    assert found["required"] == ["a"]
    strict = {"type": "object", "properties": {"b": TEXT}, "required": ["b"]}
    assert found["properties"] == {"a": TEXT, "c": strict}


def test_references_are_written_out_recursion_is_cut_and_a_lost_one_takes_any_value():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    found = fit(
        properties={
            "first": {"$ref": "#/$defs/Node"},
            "whole": {"$recursiveRef": "#"},
            "lost": {"$ref": "#/definitions/No"},
            "far": {"$ref": "https://example.org/other.json", "title": "Far"},
        },
        **{"$defs": {"Node": node}},
    )
    assert "$ref" not in str(found)
    assert "$defs" not in found
    assert found["properties"]["first"]["properties"]["next"]["type"] == "object"
    assert found["properties"]["lost"] == {"description": "No"}
    assert found["properties"]["far"] == {"description": "other.json", "title": "Far"}


def test_a_discriminator_leads_to_no_definition_that_is_gone():
    air = {"type": "object", "properties": {"kind": {"const": "air"}}}
    tag = {"propertyName": "kind", "mapping": {"air": "#/$defs/Air"}}
    leg = {"oneOf": [{"$ref": "#/$defs/Air"}], "discriminator": tag}
    schema = {"type": "object", "properties": {"leg": leg}, "$defs": {"Air": air}}
    written = fit_definition(schema, "")[0]["properties"]["leg"]
    assert written == {"oneOf": [air], "discriminator": {"propertyName": "kind"}}


def test_what_stands_beside_a_reference_is_joined_with_its_target():
    target = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    found = fit(
        properties={"who": {"$ref": "#/$defs/T", "properties": {"more": {"type": "string"}}}},
        **{"$defs": {"T": target}},
    )
    assert list(found["properties"]["who"]["properties"]) == ["name", "more"]
    assert found["properties"]["who"]["required"] == ["name"]


def test_a_schema_nested_beyond_all_bounds_is_named():
    schema: dict = {"type": "object"}
    for _ in range(2_000):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(UnfitSchemaError, match="written out"):
        fit_schema(schema)


# -- names and the way back ------------------------------------------------------------------------

ORDERS = ToolSpec(
    name="list_orders",
    description="Lists.",
    input_schema={
        "type": "object",
        "properties": {
            "filter[state]": TEXT,
            "filter_state": TEXT,
            "since>": TEXT,
            "rows": {"type": "array", "items": {"properties": {"@id": COUNT}, "required": ["@id"]}},
            "free": {"type": "object"},
        },
        "required": ["filter[state]"],
    },
)


@pytest.mark.parametrize("format", ["openai", "anthropic"])
def test_names_are_replaced_at_every_depth_and_restored(format):
    [shown] = export([ORDERS], format)
    schema = shown["function"]["parameters"] if format == "openai" else shown["input_schema"]
    first, *_ = schema["required"]
    assert first.startswith("filter_state_")
    assert set(schema["properties"]) == {first, "filter_state", "since", "rows", "free"}
    assert schema["properties"]["rows"]["items"]["required"] == ["id"]
    free = {"free": {"since": 1}}
    arguments = {first: "open", "since": "today", "rows": [{"id": 1}], **free}
    restored = restore_arguments(ORDERS, arguments)
    assert restored == {"filter[state]": "open", "since>": "today", "rows": [{"@id": 1}], **free}
    assert restore_arguments(ORDERS, restored) == restored
    assert restore_arguments(ORDERS, json.dumps(arguments)) == restored


TAKES_TOP = {"type": "object", "properties": {"$top": COUNT}}
TOP = ToolSpec(name="lo", server="s", input_schema=TAKES_TOP)


@pytest.mark.parametrize(
    ("sent", "own"), [('{"top": 5}', {"$top": 5}), ("", {}), ({"top": 5}, {"$top": 5})]
)
def test_arguments_of_a_call_may_be_json(sent, own):
    assert Definitions.of([TOP], "openai").names.call("s__lo", sent) == ("s/lo", own)


@pytest.mark.parametrize("tool", [TOP, ToolSpec(name="lo", server="s")])
@pytest.mark.parametrize("sent", ['{"top": 5', "[5]", "5", [5], None])
def test_arguments_that_are_no_object_are_refused(tool, sent):
    with pytest.raises(QueryError, match="s/lo"):
        Definitions.of([tool], "openai").names.call("s__lo", sent)


def test_a_definition_of_mcp_has_the_names_of_its_server():
    [shown] = export([ORDERS], "mcp")
    assert shown["inputSchema"] == ORDERS.input_schema
    [odd] = export([ToolSpec(name="send mail")], "mcp")
    assert odd["name"].startswith("send_mail_")


def test_names_lead_to_the_tool_and_its_own_arguments():
    names = Definitions.of([ORDERS], "anthropic").names
    assert names.call("list_orders", {"since": "today"}) == ("list_orders", {"since>": "today"})
    with pytest.raises(LookupError, match="list_orders"):
        names.call("list_order", {})
    with pytest.raises(QueryError, match="name"):
        names.call(None, {})


def test_a_tool_that_no_definition_expresses_is_left_out_and_named(caplog):
    odd = ToolSpec(name="odd_list", input_schema={"type": "array"})
    found = Definitions.of([ORDERS, odd], "openai")
    assert list(found.names.values()) == ["list_orders"]
    [left_out] = found.left_out
    assert (left_out.id, left_out.reason) == ("odd_list", "its arguments are not an object")
    Definitions.of([odd], "openai")
    assert len([each for each in caplog.records if "odd_list" in each.getMessage()]) == 1


# -- what providers understand ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "strict_for"),
    [
        ({"title": TEXT}, {"openai", "anthropic"}),
        ({"title": TEXT, "optional": TEXT}, {"anthropic"}),
        ({"title": {"type": "integer", "minimum": 1}}, {"openai"}),
        ({"title": {"type": "string", "maxLength": 9}}, {"openai"}),
        ({"title": {"type": "array", "items": TEXT, "minItems": 2}}, {"openai"}),
        ({"title": {"type": "array", "items": TEXT, "minItems": 1}}, {"openai", "anthropic"}),
        ({"title": {"allOf": [TEXT], "description": "Title."}}, {"anthropic"}),
        ({"title": {"type": "array", "items": TEXT, "uniqueItems": True}}, set()),
        ({"title": {"type": "string", "format": "uuid"}}, {"openai", "anthropic"}),
        ({"title": {"type": "string", "format": "uri"}}, {"anthropic"}),
        ({"title": {"description": "Title, of any type."}}, {"anthropic"}),
        ({"title": {"anyOf": [TEXT, {"type": "null"}]}}, {"openai", "anthropic"}),
    ],
)
def test_strict_goes_to_who_takes_it_with_this_schema(properties, strict_for):
    closed = {"type": "object", "required": ["title"], "additionalProperties": False}
    schema = {**closed, "properties": properties}
    tool = ToolSpec(name="file", input_schema=schema, annotations={"strict": True})
    shown = {name: export([tool], name)[0] for name in ("openai", "anthropic")}
    assert {n for n, d in shown.items() if d.get("function", d).get("strict")} == strict_for


def test_examples_are_renamed_for_anthropic_searched_and_left_out_where_they_do_not_fit():
    schema = {"type": "object", "properties": {"$title": TEXT}, "required": ["$title"]}
    examples = [{"$title": "Login page is broken"}, {"title": 1}]
    tool = ToolSpec(name="file", input_schema=schema, annotations={"input_examples": examples})
    assert tool.success_examples == ("Login page is broken",)
    assert export([tool], "anthropic")[0]["input_examples"] == [{"title": "Login page is broken"}]
    assert "input_examples" not in str(export([tool], "openai"))


def test_hints_of_mcp_are_searched_and_go_to_mcp():
    hints = {"anthropic/searchHint": "read later list", "anthropic/alwaysLoad": True}
    tool = ToolSpec(name="save", annotations={**hints, "readOnlyHint": False})
    assert tool.success_examples == ("read later list",)
    [shown] = export([tool], "mcp")
    assert shown["_meta"] == hints
    assert shown["annotations"] == {"readOnlyHint": False}
    assert "defer_loading" not in export([tool], "anthropic-deferred")[0]


def test_a_renamed_property_is_described_at_least_by_its_own_name():
    schema = {"type": "object", "properties": {"from<": TEXT, "from>": TEXT, "from": TEXT}}
    schema["properties"]["日"] = {"description": "The day."}
    [tool] = export([ToolSpec(name="t", input_schema=schema)], "anthropic")
    described = [each.get("description") for each in tool["input_schema"]["properties"].values()]
    assert described == ["from<", "from>", None, "The day."]


# -- any schema ------------------------------------------------------------------------------------


@given(any_schema)
def test_no_provider_refuses_what_any_schema_becomes(schema):
    try:
        fit = fit_schema(schema)
    except UnfitSchemaError:
        return
    safe = rename_properties(fit.schema, safe_names(fit.schema))
    for provider in Provider:
        assert not list(refusals(provider, Definition("a", "b", safe)))
    assert fit_schema(fit.schema).schema == fit.schema


names = st.sampled_from(["a", "b", "$a", "a b", "filter[a]", "x" * 70, "日", "@b"])


@st.composite
def objects(draw, depth=2):
    """A schema of an object, and an object that it takes."""
    schema: dict = {"type": "object", "properties": {}, "required": []}
    value: dict = {}
    for name in draw(st.lists(names, unique=True, max_size=4)):
        own, item = draw(typed(depth - 1))
        schema["properties"][name] = own
        if draw(st.booleans()):
            value[name] = item
            if draw(st.booleans()):
                schema["required"].append(name)
    if draw(st.booleans()):
        branches = [draw(objects(0)) for _ in range(2)]
        schema[draw(st.sampled_from(["anyOf", "allOf"]))] = [branch for branch, _ in branches]
        for _, more in branches[: 1 if "anyOf" in schema else 2]:
            value = {**more, **value}
    return schema, value


@st.composite
def typed(draw, depth):
    kinds = ["text", "count", "list", "tuple", "object", "map"] if depth > 0 else ["text"]
    kind = draw(st.sampled_from(kinds))
    if kind == "object":
        return draw(objects(depth))
    if kind == "list":
        own, item = draw(typed(depth - 1))
        return {"type": "array", "items": own}, [item]
    if kind == "tuple":
        pairs = [draw(typed(depth - 1)) for _ in range(2)]
        return {"type": "array", "items": [own for own, _ in pairs]}, [item for _, item in pairs]
    if kind == "map":
        own, item = draw(objects(depth - 1))
        return {"type": "object", "additionalProperties": own}, {"a key": item}
    return {"type": "string"}, draw(st.text("ab", max_size=2))


@settings(max_examples=rounds(40, 1000))
@given(objects())
def test_arguments_survive_the_way_there_and_back(pair):
    schema, arguments = pair
    assume(Draft7Validator(schema).is_valid(arguments))
    tool = ToolSpec(name="do", input_schema=schema)
    own = fit_schema(schema).schema
    handed = rename_arguments([own], arguments, safe_names(own))
    [shown] = export([tool], "anthropic")
    Draft202012Validator(shown["input_schema"]).validate(handed)
    assert restore_arguments(tool, handed) == arguments
