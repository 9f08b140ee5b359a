"""Folders in the form of BEIR: corpus, queries and judgements in files of their own."""

from __future__ import annotations

import gzip
import json

import pytest

from toolcrib.errors import SourceError
from toolcrib.evaluation.loaders.beir import beir

HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def made(tmp_path):
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


def test_documents_become_tools_named_by_title_or_id(made):
    data = beir(made)
    assert [(t.id, t.name, t.description) for t in data.tools] == [
        ("d1", "Call", "Ring somebody."),
        ("d2", "d2", "Sing a song."),
    ]


def test_each_file_of_judgements_is_a_split(made):
    data = beir(made)
    assert (data.name, data.kind, data.notes) == (made.name, "tools", ())
    test, train = data.split("test"), data.split("train")
    assert [(query.id, dict(query.relevant)) for query in test] == [
        ("q1", {"d1": 2.0, "d2": 1.0}),
        ("q2", {"d2": 1.0}),
    ]
    assert [query.id for query in train] == ["q3"]


def test_a_query_of_two_splits_stays_in_the_strictest(made):
    (made / "qrels" / "dev.tsv").write_text(f"{HEADER}q1\td1\t1\nq3\td1\t1\n")
    data = beir(made)
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


def test_what_is_judged_by_no_file_is_left_out(made):
    (made / "qrels" / "train.tsv").write_text(f"{HEADER}q3\td1\t0\n")
    data = beir(made)
    assert [query.id for query in data.queries] == ["q1", "q2"]
    assert data.notes == (
        "queries left out: 1 (queries.jsonl: line 3: no judgement in qrels/ is above 0)",
    )


def test_the_first_line_may_hold_a_judgement_already(made):
    (made / "qrels" / "train.tsv").write_text("q3\td1\t1\n")
    assert len(beir(made).queries) == 3


def test_bad_lines_lose_only_themselves(made):
    bad = f"{HEADER}q3\td1\nq9\td1\t1\nq3\td1\t1\nq3\tgone\t1\nq3\td2\tyes\n"
    (made / "qrels" / "train.tsv").write_text(bad)
    data = beir(made)
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


def test_rows_without_text_or_with_a_taken_id_are_refused(made):
    with (made / "queries.jsonl").open("a") as file:
        file.write('{"_id": "q1", "text": "again"}\n{"_id": "q5"}\n')
    assert beir(made).notes == (
        (
            "queries left out: 2 (queries.jsonl: line 4: _id: 'q1' is taken; "
            "queries.jsonl: line 5: text: Field required)"
        ),
    )


def test_a_document_without_an_id_is_left_out(made):
    with (made / "corpus.jsonl").open("a") as file:
        file.write('{"title": "Whistle"}\n')
    data = beir(made)
    assert len(data.tools) == 2
    assert data.notes == ("tools left out: 1 (corpus.jsonl: line 3: _id: Field required)",)


def test_compressed_files_are_read(made):
    for path in (made / "corpus.jsonl", made / "qrels" / "test.tsv"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert len(beir(made).split("test")) == 2


def test_a_missing_corpus_is_an_error(made):
    (made / "corpus.jsonl").unlink()
    with pytest.raises(SourceError, match=r"corpus\.jsonl: no such file"):
        beir(made)


def test_without_judgements_there_is_nothing_to_measure(made):
    for path in (made / "qrels").iterdir():
        path.unlink()
    with pytest.raises(SourceError, match="holds no queries to use; no judgement in qrels/"):
        beir(made)
