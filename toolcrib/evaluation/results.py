"""What an evaluation found, from single queries up to macro averages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.systems.protocol import Answer

__all__ = ["Comparison", "Evaluation", "Interval", "Outcome", "SetResult", "SystemResult"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One system's answer to one query, and what it is worth.

    `measures` by name (`ndcg@10`), empty for a query that nothing answers. `ms` is the wall
    clock of the search; `prompt_tokens` what the returned tools would cost in a prompt.
    """

    query: LabelledQuery
    answer: Answer
    ms: float
    prompt_tokens: int
    measures: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a system differs from the first one in a measure, query by query.

    `p` is the Holm-corrected p-value of a paired randomisation test.
    """

    difference: float
    p: float

    @property
    def significant(self) -> bool:
        """Whether chance is an unlikely reason (p < 0.05)."""
        return self.p < 0.05  # noqa: PLR2004


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One system on one data set.

    `measures` are means over answerable queries. `gates` are measures of the confidence over
    all queries (`auroc`, `aupr`, `ece`, ...), empty for systems that have no confidence.
    `against_first` compares with the first system of the evaluation, by measure.
    """

    name: str
    version: str
    measures: Mapping[str, Interval]
    latency_ms: Mapping[str, float]
    prompt_tokens: float
    tokens_saved: float
    gates: Mapping[str, float] = field(default_factory=dict[str, float])
    against_first: Mapping[str, Comparison] = field(default_factory=dict[str, Comparison])
    outcomes: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True)
class SetResult:
    """All systems on one data set; `warnings` say what a reader must know."""

    name: str
    split: str
    tools: int
    queries: int
    unanswerable: int
    systems: Mapping[str, SystemResult]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All data sets, the unweighted mean over them for every system, and how it was measured.

    `macro_against_first` compares those means with the first system's, by system and measure.
    """

    sets: Mapping[str, SetResult]
    macro: Mapping[str, Mapping[str, float]]
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    macro_against_first: Mapping[str, Mapping[str, Comparison]] = field(
        default_factory=dict[str, Mapping[str, Comparison]],
    )
