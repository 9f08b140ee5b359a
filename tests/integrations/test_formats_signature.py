"""A signature is short, and keeps what a call cannot do without."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.integrations.schemas import any_schema
from toolcrib import ToolSpec
from toolcrib.integrations.formats import export
from toolcrib.records.definitions import signature, summary


def _of(properties: dict[str, Any], *required: str, **more: Any) -> str:
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return signature(ToolSpec(name="f", input_schema=schema))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "integer[]"),
        ({"type": "array", "items": {"type": ["string", "number"]}}, "(string | number)[]"),
        ({"type": "array"}, "any[]"),
        ({"enum": ["a", "b", 3]}, '"a" | "b" | 3'),
        ({"enum": list(range(9))}, "0 | 1 | 2 | 3 | 4 | 5 | …"),
        ({"const": True}, "true"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string"),
        ({"$ref": "#/$defs/Day"}, '"mon" | "tue"'),
        ({"$ref": "#/$defs/Unknown"}, "any"),
        ({"type": "object"}, "object"),
        ({"properties": {"lat": {"type": "number"}}, "required": ["lat"]}, "{lat: number}"),
        ({}, "any"),
        ("no schema", "any"),
    ],
)
def test_types_are_those_of_typescript(schema: Any, said: str) -> None:
    defined = {"Day": {"enum": ["mon", "tue"]}}
    assert _of({"x": schema}, "x", **{"$defs": defined}) == f"f(x: {said})"


def test_required_parameters_come_first_and_all() -> None:
    many = {f"p{number}": {"type": "string"} for number in range(40)}
    said = _of(many, *[f"p{number}" for number in range(20, 40)])
    assert said.startswith("f(p20: string, ")
    assert "p39: string, p0?: string" in said
    assert said.endswith("p11?: string, …)")


def test_a_schema_that_holds_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    said = _of({"n": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": node}})
    assert said == "f(n?: {next?: {next?: any}})"


def test_names_that_are_no_identifiers_are_quoted() -> None:
    assert _of({"a-b": {"type": "string"}}, "a-b") == 'f("a-b": string)'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Sends  a mail. It may fail.\nMore.", "Sends a mail."),
        ("List issues of a\n    project.\n\nArgs:\n    key: its key", "List issues of a project."),
        ("Get a project\nkey: its key", "Get a project"),
        ("x" * 500, "x" * 159 + "…"),
        ("", ""),
    ],
)
def test_a_summary_is_the_first_sentence(text: str, said: str) -> None:
    assert summary(ToolSpec(name="f", description=text)) == said


def test_an_export_names_the_tool_and_its_id() -> None:
    tool = ToolSpec(name="send", server="mail", description="Sends a mail.")
    assert export([tool], "signature") == [
        {"id": "mail/send", "signature": "send()", "description": "Sends a mail."}
    ]


@given(any_schema)
def test_any_schema_has_a_signature_with_all_that_it_requires(schema: dict[str, Any]) -> None:
    said = signature(ToolSpec.model_construct(name="f", input_schema=schema))
    required = schema.get("required")
    assert said.startswith("f(")
    for each in required if isinstance(required, list) else ():
        assert str(each) in said or "\\" in said
