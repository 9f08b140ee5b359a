"""Definitions that providers accept, whatever a tool is called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ToolSpec
from toolcrib.errors import QueryError
from toolcrib.integrations.formats import FORMATS, export

TOOL = ToolSpec(
    name="send mail",
    server="mail",
    description="Sends.",
    input_schema={"type": "object", "properties": {"to": {"type": "string"}}},
    output_schema={"type": "string"},
    annotations={"readOnlyHint": False},
)


def test_openai():
    assert export([TOOL], "openai") == [
        {
            "type": "function",
            "function": {
                "name": "send_mail",
                "description": "Sends.",
                "parameters": TOOL.input_schema,
            },
        },
    ]


def test_anthropic():
    assert export([TOOL], "anthropic") == [
        {"name": "send_mail", "description": "Sends.", "input_schema": TOOL.input_schema},
    ]


def test_mcp_keeps_the_name_the_output_schema_and_the_annotations():
    assert export([TOOL], "mcp") == [
        {
            "name": "send mail",
            "description": "Sends.",
            "inputSchema": TOOL.input_schema,
            "outputSchema": {"type": "string"},
            "annotations": {"readOnlyHint": False},
        },
    ]


def test_json_is_a_specification_that_reads_back():
    [shown] = export([TOOL], "json")
    assert ToolSpec.model_validate(shown) == TOOL


def test_a_tool_without_a_schema_takes_no_arguments():
    [shown] = export([ToolSpec(name="ping")], "anthropic")
    assert shown["input_schema"] == {"type": "object", "properties": {}}


def test_two_tools_of_one_name_get_their_servers_in_front():
    twins = [ToolSpec(name="search", server=server) for server in ("files", "web")]
    assert [t["name"] for t in export(twins, "anthropic")] == ["files_search", "web_search"]


def test_names_that_still_meet_are_numbered():
    twins = [ToolSpec(name="发送", id=str(n)) for n in range(3)]
    assert [t["name"] for t in export(twins, "anthropic")] == ["tool", "tool_2", "tool_3"]


def test_an_unknown_format_is_an_error():
    with pytest.raises(QueryError) as caught:
        export([TOOL], "cobol")
    known = "mcp, openai, anthropic, json"
    assert str(caught.value) == f"there is no format 'cobol'; known are {known}"
    assert ", ".join(FORMATS) == known


names = st.text(min_size=1, max_size=100).filter(lambda n: any(c.isalnum() for c in n))


@given(st.lists(st.tuples(names, st.text(max_size=20)), max_size=8))
def test_every_provider_name_is_accepted_and_none_is_twice(pairs):
    tools = [ToolSpec(name=n, server=s, id=str(i)) for i, (n, s) in enumerate(pairs)]
    shown = [tool["name"] for tool in export(tools, "anthropic")]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in shown)
    assert len(set(shown)) == len(shown)
