"""The sample's registry, queries and cases keep the promises of `data/README.md`."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scripts.multilingual_data import english_rows
from tests.conftest import REGISTRY, ROOT, SOURCES
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.records import Refusal, ToolSpec

DATA = ROOT / "data"
CASES = sorted(path for path in (DATA / "cases").iterdir() if path.is_dir())
TRAPS = {"payments/createCharge", "calendar/book_room", "desk/ask_user"}
"""Deprecated, disabled and always active: no query is labelled with them."""


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def read(*sources: str | Path) -> list[ToolSpec]:
    found = [item for source in sources for _, item in tool_entries(str(source), None, None)]
    assert not any(isinstance(item, Refusal) for item in found)
    return [item for item in found if isinstance(item, ToolSpec)]


TOOLS = read(*SOURCES)
IDS = {tool.id for tool in TOOLS}
QUERIES = read_jsonl(DATA / "queries.jsonl")


def normal(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def overlap(left: str, right: str) -> float:
    """Shared words as a share of all words of two texts, 0 to 1."""
    a, b = set(normal(left).split()), set(normal(right).split())
    return len(a & b) / len(a | b)


def test_the_readme_counts_tools_servers_and_queries() -> None:
    text = (DATA / "README.md").read_text("utf-8")
    assert len(IDS) == len(TOOLS)
    assert f"{len(TOOLS)} tools of {len({tool.server for tool in TOOLS})} servers" in text
    assert f"{len(QUERIES)} labelled queries" in text
    for path in REGISTRY.iterdir():
        if path.is_file():
            count = len(read(f"{path}:TOOLS" if path.suffix == ".py" else path))
            assert f"| `{path.name}` | {count} |" in text, path.name


def test_tools_say_what_they_do_and_require_what_there_is() -> None:
    assert [tool.id for tool in TOOLS if len(tool.description) < 12] == []
    known = {each for tool in TOOLS for each in tool.provides} | IDS | {"postgres.session"}
    assert {each for tool in TOOLS for each in tool.requires} <= known


def test_the_traps_are_set() -> None:
    held = {
        t.id for t in TOOLS if t.always_active or not t.enabled or t.annotations.get("deprecated")
    }
    assert held == TRAPS
    assert any(len(tool.description) > 3000 for tool in TOOLS)
    assert "shop/get_orders_order_id_items" in IDS  # an operation without an id
    assert all(i.split("/")[1].startswith("cloud_") for i in IDS if i.startswith("cloud/"))


def test_queries_are_unique_and_labelled_with_tools_that_can_be_served() -> None:
    assert len({query["id"] for query in QUERIES}) == len(QUERIES)
    texts = Counter(normal(query["text"]) for query in QUERIES)
    assert [text for text, count in texts.items() if count > 1] == []
    for query in QUERIES:
        assert query["relevant"].keys() <= IDS - TRAPS, query["id"]
        assert set(query["relevant"].values()) <= {1}, query["id"]
        least = {"unanswerable": 0, "multi": 2}.get(query["kind"], 1)
        assert min(len(query["relevant"]), max(least, 1)) == least, query["id"]
        assert query["answerable"] == (least > 0), query["id"]


@pytest.mark.parametrize(("split", "share"), [("train", 0.4), ("dev", 0.2), ("test", 0.4)])
def test_split_shares(split: str, share: float) -> None:
    count = sum(query["split"] == split for query in QUERIES)
    assert abs(count / len(QUERIES) - share) < 0.03


def test_no_text_comes_close_to_one_of_another_split() -> None:
    close = [
        (left["id"], right["id"])
        for n, left in enumerate(QUERIES)
        for right in QUERIES[:n]
        if left["split"] != right["split"] and overlap(left["text"], right["text"]) >= 0.5
    ]
    assert close == []


def test_examples_give_no_held_out_query_away() -> None:
    hints = [text for tool in TOOLS for text in (*tool.success_examples, *tool.anti_patterns)]
    held_out = [query["text"] for query in QUERIES if query["split"] != "train"]
    assert [(a, b) for a in held_out for b in hints if overlap(a, b) >= 0.5] == []


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_cases_are_small_and_consistent(case: Path) -> None:
    tools = {tool.id: tool for tool in read(case / "tools.jsonl")}
    queries = read_jsonl(case / "queries.jsonl")
    assert 6 <= len(tools) <= 12
    assert all(query["relevant"].keys() <= tools.keys() for query in queries)
    assert all(query["answerable"] == bool(query["relevant"]) for query in queries)
    hints = {normal(x) for t in tools.values() for x in (*t.success_examples, *t.anti_patterns)}
    assert hints.isdisjoint(normal(query["text"]) for query in queries)


LANGUAGES = sorted((DATA / "multilingual").glob("*.jsonl"))


@pytest.mark.parametrize("path", LANGUAGES, ids=lambda path: path.stem)
def test_a_request_in_another_language_says_a_labelled_one_anew(path: Path) -> None:
    known = english_rows()
    rows = read_jsonl(path)
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row.keys() == {"id", "split", "text"} and row["text"].strip() for row in rows)
    for row in rows:
        assert row["split"] == known[row["id"]].get("split", "test"), row["id"]


@pytest.mark.parametrize("name", ["mcp", "openapi", "second-reader"])
def test_companions_are_up_to_four_other_tools_of_the_server(name: str) -> None:
    rows = read_jsonl(DATA / "companions" / f"{name}.jsonl")
    tools = {(row["server"], row["tool"]) for row in rows}
    assert f"{len(rows):,}" in (DATA / "README.md").read_text("utf-8")
    for row in rows:
        names = row["goes_with"]
        assert len(set(names) - {row["tool"]}) == len(names) <= 4, row
        assert {(row["server"], each) for each in names} <= tools, row
