"""rank-bm25 is driven as it is documented, and its scores are its own."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.evaluation.systems.conformance import BaselineContract
from tests.evaluation.systems.samples import OBVIOUS, TOOLS
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.evaluation.systems.base import System
from toolcrib.evaluation.systems.bm25 import RankBm25, documents, parameters, words
from toolcrib.records import ToolSpec


def test_words_are_lower_case_and_identifiers_fall_apart_at_underscores() -> None:
    assert words("Send_Invoice to a ＣＵＳＴＯＭＥＲ, getUser") == [
        "send",
        "invoice",
        "to",
        "customer",
        "getuser",
    ]


class TestRankBm25(BaselineContract):
    """`rank-bm25` keeps the contract."""

    path = "rank-bm25"
    module = "rank_bm25"
    extra = "eval"

    def test_scores_are_those_of_a_direct_call(self, system: System) -> None:
        library = pytest.importorskip("rank_bm25")
        direct = library.BM25Okapi([words(text) for text in documents(TOOLS)])
        for query in OBVIOUS:
            found = {tool.id: tool.score for tool in system.search(query, len(TOOLS)).ranked}
            assert [found[spec.id] for spec in TOOLS] == pytest.approx(
                direct.get_scores(words(query)).tolist()
            )

    def test_equal_scores_keep_the_order_of_the_tools(self) -> None:
        pytest.importorskip("rank_bm25")
        with closing(RankBm25(DeterministicEncoder())) as system:
            system.index([ToolSpec(name=name) for name in ("tide", "moon", "star", "wave")])
            found = system.search("nothing of this", 3).ranked
        assert [(tool.id, tool.score) for tool in found] == [("tide", 0), ("moon", 0), ("star", 0)]


def test_a_document_holds_name_description_parameters_and_examples() -> None:
    spec = ToolSpec(
        name="tide_table",
        description="When the sea rises.",
        input_schema={"properties": {"port": {"description": "Where"}, "day": {"type": "string"}}},
        success_examples=("high water today",),
    )
    assert documents([spec]) == ["tide_table When the sea rises. port Where day high water today"]


@pytest.mark.parametrize("schema", [{}, {"properties": None}, {"properties": ["port"]}])
def test_a_schema_without_parameters_has_none(schema: dict[str, object]) -> None:
    assert list(parameters(ToolSpec(name="tide", input_schema=schema))) == []


def test_a_parameter_without_a_readable_description_keeps_its_name() -> None:
    schema = {"properties": {"port": True, "day": {"description": 7}, "unit": {}}}
    spec = ToolSpec(name="tide", input_schema=schema)
    assert list(parameters(spec)) == [("port", ""), ("day", ""), ("unit", "")]
