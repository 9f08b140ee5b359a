"""The baselines by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from toolcrib.encoders.base import DenseEncoder
from toolcrib.errors import SettingsError
from toolcrib.evaluation.systems.protocol import System

__all__ = ["BASELINES", "make"]


def _lexical(module: str, name: str) -> Callable[[DenseEncoder], System]:
    def made(_: DenseEncoder) -> System:
        return _class(module, name)()

    return made


def _dense(module: str, name: str) -> Callable[[DenseEncoder], System]:
    def made(encoder: DenseEncoder) -> System:
        return _class(module, name)(encoder)

    return made


def _class(module: str, name: str) -> Any:
    return getattr(import_module(f"toolcrib.evaluation.systems.{module}"), name)


BASELINES: Mapping[str, Callable[[DenseEncoder], System]] = MappingProxyType(
    {
        "rank-bm25": _lexical("bm25", "RankBm25"),
        "bm25s": _lexical("bm25", "Bm25s"),
        "fastmcp-bm25": _lexical("fastmcp", "FastMcpBm25"),
        "semantic-router": _dense("semantic_router", "SemanticRouter"),
        "semantic-router-hybrid": _dense("semantic_router", "HybridRouter"),
        "langgraph-bigtool": _dense("langgraph_bigtool", "LangGraphBigtool"),
        "llama-index": _dense("llama_index", "LlamaIndexObjects"),
    },
)
"""How to make each; all that use vectors are given the same encoder. Nothing is imported before."""


def make(name: str, encoder: DenseEncoder) -> System:
    """Make the baseline of this name.

    Raises:
        SettingsError: no baseline has this name.
        MissingExtraError: its library is not installed.
    """
    if name not in BASELINES:
        known = ", ".join(sorted(BASELINES))
        raise SettingsError(f"no baseline is called {name!r}; the known ones are {known}")
    return BASELINES[name](encoder)
