"""The one way in: files, folders, forced formats, and that nothing is ever silent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.indexers.readers.conformance import read_source, split, write, write_sample
from toolcrib.errors import MissingExtraError
from toolcrib.indexers.points import layout
from toolcrib.indexers.readers import registry
from toolcrib.indexers.readers.base import Source
from toolcrib.indexers.readers.registry import (
    formats,
    read_data,
    readers,
    tool_entries,
)
from toolcrib.records import Refusal, ToolSpec
from toolcrib.settings import FILE_NAME
from toolcrib.store.qdrant_edge import EdgeStore

GOOD = {"name": "good", "tags": []}


def test_a_folder_is_read_sorted_and_to_its_depths(tmp_path):
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    found = ["a.ndjson", "z.json", "b/x.yml", "b/c/y.jsonl"]
    for path in (*reversed(found), ".git/hidden.json", "README.md", "setup.py", "b/data.tar.gz"):
        write(tmp_path, path, {"name": path, "tags": []})
    entries = list(tool_entries(tmp_path, None, None))
    tools, refusals = split(item for _, item in entries)
    assert ([tool.name for tool in tools], refusals) == (found, [])
    assert [source for source, _ in entries] == [str(tmp_path / name) for name in found]


def test_a_bad_file_in_a_folder_loses_nothing_else(tmp_path):
    files = {"a.json": '{"what": 1}', "b.json": "{", "c.json": GOOD, "d.yaml": ""}
    for name, content in files.items():
        write(tmp_path, name, content)
    tools, refusals = split(read_source(str(tmp_path)))
    assert [tool.name for tool in tools] == ["good"]
    assert [Path(refusal.source).name for refusal in refusals] == ["a.json", "b.json", "d.yaml"]


@pytest.mark.parametrize("name", ["tools.json", "overlay.yaml", "SKILL.md"])
def test_a_pipe_in_a_folder_is_refused(tmp_path, name):
    (tmp_path / "below").mkdir()
    os.mkfifo(tmp_path / "below" / name)
    write(tmp_path, "good.json", GOOD)
    [tool], [refusal] = split(read_source(str(tmp_path)))
    assert tool.name == "good"
    assert (refusal.source, refusal.reason) == (str(tmp_path / "below" / name), "not a file")


def test_nothing_is_started_from_a_folder(tmp_path, caplog):
    mark = tmp_path / "started"
    config = {"mcpServers": {"x": {"command": "touch", "args": [str(mark)]}}}
    write(tmp_path, ".mcp.json", config)
    _, [refusal] = split(read_source(str(tmp_path)))
    assert refusal.source == str(tmp_path)
    assert "passed over: .mcp.json; name by itself what to read" in caplog.text
    assert not mark.exists()


OTHERS = {
    "tsconfig.json": '{"compilerOptions": {}, // strict\n}',
    "package.json": {"name": "x", "version": "1"},
    "pnpm-lock.yaml": {"lockfileVersion": "9.0", "packages": {"a": {"name": "a"}}},
    "turbo.json": {"$schema": "https://turbo.build/schema.json", "tasks": {}},
    ".pre-commit-config.yaml": "repos: []\n",
    ".gitlab-ci.yml": "build: !reference [base, script]\n",
    ".eslintrc.json": '{"rules": {}, // none\n}',
    ".events.jsonl": '{"event": "start"}\n',
    "mcp.json": {"mcpServers": {}},
}
UNCLEAR = {
    "github.json": {"message": "Not Found", "status": "404"},
    "cut.json": '{"tools": [{"na',
    ".cut.json": '{"tools": [{"na',
    ".cut.jsonl": '{"na',
    "empty.json": {"tools": []},
    "wrong.json": {"$schema": "tools.json", "tools": [{"nam": "x"}]},
    "server.json": {"$schema": "tool.json", "name": "x", "descripton": "y"},
}


def test_other_files_in_a_folder_are_named_once_and_are_no_refusals(tmp_path, caplog):
    for name, content in {"t.json": GOOD, **OTHERS, **UNCLEAR}.items():
        write(tmp_path, name, content)
    [tool], refused = split(read_source(str(tmp_path)))
    assert tool.name == "good"
    assert [Path(each.source).name for each in refused] == sorted(UNCLEAR)
    assert f"{tmp_path}: passed over: {', '.join(sorted(OTHERS))};" in caplog.text
    _, refused = split(read_source(str(tmp_path / "package.json")))
    assert len(refused) == 1


def test_a_folder_with_nothing_in_it(tmp_path):
    write(tmp_path, "notes.txt", "nothing")
    _, [refusal] = split(read_source(str(tmp_path)))
    assert refusal.source == str(tmp_path)
    assert "in a file that ends in .gz, .json, .jsonl, .ndjson, .yaml, .yml" in refusal.reason


def test_a_folder_that_may_not_be_listed(tmp_path, monkeypatch):
    def walk(folder: Path, onerror: Any) -> Any:
        onerror(PermissionError(13, "Permission denied", str(folder)))
        return iter(())

    monkeypatch.setattr(registry.os, "walk", walk)
    assert list(read_source(str(tmp_path))) == [
        Refusal(str(tmp_path), "", "cannot be read: Permission denied")
    ]


def test_format_is_forced(tmp_path):
    path = write(tmp_path, "t.json", [{"name": "a", "input_schema": {"type": "object"}}])
    for name, found in ((None, "t/a"), ("toolspec", "a")):
        [tool], _ = split(read_source(path, format=name))
        assert tool.id == found


def test_unknown_format(tmp_path):
    name = str(tmp_path / "t.json")
    assert list(read_source(name, format="xml")) == [
        Refusal(name, "", f"there is no format 'xml'; known are {', '.join(formats())}")
    ]


def test_server_is_overridden_in_a_folder(tmp_path):
    for name in ("toolspec", "functions", "openapi", "mcp"):
        write_sample(tmp_path, name)
    tools, refusals = split(read_source(str(tmp_path), server="s"))
    assert refusals == []
    assert {tool.server for tool in tools} == {"s"}
    assert len(tools) == 8


def test_a_missing_extra_is_a_refusal_among_others(tmp_path, monkeypatch):
    class NeedsMore:
        format = "mcp"
        reaches_out = False

        def recognises(self, source: Source) -> bool:
            return source.name.endswith("a.json")

        def read(self, source: Source, server: str | None) -> Any:
            raise MissingExtraError("reading live MCP servers", "mcp")

    known = (NeedsMore(), *readers())
    monkeypatch.setattr(registry, "readers", lambda: known)
    write(tmp_path, "a.json", "{}")
    write(tmp_path, "b.json", GOOD)
    [tool], [refusal] = split(read_source(str(tmp_path)))
    assert tool.name == "good"
    assert refusal.reason.startswith("reading live MCP servers needs the extra 'mcp'")


def test_asking_for_the_readers_imports_nothing_heavy():
    code = (
        "import sys, toolcrib.indexers.readers.registry as r; r.readers(); "
        "print({'mcp', 'anyio', 'httpx2', 'langchain_core', 'docstring_parser'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# fmt: off
KEYS = st.sampled_from([
    "name", "tools", "functions", "function", "type", "parameters", "input_schema", "inputSchema",
    "$ref", "get", "openapi", "swagger", "paths", "/x", "description", "tags", "annotations",
    "requestBody", "content", "schema", "responses", "200", "properties", "in", "server", "id",
])
# fmt: on
ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["3.0.0", "2.0", "function", "#/paths", "#", "body"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(), inner, max_size=6)
    ),
    max_leaves=25,
)


@ONE_FOLDER
@given(value=VALUES, ending=st.sampled_from(["json", "yaml", "jsonl"]))
def test_any_json_is_read_or_refused_and_never_silent(tmp_path, value, ending):
    path = write(tmp_path, f"any.{ending}", json.dumps(value))
    for name in (None, *formats(sent=True)):
        items = list(read_source(path, format=name))
        assert items
        for item in items:
            assert isinstance(item, ToolSpec) or "\n" not in item.reason
            if isinstance(item, ToolSpec):
                assert item.digest


OPERATIONS = st.dictionaries(
    st.sampled_from(["operationId", "summary", "tags", "parameters", "requestBody", "responses"]),
    VALUES | st.dictionaries(st.sampled_from(["200", "content"]), VALUES) | st.lists(VALUES),
)


@ONE_FOLDER
@given(operation=OPERATIONS, version=st.sampled_from(["3.0.0", "2.0"]))
def test_any_operation_is_read_or_refused(tmp_path, operation, version):
    path = write(tmp_path, "any.json", {"openapi": version, "paths": {"/x": {"post": operation}}})
    assert len(list(read_source(path))) == 1


@ONE_FOLDER
@given(content=st.binary(max_size=60), ending=st.sampled_from(["json", "yaml", "jsonl", "gz"]))
def test_any_bytes_are_read_or_refused(tmp_path, content, ending):
    path = tmp_path / f"any.{ending}"
    path.write_bytes(content)
    assert list(read_source(str(path)))


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


def test_an_empty_list_holds_nothing():
    assert read([]) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, f"not a shape that is known; say which `format`: {', '.join(formats(sent=True))}"),
        ([{"x": 1}], "not a shape that is known"),
        ({"openapi": "9", "paths": {}}, "version '9' is not known"),
        ({"openapi": "3.0.0", "paths": {}}, "holds no tools"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"message": "no"}}, "there is nothing to read"),
        ({"mcpServers": {"x": {"command": "touch"}}}, "not a shape that is known"),
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


def test_files_that_differ_behind_the_first_dot_are_two_servers(tmp_path):
    for name, text in [("a.one.json", "One."), ("a.two.json", "Two."), ("a.two.yaml", "Three.")]:
        tool = {"name": "x", "description": text, "inputSchema": {"type": "object"}}
        write(tmp_path, name, {"tools": [tool]})
    tools, _ = split(read_source(str(tmp_path)))
    assert [tool.id for tool in tools] == ["a.one/x", "a.two/x", "a.two/x"]


NO_TOOLS = [
    ("package.json", {"name": "x", "version": "1", "scripts": {}}, "the manifest of a package"),
    ("composer.json", {"name": "x/y", "dependencies": {}, "tags": []}, "the manifest of a package"),
    ("package-lock.json", {"name": "x", "packages": {}, "lockfileVersion": 3}, "a lock file"),
    ("manifest.json", {"name": "x", "manifest_version": "0.3", "tools": []}, "an extension"),
    ("ci.yml", {"name": "CI", "on": "push", "jobs": {}}, "a workflow"),
    ("compose.yaml", {"name": "x", "services": {}}, "a Compose file"),
    ("marketplace.json", {"name": "x", "owner": {}, "plugins": []}, "a list of plugins"),
    ("bigquery.json", {"name": "x", "discoveryVersion": "v1", "parameters": {}}, "a discovery doc"),
    ("postman.json", {"info": {"name": "x"}, "item": [{"name": "y"}]}, "a Postman collection"),
    ("events.yaml", {"asyncapi": "2.6.0", "channels": {}}, "an AsyncAPI document"),
    ("graph.json", {"__schema": {"types": [{"name": "x"}]}}, "a GraphQL schema"),
    ("n.json", {"cells": [], "nbformat": 4}, "a notebook"),
    (
        "calls.json",
        [{"type": "function", "function": {"name": "f", "arguments": ""}}],
        "not a shape",
    ),
    ("bare.json", {"name": "x", "description": "d", "version": "1"}, "a `name` and nothing else"),
    ("rubric.json", [{"name": "tone", "description": "Is it kind?"}], "a `name` and nothing else"),
    ("labels.json", [{"name": "bug", "color": "red", "tags": []}], "a `name` and nothing else"),
    ("columns.json", [{"name": "id", "type": "integer"}], "a `name` and nothing else"),
    ("abi.json", [{"type": "function", "name": "f", "inputs": []}], "a `name` and nothing else"),
    ("jobs.json", [{"name": "train", "parameters": {"lr": 0.1}}], "a `name` and nothing else"),
    ("rows.jsonl", {"name": "x", "args": {"a": 1}, "id": 7}, "a `name` and nothing else"),
    ("bundle.json", {"name": "x", "server": {"type": "node"}}, "a `name` and nothing else"),
]


@pytest.mark.parametrize(("file", "content", "reason"), NO_TOOLS, ids=lambda value: str(value)[:20])
def test_another_kind_of_file_holds_no_tools(tmp_path, file, content, reason):
    [refusal] = read_source(write(tmp_path, file, content))
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "a", "server": "s"},
        {"name": "a", "tags": ["t"]},
        {"name": "a", "safety_tags": [], "owner": "ops"},
        {"name": "a", "output_schema": {}},
        {"name": "a", "parameters": {}},
        {"name": "a", "parameters": {"x": {"type": "str"}}},
        {"name": "a", "parameters": {"type": "dict"}},
        {"name": "a", "inputSchema": {}},
        {"name": "a", "fn_schema": {}},
        {"type": "function", "name": "a", "strict": True},
        {"type": "function", "function": {"name": "a"}},
    ],
)
def test_a_schema_a_server_or_a_field_of_ours_shows_a_tool(tmp_path, tool):
    [spec] = read_source(write(tmp_path, "t.json", [tool]))
    assert isinstance(spec, ToolSpec)
    assert spec.name == "a"


def test_names_and_descriptions_alone_need_the_format(tmp_path):
    name = write(tmp_path, "t.yaml", "- name: a\n  description: Does a.\n")
    [refusal] = read_source(name)
    assert isinstance(refusal, Refusal)
    assert "index it with --format toolspec" in refusal.reason
    [tool] = read_source(name, format="toolspec")
    assert isinstance(tool, ToolSpec)


def test_an_entry_of_the_mcp_registry_is_never_a_tool(tmp_path, caplog):
    remotes = [{"type": "sse", "url": "http://127.0.0.1:9/sse"}]
    write(tmp_path, "server.json", {"name": "io.example/x", "version": "1", "remotes": remotes})
    tools, [refusal] = split(read_source(str(tmp_path)))
    assert (tools, refusal.source) == ([], str(tmp_path))
    assert "passed over: server.json;" in caplog.text


def test_folders_that_were_passed_over_are_named(tmp_path, caplog):
    for folder in (".claude/skills", ".git", "src/node_modules/x", "src/.cache", "src/lib"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path / folder, "t.json", GOOD)
    assert split(read_source(str(tmp_path))) == ([ToolSpec(**GOOD)], [])
    assert f"{tmp_path}: passed over: .claude, src/node_modules;" in caplog.text


@pytest.mark.parametrize("name", ["index", ".toolcrib"])
def test_a_store_and_settings_within_a_folder_are_no_sources(tmp_path, name):
    write(tmp_path, "t.json", GOOD)
    write(tmp_path, FILE_NAME, {"audit": False})
    with EdgeStore.open(tmp_path / name, layout(2)):
        pass
    [tool], refused = split(read_source(str(tmp_path)))
    assert (tool.name, refused) == ("good", [])


def test_the_values_of_a_dict_are_a_list_of_objects():
    spec = ToolSpec(name="good")
    assert [item for _, item in tool_entries({"any": spec}.values(), None, None)] == [spec]


def test_a_refused_object_of_a_list_has_its_index():
    good = {"name": "good", "description": "Good.", "parameters": {"type": "object"}}
    wrong = {"name": "wrong", "description": "Wrong.", "parameters": []}
    objects = [good, wrong, [3], {"tools": [good, wrong]}]
    tools, refusals = split(item for _, item in tool_entries(objects, None, None))
    assert [tool.name for tool in tools] == ["good", "good"]
    assert [refusal.place for refusal in refusals] == ["[1]", "[2][0]", "[3].tools[1]"]


@pytest.mark.parametrize("server", [None, "crm"])
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"success_examples": "open a claim"}, "success_examples"),
        ({"cost_estimate": -1.0}, "cost_estimate"),
        ({"annotations": {"owner": object()}}, "JSON"),
        ({"name": "open\u200bclaim"}, "name"),
    ],
)
def test_an_unchecked_copy_of_a_specification_is_refused(server, changes, field):
    spec = ToolSpec(name="open_claim", success_examples=("a pipe burst",))
    copies = [spec, spec.model_copy(update=changes)]
    tools, (refusal,) = split(item for _, item in tool_entries(copies, server, None))
    assert [tool.name for tool in tools] == ["open_claim"]
    assert (refusal.source, refusal.place) == ("a ToolSpec", "open_claim")
    assert field in refusal.reason


def test_a_constructed_specification_gets_its_defaults():
    ((_, spec),) = tool_entries(ToolSpec.model_construct(name="a"), None, None)
    assert spec == ToolSpec(name="a")
