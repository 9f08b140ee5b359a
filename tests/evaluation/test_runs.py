"""TREC files: read by another tool they give our own figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import ir_measures
import pytest

from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.runner import evaluate
from toolcrib.evaluation.runs import write_runs
from toolcrib.evaluation.systems.protocol import Answer, Ranked
from toolcrib.records import ToolSpec

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

    name = "ties"
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
