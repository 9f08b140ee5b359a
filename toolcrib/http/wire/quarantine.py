"""What is held back, over the wire."""

from __future__ import annotations

from typing import Literal

from toolcrib.http.wire.base import Answer, Body
from toolcrib.records import ToolSpec

__all__ = ["FindingAnswer", "HeldAnswer", "QuarantineAnswer", "VerdictBody"]


class FindingAnswer(Answer):
    """One thing that the audit noticed."""

    severity: Literal["info", "warning", "block"]
    rule: str
    tool: str
    place: str
    excerpt: str
    why: str


class HeldAnswer(Answer):
    """A tool that is not served; `was_digest` is that of what was approved before."""

    tool_id: str
    server: str
    digest: str
    was_digest: str | None
    reason: str
    findings: list[FindingAnswer]
    since: str
    spec: ToolSpec


class QuarantineAnswer(Answer):
    """Everything that is held back in the caller's reach."""

    held: list[HeldAnswer]


class VerdictBody(Body):
    """What becomes of a tool that is held back: it is served from now on, or forgotten."""

    verdict: Literal["approve", "reject"]
