"""LlamaIndex retrieves tools from the nodes that its own mapping makes of them."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.evaluation.systems.conformance import BaselineContract
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.evaluation.systems.llama_index import LlamaIndexObjects
from toolcrib.records import ToolSpec


class TestLlamaIndexObjects(BaselineContract):
    """`llama-index` keeps the contract."""

    name = "llama-index"
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
        pytest.importorskip("llama_index.core")
        tide = ToolSpec(name="tide", description="When the sea rises.", input_schema=schema)
        with closing(LlamaIndexObjects(encoder)) as system:
            system.index([tide, ToolSpec(name="moon")])
            best = system.search("sea rises", 1).ranked[0]
        text = f"Tool name: tide\nTool description: When the sea rises.\n{line}"
        cosine = encoder.encode_documents([text])[0] @ encoder.encode_query("sea rises")
        assert best.id == "tide"
        assert best.score == pytest.approx(float(cosine), rel=1e-5)
