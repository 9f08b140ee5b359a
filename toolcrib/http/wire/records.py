"""Kept records over the wire: decisions and what was said of them, reports, and who asks."""

from __future__ import annotations

from typing import Any, Literal

from toolcrib.http.wire.base import Answer
from toolcrib.http.wire.scope import ScopeAnswer

__all__ = ["DecisionsAnswer", "MeAnswer", "RecordAnswer", "ReportsAnswer"]


class DecisionsAnswer(Answer):
    """One page of decisions, newest first; `next` is the cursor of older ones."""

    decisions: list[dict[str, Any]]
    next: str | None


class RecordAnswer(Answer):
    """A decision as it was logged, and what was said of it."""

    decision: dict[str, Any]
    feedback: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]


class MeAnswer(Answer):
    """Whose key it is and what it allows; `namespace` is the one of this request."""

    name: str
    access: Literal["read", "write"]
    namespaces: list[str]
    namespace: str
    scope: ScopeAnswer


class ReportFileAnswer(Answer):
    """An evaluation report; `modified` is Unix time in seconds."""

    name: str
    modified: float
    bytes: int


class ReportsAnswer(Answer):
    """The evaluation reports that can be read."""

    reports: list[ReportFileAnswer]
