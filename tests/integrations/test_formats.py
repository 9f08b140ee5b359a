"""Definitions that providers accept, whatever a tool is called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ToolSpec
from toolcrib.errors import QueryError
from toolcrib.integrations.formats import FORMATS, export, named_ids

TOOL = ToolSpec(
    name="send mail",
    server="mail",
    description="Sends.",
    input_schema={"type": "object", "properties": {"to": {"type": "string"}}},
    output_schema={"type": "string"},
    annotations={"readOnlyHint": False},
)


NAMED = {"name": "send_mail", "description": "Sends."}


@pytest.mark.parametrize(
    ("format", "shown"),
    [
        ("openai", {"type": "function", "function": {**NAMED, "parameters": TOOL.input_schema}}),
        ("anthropic", {**NAMED, "input_schema": TOOL.input_schema}),
        (
            "mcp",
            {
                "name": "send mail",
                "description": "Sends.",
                "inputSchema": TOOL.input_schema,
                "outputSchema": {"type": "string"},
                "annotations": {"readOnlyHint": False},
            },
        ),
    ],
)
def test_a_definition_is_what_its_provider_takes(format, shown):
    assert export([TOOL], format) == [shown]


def test_json_is_a_specification_that_reads_back():
    [shown] = export([TOOL], "json")
    assert ToolSpec.model_validate(shown) == TOOL


def test_a_tool_without_a_schema_takes_no_arguments():
    [shown] = export([ToolSpec(name="ping")], "anthropic")
    assert shown["input_schema"] == {"type": "object", "properties": {}}


def test_two_tools_of_one_name_get_their_servers_in_front():
    twins = [ToolSpec(name="search", server=server) for server in ("files", "web")]
    assert [t["name"] for t in export(twins, "anthropic")] == ["files_search", "web_search"]
    nameless = [ToolSpec(name="发送", id=str(n)) for n in range(3)]
    assert [t["name"] for t in export(nameless, "anthropic")] == ["tool", "tool_2", "tool_3"]


def test_an_unknown_format_is_an_error():
    with pytest.raises(QueryError) as caught:
        export([TOOL], "cobol")
    assert str(caught.value) == f"there is no format 'cobol'; known are {', '.join(FORMATS)}"


ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch

TWINS = [
    ToolSpec(name="search", server="files"),
    ToolSpec(name="search", server="web"),
    ToolSpec(name="ping"),
]


def test_namespaces_hold_the_deferred_functions_of_a_server():
    function = {
        "type": "function",
        "description": "",
        "parameters": {"type": "object", "properties": {}},
        "defer_loading": True,
    }
    search = {**function, "name": "search"}
    spaces = [
        {"type": "namespace", "name": name, "description": f"Tools of {name}.", "tools": [search]}
        for name in ("files", "web")
    ]
    assert export(TWINS, "openai-namespaces") == [*spaces, {**function, "name": "ping"}]


def test_tool_references_name_deferred_definitions():
    deferred = export(TWINS, "anthropic-deferred")
    assert all(each["defer_loading"] for each in deferred)
    assert export(TWINS, "tool_reference") == [
        {"type": "tool_reference", "tool_name": each["name"]} for each in deferred
    ]
    assert [each["name"] for each in deferred] == ["files__search", "web__search", "ping"]


@pytest.mark.parametrize(
    "tool", [*TWINS, TOOL, ToolSpec(name="a__b", server="c"), ToolSpec(name="发")]
)
def test_a_deferred_tool_is_called_the_same_whatever_is_beside_it(tool):
    for format in ("anthropic-deferred", "tool_reference", "openai-namespaces"):
        alone = named_ids([tool], format)
        beside = named_ids([*TWINS, TOOL, tool], format)
        assert alone.items() <= beside.items()


def test_names_lead_back_to_ids():
    assert named_ids(TWINS, "mcp") == {"ping": "ping"}  # what two have leads nowhere
    assert named_ids(TWINS, "openai") == {
        "files_search": "files/search",
        "web_search": "web/search",
        "ping": "ping",
    }
    assert named_ids(TWINS, "openai-namespaces") == {
        "files.search": "files/search",
        "web.search": "web/search",
        "ping": "ping",
    }


names = st.text(min_size=1, max_size=100).filter(lambda n: any(c.isalnum() for c in n))


@given(st.lists(st.tuples(names, st.text(max_size=20)), max_size=8))
def test_every_provider_name_is_accepted_and_none_is_twice(pairs):
    tools = [ToolSpec(name=n, server=s, id=str(i)) for i, (n, s) in enumerate(pairs)]
    for format in ("anthropic", "anthropic-deferred"):
        shown = [tool["name"] for tool in export(tools, format)]
        assert all(ACCEPTED(name) for name in shown)
        assert len(set(shown)) == len(shown)
        assert named_ids(tools, format) == dict(
            zip(shown, map(str, range(len(tools))), strict=True)
        )


@given(st.lists(st.tuples(names, st.text(max_size=80)), max_size=8, unique=True))
def test_every_name_in_a_namespace_is_accepted_and_none_is_twice(pairs):
    tools = {tool.id: tool for tool in (ToolSpec(name=n, server=s) for n, s in pairs)}
    shown = export(tools.values(), "openai-namespaces")
    for each in shown:
        inside = [function["name"] for function in each.get("tools", ())]
        assert all(ACCEPTED(name) for name in (each["name"], *inside))
        assert len(set(inside)) == len(inside)
    assert sum(len(each.get("tools", "x")) for each in shown) == len(tools)
    assert len(named_ids(tools.values(), "openai-namespaces")) == len(tools)
