"""What a collection of passages is, and what comes back when knowledge is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from toolcrib.records.answers import Verdict
from toolcrib.records.scope import Sensitivity
from toolcrib.records.tools import Text, Texts

__all__ = [
    "Collection",
    "CollectionHit",
    "KnowledgeResult",
    "Passage",
    "PassageHit",
]


def _as_pairs(value: Any) -> Any:
    """An exported null is "none given"."""
    return () if value is None else value


class Collection(BaseModel):
    """One body of documents that questions are sent to.

    `examples` are questions that it answers. `answers` are the (domain, intent) pairs that are
    sent here whatever else speaks for another collection. `sensitivity` is the highest of
    anything in it. Of collections that fit alike the one of higher `priority` is asked first.
    The `fallback` one is asked when none fits; without any, all are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=200, pattern=r"^[\w.-]+$")
    description: Text = ""
    examples: Texts = ()
    answers: Annotated[tuple[tuple[str, str], ...], BeforeValidator(_as_pairs)] = ()
    sensitivity: Sensitivity = "public"
    priority: float = 0.0
    fallback: bool = False

    @field_validator("priority")
    @classmethod
    def _finite(cls, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError("must be a finite number")
        return value


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document, small enough to be read by an encoder and quoted by an agent.

    `document` is where it comes from (path or URL), `title` the headings above it, outermost
    first, `position` its number within the document, from 0, and `start` the character of the
    document's text at which it begins.
    """

    collection: str
    document: str
    text: str
    title: tuple[str, ...] = ()
    position: int = 0
    start: int = 0

    @property
    def id(self) -> str:
        """`collection/document#position`."""
        return f"{self.collection}/{self.document}#{self.position}"

    @property
    def citation(self) -> str:
        """Where it stands, for people: the headings, the document, the part."""
        heading = " › ".join(self.title)
        place = f"{self.document}, part {self.position + 1}"
        return f"{heading} ({place})" if heading else place


@dataclass(frozen=True, slots=True)
class PassageHit:
    """One ranked passage; `score` in [0, 1], comparable within one answer only."""

    rank: int
    score: float
    passage: Passage
    legs: dict[str, float] = field(default_factory=dict[str, float])

    def as_dict(self) -> dict[str, Any]:
        """The hit as the JSON contract has it."""
        return {
            "id": self.passage.id,
            "collection": self.passage.collection,
            "score": round(self.score, 6),
            "citation": self.passage.citation,
            "title": list(self.passage.title),
            "source": self.passage.document,
            "position": self.passage.position,
            "start": self.passage.start,
            "text": self.passage.text,
            **({"legs": {k: round(v, 6) for k, v in self.legs.items()}} if self.legs else {}),
        }


@dataclass(frozen=True, slots=True)
class CollectionHit:
    """A collection that was asked, and the probability that it is the right one."""

    id: str
    confidence: float

    def as_dict(self) -> dict[str, Any]:
        """The hit as the JSON contract has it."""
        return {"id": self.id, "confidence": round(self.confidence, 6)}


@dataclass(frozen=True, slots=True)
class KnowledgeResult:
    """The answer to one question to the collections.

    `collections` and `passages` are best first. `confidence` is the probability that the first
    collection is right, `fit` that any is; None where nothing was looked for. After `fallback`
    the passages come from the fallback collection, or from all; after `abstain` there are none,
    and the collections are those that would have been the likeliest.
    """

    collections: tuple[CollectionHit, ...] = ()
    passages: tuple[PassageHit, ...] = ()
    confidence: float | None = None
    fit: float | None = None
    verdict: Verdict = "abstain"
    reason: str = ""
    threshold: float | None = None
    signals: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The answer as the JSON contract has it."""
        return {
            "verdict": self.verdict,
            "confidence": None if self.confidence is None else round(self.confidence, 6),
            "fit": None if self.fit is None else round(self.fit, 6),
            "reason": self.reason,
            "threshold": None if self.threshold is None else round(self.threshold, 6),
            "collections": [hit.as_dict() for hit in self.collections],
            "passages": [hit.as_dict() for hit in self.passages],
            "signals": list(self.signals),
            "degraded": list(self.degraded),
        }
