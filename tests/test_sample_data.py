"""The sample data under ``data/`` keeps the promises of ``data/README.md``."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

DATA = Path(__file__).resolve().parent.parent / "data"
REGISTRY = DATA / "registry"
CASES = sorted(path for path in (DATA / "cases").iterdir() if path.is_dir())
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}

# --- A small collector: every tool of every format, as {id: raw record} -------------


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def load(path: Path) -> Any:
    if path.suffix == ".jsonl":
        return read_jsonl(path)
    return yaml.safe_load(path.read_text("utf-8"))  # JSON is YAML too


def openapi_operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            **operation,
            "name": operation.get("operationId") or path_slug(method, path),
            "description": operation.get("description", ""),
        }
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def path_slug(method: str, path: str) -> str:
    """``GET /orders/{id}/items`` is called ``get_orders_id_items``."""
    return "_".join([method, *re.findall(r"\w+", path)])


def python_functions(path: Path) -> list[dict[str, Any]]:
    """The functions that the module's ``TOOLS`` list names, without importing it."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
    exported = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TOOLS"
    )
    names = [ast.unparse(element) for element in exported.elts]
    return [{"name": n, "description": ast.get_docstring(functions[n])} for n in names]


def records(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".py":
        return python_functions(path)
    content = load(path)
    if isinstance(content, dict) and "paths" in content:
        return openapi_operations(content)
    if isinstance(content, dict):
        content = content.get("result", content)["tools"]
    return [record.get("function", record) for record in content]


def collect(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    paths = [p for p in sorted(folder.iterdir()) if p.is_file()]
    return [
        (f"{record.get('server', path.name.split('.')[0])}/{record['name']}", record)
        for path in paths
        for record in records(path)
    ]


PAIRS = collect(REGISTRY)
TOOLS = dict(PAIRS)
OWN = {tool_id: spec for tool_id, spec in TOOLS.items() if "server" in spec}
QUERIES = read_jsonl(DATA / "queries.jsonl")
ANSWERABLE = [query for query in QUERIES if query["answerable"]]


def normal(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


# --- The registry ------------------------------------------------------------------


def test_tool_ids_are_unique() -> None:
    counts = Counter(tool_id for tool_id, _ in PAIRS)
    assert [tool_id for tool_id, count in counts.items() if count > 1] == []


def test_registry_has_the_promised_size() -> None:
    assert len(TOOLS) >= 160
    assert len({tool_id.split("/")[0] for tool_id in TOOLS}) >= 15


def test_every_format_is_there() -> None:
    kinds = {".".join(path.name.split(".")[1:]) for path in REGISTRY.iterdir()}
    assert kinds - {""} >= {
        "tools.jsonl",
        "tools.yaml",
        "openai.json",
        "responses.json",
        "anthropic.json",
        "mcp.json",
        "openapi.yaml",
        "openapi.json",
        "swagger.json",
        "py",
    }


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("payments.openapi.yaml", "3.1"),
        ("shop.openapi.json", "3.0"),
        ("weather.swagger.json", "2.0"),
    ],
)
def test_openapi_versions(name: str, version: str) -> None:
    document = load(REGISTRY / name)
    assert (document.get("openapi") or document["swagger"]).startswith(version)


def test_readme_names_the_right_counts() -> None:
    text = (DATA / "README.md").read_text("utf-8")
    servers = {tool_id.split("/")[0] for tool_id in TOOLS}
    assert f"{len(TOOLS)} tools of {len(servers)} servers" in text
    assert f"{len(QUERIES)} labelled queries" in text
    for path in REGISTRY.iterdir():
        if path.is_file():
            assert f"| `{path.name}` | {len(records(path))} |" in text, path.name


def test_every_tool_says_what_it_does() -> None:
    silent = [i for i, t in TOOLS.items() if len(t.get("description") or "") < 12]
    assert silent == []


def test_a_third_of_the_tools_carry_examples() -> None:
    with_examples = [spec for spec in OWN.values() if spec.get("success_examples")]
    assert len(with_examples) * 3 >= len(TOOLS)
    assert all(2 <= len(spec["success_examples"]) <= 5 for spec in with_examples)


def test_most_tools_with_examples_carry_anti_patterns() -> None:
    with_anti = [spec for spec in OWN.values() if spec.get("anti_patterns")]
    assert len(with_anti) >= 0.8 * len(OWN)
    assert all(1 <= len(spec["anti_patterns"]) <= 3 for spec in with_anti)


def test_required_tools_exist() -> None:
    provided = {p for spec in OWN.values() for p in spec.get("provides", [])}
    known = provided | set(TOOLS) | {"postgres.session"}
    missing = {r for spec in OWN.values() for r in spec.get("requires", [])} - known
    assert missing == set()


def test_the_traps_are_set() -> None:
    names = [tool_id.split("/")[1] for tool_id in TOOLS]
    assert any(len(TOOLS[i]["description"]) > 3000 for i in TOOLS)
    assert [i for i in TOOLS if TOOLS[i].get("deprecated")] == ["payments/createCharge"]
    assert [i for i, t in OWN.items() if not t.get("enabled", True)] == ["calendar/book_room"]
    assert [i for i, t in OWN.items() if t.get("always_active")] == ["desk/ask_user"]
    assert any("-" in n for n in names)
    assert any("." in n for n in names)
    assert "shop/get_orders_order_id_items" in TOOLS  # an operation without an id
    assert all(i.split("/")[1].startswith("cloud_") for i in TOOLS if i.startswith("cloud/"))


# --- The labelled queries ----------------------------------------------------------


def test_query_ids_and_texts_are_unique() -> None:
    assert len({query["id"] for query in QUERIES}) == len(QUERIES)
    texts = Counter(normal(query["text"]) for query in QUERIES)
    assert [text for text, count in texts.items() if count > 1] == []


def test_labels_name_tools_that_can_be_served() -> None:
    never = {"payments/createCharge", "calendar/book_room", "desk/ask_user"}
    servable = set(TOOLS) - never
    labelled = {tool_id for query in QUERIES for tool_id in query["relevant"]}
    assert labelled - servable == set()
    assert all(grade == 1 for query in QUERIES for grade in query["relevant"].values())


def test_answerable_means_labelled() -> None:
    for query in QUERIES:
        assert query["answerable"] == bool(query["relevant"]), query["id"]
        assert query["answerable"] == (query["kind"] != "unanswerable"), query["id"]


def test_multi_queries_need_several_tools() -> None:
    for query in QUERIES:
        assert query["kind"] != "multi" or len(query["relevant"]) >= 2, query["id"]


@pytest.mark.parametrize(("split", "share"), [("train", 0.4), ("dev", 0.2), ("test", 0.4)])
def test_split_shares(split: str, share: float) -> None:
    count = sum(query["split"] == split for query in QUERIES)
    assert abs(count / len(QUERIES) - share) < 0.03


def test_promised_counts() -> None:
    kinds = Counter(query["kind"] for query in QUERIES)
    assert len(QUERIES) >= 320
    assert kinds["multi"] >= 50
    assert kinds["typo"] >= 30
    assert kinds["indirect"] >= 60
    assert kinds["unanswerable"] >= 66
    assert set(kinds) == {
        "direct",
        "indirect",
        "typo",
        "multi",
        "name",
        "foreign",
        "unanswerable",
    }


def test_name_queries_spell_the_name() -> None:
    for query in QUERIES:
        if query["kind"] == "name":
            (tool_id,) = query["relevant"]
            assert tool_id.split("/")[1] in query["text"], query["id"]


def overlap(left: str, right: str) -> float:
    """Shared words as a share of all words of two texts, 0 to 1."""
    a, b = set(normal(left).split()), set(normal(right).split())
    return len(a & b) / len(a | b)


def test_no_text_comes_close_to_one_of_another_split() -> None:
    close = [
        (left["id"], right["id"])
        for n, left in enumerate(QUERIES)
        for right in QUERIES[:n]
        if left["split"] != right["split"] and overlap(left["text"], right["text"]) >= 0.5
    ]
    assert close == []


def test_examples_give_no_held_out_query_away() -> None:
    held_out = [query for query in QUERIES if query["split"] != "train"]
    fields = ("success_examples", "anti_patterns")
    hints = [text for s in OWN.values() for f in fields for text in s.get(f, [])]
    close = [
        (query["text"], hint)
        for query in held_out
        for hint in hints
        if overlap(query["text"], hint) >= 0.5
    ]
    assert close == []


# --- The small cases ---------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_cases_are_small_and_consistent(case: Path) -> None:
    tools = {f"{t['server']}/{t['name']}": t for t in load(case / "tools.jsonl")}
    queries = load(case / "queries.jsonl")
    assert 6 <= len(tools) <= 12
    assert len(tools) == len(load(case / "tools.jsonl"))
    assert all(query["relevant"].keys() <= tools.keys() for query in queries)
    assert all(query["answerable"] == bool(query["relevant"]) for query in queries)
    hints = {normal(x) for t in tools.values() for x in t.get("success_examples", [])}
    hints |= {normal(x) for t in tools.values() for x in t.get("anti_patterns", [])}
    assert hints.isdisjoint(normal(query["text"]) for query in queries)
