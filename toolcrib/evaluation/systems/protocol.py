"""The protocol of everything that the evaluator measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.records import ToolSpec

__all__ = ["Answer", "Learner", "Ranked", "SetFinder", "System"]


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
    """What a system returns for a query, best first.

    `confidence` that the first tool is right, and the gate's `verdict`, for systems that have
    them. The ranking is what stands before any gate.
    """

    ranked: tuple[Ranked, ...]
    confidence: float | None = None
    verdict: str | None = None


class System(Protocol):
    """A way to find tools. Entering it takes no resources; `index` does, `close` frees them."""

    @property
    def name(self) -> str:
        """What it is called on the command line and in reports."""
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
