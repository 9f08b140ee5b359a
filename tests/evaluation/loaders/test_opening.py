"""The one entry: whatever names a data set is recognised, or it is said what would be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolcrib.errors import SourceError, UnknownFormatError
from toolcrib.evaluation.loaders.hub import HUB_SETS
from toolcrib.evaluation.loaders.opening import SHAPES, load

DATA = Path(__file__).parents[3] / "data"
CASE = DATA / "cases" / "twins_without_a_difference"
TOOL = {"id": "call", "name": "call", "description": "Ring somebody."}
QUERY = {"id": "1", "text": "phone Ada", "relevant": {"call": 1}}
FILES = {
    "tools.jsonl": json.dumps(TOOL),
    "intents.jsonl": json.dumps({"name": "call"}),
    "registry/p.tools.jsonl": json.dumps(TOOL),
    "queries.jsonl": json.dumps(QUERY),
    "corpus.jsonl": json.dumps({"_id": "call", "title": "call", "text": "Ring somebody."}),
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\tcall\t1",
}


def fill(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILES[name] + "\n")
    return str(folder)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("tools.jsonl", "queries.jsonl"), "tools"),
        (("intents.jsonl", "queries.jsonl"), "intents"),
        (("registry/p.tools.jsonl", "queries.jsonl"), "tools"),
    ],
)
def test_a_folder_is_known_by_its_files(tmp_path, names, kind):
    data = load(fill(tmp_path / "mine", *names))
    assert (data.name, data.kind) == ("mine", kind)
    assert [tool.id for tool in data.tools] == ["call"]
    assert [dict(query.relevant) for query in data.queries] == [{"call": 1.0}]


def test_a_beir_folder_is_known_by_its_files(tmp_path):
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "phone Ada"}\n')
    data = load(fill(tmp_path, "corpus.jsonl", "qrels/test.tsv"))
    assert [dict(query.relevant) for query in data.queries] == [{"call": 1.0}]


def test_the_sample_data_is_known():
    assert len(load(str(DATA)).queries) == 358
    assert len(load(str(CASE)).tools) == 6


def test_a_folder_is_called_what_it_is_called_from_within(tmp_path, monkeypatch):
    fill(tmp_path / "mine", "tools.jsonl", "queries.jsonl")
    monkeypatch.chdir(tmp_path / "mine")
    assert load(".").name == "mine"


def test_a_pair_of_files_is_called_by_name_or_by_its_queries():
    files = {"tools": CASE / "tools.jsonl", "queries": CASE / "queries.jsonl"}
    assert load(**files).name == "queries"
    assert load("twins", **files).name == "twins"


def test_python_tools_go_with_queries(tmp_path):
    queries = tmp_path / "house.jsonl"
    queries.write_text(json.dumps({**QUERY, "relevant": {"home_tools/lock_door": 1}}))
    source = f"{DATA / 'registry' / 'home_tools.py'}:TOOLS"
    data = load(tools=source, queries=queries)
    assert (data.name, len(data.tools), len(data.queries)) == ("house", 13, 1)


@pytest.mark.parametrize(("given", "missing"), [("tools", "queries"), ("queries", "tools")])
def test_half_a_pair_is_an_error(given, missing):
    with pytest.raises(SourceError, match=f"needs {missing} beside it"):
        load(**{given: CASE / f"{given}.jsonl"})


@pytest.mark.parametrize("source", ["nowhere", "", "a\0b", "/no/such/folder"])
def test_what_is_unknown_is_told_what_is_known(source):
    with pytest.raises(UnknownFormatError) as caught:
        load(source)
    for known in (*HUB_SETS, *(part for shape in SHAPES for part in shape.parts)):
        assert known in str(caught.value)


def test_a_misspelt_name_is_recognised():
    with pytest.raises(UnknownFormatError, match=r"did you mean 'toolret'\?"):
        load("tolret")


def test_a_folder_of_data_sets_is_told_so(tmp_path):
    fill(tmp_path / "mine", "tools.jsonl", "queries.jsonl")
    with pytest.raises(UnknownFormatError, match="name the data sets in it, such as 'mine'"):
        load(str(tmp_path))


def test_an_empty_folder_is_no_data_set(tmp_path):
    with pytest.raises(UnknownFormatError, match="the folder is no data set; a data set is"):
        load(str(tmp_path))


def test_a_folder_goes_before_a_public_name(tmp_path, monkeypatch):
    fill(tmp_path / "toolret", "tools.jsonl", "queries.jsonl")
    monkeypatch.chdir(tmp_path)
    assert len(load("toolret").tools) == 1
