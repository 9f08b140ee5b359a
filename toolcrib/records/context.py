"""What kind of turn it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from toolcrib.records.codec import Score
from toolcrib.records.scope import Sensitivity

__all__ = ["Context", "Entity"]


@dataclass(frozen=True, slots=True)
class Entity:
    """A typed span of the turn's text: characters `start` to `end`, as Python slices."""

    type: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Context:
    """What was detected of a turn; nothing was called or written for it.

    `intent` and `domain` are None where no label fits (out of scope). `smalltalk` names what
    kind it is, None for a real request. `need` is what answers the turn best, `act` or `know`.
    `confidences` are probabilities by field; `confidence` is the least of those of intent and
    domain. `signals` say in short words what was noticed. JSON lacks the text.
    """

    text: Annotated[str, Field(default="", exclude=True)]
    intent: str | None = None
    domain: str | None = None
    urgency: str = "low"
    sensitivity: Sensitivity = "public"
    entities: tuple[Entity, ...] = ()
    language: str | None = None
    smalltalk: str | None = None
    need: str | None = None
    confidences: dict[str, Score] = field(default_factory=dict[str, float])
    confidence: Score = 0.0
    signals: tuple[str, ...] = ()
