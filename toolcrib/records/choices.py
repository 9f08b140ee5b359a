"""Choices for a turn between things other than tools: branch of a question, capabilities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from toolcrib.records.codec import UNLESS_EMPTY, Score


@dataclass(frozen=True, slots=True)
class Classification:
    """Class of a question that a turn belongs to.

    `branch` is the id of a class; None where the question was not asked (`skipped`), as its
    `run_if` does not hold. `matched` is False where no class fits, and `branch` is the default.
    `confidence` is the probability that the class fits (of one that does not match: that none
    fits); None where a language model chose, which tells no probability. `degraded` names what
    was asked for and did without: `llm`.
    """

    branch: str | None
    matched: bool
    confidence: Score | None = None
    degraded: tuple[str, ...] = ()
    skipped: Annotated[bool, UNLESS_EMPTY] = False


@dataclass(frozen=True, slots=True)
class FailedCapability:
    """Capability that is off because its need could not be decided, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class CapabilitySelection:
    """Active capabilities of a turn: the always active first, the rest in their order.

    `probabilities`: of being needed, where no language model decided. `bypassed`: all are active,
    and nothing was asked. `reclassifications`: how often the turn was selected for anew after a
    failure. `signals`: `bypassed`, `nothing_selected`, `reclassified`, `reclassification_limit`.
    `degraded` names what was asked for and did without: `llm`, `encoder`. `next`: where the loop
    goes from there (`router.choices.flow`), by `orchestration_mode`.
    """

    active: tuple[str, ...]
    probabilities: dict[str, Score] = field(default_factory=dict[str, float])
    failed: tuple[FailedCapability, ...] = ()
    bypassed: bool = False
    reclassifications: int = 0
    signals: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    next: str = ""

    @property
    def update(self) -> dict[str, Any]:
        """Update of a loop's state, without the plan that other capabilities had."""
        return {
            "capabilities": self.active,
            "plan": None,
            "step": 0,
            "error": None,
            "failure": "",
            "attempts": 0,
            "reclassifications": self.reclassifications,
        }
