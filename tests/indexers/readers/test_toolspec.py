"""Our own ToolSpecs: JSON Lines, JSON and YAML lists."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.indexers.readers.conformance import ReaderConformance, read_source, split, write
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.indexers.readers.toolspec import ToolSpecReader
from toolcrib.records import Refusal, ToolSpec


class TestToolSpecReader(ReaderConformance):
    reader: ClassVar[Reader] = ToolSpecReader()

    def mixed(self, folder: Path) -> Source:
        lines = '{"name": "a", "tags": ["x"]}\n{"tags": ["x"]}\n{"name": "b"}\n'
        return Source.by_name(write(folder, "mixed.jsonl", lines))

    def nothing(self, folder: Path) -> Source:
        return Source.by_name(write(folder, "nothing.jsonl", "\n\n"))


LIST: list[dict[str, Any]] = [{"name": "a", "description": "Does a."}, {"name": "b", "tags": ["t"]}]
YAML = "- name: a\n  description: Does a.\n- name: b\n  tags: [t]\n"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("t.jsonl", "".join(json.dumps(tool) + "\n" for tool in LIST)),
        ("t.ndjson", "\n".join(json.dumps(tool) + "\r\n" for tool in LIST)),
        ("lines.json", "".join(json.dumps(tool) + "\n" for tool in LIST)),
        ("t.json", LIST),
        ("t.json", {"tools": LIST}),
        ("indented.json", json.dumps(LIST, indent=2)),
        ("wrong_ending.jsonl", json.dumps({"tools": LIST}, indent=2)),
        ("wrong_ending.jsonl", json.dumps(LIST)),
        ("t.yaml", YAML),
        ("t.yml", "tools:\n" + YAML),
        ("flow.yaml", "{tools: [{name: a, description: Does a.}, {name: b, tags: [t]}]}"),
        ("json_in.yaml", json.dumps(LIST)),
        ("no_ending", YAML),
        ("bom.json", "\ufeff" + json.dumps(LIST)),
        ("bom.jsonl", "\ufeff" + "".join(json.dumps(tool) + "\n" for tool in LIST)),
    ],
)
def test_every_way_of_writing_a_list(tmp_path, file, content):
    tools, refusals = split(read_source(write(tmp_path, file, content)))
    assert refusals == []
    assert tools == [ToolSpec(name="a", description="Does a."), ToolSpec(name="b", tags=("t",))]


@pytest.mark.parametrize("file", ["tools.jsonl.gz", "tools.jsonl", "tools.gz"])
def test_gzip_is_told_by_its_first_bytes(tmp_path, file):
    (tmp_path / file).write_bytes(gzip.compress(b'{"name": "a", "tags": []}\n{"name": "b"}\n'))
    tools, refusals = split(read_source(str(tmp_path / file)))
    assert ([tool.id for tool in tools], refusals) == (["a", "b"], [])


def test_the_server_is_the_field_and_never_the_file(tmp_path):
    name = write(tmp_path, "crm.jsonl", '{"name": "a"}\n{"name": "b", "server": "s"}\n')
    assert [tool.server for tool in split(read_source(name))[0]] == ["", "s"]
    assert {tool.server for tool in split(read_source(name, server="x"))[0]} == {"x"}


def test_a_given_id_is_kept(tmp_path):
    name = write(tmp_path, "t.jsonl", '{"name": "a", "server": "s", "id": "my-id"}')
    assert [tool.id for tool in split(read_source(name, server="x"))[0]] == ["my-id"]


def test_unknown_keys_are_kept_as_annotations(tmp_path):
    tool = {"name": "a", "server": "", "owner": "ops", "level": 2, "annotations": {"level": 3}}
    tools, _ = split(read_source(write(tmp_path, "t.jsonl", json.dumps(tool))))
    assert tools[0].annotations == {"owner": "ops", "level": 3}


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("descripton", "description"),
        ("Description", "description"),
        ("inputSchema_", "input_schema"),
        ("tag", "tags"),
        ("anti_pattern", "anti_patterns"),
        ("success-examples", "success_examples"),
    ],
)
def test_a_misspelt_field_is_refused(tmp_path, key, field):
    lines = f'{{"name": "a", "{key}": "x"}}\n{{"name": "b", "tags": []}}\n'
    name = write(tmp_path, "t.jsonl", lines)
    tools, refusals = split(read_source(name))
    assert [tool.id for tool in tools] == ["b"]
    assert refusals == [Refusal(name, "line 1", f"unknown field {key!r}; did you mean {field!r}?")]


def test_places_are_lines_or_positions_in_the_list(tmp_path):
    bad: dict[str, Any] = {"description": "nameless", "tags": []}
    good = {"name": "a", "tags": []}
    for file, content, place in [
        ("t.jsonl", f"{json.dumps(good)}\n\n{json.dumps(bad)}\n", "line 3"),
        ("t.json", [good, bad], "[1]"),
        ("t.json", {"tools": [good, bad]}, "tools[1]"),
    ]:
        _, refusals = split(read_source(write(tmp_path, file, content)))
        assert [(r.place, r.reason) for r in refusals] == [(place, "name: missing")]


def test_a_providers_definition_does_not_lose_its_schema(tmp_path):
    tools = [{"name": "a", "parameters": {}}, {"name": "b", "inputSchema": {}}, {"name": "c"}]
    name = write(tmp_path, "t.json", tools)
    good, refusals = split(read_source(name, format="toolspec"))
    assert [tool.id for tool in good] == ["c"]
    assert refusals == [
        Refusal(name, "[0]", "this is a function definition, which --format functions reads"),
        Refusal(name, "[1]", "this is an MCP tool, which --format mcp reads"),
    ]


def test_json_lines_are_streamed(tmp_path):
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.write(b'{"name": "first", "tags": []}\n')
        file.truncate(2**40)  # a terabyte that takes no room on the disk, as one line
    assert next(read_source(str(path))) == ToolSpec(name="first")


def test_a_line_that_is_too_long_does_not_stop_the_next(tmp_path):
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.write(b'{"name": "first", "tags": []}\n')
        file.seek(100 * 2**20)
        file.write(b'\n{"name": "last"}\n')
    tools, refusals = split(read_source(str(path)))
    assert [tool.id for tool in tools] == ["first", "last"]
    assert refusals == [Refusal(str(path), "line 2", "longer than 33,554,432 bytes")]


def test_one_definition_of_a_provider_costs_no_other_tool(tmp_path):
    own = [{"name": name, "server": "home"} for name in ("lamp", "heating")]
    function = {"name": "door", "parameters": {"type": "object", "properties": {}}}
    name = write(tmp_path, "t.jsonl", "\n".join(map(json.dumps, [own[0], function, own[1]])))
    tools, [refusal] = split(read_source(name))
    assert [tool.id for tool in tools] == ["home/lamp", "home/heating"]
    assert refusal.place == "line 2"
    assert "--format functions" in refusal.reason
