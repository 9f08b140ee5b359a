"""Function definitions of OpenAI and Anthropic."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest

from tests.indexers.readers.conformance import ReaderConformance, read_source, split, write
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.indexers.readers.functions import FunctionsReader
from toolcrib.integrations.formats import export
from toolcrib.records import Refusal, ToolSpec

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
NESTED = {"type": "function", "function": {"name": "a", "description": "A.", "parameters": SCHEMA}}
FLAT = {"type": "function", "name": "a", "description": "A.", "parameters": SCHEMA}
LEGACY = {"name": "a", "description": "A.", "parameters": SCHEMA}
ANTHROPIC = {"name": "a", "description": "A.", "input_schema": SCHEMA}
ANTHROPIC_CUSTOM = {"type": "custom", **ANTHROPIC}


def read(content: Any, **options: str | None) -> tuple[list[ToolSpec], list[Refusal]]:
    """Read a file, by default as one without a server: a file must show that it holds tools."""
    with TemporaryDirectory() as folder:
        path = write(Path(folder), "chat.json", content)
        return split(read_source(path, **{"server": "", **options}))


def read_all(content: Any, **options: str | None) -> list[ToolSpec]:
    tools, refusals = read(content, **options)
    assert refusals == []
    return tools


class TestFunctionsReader(ReaderConformance):
    reader: ClassVar[Reader] = FunctionsReader()

    def mixed(self, folder: Path) -> Source:
        content = [{"type": "web_search"}, FLAT, {"parameters": {}}]
        return Source.by_name(write(folder, "chat.json", content))

    def nothing(self, folder: Path) -> Source:
        return Source.by_name(write(folder, "chat.json", {"functions": []}))


@pytest.mark.parametrize("tool", [NESTED, FLAT, LEGACY, ANTHROPIC, ANTHROPIC_CUSTOM])
@pytest.mark.parametrize("wrapping", ["alone", "list", "request"])
def test_every_form_reads_alike(tool, wrapping):
    content = {"alone": tool, "list": [tool], "request": {"model": "m", "tools": [tool]}}[wrapping]
    assert read_all(content) == [ToolSpec(name="a", description="A.", input_schema=SCHEMA)]


def test_a_functions_key_and_a_mixed_list():
    mixed = [NESTED, {**FLAT, "name": "b"}, {**ANTHROPIC, "name": "c"}]
    assert [tool.name for tool in read_all({"functions": mixed})] == ["a", "b", "c"]
    both = {"functions": mixed[:1], "tools": mixed[1:]}
    assert sorted(tool.name for tool in read_all(both)) == ["a", "b", "c"]


def test_openai_custom_tools_have_no_schema():
    flat = {"type": "custom", "name": "a", "format": {"type": "text"}}
    nested = {"type": "custom", "custom": {"name": "b", "description": "B."}}
    assert read_all([flat, nested]) == [
        ToolSpec(name="a", annotations={"format": {"type": "text"}}),
        ToolSpec(name="b", description="B."),
    ]


def test_what_else_a_definition_says_is_kept():
    [tool] = read_all([{**FLAT, "strict": True, "defer_loading": None}])
    assert tool.annotations == {"strict": True}


def test_what_stands_beside_a_nested_definition_is_kept():
    beside = {"success_examples": ["say hello"], "cache_control": {"type": "ephemeral"}}
    [tool] = read_all([{**NESTED, **beside, "strict": None}])
    assert tool.success_examples == ("say hello",)
    assert tool.annotations == beside


@pytest.mark.parametrize("nested", [True, False])
def test_hints_among_the_annotations_of_a_definition_are_read(nested):
    hints = {"destructiveHint": True, "success_examples": ["wipe it"]}
    definition = {**LEGACY, "annotations": hints, "strict": True}
    content = {"type": "function", "function": definition} if nested else definition
    [tool] = read_all([content])
    assert tool.annotations == {**hints, "strict": True}
    assert "destructive" in tool.safety_tags
    assert tool.success_examples == ("wipe it",)


@pytest.mark.parametrize("kind", ["web_search", "bash_20250124", "mcp"])
@pytest.mark.parametrize("beside", [[], [FLAT]])
def test_tools_of_the_provider_are_refused_by_name(kind, beside):
    tools, [refusal] = read([{"type": kind, "name": "x"}, *beside])
    assert [tool.name for tool in tools] == ["a"] * len(beside)
    assert refusal.place == "[0]"
    assert refusal.reason.startswith(f"type {kind!r} is a tool that the provider runs itself")


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ({"type": ["function"], "name": "x"}, "type: must be text, not a list"),
        ({"name": "x", "cost_estimate": 2}, "this is a ToolSpec, which --format toolspec reads"),
        ({"name": "x", "inputSchema": {}}, "this is an MCP tool, which --format mcp reads"),
    ],
)
def test_what_is_no_function_is_refused_alone(tool, reason):
    [good], [refusal] = read([FLAT, tool], format="functions")
    assert good.name == "a"
    assert (refusal.place, refusal.reason) == ("[1]", reason)


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
def test_gemini_declares_lists_and_writes_types_in_capitals(content):
    [tool] = read_all(content)
    assert (tool.id, tool.annotations) == ("get_weather", {})
    assert tool.output_schema == {"type": "string"}
    assert tool.input_schema == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "day": {"type": ["string", "null"]}},
        "required": ["city"],
    }


def test_gemini_takes_json_schema_too():
    declared = {"name": "a", "parametersJsonSchema": WEATHER, "responseJsonSchema": SCHEMA}
    [tool], _ = read([{"functionDeclarations": [declared, 7]}])
    assert (tool.input_schema, tool.output_schema) == (WEATHER, SCHEMA)


@pytest.mark.parametrize("wrapping", ["tools", "toolConfig"])
def test_bedrock_wraps_the_schema(wrapping):
    spec = {"name": "get_weather", "description": "W.", "inputSchema": {"json": WEATHER}}
    request: dict[str, Any] = {"tools": [{"toolSpec": spec}]}
    content = request if wrapping == "tools" else {"toolConfig": request}
    assert read_all(content) == [
        ToolSpec(name="get_weather", description="W.", input_schema=WEATHER)
    ]


def test_tools_of_a_namespace_are_on_a_server_of_its_name():
    inner = {**FLAT, "name": "find", "defer_loading": True}
    namespace = {"type": "namespace", "name": "crm", "description": "CRM", "tools": [inner, 7]}
    tools, refusals = read([namespace, FLAT], server=None)
    assert [(tool.id, tool.annotations) for tool in tools] == [
        ("crm/find", {"defer_loading": True}),
        ("chat/a", {}),
    ]
    assert [refusal.place for refusal in refusals] == ["[0].tools[1]"]
    tools, _ = read([namespace, FLAT], server="s")
    assert [tool.id for tool in tools] == ["s/find", "s/a"]


def test_what_is_exported_as_namespaces_is_read_back():
    specs = [
        ToolSpec(name="find", server="crm", input_schema=WEATHER),
        ToolSpec(name="send", server="mail", description="Send.", input_schema=SCHEMA),
    ]
    tools = read_all(export(specs, "openai-namespaces"), server=None)
    assert [tool.model_copy(update={"annotations": {}}) for tool in tools] == specs


@pytest.mark.parametrize(
    "dumped",
    [
        {"args_schema": SCHEMA, "args": {"x": {}}, "tags": None},
        {"args": SCHEMA["properties"], "return_direct": False},
        {"fn_schema": SCHEMA, "return_direct": False},
        {"params_json_schema": SCHEMA, "strict_json_schema": True},
        {"parameters_json_schema": SCHEMA, "kind": "function"},
    ],
)
def test_a_framework_tool_that_was_dumped(dumped):
    [spec] = read_all([{"name": "add", "description": "Add.", **dumped}])
    assert (spec.id, spec.description, spec.input_schema) == ("add", "Add.", SCHEMA)


@pytest.mark.parametrize("key", ["parameters", "parameter_definitions"])
def test_a_map_of_parameters_is_the_properties_of_a_schema(key):
    parameters = {"room": {"type": "string", "required": True}, "nights": {"type": "integer"}}
    [spec] = read_all([{"name": "book", key: parameters}])
    assert spec.input_schema["properties"].keys() == parameters.keys()
    assert spec.input_schema["required"] == ["room"]


def test_a_framework_tool_is_no_toolspec():
    tool = {"name": "add", "description": "Add.", "fn_schema": SCHEMA}
    tools, [refusal] = read([tool], format="toolspec")
    assert (tools, refusal.place) == ([], "[0]")
    assert "functions" in refusal.reason


@pytest.mark.parametrize("key", ["googleSearch", "google_search", "codeExecution", "cachePoint"])
def test_a_tool_of_gemini_or_bedrock_is_named_by_its_key(key):
    [tool], [refusal] = read({"tools": [FLAT, {key: {}}]})
    assert (tool.name, refusal.place) == ("a", "tools[1]")
    assert key in refusal.reason
    assert "provider" in refusal.reason
