"""FastMCP is asked through the tool that its search transform offers."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.evaluation.systems.conformance import BaselineContract, ids
from tests.evaluation.systems.samples import TOOLS
from toolcrib.evaluation.systems.fastmcp import FastMcpBm25


class TestFastMcpBm25(BaselineContract):
    """`fastmcp-bm25` keeps the contract."""

    name = "fastmcp-bm25"
    module = "fastmcp"

    def test_the_score_is_one_over_the_place(self) -> None:
        pytest.importorskip("fastmcp")
        with closing(FastMcpBm25()) as system:
            system.index(TOOLS)
            found = system.search("find emails or recipes by name", 4).ranked
        assert [tool.score for tool in found] == [1 / place for place in range(1, len(found) + 1)]
        assert len(found) > 1

    def test_tools_that_share_no_word_with_the_query_are_left_out(self) -> None:
        pytest.importorskip("fastmcp")
        with closing(FastMcpBm25()) as system:
            system.index(TOOLS)
            assert ids(system.search("kubernetes", 10)) == ["cluster/restart_kubernetes_pod"]
            assert ids(system.search("qwxyzzy", 10)) == []

    def test_parameters_and_what_is_said_of_them_are_searched(self) -> None:
        pytest.importorskip("fastmcp")
        with closing(FastMcpBm25()) as system:
            system.index(TOOLS)
            assert ids(system.search("currency", 1)) == ["billing/send_invoice"]
            assert ids(system.search("ticker", 1)) == ["finance/stock_quote"]
