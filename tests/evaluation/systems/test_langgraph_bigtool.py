"""langgraph-bigtool is asked as its own `retrieve_tools` asks."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.evaluation.systems.conformance import BaselineContract, ids
from tests.evaluation.systems.samples import OBVIOUS, TOOLS
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.evaluation.systems.langgraph_bigtool import NAMESPACE, LangGraphBigtool


class TestLangGraphBigtool(BaselineContract):
    """`langgraph-bigtool` keeps the contract."""

    name = "langgraph-bigtool"
    module = "langgraph_bigtool"

    @pytest.mark.parametrize("query", OBVIOUS)
    def test_its_own_retrieve_tools_returns_the_same(
        self,
        encoder: DeterministicEncoder,
        query: str,
    ) -> None:
        library = pytest.importorskip("langgraph_bigtool.tools")
        retrieve_tools, _ = library.get_default_retrieval_tool(NAMESPACE, limit=5)
        with closing(LangGraphBigtool(encoder)) as system:
            system.index(TOOLS)
            assert ids(system.search(query, 5)) == retrieve_tools(query, store=system.store)

    def test_the_score_is_the_cosine_of_name_and_description(
        self,
        encoder: DeterministicEncoder,
    ) -> None:
        pytest.importorskip("langgraph_bigtool")
        with closing(LangGraphBigtool(encoder)) as system:
            system.index(TOOLS)
            best = system.search("send an invoice", 1).ranked[0]
        text = "send_invoice: Send an invoice to a customer."
        cosine = encoder.encode_documents([text])[0] @ encoder.encode_query("send an invoice")
        assert best.score == pytest.approx(float(cosine), rel=1e-5)
