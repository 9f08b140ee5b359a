"""Peers keep the contract of all systems, are driven as documented, and their scores are theirs."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers.bigtool import NAMESPACE, LangGraphBigtool
from benchmarks.peers.bm25s_index import Bm25s
from benchmarks.peers.fastmcp_search import FastMcpBm25
from benchmarks.peers.llama_index_objects import LlamaIndexObjects
from benchmarks.peers.names import spaced, unique_names
from benchmarks.peers.semantic_routes import HybridRouter, SemanticRouter
from tests.evaluation.systems.conformance import BaselineContract, ids
from tests.evaluation.systems.samples import OBVIOUS, TOOLS
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.records import ToolSpec


class TestBm25s(BaselineContract):
    """`bm25s` keeps the contract."""

    path = "benchmarks.peers.bm25s_index:Bm25s"
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
        with closing(Bm25s(DeterministicEncoder())) as system:
            system.index(tools)
            found = system.search("rising sea", 3).ranked
        assert [tool.id for tool in found][:2] == ["tides", "moons"]
        assert [tool.score for tool in found] == pytest.approx(expected.scores[0].tolist())

    def test_identifiers_are_found_by_their_words(self) -> None:
        with closing(Bm25s(DeterministicEncoder())) as system:
            system.index([ToolSpec(name="get_moon_phase"), ToolSpec(name="getTideTable")])
            assert system.search("table of tides", 2).ranked[0].id == "getTideTable"
            assert system.search("phases of the moon", 2).ranked[0].id == "get_moon_phase"


class TestFastMcpBm25(BaselineContract):
    """`fastmcp-bm25` keeps the contract."""

    path = "benchmarks.peers.fastmcp_search:FastMcpBm25"
    module = "fastmcp"

    def test_the_score_is_one_over_the_place(self) -> None:
        with closing(FastMcpBm25(DeterministicEncoder())) as system:
            system.index(TOOLS)
            found = system.search("find emails or recipes by name", 4).ranked
        assert [tool.score for tool in found] == [1 / place for place in range(1, len(found) + 1)]
        assert len(found) > 1

    def test_tools_that_share_no_word_with_the_query_are_left_out(self) -> None:
        with closing(FastMcpBm25(DeterministicEncoder())) as system:
            system.index(TOOLS)
            assert ids(system.search("kubernetes", 10)) == ["cluster/restart_kubernetes_pod"]
            assert ids(system.search("qwxyzzy", 10)) == []

    def test_parameters_and_what_is_said_of_them_are_searched(self) -> None:
        with closing(FastMcpBm25(DeterministicEncoder())) as system:
            system.index(TOOLS)
            assert ids(system.search("currency", 1)) == ["billing/send_invoice"]
            assert ids(system.search("ticker", 1)) == ["finance/stock_quote"]


class TestLangGraphBigtool(BaselineContract):
    """`langgraph-bigtool` keeps the contract."""

    path = "benchmarks.peers.bigtool:LangGraphBigtool"
    module = "langgraph_bigtool"

    def test_its_own_retrieve_tools_returns_the_same(self, encoder: DeterministicEncoder) -> None:
        library = pytest.importorskip("langgraph_bigtool.tools")
        retrieve_tools, _ = library.get_default_retrieval_tool(NAMESPACE, limit=5)
        with closing(LangGraphBigtool(encoder)) as system:
            system.index(TOOLS)
            for query in OBVIOUS:
                assert ids(system.search(query, 5)) == retrieve_tools(query, store=system.store)

    def test_the_score_is_the_cosine_of_name_and_description(
        self,
        encoder: DeterministicEncoder,
    ) -> None:
        with closing(LangGraphBigtool(encoder)) as system:
            system.index(TOOLS)
            best = system.search("send an invoice", 1).ranked[0]
        text = "send_invoice: Send an invoice to a customer."
        cosine = encoder.encode_documents([text])[0] @ encoder.encode_query("send an invoice")
        assert best.score == pytest.approx(float(cosine), rel=1e-5)


class TestLlamaIndexObjects(BaselineContract):
    """`llama-index` keeps the contract."""

    path = "benchmarks.peers.llama_index_objects:LlamaIndexObjects"
    module = "llama_index.core"

    @pytest.mark.parametrize(
        ("schema", "line"),
        [
            ({}, ""),
            ({"properties": {"port": {}}}, "Tool schema: {'properties': {'port': {}}}\n"),
        ],
    )
    def test_the_score_is_the_cosine_of_its_own_text_of_a_tool(
        self,
        encoder: DeterministicEncoder,
        schema: dict[str, object],
        line: str,
    ) -> None:
        tide = ToolSpec(name="tide", description="When the sea rises.", input_schema=schema)
        with closing(LlamaIndexObjects(encoder)) as system:
            system.index([tide, ToolSpec(name="moon")])
            best = system.search("sea rises", 1).ranked[0]
        text = f"Tool name: tide\nTool description: When the sea rises.\n{line}"
        cosine = encoder.encode_documents([text])[0] @ encoder.encode_query("sea rises")
        assert best.id == "tide"
        assert best.score == pytest.approx(float(cosine), rel=1e-5)


SEA = ToolSpec(name="tide_table", description="When the sea rises.")
SKY = ToolSpec(name="moonPhase", success_examples=("is the moon full", "how old is the moon"))
ASKED = "when does the sea rise"


def cosines(encoder: DeterministicEncoder, *texts: str) -> list[float]:
    return (encoder.encode_documents(texts) @ encoder.encode_query(ASKED)).tolist()


class TestSemanticRouter(BaselineContract):
    """`semantic-router` keeps the contract."""

    path = "benchmarks.peers.semantic_routes:SemanticRouter"
    module = "semantic_router"

    def test_the_score_is_the_mean_cosine_of_the_utterances(
        self,
        encoder: DeterministicEncoder,
    ) -> None:
        with closing(SemanticRouter(encoder)) as system:
            system.index([SEA, SKY])
            found = {tool.id: tool.score for tool in system.search(ASKED, 2).ranked}
        sky = cosines(encoder, *SKY.success_examples, "moon Phase")
        assert found == {
            "tide_table": pytest.approx(*cosines(encoder, "tide table: When the sea rises.")),
            "moonPhase": pytest.approx(sum(sky) / 3),
        }

    def test_enough_utterances_are_looked_at_to_rank_k_tools(
        self,
        encoder: DeterministicEncoder,
    ) -> None:
        crowd = [
            ToolSpec(name=f"sea_{n}", success_examples=tuple(f"{ASKED} {n}{m}" for m in range(9)))
            for n in range(3)
        ]
        with closing(SemanticRouter(encoder)) as system:
            system.index([*crowd, SEA])
            found = system.search(ASKED, 4).ranked
        assert len(found) == 4
        assert found[-1].id == "tide_table"
        assert found[-1].score == pytest.approx(
            *cosines(encoder, "tide table: When the sea rises."),
        )


class TestHybridRouter(BaselineContract):
    """`semantic-router-hybrid` keeps the contract."""

    path = "benchmarks.peers.semantic_routes:HybridRouter"
    module = "semantic_router"

    def test_the_score_is_seven_parts_cosine_and_three_parts_tf_idf(
        self,
        encoder: DeterministicEncoder,
    ) -> None:
        texts = ["tide table: When the sea rises.", "moon phase: Age of the moon."]
        with closing(HybridRouter(encoder)) as system:
            system.index([SEA, ToolSpec(name="moon_phase", description="Age of the moon.")])
            found = {tool.id: tool.score for tool in system.search("the sea", 2).ranked}
        dense = encoder.encode_documents(texts) @ encoder.encode_query("the sea")
        # Idf: `the` is in both documents, ln(3/3) + 1 = 1; all else in one, 1 + ln(3/2) = w.
        # One document has `the` and five such words, the other `the`, three of them and `moon`
        # twice; the query is `the` and one such word.
        w = 1.4054651081
        query, sea, moon = (1 + w * w) ** 0.5, (1 + 5 * w * w) ** 0.5, (1 + 7 * w * w) ** 0.5
        assert found == {
            "tide_table": pytest.approx(0.7 * dense[0] + 0.3 * (1 + w * w) / (query * sea)),
            "moon_phase": pytest.approx(0.7 * dense[1] + 0.3 * 1 / (query * moon)),
        }


def test_it_learns_the_aggregation_that_is_right_most_often() -> None:
    pytest.importorskip("semantic_router")
    ring = ToolSpec(
        name="ring",
        success_examples=(
            "ring the bell",
            *("water the plants", "feed the cat", "paint a wall", "sweep floors", "bake bread"),
        ),
    )
    bell = ToolSpec(name="bell", success_examples=("ring a large bell",))
    query = LabelledQuery("q", "ring the bell", relevant={"ring": 1})
    with closing(SemanticRouter(DeterministicEncoder())) as system:
        system.index([ring, bell])
        # The mean over its other examples holds the right route back.
        assert system.search(query.text, 1).ranked[0].id == "bell"
        system.learn([query])
        assert system.search(query.text, 1).ranked[0].id == "ring"


@pytest.mark.parametrize(
    ("identifier", "said"),
    [
        ("getUser_by-id", "get User by id"),
        ("parseHTTPResponse", "parse HTTP Response"),
        ("acr.registry/list", "acr registry list"),
        ("__init__", "init"),
        ("plain words", "plain words"),
    ],
)
def test_an_identifier_is_spoken_as_words(identifier: str, said: str) -> None:
    assert spaced(identifier) == said


def test_a_name_that_two_servers_have_is_prefixed_with_its_server() -> None:
    tools = [
        ToolSpec(name="search", server="mail"),
        ToolSpec(name="search", server="files"),
        ToolSpec(name="send", server="mail"),
    ]
    assert unique_names(tools) == ["mail_search", "files_search", "send"]


def test_a_prefixed_name_that_is_taken_gives_way_to_the_id() -> None:
    tools = [
        ToolSpec(name="search", server="mail"),
        ToolSpec(name="search", id="plain"),
        ToolSpec(name="mail_search"),
    ]
    assert unique_names(tools) == ["mail/search", "plain", "mail_search"]


_word = st.sampled_from(["a", "b", "a_b", "a/b", "a/b_2", "b_a"])


@given(st.lists(st.builds(ToolSpec, name=_word, server=st.sampled_from(["", "a", "b"]), id=_word)))
def test_no_two_tools_ever_share_a_name(tools: list[ToolSpec]) -> None:
    names = unique_names(tools)
    assert len(names) == len(set(names)) == len(tools)
