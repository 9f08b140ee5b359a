"""Systems that the evaluator measures: their protocol, and what those around a library share."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from toolcrib.encoders.base import DenseEncoder
from toolcrib.errors import SettingsError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.extras import require_extra
from toolcrib.records import ToolSpec


@dataclass(frozen=True, slots=True)
class Ranked:
    """One returned tool; `score` is on the system's own scale, higher is better.

    `probability` that the tool is right, for systems that know one.
    """

    id: str
    score: float
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a system to a query, best first.

    `confidence` that any tool answers, and the gate's `verdict`, for systems that have them.
    The ranking is what stands before any gate.
    """

    ranked: tuple[Ranked, ...]
    confidence: float | None = None
    verdict: str | None = None


class System(Protocol):
    """A way to find tools. Entering it takes no resources; `index` does, `close` frees them."""

    @property
    def name(self) -> str:
        """Name on the command line and in reports."""
        ...

    @property
    def version(self) -> str:
        """The library and its version, `bm25s 0.3.16`."""
        ...

    def index(self, tools: Sequence[ToolSpec]) -> None:
        """Take in the tools; called once."""
        ...

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        """The best `k` tools or fewer, of those in `among` when it is given.

        Raises:
            NotImplementedError: `among` was given and the system cannot be restricted.
        """
        ...

    def close(self) -> None:
        """Free what `index` took."""
        ...


@runtime_checkable
class Learner(Protocol):
    """A system that can adapt to labelled queries, which it is not measured on."""

    def learn(self, queries: Sequence[LabelledQuery]) -> None:
        """Adapt; called after `index`, at most once."""
        ...


@runtime_checkable
class SetFinder(Protocol):
    """A system that can choose how many tools to return, so that none that is needed lacks."""

    def complete(self, query: str, coverage: float) -> tuple[str, ...]:
        """The smallest set that holds all needed tools with the probability `coverage`."""
        ...


@runtime_checkable
class StepFinder(Protocol):
    """A system that follows the steps of an agent's run."""

    def find_step(self, said: str, k: int, called: Sequence[str], task: str) -> tuple[str, ...]:
        """Ids of the best `k` tools for the next call, none of those that were called."""
        ...

    def learn_runs(self, runs: Sequence[Sequence[str]]) -> None:
        """Learn from the calls of other runs, in place of those learned before."""
        ...


class Baseline(ABC):
    """A library as a `System`: it ranks, and what was not asked for is left out here.

    The scores and the order are the library's own; libraries that use vectors are given those of
    `encoder`. `package` is what pip installs, `modules`
    what is imported of it, `extra` where toolcrib lists it.

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
        """The library and its version, `bm25s 0.3.16`."""
        return f"{self.package} {metadata.version(self.package)}"

    def index(self, tools: Sequence[ToolSpec]) -> None:
        """Take in the tools; called once."""
        self._size = len(tools)
        if tools:
            self._build(tools)

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        """The best `k` tools or fewer; with `among`, the whole ranking without all others.

        A blank query finds nothing: some libraries fail on it, and others list anything.
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
        """Free what `index` took."""
        self._size = 0

    @abstractmethod
    def _build(self, tools: Sequence[ToolSpec]) -> None:
        """Index at least one tool."""

    @abstractmethod
    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        """The best `depth` tools or fewer, best first; `depth` is at most the number of tools."""


Factory: TypeAlias = Callable[[DenseEncoder], System]
"""Makes a system; all that use vectors are given the same encoder."""

OURS: Mapping[str, str] = {
    "toolcrib": "as it comes, with the settings in use",
    "lexical": "words alone",
    "dense": "the tools' own vectors alone",
    "fusion": "both, with examples and anti-patterns, no reranker",
    "fusion+rerank": "the same and the reranker of the settings",
    "without-examples": "the tools stripped of their examples",
    "without-anti-patterns": "anti-patterns not looked at",
    "without-prerequisites": "no tool brings what it needs first",
    "without-companions": "no tool brings what goes with it",
}
"""The names of our own systems (`ours`), and what each is."""

BASELINES: Mapping[str, str] = MappingProxyType(
    {"rank-bm25": "toolcrib.evaluation.systems.bm25:RankBm25"}
)
"""The baselines by name, each as `module:factory`."""

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
    """The name and the factory of one of `BASELINES` or `PEERS`, or of any `module:factory`.

    Modules are looked for in the working folder as well. A factory may have a `name` to be
    reported by; otherwise it is what was given.

    Raises:
        SettingsError: there is no such baseline, module or factory.
    """
    path, colon, name = {**BASELINES, **PEERS}.get(given, given).partition(":")
    if not (path and colon and name):
        known = ", ".join([*OURS, *BASELINES, "ours", "baselines", "all", "peers"])
        raise SettingsError(
            f"there is no system {given!r}; known are {known}, and any of yours as module:factory"
        )
    if os.getcwd() not in sys.path:  # noqa: PTH109 -- as sys.path has it
        sys.path.append(os.getcwd())  # noqa: PTH109
    try:
        factory: Any = getattr(import_module(path), name)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"the system {given!r} cannot be loaded: {error}") from error
    said: object = getattr(factory, "name", given)
    return (said if isinstance(said, str) else given), factory
