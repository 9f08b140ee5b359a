"""Findings of a lint, and the table of its rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

LintSeverity: TypeAlias = Literal["info", "warning", "error"]

LINT_SEVERITIES: tuple[LintSeverity, ...] = ("info", "warning", "error")
"""From the least to the worst: worth a look; costs calls; lost, or not to be served."""

LINT_RULES = {
    "not-found": "none of its own texts brings the tool among the first five",
    "hard-to-find": "one of its example requests does not bring the tool among the first five",
    "confusable": "its own purpose brings another tool first, or one that is level with it",
    "same-text": "several tools have the same description",
    "no-description": "there is no description",
    "thin-description": "the description says little that the name does not say",
    "cut-description": "the description ends in the middle of a sentence",
    "long-description": "the description is longer than a model reads",
    "hidden-verb": "the name does not say what the tool does",
    "undescribed-parameters": "parameters have no description",
    "deprecated": "the tool is superseded and still served",
    "family": "tools differ in one word and take the same parameters: they could be one",
    "other-language": "the text is in another language than the rest",
    "audit": "the text hides something or orders a model about (`toolcrib audit`)",
}
"""What each rule finds. Those of the audit are called `audit/...`."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that is wrong: `text` says what and what to do; `others` are further tools in it.

    `tool` and `others` are ids.
    """

    rule: str
    severity: LintSeverity
    tool: str
    text: str
    others: tuple[str, ...] = ()


def title_of(rule: str) -> str:
    """What a rule finds, in words."""
    return LINT_RULES[rule.partition("/")[0]]
