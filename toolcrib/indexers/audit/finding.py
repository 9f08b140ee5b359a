"""What an audit says of a tool: how bad, by which rule, where, and why in plain words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["SEVERITIES", "Finding", "Severity", "Sign", "blocks"]

Severity: TypeAlias = Literal["info", "warning", "block"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "block")
"""From the least to the worst: an oddity, what an honest tool might say, what none would say."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a rule found in one text, before it is known whose text that is.

    `excerpt` shows hidden characters. Signs of different `group` in one tool strengthen each
    other; those without one stand for themselves.
    """

    rule: str
    severity: Severity
    excerpt: str
    why: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, ready to be shown.

    `tool` is the tool's id, `place` the way to the text within its specification, such as
    `input_schema.properties.path.description`.
    """

    severity: Severity
    rule: str
    tool: str
    place: str
    excerpt: str
    why: str


def blocks(findings: Iterable[Finding]) -> bool:
    """Whether any of these keeps a tool from being served."""
    return any(finding.severity == "block" for finding in findings)
