"""rank-bm25 and bm25s are driven as they are documented, and their scores are theirs."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.evaluation.systems.conformance import BaselineContract
from tests.evaluation.systems.samples import OBVIOUS, TOOLS
from toolcrib.evaluation.systems.baseline import documents
from toolcrib.evaluation.systems.bm25 import Bm25s, RankBm25, words
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

    name = "rank-bm25"
    module = "rank_bm25"

    @pytest.mark.parametrize("query", OBVIOUS)
    def test_scores_are_those_of_a_direct_call(self, query: str) -> None:
        library = pytest.importorskip("rank_bm25")
        direct = library.BM25Okapi([words(text) for text in documents(TOOLS)])
        scores = direct.get_scores(words(query))
        with closing(RankBm25()) as system:
            system.index(TOOLS)
            found = {tool.id: tool.score for tool in system.search(query, len(TOOLS)).ranked}
        assert found == {
            spec.id: pytest.approx(score) for spec, score in zip(TOOLS, scores, strict=True)
        }

    def test_equal_scores_keep_the_order_of_the_tools(self) -> None:
        pytest.importorskip("rank_bm25")
        with closing(RankBm25()) as system:
            system.index([ToolSpec(name=name) for name in ("tide", "moon", "star", "wave")])
            found = system.search("nothing of this", 3).ranked
        assert [(tool.id, tool.score) for tool in found] == [("tide", 0), ("moon", 0), ("star", 0)]


class TestBm25s(BaselineContract):
    """`bm25s` keeps the contract."""

    name = "bm25s"
    module = "bm25s"

    def test_scores_are_those_of_a_direct_call(self) -> None:
        library = pytest.importorskip("bm25s")
        stemmer = pytest.importorskip("Stemmer").Stemmer("english")
        tools = [
            ToolSpec(name="tides", description="When the sea rises"),
            ToolSpec(name="moons", description="Which moon rises, and when the next one rises"),
            ToolSpec(name="stars", description="Names of stars"),
        ]
        direct = library.BM25()
        texts = [
            "tides When the sea rises",
            f"moons {tools[1].description}",
            "stars Names of stars",
        ]
        tokens = library.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
        direct.index(tokens, show_progress=False)
        asked = library.tokenize("rising sea", stemmer=stemmer, show_progress=False)
        expected = direct.retrieve(asked, k=3, show_progress=False)
        with closing(Bm25s()) as system:
            system.index(tools)
            found = system.search("rising sea", 3).ranked
        assert [tool.id for tool in found][:2] == ["tides", "moons"]
        assert [tool.score for tool in found] == pytest.approx(expected.scores[0].tolist())

    def test_identifiers_are_found_by_their_words(self) -> None:
        pytest.importorskip("bm25s")
        with closing(Bm25s()) as system:
            system.index([ToolSpec(name="get_moon_phase"), ToolSpec(name="getTideTable")])
            assert system.search("table of tides", 2).ranked[0].id == "getTideTable"
            assert system.search("phases of the moon", 2).ranked[0].id == "get_moon_phase"
