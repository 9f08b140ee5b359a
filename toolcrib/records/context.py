"""What kind of turn it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toolcrib.records.scope import Sensitivity

__all__ = ["Context", "Entity"]


@dataclass(frozen=True, slots=True)
class Entity:
    """A typed span of the turn's text: characters `start` to `end`, as Python slices."""

    type: str
    text: str
    start: int
    end: int

    def as_dict(self) -> dict[str, Any]:
        """The span as the JSON contract has it."""
        return {"type": self.type, "text": self.text, "start": self.start, "end": self.end}


@dataclass(frozen=True, slots=True)
class Context:
    """What was detected of a turn; nothing was called or written for it.

    `intent` and `domain` are None where no label fits (out of scope). `smalltalk` names what
    kind it is, None for a real request. `need` is what answers the turn best, `act` or `know`.
    `confidences` are probabilities by field; `confidence` is the least of those of intent and
    domain. `signals` say in short words what was noticed.
    """

    text: str
    intent: str | None = None
    domain: str | None = None
    urgency: str = "low"
    sensitivity: Sensitivity = "public"
    entities: tuple[Entity, ...] = ()
    language: str | None = None
    smalltalk: str | None = None
    need: str | None = None
    confidences: dict[str, float] = field(default_factory=dict[str, float])
    confidence: float = 0.0
    signals: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The context as the JSON contract has it."""
        return {
            "intent": self.intent,
            "domain": self.domain,
            "entities": [entity.as_dict() for entity in self.entities],
            "urgency": self.urgency,
            "sensitivity": self.sensitivity,
            "language": self.language,
            "smalltalk": self.smalltalk,
            "need": self.need,
            "confidence": round(self.confidence, 6),
            "confidences": {name: round(p, 6) for name, p in self.confidences.items()},
            "signals": list(self.signals),
        }
