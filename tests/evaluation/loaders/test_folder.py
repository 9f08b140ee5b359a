"""Folders of tools or intents with queries, and tools of any form with queries."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from toolcrib.errors import SourceError
from toolcrib.evaluation.loaders import folder as folders
from toolcrib.records import ToolSpec

DATA = Path(__file__).parents[3] / "data"
TOOLS = [
    {"id": "p/call", "name": "call", "description": "Ring somebody.", "server": "p"},
    {"id": "p/sing", "name": "sing", "input_schema": {}, "category": None, "server": None},
]
QUERIES = [
    {"id": "1", "text": "ring Ada", "relevant": {"p/call": 1}},
    {"id": "2", "text": "hum a tune", "split": "dev", "relevant": {"p/sing": 1}},
    {"id": "3", "text": "what is love", "relevant": {}},
]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def made(tmp_path):
    (tmp_path / "tools.jsonl").write_bytes(lines(TOOLS))
    (tmp_path / "queries.jsonl").write_bytes(lines(QUERIES))
    return tmp_path


def test_a_folder_of_tools(made):
    data = folders.tools(made)
    assert (data.name, data.kind, data.notes) == (made.name, "tools", ())
    assert [tool.id for tool in data.tools] == ["p/call", "p/sing"]
    assert [query.answerable for query in data.queries] == [True, True, False]
    assert [query.id for query in data.split("dev")] == ["2"]


def test_success_examples_are_kept_and_unknown_keys_do_no_harm(made):
    tool = {
        **TOOLS[0],
        "success_examples": ["phone Bob"],
        "examples": [],
        "source": "x:y",
        "meta": {},
    }
    (made / "tools.jsonl").write_bytes(lines([tool, TOOLS[1]]))
    data = folders.tools(made)
    assert data.tools[0].success_examples == ("phone Bob",)
    assert data.notes == ()


def test_compressed_files_are_read(made):
    for name in ("tools.jsonl", "queries.jsonl"):
        (made / f"{name}.gz").write_bytes(gzip.compress((made / name).read_bytes()))
        (made / name).unlink()
    assert len(folders.tools(made).queries) == 3


def test_a_bad_tool_loses_only_itself(made):
    (made / "tools.jsonl").write_bytes(
        lines([*TOOLS, {"id": "x", "description": "?"}, {"name": "…"}])
    )
    data = folders.tools(made)
    assert len(data.tools) == 2
    assert data.notes == (
        (
            "tools left out: 2 (tools.jsonl: line 3: name: missing; "
            "tools.jsonl: line 4: name: a name needs at least one letter or digit)"
        ),
    )


def test_half_of_a_file_is_not_a_data_set(made):
    packed = gzip.compress(lines(TOOLS * 500))
    (made / "tools.jsonl").unlink()
    (made / "tools.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(SourceError, match=r"tools\.jsonl\.gz: damaged gzip"):
        folders.tools(made)


def test_a_file_of_something_else_is_an_error(made):
    (made / "tools.jsonl").write_text("no json\n")
    with pytest.raises(SourceError, match=r"tools\.jsonl"):
        folders.tools(made)


def test_queries_that_are_all_bad_are_an_error_with_file_and_line(made):
    (made / "queries.jsonl").write_text('{"id": "1"}\n')
    with pytest.raises(SourceError, match=r"queries\.jsonl: line 1: .*text: Field required"):
        folders.tools(made)


def test_a_folder_of_intents(tmp_path):
    (tmp_path / "intents.jsonl").write_bytes(
        lines([{"id": "card_arrival", "name": "card_arrival", "domain": "banking"}])
    )
    queries = [
        {"id": "1", "text": "where is it", "split": "train", "relevant": {"card_arrival": 1}},
        {"id": "2", "text": "sing", "answerable": False, "unanswerable_scope": "corpus"},
    ]
    (tmp_path / "queries.jsonl").write_bytes(lines(queries))
    data = folders.intents(tmp_path)
    assert data.kind == "intents"
    (tool,) = data.tools
    assert (tool.id, tool.description, tool.category) == (
        "card_arrival",
        "card arrival",
        "banking",
    )
    assert data.queries[1].unanswerable_scope == "corpus"


def test_the_sample_data_is_read_from_every_format():
    data = folders.registry(DATA)
    assert len(data.tools) == 246
    assert {"home_tools/set_light", "payments/createCharge"} <= {tool.id for tool in data.tools}
    assert len({tool.server for tool in data.tools}) == 25
    assert [len(data.split(name)) for name in ("train", "dev", "test")] == [143, 70, 145]
    assert sum(not query.answerable for query in data.queries) == 70
    switched_off, leak = data.notes
    assert switched_off == "tools left out, they are switched off: 1 ('calendar/book_room')"
    assert leak.startswith("name leak: ")


@pytest.mark.parametrize("case", sorted(p for p in (DATA / "cases").iterdir() if p.is_dir()))
def test_the_sample_cases_are_read_whole(case):
    data = folders.tools(case)
    for name, read in (("tools.jsonl", data.tools), ("queries.jsonl", data.queries)):
        assert len(read) == len((case / name).read_text().splitlines())
    assert any(tool.success_examples or tool.anti_patterns for tool in data.tools)


def test_a_file_in_a_registry_that_nobody_can_read_is_noted(made):
    (made / "registry").mkdir()
    (made / "tools.jsonl").rename(made / "registry" / "p.tools.jsonl")
    (made / "registry" / "package.json").write_text('{"private": true}')
    data = folders.registry(made)
    assert len(data.tools) == 2
    (note,) = data.notes
    assert note.startswith("tools left out: 1 (package.json: ")


@pytest.mark.parametrize(
    "tools",
    ["codehost.openai.json", "cloud.anthropic.json", "files.mcp.json", "shop.openapi.json"],
)
def test_tools_of_any_form_go_with_queries(tmp_path, tools):
    source = DATA / "registry" / tools
    server = tools.split(".")[0]
    labelled = [json.loads(line) for line in (DATA / "queries.jsonl").read_text().splitlines()]
    about = [q for q in labelled if any(i.startswith(f"{server}/") for i in q["relevant"])]
    queries = tmp_path / "queries.jsonl"
    queries.write_bytes(lines(about))
    data = folders.pair("mine", source, queries)
    assert data.name == "mine"
    assert len(data.queries) == len(about) > 0
    assert {tool.server for tool in data.tools} == {server}


def test_tools_at_hand_go_with_queries(made):
    specs = [ToolSpec(name="call", server="p"), ToolSpec(name="sing", server="p")]
    data = folders.with_tools("store", specs, made / "queries.jsonl")
    assert (data.tools, data.notes) == (tuple(specs), ())
