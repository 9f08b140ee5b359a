"""How the context of a turn is detected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["ContextSettings"]


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Which detector reads a turn, and by which words.

    `detector`: `semantic` (utterances and cues) or `heuristic` (cues alone). `labels`: by field,
    a YAML file of labels with utterances in place of the shipped one; `cues`: likewise for the
    cues. `gazetteers`: kinds of entities with their names. `region`: where phone numbers
    without a country code belong (`DE`, `US`); None leaves those alone.
    """

    detector: Literal["semantic", "heuristic"] = "semantic"
    labels: dict[str, str] = field(default_factory=dict[str, str])
    cues: str | None = None
    gazetteers: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    region: str | None = None
