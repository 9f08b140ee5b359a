"""What comes back when tools are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from toolcrib.records.tools import ToolSpec

__all__ = ["FindResult", "ToolHit", "Verdict"]

Verdict: TypeAlias = Literal["accept", "fallback", "abstain"]
"""What the gate made of an answer: it fits; here is the general tool instead; nothing fits."""


@dataclass(frozen=True, slots=True)
class ToolHit:
    """One ranked tool.

    `score` is in [0, 1], higher is better, comparable within one answer only. `probability`
    that the tool is right, None where nothing is calibrated. `legs` holds what each leg and
    the reranker contributed, filled when explained.
    """

    rank: int
    score: float
    tool: ToolSpec
    legs: dict[str, float] = field(default_factory=dict[str, float])
    probability: float | None = None

    @property
    def id(self) -> str:
        """The tool's id."""
        return self.tool.id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @property
    def server(self) -> str:
        """The tool's server; empty when it has none."""
        return self.tool.server

    def as_dict(self) -> dict[str, Any]:
        """The hit as the JSON contract has it."""
        return {
            "id": self.id,
            "name": self.name,
            "server": self.server,
            "score": round(self.score, 6),
            "probability": None if self.probability is None else round(self.probability, 6),
            "rank": self.rank,
            "description": self.tool.description,
            **({"legs": {k: round(v, 6) for k, v in self.legs.items()}} if self.legs else {}),
        }


@dataclass(frozen=True, slots=True)
class FindResult:
    """The answer to one query: ranked tools, how sure, milliseconds a stage, what was left out.

    `confidence` is the probability that the first tool of the ranking is right, None where
    nothing is calibrated; `verdict`, `reason` and `threshold` are the gate's. After `abstain`
    there are no tools; after `fallback` there is the general one, and `fallback` is True. Where
    the gate was told to withhold nothing, the ranking stands whatever the verdict.
    `degraded` names every stage that failed or was skipped for lack of time.
    `unmatched_terms` (only when explained) are the query's terms that no tool contains.
    """

    query: str
    tools: tuple[ToolHit, ...]
    took_ms: dict[str, float]
    confidence: float | None = None
    verdict: Verdict = "accept"
    reason: str = ""
    threshold: float | None = None
    fallback: bool = False
    degraded: tuple[str, ...] = ()
    unmatched_terms: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The answer as the JSON contract has it."""
        return {
            "query": self.query,
            "tools": [hit.as_dict() for hit in self.tools],
            "confidence": None if self.confidence is None else round(self.confidence, 6),
            "verdict": self.verdict,
            "reason": self.reason,
            "threshold": None if self.threshold is None else round(self.threshold, 6),
            "fallback": self.fallback,
            "took_ms": {stage: round(ms, 3) for stage, ms in self.took_ms.items()},
            "degraded": list(self.degraded),
            **({"unmatched_terms": list(self.unmatched_terms)} if self.unmatched_terms else {}),
        }
