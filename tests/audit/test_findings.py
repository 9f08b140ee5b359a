"""Every text of a specification is read, with the way to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ToolSpec
from toolcrib.audit.findings import texts_of


def places(**fields):
    return {text.place: text.text for text in texts_of(ToolSpec(name="t", **fields))}


def test_the_plain_fields_and_lists_are_read():
    plain = {"server": "s", "description": "d", "category": "c"}
    lists = {"success_examples": ["do it"], "anti_patterns": ["do not"], "requires": ["s/login"]}
    first = {f"{name}[0]": values[0] for name, values in lists.items()}
    assert places(**plain, **lists).items() >= {**plain, **first, "id": "s/t"}.items()


def test_a_schema_is_read_to_the_bottom():
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "A path.", "default": "/tmp"},
            "deep": {"items": [{"anyOf": [{"title": "Deep"}, {"enum": ["a", "b"]}]}]},
        },
        "required": ["path"],
    }
    found = places(input_schema=schema)
    assert (
        found.items()
        >= {
            "input_schema.properties.path.description": "A path.",
            "input_schema.properties.path.default": "/tmp",
            "input_schema.properties.deep.items[0].anyOf[0].title": "Deep",
            "input_schema.properties.deep.items[0].anyOf[1].enum[1]": "b",
        }.items()
    )


def test_the_names_of_properties_are_texts_and_key_words_of_schemas_are_not():
    found = places(
        input_schema={"properties": {"type": {"type": "string"}, "note": {}}},
        output_schema={"$defs": {"Row": {"properties": {"cells": {}}}}},
        annotations={"title": "T", "x-hint": {"say": "something"}},
    )
    assert (
        found.items()
        >= {
            "input_schema.properties.type": "type",
            "input_schema.properties.note": "note",
            "output_schema.$defs.Row": "Row",
            "annotations.x-hint": "x-hint",
            "annotations.x-hint.say": "something",
        }.items()
    )
    assert not {"input_schema.properties", "properties"} & set(found.values())


def test_names_are_told_from_prose():
    spec = ToolSpec(
        name="read_file",
        description="read_file",
        input_schema={"properties": {"file_path": {"title": "File path"}}, "required": ["size"]},
    )
    is_name = {(text.text, text.is_name) for text in texts_of(spec)}
    assert is_name >= {("read_file", True), ("read_file", False), ("file_path", True)}
    assert is_name >= {("File path", False), ("size", True)}


def test_a_text_that_stands_twice_is_read_once_at_its_first_place():
    schema = {"properties": {"a": {"description": "same"}, "b": {"description": "same"}}}
    found = [place for place, text in places(input_schema=schema).items() if text == "same"]
    assert found == ["input_schema.properties.a.description"]


def test_odd_keys_are_quoted():
    found = places(input_schema={"properties": {"a b\u200b": {"title": "x"}}})
    assert found["input_schema.properties['a b\\u200b'].title"] == "x"


def test_a_schema_may_be_nested_deeper_than_calls_can_be():
    schema = {"description": "bottom"}
    for _ in range(5_000):
        schema = {"items": schema}
    assert "bottom" in places(input_schema=schema).values()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_no_text_of_any_schema_is_passed_over(schema):
    read = {text.text for text in texts_of(ToolSpec(name="t", input_schema=schema))}
    stack = [schema]
    while stack:
        held = stack.pop()
        if isinstance(held, str) and held:
            assert held in read
        elif isinstance(held, dict):
            stack += held.values()
        elif isinstance(held, list):
            stack += held
