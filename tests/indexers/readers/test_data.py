"""Tools that are data already are read as from a file, and nothing else is opened for them."""

from __future__ import annotations

import pytest

from toolcrib.indexers.readers.registry import read_data
from toolcrib.records import Refusal, ToolSpec

OURS = {"name": "a", "version": "1"}
MCP = {"name": "b", "inputSchema": {"type": "object"}}
OPENAI = {"type": "function", "function": {"name": "c", "parameters": {}}}
ANTHROPIC = {"name": "d", "input_schema": {}}
OPENAPI = {"openapi": "3.0.0", "paths": {"/p": {"get": {"operationId": "e"}}}}


def read(content, format=None, server=None):
    return list(read_data(content, "the request", format=format, server=server))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ([OURS], "a"),
        ({"tools": [OURS]}, "a"),
        (OURS, "a"),
        ([MCP], "b"),
        ({"tools": [MCP], "nextCursor": None}, "b"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP]}}, "b"),
        ([OPENAI], "c"),
        ([ANTHROPIC], "d"),
        (OPENAPI, "e"),
    ],
)
def test_every_format_of_data_is_recognised(content, name):
    [spec] = read(content)
    assert isinstance(spec, ToolSpec)
    assert (spec.name, spec.server) == (name, "")


@pytest.mark.parametrize("content", [[OURS], [MCP], [OPENAI], [ANTHROPIC], OPENAPI])
def test_the_server_that_is_named_overrides(content):
    assert [spec.server for spec in read(content, server="mine")] == ["mine"]


def test_an_empty_list_holds_nothing():
    assert read([]) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, "not a shape that is known; say which `format`: mcp, openapi, functions, toolspec"),
        ([{"x": 1}], "not a shape that is known"),
        ({"openapi": "9", "paths": {}}, "version '9' is not known"),
        ({"openapi": "3.0.0", "paths": {}}, "holds no tools"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"message": "no"}}, "there is nothing to read"),
    ],
)
def test_what_cannot_be_read_is_refused(content, reason):
    [refusal] = read(content)
    assert isinstance(refusal, Refusal)
    assert refusal.source == "the request"
    assert reason in refusal.reason


def test_a_format_that_is_named_is_used():
    [refusal] = read([MCP], format="openapi")
    assert "must be an object" in refusal.reason


def test_servers_that_a_document_names_are_not_started(tmp_path):
    mark = tmp_path / "started"
    config = {"mcpServers": {"x": {"command": "touch", "args": [str(mark)]}}}
    [refusal] = read(config)
    assert "not a shape that is known" in refusal.reason
    assert not mark.exists()
