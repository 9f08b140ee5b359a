"""Rows of queries and intents: what is accepted, and what is said about the rest."""

from __future__ import annotations

import gzip
import json

import pytest

from toolcrib.errors import SourceError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.loaders.rows import (
    Located,
    QueryRow,
    read_intents,
    read_queries,
    validated,
)
from toolcrib.records import Refusal

GOOD = {"id": "q1", "text": "ring Ada", "relevant": {"call": 1}}


def write(path, *rows):
    path.write_text("".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in rows))
    return path


def one(tmp_path, **fields):
    (item,) = read_queries(write(tmp_path / "queries.jsonl", {**GOOD, **fields}))
    return item


def test_a_row_becomes_a_query_with_its_place(tmp_path):
    expected = LabelledQuery("q1", "ring Ada", "test", {"call": 1.0}, answerable=True)
    assert one(tmp_path) == Located("queries.jsonl: line 1", expected)


def test_every_field_is_read(tmp_path):
    full = {
        "split": "dev",
        "relevant": {"call": 2, "dial": 0.5},
        "answerable": True,
        "forbidden": ["hang_up"],
        "candidates": ["call", "dial", "hang_up"],
        "kind": "direct",
        "meta": {"unknown": "keys are ignored"},
    }
    assert one(tmp_path, **full).query == LabelledQuery(
        "q1",
        "ring Ada",
        "dev",
        {"call": 2.0, "dial": 0.5},
        forbidden=frozenset({"hang_up"}),
        candidates=("call", "dial", "hang_up"),
    )


def test_null_stands_for_not_given(tmp_path):
    nulls = dict.fromkeys(
        ("split", "answerable", "forbidden", "candidates", "unanswerable_scope", "meta")
    )
    assert one(tmp_path, **nulls) == one(tmp_path)


def test_a_query_without_relevant_tools_is_unanswerable(tmp_path):
    query = one(tmp_path, relevant={}, unanswerable_scope="no_tool_needed").query
    assert (query.answerable, query.unanswerable_scope) == (False, "no_tool_needed")


def test_a_number_may_be_an_id(tmp_path):
    assert one(tmp_path, id=17).query.id == "17"


@pytest.mark.parametrize("name", ["validation", "valid", "val", "dev"])
def test_the_development_split_has_several_names(tmp_path, name):
    assert one(tmp_path, split=name).query.split == "dev"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": None}, "text: Field required"),
        ({"text": " \n"}, "text: empty"),
        ({"text": 7.5, "id": ""}, "id: String should have at least 1 character"),
        ({"relevant": {"call": 0}}, "relevant: call: Input should be greater than 0"),
        ({"relevant": {"call": -1}}, "relevant: call: Input should be greater than 0"),
        ({"relevant": ["call"]}, "relevant: Input should be a valid dictionary"),
        ({"answerable": False}, "answerable: false, although relevant names tools"),
        ({"answerable": True, "relevant": {}}, "answerable: true, although relevant names no tool"),
        ({"forbidden": ["call"]}, "forbidden: 'call' is relevant as well"),
        (
            {"unanswerable_scope": "world"},
            "unanswerable_scope: Input should be '', 'corpus', 'candidates' or 'no_tool_needed'",
        ),
        ({"text": None, "id": None}, "id: Field required (and 1 more)"),
    ],
)
def test_a_bad_row_is_refused_with_line_field_and_reason(tmp_path, fields, reason):
    path = write(tmp_path / "queries.jsonl", GOOD, {**GOOD, **fields})
    good, bad = read_queries(path)
    assert isinstance(good, Located)
    assert bad == Refusal(str(path), "line 2", reason)


def test_a_line_that_is_no_json_object_loses_only_itself(tmp_path):
    path = write(tmp_path / "queries.jsonl", "{oops", GOOD, "[1]", {**GOOD, "id": "q2"})
    items = list(read_queries(path))
    assert [item.query.id for item in items if isinstance(item, Located)] == ["q1", "q2"]
    assert [item.place for item in items if isinstance(item, Refusal)] == ["line 1", "line 3"]


def test_infinite_grades_are_refused():
    bad = validated("f", "line 1", {**GOOD, "relevant": {"call": float("inf")}}, QueryRow)
    assert bad == Refusal("f", "line 1", "relevant: call: Input should be a finite number")


def test_compressed_rows_are_read(tmp_path):
    path = tmp_path / "queries.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode() + b"\n"))
    (item,) = read_queries(path)
    assert item.place == "queries.jsonl.gz: line 1"


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        list(read_queries(tmp_path / "queries.jsonl"))


def test_a_damaged_compressed_file_is_an_error(tmp_path):
    path = tmp_path / "queries.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode() * 1000)[:-9])
    with pytest.raises(SourceError, match="damaged gzip"):
        list(read_queries(path))


def test_an_intent_becomes_a_tool_described_by_its_name(tmp_path):
    path = write(
        tmp_path / "intents.jsonl",
        {"name": "cardArrival_late", "domain": "banking"},
        {"id": "x", "name": "bye", "description": "ends the talk", "domain": None},
        {"id": "y", "domain": "banking"},
    )
    late, bye, bad = read_intents(path)
    assert (late.id, late.description, late.category) == (
        "cardArrival_late",
        "card arrival late",
        "banking",
    )
    assert (bye.id, bye.name, bye.description) == ("x", "bye", "ends the talk")
    assert bad == Refusal(str(path), "line 3", "name: Field required")
