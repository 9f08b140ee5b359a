"""Saved `tools/list` answers: every form they are saved in, and what is kept of a tool."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import ListToolsResult, Tool, ToolAnnotations

from tests.indexers.readers.conformance import ReaderConformance
from toolcrib.errors import SourceError
from toolcrib.indexers.readers.mcp import McpListReader, tool_specs
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.records import Refusal, ToolSpec

SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}}}
TIME = {
    "_meta": {"x": 1},
    "name": "get_time",
    "description": "Tell the time.",
    "inputSchema": SCHEMA,
}
ALARM = {"name": "set_alarm", "inputSchema": {"type": "object"}}


class TestMcpListReader(ReaderConformance):
    reader: ClassVar[Reader] = McpListReader()

    def mixed(self, folder: Path) -> Source:
        return _file(folder, json.dumps({"tools": [TIME, {"inputSchema": {}}]}))

    def nothing(self, folder: Path) -> Source:
        return _file(folder, json.dumps({"tools": []}))


@pytest.mark.parametrize(
    "saved",
    [
        {"tools": [TIME, ALARM]},
        {"tools": [TIME, ALARM], "nextCursor": None, "_meta": {}},
        {"jsonrpc": "2.0", "id": 7, "result": {"tools": [TIME, ALARM]}},
        {"result": {"tools": [TIME, ALARM]}},
        [TIME, ALARM],
    ],
)
def test_every_form_of_the_answer_is_recognised_and_read(tmp_path: Path, saved: Any) -> None:
    source = _file(tmp_path, json.dumps(saved))

    assert McpListReader().recognises(source)
    assert list(McpListReader().read(source, None)) == [
        ToolSpec(
            name="get_time", description="Tell the time.", server="clock", input_schema=SCHEMA
        ),
        ToolSpec(name="set_alarm", server="clock", input_schema={"type": "object"}),
    ]


def test_one_tool_a_line_is_read_too(tmp_path: Path) -> None:
    source = _file(tmp_path, f"{json.dumps(TIME)}\n{json.dumps(ALARM)}\n", "clock.jsonl")

    assert McpListReader().recognises(source)
    assert [tool.name for tool in _tools(source)] == ["get_time", "set_alarm"]


OTHERS: list[Any] = [
    {"tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}]},
    {"tools": [{"name": "a", "input_schema": {}}]},
    [{"name": "a", "tags": ["b"]}],
    {"tools": [], "model": "gpt"},
    {"result": {"rows": []}},
    {"openapi": "3.1.0", "paths": {}},
    [],
    "tools",
]


@pytest.mark.parametrize("other", OTHERS)
def test_content_of_another_format_is_not_recognised(tmp_path: Path, other: Any) -> None:
    assert not McpListReader().recognises(_file(tmp_path, json.dumps(other)))


def test_what_cannot_be_parsed_is_not_recognised(tmp_path: Path) -> None:
    assert not McpListReader().recognises(_file(tmp_path, "{"))
    assert not McpListReader().recognises(Source("https://example.org/mcp"))


def test_everything_that_a_tool_carries_is_kept(tmp_path: Path) -> None:
    tool = {
        **TIME,
        "title": "Current time",
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "x-vendor": {"a": 1}},
        "_meta": {"fastmcp": {"tags": ["time"], "version": "2"}, "other": 1},
        "icons": [{"src": "https://example.org/clock.png"}],
    }

    (spec,) = _tools(_file(tmp_path, json.dumps({"tools": [tool]})))

    assert spec == ToolSpec(
        name="get_time",
        description="Tell the time.",
        server="clock",
        input_schema=SCHEMA,
        output_schema={"type": "object"},
        annotations={"readOnlyHint": True, "x-vendor": {"a": 1}, "title": "Current time"},
        tags=("time",),
        version="2",
    )


def test_a_title_in_the_annotations_is_not_overwritten(tmp_path: Path) -> None:
    tool = {**TIME, "title": "Outer", "annotations": {"title": "Inner"}}

    (spec,) = _tools(_file(tmp_path, json.dumps([tool])))

    assert spec.annotations == {"title": "Inner"}


def test_the_server_is_the_stem_unless_given(tmp_path: Path) -> None:
    source = _file(tmp_path, json.dumps([TIME]), "my-clock.json")

    assert [tool.id for tool in _tools(source)] == ["my-clock/get_time"]
    assert [tool.id for tool in _tools(source, "office")] == ["office/get_time"]
    assert [tool.id for tool in _tools(source, "")] == ["get_time"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_page_that_names_a_next_one_is_reported_as_incomplete(
    tmp_path: Path, wrapped: bool
) -> None:
    page: dict[str, Any] = {"tools": [TIME], "nextCursor": "page-2"}
    source = _file(tmp_path, json.dumps({"jsonrpc": "2.0", "result": page} if wrapped else page))

    spec, refusal = McpListReader().read(source, None)

    assert isinstance(spec, ToolSpec)
    assert refusal == Refusal(
        source.name,
        "nextCursor",
        "the list is incomplete: the server has more pages after this one; "
        "save them all, or read the live server",
    )


def test_a_wrong_tool_costs_no_right_one(tmp_path: Path) -> None:
    tools: list[Any] = [
        TIME,
        {"description": "No name.", "inputSchema": {}},
        7,
        {"name": "f", "parameters": {}},
        {**ALARM, "annotations": ["destructive"]},
        {**ALARM, "inputSchema": "object"},
        ALARM,
    ]
    source = _file(tmp_path, json.dumps({"tools": tools}))

    items = list(McpListReader().read(source, None))

    assert [item.name for item in items if isinstance(item, ToolSpec)] == ["get_time", "set_alarm"]
    assert [(item.place, item.reason) for item in items if isinstance(item, Refusal)] == [
        ("tools[1]", "name: missing"),
        ("tools[2]", "a tool must be an object, not a number"),
        ("tools[3]", "this is a function definition, which --format functions reads"),
        ("tools[4]", "annotations: must be an object, not a list"),
        ("tools[5]", "input_schema: must be an object, not text"),
    ]


def test_a_saved_error_says_what_the_server_said(tmp_path: Path) -> None:
    error = {"code": -32601, "message": "Method not found"}
    source = _file(tmp_path, json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}))

    assert McpListReader().recognises(source)
    with pytest.raises(SourceError) as caught:
        list(McpListReader().read(source, None))
    assert caught.value.place == "error"
    assert caught.value.reason == (
        "the server answered tools/list with the error 'Method not found'; there is nothing to read"
    )


def test_another_answer_than_that_to_tools_list_is_refused(tmp_path: Path) -> None:
    source = _file(tmp_path, json.dumps({"jsonrpc": "2.0", "result": {"prompts": []}}))

    assert not McpListReader().recognises(source)
    with pytest.raises(SourceError) as caught:
        list(McpListReader().read(source, None))
    assert caught.value.place == "result.tools"
    assert caught.value.reason == "expected a list of tools; save the whole answer to tools/list"


def test_a_saved_list_needs_no_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    assert [tool.name for tool in _tools(_file(tmp_path, json.dumps([TIME])))] == ["get_time"]


TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=20)


def _sdk_tool(
    name: str, title: str | None, description: str | None, read_only: bool | None, shaped: bool
) -> Tool:
    return Tool(
        name=name,
        title=title,
        description=description,
        input_schema=SCHEMA,
        output_schema=SCHEMA if shaped else None,
        annotations=None if read_only is None else ToolAnnotations(read_only_hint=read_only),
    )


@given(
    st.lists(
        st.builds(
            _sdk_tool,
            name=TEXT,
            title=st.none() | TEXT,
            description=st.none() | st.text(st.characters(codec="utf-8")),
            read_only=st.none() | st.booleans(),
            shaped=st.booleans(),
        )
    )
)
def test_whatever_the_sdk_writes_is_read_as_it_was(tools: list[Tool]) -> None:
    written = ListToolsResult(tools=tools).model_dump(mode="json", by_alias=True, exclude_none=True)

    specs = list(tool_specs("saved", "tools", written["tools"], "s"))

    assert len(specs) == len(tools)
    for spec, tool in zip(specs, tools, strict=True):
        assert isinstance(spec, ToolSpec)
        assert (spec.name, spec.description) == (tool.name, tool.description or "")
        assert spec.input_schema == tool.input_schema
        assert spec.output_schema == (tool.output_schema or {})
        assert spec.annotations.get("title") == tool.title
        hints = tool.annotations.read_only_hint if tool.annotations else None
        assert spec.annotations.get("readOnlyHint") == hints


def _file(folder: Path, text: str, name: str = "clock.json") -> Source:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return Source(str(path), path)


def _tools(source: Source, server: str | None = None) -> list[ToolSpec]:
    items = list(McpListReader().read(source, server))
    assert all(isinstance(item, ToolSpec) for item in items), items
    return [item for item in items if isinstance(item, ToolSpec)]
