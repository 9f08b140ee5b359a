"""Choices for a turn between things other than tools: the branch of a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from toolcrib.records.codec import UNLESS_EMPTY, Score

__all__ = ["Classification"]


@dataclass(frozen=True, slots=True)
class Classification:
    """Which class of a question a turn belongs to.

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
