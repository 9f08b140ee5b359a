"""The nouns: what a tool is, who asks, and what comes back."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

__all__ = [
    "FindResult",
    "IndexProgress",
    "IndexReport",
    "Refusal",
    "Scope",
    "ToolHit",
    "ToolSpec",
    "Verdict",
]

MAX_DESCRIPTION_CHARS = 200_000
"""Longer descriptions are refused: no encoder reads them, and a store would drag them along."""

MAX_NAME_CHARS = 512

Verdict: TypeAlias = Literal["accept", "fallback", "abstain"]
"""What the gate made of an answer: it fits; here is the general tool instead; nothing fits."""


def _none_as(empty: type) -> BeforeValidator:
    """Exports often write null for "not given"; that is not an error worth a lost tool."""
    return BeforeValidator(lambda value: empty() if value is None else value)


Text = Annotated[str, _none_as(str)]
Texts = Annotated[tuple[str, ...], _none_as(tuple)]
Mapping = Annotated[dict[str, Any], _none_as(dict)]


def default_id(server: str, name: str) -> str:
    """Give the id of a tool that was given none."""
    return f"{server}/{name}" if server else name


class ToolSpec(BaseModel):
    """One tool as toolcrib knows it, whatever format it came from.

    `id` is `server/name` unless one is given (`name` alone without a server).
    Raises `pydantic.ValidationError` for a missing name, a schema that is not an
    object, negative or non-finite costs, and over-long texts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=MAX_NAME_CHARS)
    description: Text = ""
    server: Text = ""
    id: Text = ""
    input_schema: Mapping = Field(default_factory=dict)
    output_schema: Mapping = Field(default_factory=dict)
    success_examples: Texts = ()
    anti_patterns: Texts = ()
    cost_estimate: float | None = Field(default=None, ge=0)
    avg_latency_ms: float | None = Field(default=None, ge=0)
    safety_tags: Texts = ()
    category: Text = ""
    tags: Texts = ()
    annotations: Mapping = Field(default_factory=dict)
    requires: Texts = ()
    provides: Texts = ()
    always_active: bool = False
    enabled: bool = True
    version: Text = ""

    @field_validator("name")
    @classmethod
    def _name_has_a_letter(cls, value: str) -> str:
        if not any(character.isalnum() for character in value):
            raise ValueError("a name needs at least one letter or digit")
        return value.strip()

    @field_validator("description")
    @classmethod
    def _description_fits(cls, value: str) -> str:
        if len(value) > MAX_DESCRIPTION_CHARS:
            raise ValueError(
                f"{len(value):,} characters; at most {MAX_DESCRIPTION_CHARS:,} are accepted",
            )
        return value

    @field_validator("cost_estimate", "avg_latency_ms")
    @classmethod
    def _finite(cls, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise ValueError("must be a finite number")
        return value

    @model_validator(mode="after")
    def _default_id(self) -> ToolSpec:
        if not self.id:
            # The model is frozen for users; this is still its construction.
            object.__setattr__(self, "id", default_id(self.server, self.name))
        return self

    def on_server(self, server: str) -> ToolSpec:
        """The same tool on another server; a default id follows, a given one stays."""
        has_default = self.id == default_id(self.server, self.name)
        fields = self.model_dump(exclude={"server", "id"} if has_default else {"server"})
        return ToolSpec(server=server, **fields)

    @property
    def digest(self) -> str:
        """Hex digest of everything in the specification; equal means "left alone"."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller may use; becomes a filter inside every leg.

    `None` means no restriction on that field; an empty set means nothing is allowed.
    `without_safety_tags` removes tools that carry any of these tags.
    """

    servers: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    without_safety_tags: frozenset[str] = frozenset()


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something in a source that was not indexed: where it stands and why."""

    source: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far an index run is; `ids` are the tools that just became durable.

    `stage` is "write" while tools are encoded and written, then "optimise" while the engine
    builds its graph.
    """

    done: int
    total: int
    ids: tuple[str, ...] = ()
    stage: Literal["write", "optimise"] = "write"


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one index run did, as ids; `as_dict` gives the counts of the JSON contract."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Counts, and the refusals in full."""
        return {
            "added": len(self.added),
            "changed": len(self.changed),
            "removed": len(self.removed),
            "unchanged": len(self.unchanged),
            "refused": [
                {"source": r.source, "place": r.place, "reason": r.reason} for r in self.refused
            ],
        }
