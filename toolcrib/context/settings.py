"""Settings of the context: its detector, labels and cues."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from toolcrib.records.codec import settings_section


@settings_section
class ContextSettings:
    """Detector of a turn's context, with its labels and cues.

    `detector`: `semantic` (utterances and cues), `heuristic` (cues alone), or `llm` (a language
    model with the same labels; `semantic` is the fallback). `labels`: by field, a YAML file that
    replaces the shipped labels; `cues`: a file that replaces the shipped cues. `gazetteers`: kinds
    of entities with their names. `region`: country (`DE`, `US`) of phone numbers without a country
    code; with None such numbers are not found.
    """

    detector: Literal["semantic", "heuristic", "llm"] = "semantic"
    labels: dict[str, str] = field(default_factory=dict[str, str])
    cues: str | None = None
    gazetteers: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    region: str | None = None
