"""The table of baselines: known by name, imported only when one is made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import SettingsError
from toolcrib.evaluation.systems.registry import BASELINES, make


def test_the_libraries_that_are_compared_with() -> None:
    assert set(BASELINES) == {
        "bm25s",
        "fastmcp-bm25",
        "langgraph-bigtool",
        "llama-index",
        "rank-bm25",
        "semantic-router",
        "semantic-router-hybrid",
    }


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"'bm26'.*bm25s, fastmcp-bm25"):
        make("bm26", DeterministicEncoder())


def test_looking_at_the_table_imports_none_of_them() -> None:
    script = (
        "import sys; from toolcrib.evaluation.systems import registry;"
        "peers = {'rank_bm25', 'bm25s', 'fastmcp', 'semantic_router', 'langgraph', 'llama_index'};"
        "print(sorted(peers & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"
