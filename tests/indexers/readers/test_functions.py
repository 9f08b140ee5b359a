"""Function definitions of OpenAI and Anthropic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.indexers.readers.conformance import ReaderConformance, split
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.indexers.readers.functions import FunctionsReader
from toolcrib.indexers.readers.registry import read_source
from toolcrib.integrations.formats import export
from toolcrib.records import Refusal, ToolSpec

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
NESTED = {"type": "function", "function": {"name": "a", "description": "A.", "parameters": SCHEMA}}
FLAT = {"type": "function", "name": "a", "description": "A.", "parameters": SCHEMA}
LEGACY = {"name": "a", "description": "A.", "parameters": SCHEMA}
ANTHROPIC = {"name": "a", "description": "A.", "input_schema": SCHEMA}
ANTHROPIC_CUSTOM = {"type": "custom", **ANTHROPIC}


def write(folder: Path, content: Any, file: str = "chat.json") -> str:
    path = folder / file
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


class TestFunctionsReader(ReaderConformance):
    reader: ClassVar[Reader] = FunctionsReader()

    def mixed(self, folder: Path) -> Source:
        return Source.by_name(write(folder, [{"type": "web_search"}, FLAT, {"parameters": {}}]))

    def nothing(self, folder: Path) -> Source:
        return Source.by_name(write(folder, {"functions": []}))


@pytest.mark.parametrize("tool", [NESTED, FLAT, LEGACY, ANTHROPIC, ANTHROPIC_CUSTOM])
@pytest.mark.parametrize("wrapping", ["alone", "list", "request"])
def test_every_form_reads_alike(tmp_path: Path, tool: Any, wrapping: str) -> None:
    content = {"alone": tool, "list": [tool], "request": {"model": "m", "tools": [tool]}}[wrapping]
    tools, refusals = split(read_source(write(tmp_path, content)))
    assert refusals == []
    assert [(t.id, t.description, t.input_schema, t.annotations) for t in tools] == [
        ("chat/a", "A.", SCHEMA, {})
    ]


def test_a_functions_key_and_a_mixed_list(tmp_path: Path) -> None:
    mixed = [NESTED, {**FLAT, "name": "b"}, {**ANTHROPIC, "name": "c"}]
    tools, refusals = split(read_source(write(tmp_path, {"functions": mixed})))
    assert ([tool.name for tool in tools], refusals) == (["a", "b", "c"], [])


def test_openai_custom_tools_have_no_schema(tmp_path: Path) -> None:
    flat = {"type": "custom", "name": "a", "format": {"type": "text"}}
    nested = {"type": "custom", "custom": {"name": "b", "description": "B."}}
    tools, refusals = split(read_source(write(tmp_path, [flat, nested])))
    assert refusals == []
    assert [(t.name, t.input_schema, t.annotations) for t in tools] == [
        ("a", {}, {"format": {"type": "text"}}),
        ("b", {}, {}),
    ]


def test_what_else_a_definition_says_is_kept(tmp_path: Path) -> None:
    tools, _ = split(
        read_source(write(tmp_path, [{**FLAT, "strict": True, "defer_loading": None}]))
    )
    assert tools[0].annotations == {"strict": True}


def test_what_stands_beside_a_nested_definition_is_kept(tmp_path: Path) -> None:
    beside = {"success_examples": ["say hello"], "cache_control": {"type": "ephemeral"}}
    [tool], _ = split(read_source(write(tmp_path, [{**NESTED, **beside, "strict": None}])))
    assert tool.success_examples == ("say hello",)
    assert tool.annotations == beside


@pytest.mark.parametrize("nested", [True, False])
def test_hints_among_the_annotations_of_a_definition_are_read(tmp_path: Path, nested: bool) -> None:
    hints = {"destructiveHint": True, "success_examples": ["wipe it"]}
    definition = {**LEGACY, "annotations": hints, "strict": True}
    content = {"type": "function", "function": definition} if nested else definition
    [tool], refusals = split(read_source(write(tmp_path, [content])))
    assert refusals == []
    assert tool.annotations == {**hints, "strict": True}
    assert "destructive" in tool.safety_tags
    assert tool.success_examples == ("wipe it",)


@pytest.mark.parametrize("kind", ["web_search", "bash_20250124", "mcp"])
def test_tools_of_the_provider_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    name = write(tmp_path, [{"type": kind, "name": "x"}, FLAT])
    tools, refusals = split(read_source(name))
    assert [tool.name for tool in tools] == ["a"]
    assert refusals == [
        Refusal(
            name,
            "[0]",
            f"type {kind!r} is a tool that the provider runs itself, not a function definition; "
            "remove it from the file",
        )
    ]


def test_a_file_of_provider_tools_only_is_recognised_and_refused(tmp_path: Path) -> None:
    tools, refusals = split(
        read_source(write(tmp_path, [{"type": "bash_20250124", "name": "bash"}]))
    )
    assert tools == []
    assert refusals[0].reason.startswith("type 'bash_20250124' is a tool that the provider runs")


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ({"type": ["function"], "name": "x"}, "type: must be text, not a list"),
        ({"name": "x", "cost_estimate": 2}, "this is a ToolSpec, which --format toolspec reads"),
        ({"name": "x", "inputSchema": {}}, "this is an MCP tool, which --format mcp reads"),
    ],
)
def test_what_is_no_function_is_refused_alone(tmp_path: Path, tool: Any, reason: str) -> None:
    name = write(tmp_path, [FLAT, tool])
    tools, refusals = split(read_source(name, format="functions"))
    assert [tool.name for tool in tools] == ["a"]
    assert refusals == [Refusal(name, "[1]", reason)]


WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GEMINI = {
    "name": "get_weather",
    "description": "Tell the weather.",
    "parameters": {
        "type": "OBJECT",
        "properties": {"city": {"type": "STRING"}, "day": {"type": "STRING", "nullable": True}},
        "required": ["city"],
    },
    "response": {"type": "STRING"},
}


@pytest.mark.parametrize(
    "content",
    [
        [{"functionDeclarations": [GEMINI]}],
        {"functionDeclarations": [GEMINI]},
        {"model": "m", "tools": [{"function_declarations": [GEMINI]}]},
    ],
)
def test_gemini_declares_lists_and_writes_types_in_capitals(tmp_path: Path, content: Any) -> None:
    tools, refusals = split(read_source(write(tmp_path, content)))
    assert refusals == []
    [tool] = tools
    assert (tool.id, tool.annotations) == ("chat/get_weather", {})
    assert tool.output_schema == {"type": "string"}
    assert tool.input_schema == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "day": {"type": ["string", "null"]}},
        "required": ["city"],
    }


def test_gemini_takes_json_schema_too(tmp_path: Path) -> None:
    declared = {"name": "a", "parametersJsonSchema": WEATHER, "responseJsonSchema": SCHEMA}
    [tool], _ = split(read_source(write(tmp_path, [{"functionDeclarations": [declared, 7]}])))
    assert (tool.input_schema, tool.output_schema) == (WEATHER, SCHEMA)


@pytest.mark.parametrize("wrapping", ["tools", "toolConfig"])
def test_bedrock_wraps_the_schema(tmp_path: Path, wrapping: str) -> None:
    spec = {"name": "get_weather", "description": "W.", "inputSchema": {"json": WEATHER}}
    request: dict[str, Any] = {"tools": [{"toolSpec": spec}]}
    content = request if wrapping == "tools" else {"toolConfig": request}
    [tool], refusals = split(read_source(write(tmp_path, content)))
    assert refusals == []
    assert (tool.id, tool.description, tool.input_schema) == ("chat/get_weather", "W.", WEATHER)


def test_tools_of_a_namespace_are_on_a_server_of_its_name(tmp_path: Path) -> None:
    inner = {**FLAT, "name": "find", "defer_loading": True}
    namespace = {"type": "namespace", "name": "crm", "description": "CRM", "tools": [inner, 7]}
    name = write(tmp_path, [namespace, FLAT])
    tools, refusals = split(read_source(name))
    assert [(tool.id, tool.annotations) for tool in tools] == [
        ("crm/find", {"defer_loading": True}),
        ("chat/a", {}),
    ]
    assert [refusal.place for refusal in refusals] == ["[0].tools[1]"]
    assert [tool.id for tool in split(read_source(name, server="s"))[0]] == ["s/find", "s/a"]


def test_what_is_exported_as_namespaces_is_read_back(tmp_path: Path) -> None:
    specs = [
        ToolSpec(name="find", server="crm", input_schema=WEATHER),
        ToolSpec(name="send", server="mail", description="Send.", input_schema=SCHEMA),
    ]
    tools, refusals = split(read_source(write(tmp_path, export(specs, "openai-namespaces"))))
    assert refusals == []
    assert [(t.id, t.description, t.input_schema) for t in tools] == [
        (t.id, t.description, t.input_schema) for t in specs
    ]


@pytest.mark.parametrize(
    ("dumped", "schema"),
    [
        ({"args_schema": SCHEMA, "args": {"x": {}}, "tags": None}, SCHEMA),
        ({"args": SCHEMA["properties"], "return_direct": False}, SCHEMA),
        ({"fn_schema": SCHEMA, "return_direct": False}, SCHEMA),
        ({"params_json_schema": SCHEMA, "strict_json_schema": True}, SCHEMA),
        ({"parameters_json_schema": SCHEMA, "kind": "function"}, SCHEMA),
    ],
)
def test_a_framework_tool_that_was_dumped(tmp_path: Path, dumped: Any, schema: Any) -> None:
    tool = {"name": "add", "description": "Add.", **dumped}
    [spec], refusals = split(read_source(write(tmp_path, [tool])))
    assert refusals == []
    assert (spec.id, spec.description, spec.input_schema) == ("chat/add", "Add.", schema)


@pytest.mark.parametrize("key", ["parameters", "parameter_definitions"])
def test_a_map_of_parameters_is_the_properties_of_a_schema(tmp_path: Path, key: str) -> None:
    parameters = {"room": {"type": "string", "required": True}, "nights": {"type": "integer"}}
    [spec], refusals = split(read_source(write(tmp_path, [{"name": "book", key: parameters}])))
    assert refusals == []
    assert spec.input_schema["properties"].keys() == parameters.keys()
    assert spec.input_schema["required"] == ["room"]


def test_a_framework_tool_is_no_toolspec(tmp_path: Path) -> None:
    file = write(tmp_path, [{"name": "add", "description": "Add.", "fn_schema": SCHEMA}])
    tools, [refusal] = split(read_source(file, format="toolspec"))
    assert (tools, refusal.place) == ([], "[0]")
    assert "functions" in refusal.reason


@pytest.mark.parametrize("key", ["googleSearch", "google_search", "codeExecution", "cachePoint"])
def test_a_tool_of_gemini_or_bedrock_is_named_by_its_key(tmp_path: Path, key: str) -> None:
    [tool], [refusal] = split(read_source(write(tmp_path, {"tools": [FLAT, {key: {}}]})))
    assert (tool.name, refusal.place) == ("a", "tools[1]")
    assert key in refusal.reason
    assert "provider" in refusal.reason
