"""Declarations are source that compiles, and hold to a tool's schema."""

from __future__ import annotations

import ast
import keyword
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integrations.schemas import any_schema
from toolcrib import ToolSpec
from toolcrib.integrations.formats import export, named_ids

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SEND = ToolSpec(
    name="send-mail",
    server="mail",
    description='Sends a "mail".\nIt may */ fail.',
    input_schema={
        "type": "object",
        "properties": {
            "to": {"type": "array", "items": {"$ref": "#/$defs/Person"}},
            "urgency": {"enum": ["low", "high", 3]},
            "reply-to": {"type": ["string", "null"]},
            "size": {"type": "integer"},
        },
        "required": ["to"],
        "$defs": {"Person": PERSON},
    },
    output_schema={"type": "object", "properties": {"id": {"type": "string"}}},
)


def declared(tool: ToolSpec, format: str) -> str:
    [shown] = export([tool], format)
    assert named_ids([tool], format) == {shown["name"]: tool.id} == {shown["name"]: shown["id"]}
    return shown["declaration"]


def test_a_typescript_function_takes_one_object() -> None:
    [name] = named_ids([SEND], "typescript")
    assert name.startswith("mail__send_mail_")
    assert declared(SEND, "typescript") == (
        '/**\n * Sends a "mail".\n * It may * / fail.\n */\n'
        f"declare function {name}(input: {{to: {{name: string}}[], "
        'urgency?: "low" | "high" | 3, "reply-to"?: string, size?: number}): '
        "Promise<{id?: string}>;"
    )


def test_a_python_function_takes_keywords() -> None:
    [name] = named_ids([SEND], "python-stub")
    assert declared(SEND, "python-stub") == (
        f"def {name}(*, to: list[dict[str, Any]], urgency: Literal['low', 'high', 3] = ..., "
        "size: int = ..., **more: Any) -> dict[str, Any]:\n"
        '    """Sends a \\"mail\\".\n    It may */ fail.\n'
        '    **more \'reply-to\': str = ..."""'
    )


@pytest.mark.parametrize(
    ("schema", "typescript", "python"),
    [
        ({}, "", ""),
        ({"properties": {"x": {}}}, "input: {x?: any}", "*, x: Any = ..."),
        (
            {"anyOf": [{"properties": {"a": {}}}, {"$ref": "#/nowhere"}]},
            "input: {a?: any} | any",
            "**more: Any",
        ),
        ({"properties": {"class": {"const": None}}}, "input: {class?: null}", "**more: Any"),
        (
            {"properties": {"x": {"type": "date"}, "y": {"type": "array"}}},
            "input: {x?: any, y?: any[]}",
            "*, x: Any = ..., y: list[Any] = ...",
        ),
        (
            {"properties": {"x": {"enum": [1.5, [1], True]}}},
            "input: {x?: 1.5 | any | true}",
            "*, x: Literal[True] | Any = ...",
        ),
        (
            {"properties": {"straße": {"type": "string"}, "氏名": {}, "ｘ": {}}},
            'input: {"straße"?: string, "氏名"?: any, "ｘ"?: any}',
            "*, straße: str = ..., 氏名: Any = ..., **more: Any",
        ),
    ],
)
def test_what_a_language_cannot_say_is_any(
    schema: dict[str, Any], typescript: str, python: str
) -> None:
    tool = ToolSpec(name="f", input_schema=schema)
    assert declared(tool, "typescript") == f"declare function f({typescript}): Promise<any>;"
    stub = f"def f({python}) -> Any:"
    assert declared(tool, "python-stub").startswith(stub)


def test_names_are_functions_told_apart_and_the_same_in_every_answer() -> None:
    tools = [
        *(ToolSpec(name=name) for name in ("delete", "class", "7zip", "Ping", "发送")),
        *(ToolSpec(name=name, server="mail") for name in ("a-b", "a_b", "a b")),
    ]
    for format in ("typescript", "python-stub"):
        names = [each["name"] for each in export(tools, format)]
        assert len(set(names)) == len(tools)
        assert all(name.isidentifier() and not keyword.iskeyword(name) for name in names)
        assert "delete" not in names
        assert names[3] == "Ping"
        assert [export([tool], format)[0]["name"] for tool in tools] == names
        assert not any(re.search(r"(_[0-9a-f]{12}){2}", name) for name in names)


@given(any_schema, st.text(), st.text(min_size=1, max_size=10))
def test_a_stub_compiles_whatever_the_tool(
    schema: dict[str, Any], description: str, name: str
) -> None:
    try:
        tool = ToolSpec(name=name, description=description, input_schema=schema)
    except ValueError:
        return
    ast.parse(declared(tool, "python-stub"))
    declared(tool, "typescript")
