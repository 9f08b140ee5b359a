"""Systems that the evaluator measures: their protocol, and the base of baselines."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any, Protocol, TypeAlias, runtime_checkable

from toolcrib.encoders.base import DenseEncoder
from toolcrib.errors import SettingsError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.extras import require_extra
from toolcrib.records import ToolSpec


@dataclass(frozen=True, slots=True)
class Ranked:
    """Returned tool; `score` is on the system's own scale, higher is better.

    `probability`: that the tool is right, for systems that give one.
    """

    id: str
    score: float
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a system to a query, best first.

    `confidence`: that any tool answers; `verdict`: of the gate; for systems that have these. The
    ranking is the one before any gate. `degraded`: what the answer lacks, as in `FindResult`.
    """

    ranked: tuple[Ranked, ...]
    confidence: float | None = None
    verdict: str | None = None
    degraded: tuple[str, ...] = ()


class System(Protocol):
    """Retrieval system. Creating it takes no resources; `index` does, `close` frees them."""

    @property
    def version(self) -> str:
        """Library and version, `bm25s 0.3.16`."""
        ...

    def index(self, tools: Sequence[ToolSpec]) -> None:
        """Index the tools; called once."""
        ...

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        """Best `k` tools or fewer, only of those in `among`, if given.

        Raises:
            NotImplementedError: `among` was given and the system cannot be restricted.
        """
        ...

    def close(self) -> None:
        """Free the resources of `index`."""
        ...


@runtime_checkable
class Learner(Protocol):
    """System that can adapt to labelled queries, on which it is not measured."""

    def learn(self, queries: Sequence[LabelledQuery]) -> None:
        """Adapt; called after `index`, at most once."""
        ...


@runtime_checkable
class SetFinder(Protocol):
    """System that chooses the number of tools, so that no needed tool is missing."""

    def complete(self, query: str, coverage: float) -> tuple[str, ...]:
        """Smallest set that holds all needed tools with the probability `coverage`."""
        ...


@runtime_checkable
class StepFinder(Protocol):
    """System that follows the steps of an agent's run."""

    def find_step(self, said: str, k: int, called: Sequence[str], task: str) -> tuple[str, ...]:
        """Ids of the best `k` tools for the next call, without called ones."""
        ...

    def learn_runs(self, runs: Sequence[Sequence[str]]) -> bool:
        """Learn from the calls of other runs, instead of earlier ones; False if too few."""
        ...


class Baseline(ABC):
    """Library as a `System`: it ranks, and this class filters.

    Scores and order are the library's own; libraries with vectors use those of `encoder`.
    `package`: name for pip, `modules`: imported modules, `extra`: toolcrib's extra with the
    package.

    Raises:
        MissingExtraError: one of the modules is not installed.
    """

    name: str
    package: str
    modules: tuple[str, ...]
    extra = "peers"

    def __init__(self, encoder: DenseEncoder) -> None:
        for module in self.modules:
            require_extra(module, f"the baseline {self.name!r}", self.extra)
        self._encoder = encoder
        self._size = 0

    @property
    def version(self) -> str:
        """Library and version, `bm25s 0.3.16`."""
        return f"{self.package} {metadata.version(self.package)}"

    def index(self, tools: Sequence[ToolSpec]) -> None:
        """Index the tools; called once."""
        self._size = len(tools)
        if tools:
            self._build(tools)

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        """Best `k` tools or fewer; with `among`, the whole ranking reduced to these.

        A blank query finds nothing: some libraries fail on it, and others return arbitrary tools.
        """
        if not self._size or k < 1 or not query.strip():
            return Answer(())
        if among is None:
            found = self._rank(query, min(k, self._size))
        else:
            wanted = frozenset(among)
            found = (pair for pair in self._rank(query, self._size) if pair[0] in wanted)
        return Answer(tuple(Ranked(tool_id, float(score)) for tool_id, score in found)[:k])

    def close(self) -> None:
        """Free the resources of `index`."""
        self._size = 0

    @abstractmethod
    def _build(self, tools: Sequence[ToolSpec]) -> None:
        """Index at least one tool."""

    @abstractmethod
    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        """Best `depth` tools or fewer, best first; `depth` is at most the number of tools."""


Factory: TypeAlias = Callable[[DenseEncoder], System]
"""Function that creates a system; all with vectors get the same encoder."""

OWN_SYSTEMS: Mapping[str, str] = {
    "toolcrib": "complete, with the current settings",
    "lexical": "the lexical leg alone",
    "dense": "the tools' own vectors alone",
    "fusion": "lexical and dense, with examples and anti-patterns, no reranker",
    "fusion+rerank": "fusion with the reranker of the settings",
    "without-examples": "without the tools' examples",
    "without-anti-patterns": "without anti-patterns",
    "without-prerequisites": "without prerequisites of tools",
    "without-companions": "without companions of tools",
}
"""Names of our own systems (`ours`), with descriptions."""

BASELINES = {"rank-bm25": "toolcrib.evaluation.systems.bm25:RankBm25"}
"""Baselines by name, each as `module:factory`."""

PEERS = {
    "bm25s": "benchmarks.peers.bm25s_index:Bm25s",
    "fastmcp-bm25": "benchmarks.peers.fastmcp_search:FastMcpBm25",
    "langgraph-bigtool": "benchmarks.peers.bigtool:LangGraphBigtool",
    "llama-index": "benchmarks.peers.llama_index_objects:LlamaIndexObjects",
    "semantic-router": "benchmarks.peers.semantic_routes:SemanticRouter",
    "semantic-router-hybrid": "benchmarks.peers.semantic_routes:HybridRouter",
}
"""Baselines in a copy of the repository, with the extra `peers`."""


def baseline(given: str) -> tuple[str, Factory]:
    """Name and factory of one of `BASELINES` or `PEERS`, or of any `module:factory`.

    Modules in the working folder are found too. A factory may have a `name` for reports; by default
    it is the given text.

    Raises:
        SettingsError: there is no such baseline, module or factory.
    """
    path, colon, name = {**BASELINES, **PEERS}.get(given, given).partition(":")
    if not (path and colon and name):
        known = ", ".join([*OWN_SYSTEMS, *BASELINES, "ours", "baselines", "all", "peers"])
        raise SettingsError(
            f"there is no system {given!r}; known are {known}, and any of yours as module:factory"
        )
    if os.getcwd() not in sys.path:  # noqa: PTH109 -- as sys.path has it
        sys.path.append(os.getcwd())  # noqa: PTH109
    try:
        factory: Any = getattr(import_module(path), name)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"the system {given!r} cannot be loaded: {error}") from error
    reported: object = getattr(factory, "name", given)
    return (reported if isinstance(reported, str) else given), factory
