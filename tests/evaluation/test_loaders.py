"""The one entry: whatever names a data set is recognised, or it is said what would be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from toolcrib.errors import SourceError, UnknownFormatError
from toolcrib.evaluation.loaders import FOLDER_FORMS, HUB_SETS, load

DATA = Path(__file__).parents[2] / "data"
CASE = DATA / "cases" / "twins_without_a_difference"
TOOL = {"id": "call", "name": "call", "tags": ["phone"]}
QUERY = {"id": "1", "text": "phone Ada", "relevant": {"call": 1}}
FILES = {
    "tools.jsonl": json.dumps(TOOL),
    "intents.jsonl": json.dumps({"name": "call"}),
    "registry/p.tools.jsonl": json.dumps(TOOL),
    "queries.jsonl": json.dumps(QUERY),
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


def test_tools_of_several_sources_go_with_queries(tmp_path):
    queries = tmp_path / "queries.jsonl"
    relevant = {"home_tools/lock_door": 1, "shop/cancelOrder": 1}
    queries.write_text(json.dumps({**QUERY, "relevant": relevant}))
    home, shop = f"{DATA / 'registry' / 'home_tools.py'}:TOOLS", str(DATA / "registry/shop.json")
    data = load(tools=[home, shop, home], queries=queries)
    assert {tool.server for tool in data.tools} == {"home_tools", "shop"}


@pytest.mark.parametrize(("given", "missing"), [("tools", "queries"), ("queries", "tools")])
def test_half_a_pair_is_an_error(given, missing):
    with pytest.raises(SourceError, match=f"needs {missing} beside it"):
        load(**{given: CASE / f"{given}.jsonl"})


@pytest.mark.parametrize("source", ["nowhere", "", "a\0b", "/no/such/folder"])
def test_what_is_unknown_is_told_what_is_known(source):
    with pytest.raises(UnknownFormatError) as caught:
        load(source)
    for known in (*HUB_SETS, *(part for parts in FOLDER_FORMS for part in parts)):
        assert known in str(caught.value)


def test_a_misspelt_name_is_recognised():
    with pytest.raises(UnknownFormatError, match=r"did you mean 'toolret'\?"):
        load("tolret")


def test_a_folder_of_data_sets_is_told_so(tmp_path):
    fill(tmp_path / "mine", "tools.jsonl", "queries.jsonl")
    with pytest.raises(UnknownFormatError, match="'mine'"):
        load(str(tmp_path))


def test_an_empty_folder_is_no_data_set(tmp_path):
    with pytest.raises(UnknownFormatError, match="data set"):
        load(str(tmp_path))


def test_a_folder_goes_before_a_public_name(tmp_path, monkeypatch):
    fill(tmp_path / "toolret", "tools.jsonl", "queries.jsonl")
    monkeypatch.chdir(tmp_path)
    assert len(load("toolret").tools) == 1


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
    data = load(str(made))
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
    data = load(str(made))
    assert data.tools[0].success_examples == ("phone Bob",)
    assert data.notes == ()


def test_compressed_files_are_read(made):
    for name in ("tools.jsonl", "queries.jsonl"):
        (made / f"{name}.gz").write_bytes(gzip.compress((made / name).read_bytes()))
        (made / name).unlink()
    assert len(load(str(made)).queries) == 3


def test_a_bad_tool_loses_only_itself(made):
    (made / "tools.jsonl").write_bytes(
        lines([*TOOLS, {"id": "x", "description": "?"}, {"name": "…"}])
    )
    data = load(str(made))
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
        load(str(made))


def test_a_file_of_something_else_is_an_error(made):
    (made / "tools.jsonl").write_text("no json\n")
    with pytest.raises(SourceError, match=r"tools\.jsonl"):
        load(str(made))


def test_queries_that_are_all_bad_are_an_error_with_file_and_line(made):
    (made / "queries.jsonl").write_text('{"id": "1"}\n')
    with pytest.raises(SourceError, match=r"queries\.jsonl: line 1: .*text: "):
        load(str(made))


def test_a_folder_of_intents(tmp_path):
    (tmp_path / "intents.jsonl").write_bytes(
        lines([{"id": "card_arrival", "name": "card_arrival", "domain": "banking"}])
    )
    queries = [
        {"id": "1", "text": "where is it", "split": "train", "relevant": {"card_arrival": 1}},
        {"id": "2", "text": "sing", "answerable": False, "unanswerable_scope": "corpus"},
    ]
    (tmp_path / "queries.jsonl").write_bytes(lines(queries))
    data = load(str(tmp_path))
    assert data.kind == "intents"
    (tool,) = data.tools
    assert (tool.id, tool.description, tool.category) == (
        "card_arrival",
        "card arrival",
        "banking",
    )
    assert data.queries[1].unanswerable_scope == "corpus"


def test_the_sample_data_is_read_from_every_format():
    data = load(str(DATA))
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
    data = load(str(case))
    for name, read in (("tools.jsonl", data.tools), ("queries.jsonl", data.queries)):
        assert len(read) == len((case / name).read_text().splitlines())
    assert any(tool.success_examples or tool.anti_patterns for tool in data.tools)


def test_a_file_in_a_registry_that_nobody_can_read_is_noted(made):
    (made / "registry").mkdir()
    (made / "tools.jsonl").rename(made / "registry" / "p.tools.jsonl")
    (made / "registry" / "kept.json").write_text('{"private": true}')
    data = load(str(made))
    assert len(data.tools) == 2
    (note,) = data.notes
    assert note.startswith("tools left out: 1 (kept.json: ")


@pytest.mark.parametrize(
    "tools",
    ["codehost.json", "cloud.json", "files.json", "shop.json"],
)
def test_tools_of_any_form_go_with_queries(tmp_path, tools):
    source = DATA / "registry" / tools
    server = tools.split(".")[0]
    labelled = [json.loads(line) for line in (DATA / "queries.jsonl").read_text().splitlines()]
    about = [q for q in labelled if any(i.startswith(f"{server}/") for i in q["relevant"])]
    queries = tmp_path / "queries.jsonl"
    queries.write_bytes(lines(about))
    data = load("mine", tools=source, queries=queries)
    assert data.name == "mine"
    assert len(data.queries) == len(about) > 0
    assert {tool.server for tool in data.tools} == {server}


HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def made_beir(tmp_path):
    corpus = [
        {"_id": "d1", "title": "Call", "text": "Ring somebody.", "metadata": {}},
        {"_id": "d2", "title": "", "text": "Sing a song."},
    ]
    queries = [{"_id": f"q{n}", "text": f"request number {n}"} for n in (1, 2, 3)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(
        f"{HEADER}q1\td1\t2\nq1\td2\t1\nq2\td1\t0\nq2\td2\t1\n"
    )
    (tmp_path / "qrels" / "train.tsv").write_text(f"{HEADER}q3\td1\t1\n")
    return tmp_path


def test_documents_become_tools_named_by_title_or_id(made_beir):
    data = load(str(made_beir))
    assert [(t.id, t.name, t.description) for t in data.tools] == [
        ("d1", "Call", "Ring somebody."),
        ("d2", "d2", "Sing a song."),
    ]


def test_each_file_of_judgements_is_a_split(made_beir):
    data = load(str(made_beir))
    assert (data.name, data.kind, data.notes) == (made_beir.name, "tools", ())
    test, train = data.split("test"), data.split("train")
    assert [(query.id, dict(query.relevant)) for query in test] == [
        ("q1", {"d1": 2.0, "d2": 1.0}),
        ("q2", {"d2": 1.0}),
    ]
    assert [query.id for query in train] == ["q3"]


def test_a_query_of_two_splits_stays_in_the_strictest(made_beir):
    (made_beir / "qrels" / "dev.tsv").write_text(f"{HEADER}q1\td1\t1\nq3\td1\t1\n")
    data = load(str(made_beir))
    assert {query.id: query.split for query in data.queries} == {
        "q1": "test",
        "q2": "test",
        "q3": "dev",
    }
    assert data.notes == (
        (
            "queries left out, their id is taken: 2 "
            "(queries.jsonl: line 1: id: 'q1'; queries.jsonl: line 3: id: 'q3')"
        ),
    )


def test_what_is_judged_by_no_file_is_left_out(made_beir):
    (made_beir / "qrels" / "train.tsv").write_text(f"{HEADER}q3\td1\t0\n")
    data = load(str(made_beir))
    assert [query.id for query in data.queries] == ["q1", "q2"]
    assert data.notes == (
        "queries left out: 1 (queries.jsonl: line 3: no judgement in qrels/ is above 0)",
    )


def test_the_first_line_may_hold_a_judgement_already(made_beir):
    (made_beir / "qrels" / "train.tsv").write_text("q3\td1\t1\n")
    assert len(load(str(made_beir)).queries) == 3


def test_bad_lines_lose_only_themselves(made_beir):
    bad = f"{HEADER}q3\td1\nq9\td1\t1\nq3\td1\t1\nq3\tgone\t1\nq3\td2\tyes\n"
    (made_beir / "qrels" / "train.tsv").write_text(bad)
    data = load(str(made_beir))
    assert data.split("train")[0].relevant == {"d1": 1.0}
    assert data.notes == (
        (
            "queries left out: 3 "
            "(train.tsv: line 2: must be query-id, corpus-id, score, separated by tabs; "
            "train.tsv: line 3: query-id: 'q9' is not in queries.jsonl; "
            "train.tsv: line 6: must be query-id, corpus-id, score, separated by tabs)"
        ),
        "labels left out, no tool has such an id: 1 (queries.jsonl: line 3: relevant: 'gone')",
    )


def test_rows_without_text_or_with_a_taken_id_are_refused(made_beir):
    with (made_beir / "queries.jsonl").open("a") as file:
        file.write('{"_id": "q1", "text": "again"}\n{"_id": "q5"}\n')
    assert load(str(made_beir)).notes == (
        (
            "queries left out: 2 (queries.jsonl: line 4: _id: 'q1' is taken; "
            "queries.jsonl: line 5: text: Field required)"
        ),
    )


def test_a_document_without_an_id_is_left_out(made_beir):
    with (made_beir / "corpus.jsonl").open("a") as file:
        file.write('{"title": "Whistle"}\n')
    data = load(str(made_beir))
    assert len(data.tools) == 2
    assert data.notes == ("tools left out: 1 (corpus.jsonl: line 3: _id: Field required)",)


def test_beir_compressed_files_are_read(made_beir):
    for path in (made_beir / "corpus.jsonl", made_beir / "qrels" / "test.tsv"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert len(load(str(made_beir)).split("test")) == 2


def test_without_judgements_there_is_nothing_to_measure(made_beir):
    for path in (made_beir / "qrels").iterdir():
        path.unlink()
    with pytest.raises(SourceError, match="no judgement in qrels/"):
        load(str(made_beir))
