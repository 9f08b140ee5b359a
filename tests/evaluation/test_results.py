"""The JSON contract, name by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import ir_measures
import pytest

from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.results import (
    Comparison,
    Evaluation,
    Interval,
    QueryResult,
    SetResult,
    SystemResult,
    as_json,
    write_runs,
)
from toolcrib.evaluation.runner import evaluate
from toolcrib.evaluation.systems.base import Answer, Ranked
from toolcrib.records import ToolSpec

OUTCOMES = (
    QueryResult(LabelledQuery("q1", "?"), Answer(()), 1, 0, {"ndcg@10": 1 / 3}),
    QueryResult(LabelledQuery("q2", "?", answerable=False), Answer(()), 1, 0),
    QueryResult(LabelledQuery("q3", "?", answerable=False), Answer((), confidence=1 / 3), 1, 0),
)
FIRST = SystemResult(
    name="toolcrib",
    version="toolcrib 1",
    measures={"ndcg@10": Interval(1 / 3, 0.25, 0.5)},
    latency_ms={"p50": 1.23456, "p99": 2.0},
    prompt_tokens=123.456,
    tokens_saved=2 / 3,
    gates={"auroc": 0.9},
    outcomes=OUTCOMES,
)
SECOND = SystemResult(
    name="other",
    version="other 2",
    measures={"ndcg@10": Interval(0.1, 0.0, 0.2)},
    latency_ms={"p50": 1.0, "p99": 2.0},
    prompt_tokens=1,
    tokens_saved=0.5,
    against_first={"ndcg@10": Comparison(-7 / 30, 0.0123456)},
)
EVALUATION = Evaluation(
    sets={
        "office": SetResult(
            "office", "test", 5, 2, 1, {"toolcrib": FIRST, "other": SECOND}, ("note",), ("warn",)
        )
    },
    macro={"toolcrib": {"ndcg@10": 1 / 3}},
    settings={"seed": "0"},
)


def test_every_name_stands_where_the_contract_has_it():
    assert as_json(EVALUATION) == {
        "datasets": {
            "office": {
                "toolcrib": {
                    "ndcg@10": {"mean": 0.33333, "low": 0.25, "high": 0.5},
                    "auroc": 0.9,
                    "latency_ms": {"p50": 1.235, "p99": 2.0},
                    "prompt_tokens": 123.5,
                    "tokens_saved": 0.66667,
                    "version": "toolcrib 1",
                    "against_first": {},
                },
                "other": {
                    "ndcg@10": {"mean": 0.1, "low": 0.0, "high": 0.2},
                    "latency_ms": {"p50": 1.0, "p99": 2.0},
                    "prompt_tokens": 1,
                    "tokens_saved": 0.5,
                    "version": "other 2",
                    "against_first": {
                        "ndcg@10": {"difference": -0.23333, "p": 0.012346, "significant": True}
                    },
                },
            }
        },
        "macro": {"toolcrib": {"ndcg@10": 0.33333}},
        "macro_against_first": {},
        "sets": {
            "office": {
                "split": "test",
                "tools": 5,
                "queries": 2,
                "unanswerable": 1,
                "notes": ["note"],
                "warnings": ["warn"],
            }
        },
        "settings": {"seed": "0"},
    }


def test_a_mean_over_fewer_sets_brings_a_warning():
    shop = SetResult("shop", "test", 5, 2, 1, {"toolcrib": FIRST})
    (warning,) = replace(EVALUATION, sets={**EVALUATION.sets, "shop": shop}).warnings
    assert warning.startswith("other: means over 1 of 2 sets")
    assert EVALUATION.warnings == ()


def test_single_queries_are_there_when_asked_for_and_unanswerable_ones_by_their_confidence():
    shown = {"q1": {"ndcg@10": 0.33333}, "q3": {"confidence": 0.33333}}
    found = as_json(EVALUATION, per_query=True)["per_query"]
    assert found == {"office": {"toolcrib": shown, "other": {}}}


def test_it_survives_being_written_and_read():
    exported = as_json(EVALUATION, per_query=True)
    assert json.loads(json.dumps(exported, allow_nan=False)) == exported


TOOLS = tuple(ToolSpec(name=name) for name in ("a tool", "100%", "böse", "plain/id"))
DATA = DataSet(
    "my set",
    TOOLS,
    (
        LabelledQuery("q 1", "first", relevant={"böse": 2, "100%": 1}),
        LabelledQuery("q2", "second", relevant={"plain/id": 0.5}),
        LabelledQuery("q3", "nothing", answerable=False),
    ),
)


class Ties:
    """All tools with one score, in an order of its own."""

    version = "1"

    def index(self, tools: Sequence[ToolSpec]) -> None:
        self._ids = [tool.id for tool in tools]

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        order = reversed(self._ids) if query == "first" else self._ids
        return Answer(tuple(Ranked(id, 0.5) for id in order)[:k])

    def close(self) -> None:
        pass


@pytest.fixture
def evaluation():
    return evaluate([DATA], {"fusion+rerank": Ties})


def test_files_are_named_after_set_and_system(evaluation, tmp_path: Path):
    written = write_runs(evaluation, tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["my%20set.qrels", "my%20set.fusion+rerank.run"]
    assert all(path.is_file() for path in written)


def test_every_line_has_its_columns_and_ids_come_back(evaluation, tmp_path: Path):
    qrels, run = (path.read_text().splitlines() for path in write_runs(evaluation, tmp_path))
    # Grades are whole numbers, with the proportions that they had.
    assert qrels == ["q%201 0 b%C3%B6se 4", "q%201 0 100%25 2", "q2 0 plain/id 1"]
    assert run[0] == "q%201 Q0 plain/id 1 4 fusion+rerank"
    assert {len(line.split()) for line in run} == {6}
    assert {unquote(line.split()[2]) for line in run} == {tool.id for tool in TOOLS}
    assert {unquote(line.split()[0]) for line in run} == {"q 1", "q2", "q3"}


def test_another_evaluator_finds_our_figures(evaluation, tmp_path: Path):
    qrels, run = map(str, write_runs(evaluation, tmp_path))
    theirs = ir_measures.calc_aggregate(
        [ir_measures.nDCG @ 10, ir_measures.RR, ir_measures.P @ 3],
        list(ir_measures.read_trec_qrels(qrels)),
        list(ir_measures.read_trec_run(run)),
    )
    ours = evaluation.sets["my set"].systems["fusion+rerank"].measures
    assert {str(name): value for name, value in theirs.items()} == pytest.approx(
        {
            "nDCG@10": ours["ndcg@10"].mean,
            "RR": ours["mrr"].mean,
            "P@3": ours["precision@3"].mean,
        }
    )
