"""References within a document: followed, cut where they do not end, refused where they dangle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.indexers.readers.json_schema import (
    MAX_OWN_VALUES,
    MAX_SCHEMA_DEPTH,
    MAX_WRITTEN_OUT_VALUES,
    References,
)

STRING = {"type": "string"}


def out(schema: Any, **defs: Any) -> Any:
    return References({"defs": defs}).write_out(schema)


def ref(name: str, **beside: Any) -> dict[str, Any]:
    return {"$ref": f"#/defs/{name}", **beside}


def test_references_are_written_out_everywhere():
    schema = {"properties": {"a": ref("S"), "b": {"items": [ref("S")]}}, "allOf": [ref("S")]}
    assert out(schema, S=STRING) == {
        "properties": {"a": STRING, "b": {"items": [STRING]}},
        "allOf": [STRING],
    }


def test_the_document_is_left_as_it_is():
    defs = {"A": {"properties": {"b": ref("B")}}, "B": STRING}
    References({"defs": defs}).write_out(ref("A"))
    assert defs == {"A": {"properties": {"b": ref("B")}}, "B": STRING}


def test_what_stands_beside_a_reference_wins():
    written = out(ref("S", description="mine"), S={**STRING, "description": "its"})
    assert written == {**STRING, "description": "mine"}


def test_target_and_siblings_of_a_reference_both_hold():
    target = {"properties": {"name": STRING, "opt": STRING}, "required": ["name"]}
    more = {"type": "integer"}
    assert out(ref("T", properties={"more": more}, required=["opt", "name"]), T=target) == {
        "properties": {"name": STRING, "opt": STRING, "more": more},
        "required": ["name", "opt"],
    }
    long = {"maxLength": 9}
    both = {"allOf": [STRING, long]}
    chain = ref("U", properties={"name": long})
    assert out(chain, T=target, U=ref("T", required=["opt"])) == {
        "properties": {"name": both, "opt": STRING},
        "required": ["name", "opt"],
    }
    part = {"not": {"const": "x"}}
    target = {"allOf": [part], "oneOf": [STRING, more]}
    assert out(ref("T", oneOf=[STRING], allOf=[long]), T=target) == {
        "oneOf": [STRING],
        "allOf": [part, long, {"oneOf": [STRING, more]}],
    }


def test_a_property_may_be_called_ref_and_data_may_look_like_one():
    schema = {"properties": {"$ref": STRING, "default": ref("S")}, "default": ref("S")}
    assert out(schema, S=STRING) == {
        "properties": {"$ref": STRING, "default": STRING},
        "default": ref("S"),
    }


def test_names_in_references_are_unescaped():
    document = {"a/b": {"c~d e": STRING}, "list": [0, STRING]}
    references = References(document)
    assert references.write_out({"$ref": "#/a~1b/c~0d%20e"}) == STRING
    assert references.write_out({"$ref": "#/list/1"}) == STRING


def test_a_schema_that_contains_itself_is_cut():
    tree = {"type": "object", "properties": {"name": STRING, "child": ref("Tree")}}
    cut = {"type": "object", "description": "Tree (recursive)"}
    assert out(ref("Tree"), Tree=tree)["properties"] == {"name": STRING, "child": cut}
    assert out({"items": ref("Tree")}, Tree=tree)["items"]["properties"]["child"] == cut


def test_a_cut_schema_keeps_the_description_beside_its_reference():
    parent = ref("Tree") | {"description": "The parent."}
    tree = {"type": "object", "description": "A tree.", "properties": {"up": parent}}
    cut = {"type": "object", "description": "The parent. Tree (recursive)"}
    assert out(ref("Tree"), Tree=tree)["properties"] == {"up": cut}


@pytest.mark.parametrize(
    ("known", "cut"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": ["string", "array"]}, {"type": ["string", "array"], "items": {}}),
        ({"anyOf": [STRING, {"type": "integer"}]}, {"type": ["string", "integer"]}),
        ({"oneOf": [ref("Other"), {"required": ["x"]}]}, {"type": "object"}),
        ({"oneOf": [STRING, {"enum": [1]}]}, {}),
        ({"title": "JSON"}, {}),
    ],
)
def test_a_cut_schema_takes_no_other_type_than_its_own(known, cut):
    nested = {**known, "items": ref("Nested")}
    told = {**cut, "description": "Nested (recursive)"}
    assert out(ref("Nested"), Nested=nested, Other={})["items"] == told


def test_two_schemas_that_contain_each_other_are_cut():
    a, b = {"properties": {"b": ref("B")}}, {"properties": {"a": ref("A")}}
    cut = {"type": "object", "description": "A (recursive)"}
    assert out(ref("A"), A=a, B=b) == {"properties": {"b": {"properties": {"a": cut}}}}


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("#/defs/Nope", "leads nowhere: there is no 'Nope'"),
        ("#/defs/S/type/x", "leads nowhere: there is no 'x'"),
        ("#anchor", "leads nowhere: there is no 'anchor'"),
        ("#/defs/L/01", "leads nowhere: there is no '01'"),
        ("#/defs/L/" + "9" * 5000, "leads nowhere: there is no '999"),
        ("other.yaml#/S", "leads to another file; bundle all files into one first"),
        ("#/defs/Round", "leads in a circle"),
    ],
)
def test_what_cannot_be_followed(reference, reason):
    defs = {"S": STRING, "L": [STRING], "Round": ref("About"), "About": ref("Round")}
    with pytest.raises(ValueError, match=rf"^\$ref '{reference}' {reason}"):
        out({"items": {"$ref": reference}}, **defs)


def test_a_dense_net_of_schemas_is_cut_to_size():
    names = [f"S{i}" for i in range(50)]
    defs = {n: {"type": "object", "properties": {m: ref(m) for m in names}} for n in names}
    written = out(ref("S0"), **defs)
    assert _size(written) <= MAX_WRITTEN_OUT_VALUES
    assert written["properties"]["S1"] == {"type": "object", "description": "S1 (shortened)"}


def test_a_shortened_schema_still_says_what_a_scalar_is():
    names = [f"S{i}" for i in range(50)]
    defs = {n: {"properties": {**{m: ref(m) for m in names}, "id": ref("Id")}} for n in names}
    assert out(ref("S0"), **defs, Id=STRING)["properties"]["id"] == STRING


def test_limits_of_one_schema():
    deep: Any = STRING
    for _ in range(MAX_SCHEMA_DEPTH + 1):
        deep = {"items": deep}
    with pytest.raises(ValueError, match=r"^the schema is nested deeper than 100 levels$"):
        out(deep)
    with pytest.raises(ValueError, match=r"^the schema has more than 100,000 values$"):
        out({"required": ["x"] * MAX_OWN_VALUES})


NAMES = ["A", "B", "C", "D", "Nope"]
SCHEMAS = st.recursive(
    st.sampled_from([STRING, {"type": "object"}, {}, True]) | st.sampled_from(NAMES).map(ref),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["x", "y"]), inner).map(lambda p: {"properties": p}),
        st.lists(inner, max_size=3).map(lambda parts: {"allOf": parts}),
        inner.map(lambda items: {"type": "array", "items": items}),
    ),
    max_leaves=8,
)


@given(schema=SCHEMAS, defs=st.fixed_dictionaries(dict.fromkeys(NAMES[:4], SCHEMAS)))
def test_any_net_of_references_ends_without_one_left(schema, defs):
    try:
        written = References({"defs": defs}).write_out(schema)
    except ValueError:
        return
    assert "$ref" not in str(written)
    assert _size(written) <= MAX_OWN_VALUES


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(_size(item) for item in value.values())
    return 1 + sum(_size(item) for item in value) if isinstance(value, list) else 1
