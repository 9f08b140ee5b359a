"""Turns over the wire: read, decided, and what came of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from toolcrib.http.wire.base import AS_WHOLE, Answer, Body, Count
from toolcrib.http.wire.knowledge import KnowledgeAnswer
from toolcrib.http.wire.scope import ScopeBody
from toolcrib.http.wire.tools import HitAnswer, Shape
from toolcrib.records import Outcome, RouteKind, Scope, Sensitivity, Turn, Verdict

__all__ = [
    "AlternatesAnswer",
    "AlternatesBody",
    "ContextAnswer",
    "DecisionAnswer",
    "FeedbackBody",
    "OutcomeBody",
    "RouteBody",
    "TurnBody",
]

DecisionId = Annotated[str, Field(min_length=1, max_length=200)]
Id = Annotated[str, Field(min_length=1, max_length=1100)]

EXAMPLE_TURN: dict[str, Any] = {
    "text": "and now send it to Ana",
    "history": [{"role": "user", "content": "write a summary of the meeting"}],
}


class MessageBody(Body):
    """One earlier message; `content` may be a list of parts, as providers write it."""

    model_config = ConfigDict(extra="ignore")

    role: str = "user"
    content: str | list[Any] | None = ""


class TurnBody(Body):
    """What a user says now, and what is known around it.

    What is no attachment in `attachments` is left out. `scope` narrows what the key allows;
    `max_sensitivity` is the ceiling of where the answer goes.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_TURN]})

    text: str = ""
    history: list[MessageBody] = Field(default=[])
    attachments: list[Any] | None = None
    metadata: dict[str, Any] = Field(default={})
    scope: ScopeBody | None = None
    max_sensitivity: Sensitivity | None = None
    trajectory: list[dict[str, Any]] = Field(default=[])
    unreadable: Annotated[int, Field(ge=0, le=2**31), AS_WHOLE] = 0

    def as_turn(self, scope: Scope) -> Turn:
        """The turn, within a scope."""
        return Turn(
            text=self.text,
            history=tuple(each.model_dump() for each in self.history),  # pyright: ignore[reportArgumentType]
            attachments=self.attachments,  # pyright: ignore[reportArgumentType]
            metadata=self.metadata,
            scope=scope,
            max_sensitivity=self.max_sensitivity,
            trajectory=tuple(self.trajectory),
            unreadable=self.unreadable,
        )


class RouteBody(TurnBody):
    """A turn to decide: `k` tools, within `budget_ms`; `shown` are tools of earlier turns."""

    k: Count | None = None
    budget_ms: float | None = Field(default=None, ge=0)
    shown: list[str] = Field(default=[], max_length=10_000)
    shape: Shape = "summary"


class AlternatesBody(Body):
    """A tool that failed in a turn, given whole or as its text."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"failed_tool": "mail/send_mail", "turn": "write to Ana", "k": 2}]
        }
    )

    failed_tool: Id
    turn: TurnBody | str
    decision_id: DecisionId | None = None
    k: Count = 3
    shape: Literal["summary", "full"] = "summary"


class OutcomeBody(Body):
    """How a call of a tool ended."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "decision_id": "0d4c1c1e2f6a4f0b9d5a4d1d0a7b8c9e",
                    "tool": "mail/send_mail",
                    "outcome": "failure",
                    "took_ms": 812.5,
                }
            ]
        }
    )

    decision_id: DecisionId
    tool: Id
    outcome: Outcome
    took_ms: float | None = Field(default=None, ge=0)


SAID = ("route", "tools", "collections", "intent", "domain", "outcome", "note")
"""What feedback may say; it says at least one of these."""


class FeedbackBody(Body):
    """What would have been right for a decision, as far as somebody says so."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
                for name in SAID
            ],
            "examples": [
                {
                    "decision_id": "0d4c1c1e2f6a4f0b9d5a4d1d0a7b8c9e",
                    "tools": ["mail/send_mail"],
                    "outcome": "success",
                }
            ],
        }
    )

    decision_id: DecisionId
    route: RouteKind | None = None
    tools: list[str] | None = None
    collections: list[str] | None = None
    intent: str | None = None
    domain: str | None = None
    outcome: Outcome | None = None
    note: str | None = None


class EntityAnswer(Answer):
    """A typed span of the text: characters `start` to `end`."""

    type: str
    text: str
    start: int
    end: int


class ContextAnswer(Answer):
    """What was detected of a turn."""

    intent: str | None
    domain: str | None
    entities: list[EntityAnswer]
    urgency: str
    sensitivity: Sensitivity
    language: str | None
    smalltalk: str | None
    need: str | None
    confidence: float
    confidences: dict[str, float]
    signals: list[str]


class RouteAnswer(Answer):
    """Where a turn goes, and why."""

    kind: RouteKind
    reason: str
    confidence: float | None
    corrected_from: RouteKind | None


class SelectionAnswer(Answer):
    """The tools of a turn, in the shape that was asked for."""

    verdict: Verdict
    confidence: float | None
    reason: str
    threshold: float | None
    fallback: bool
    degraded: list[str]
    took_ms: dict[str, float]
    items: list[HitAnswer] | list[dict[str, Any]]
    names: dict[str, str] = Field(default={})


class DecisionAnswer(Answer):
    """Everything that was decided for a turn."""

    id: str
    context: ContextAnswer
    route: RouteAnswer
    tools: SelectionAnswer
    knowledge: KnowledgeAnswer
    search_text: str
    signals: list[str]
    took_ms: dict[str, float]
    degraded: list[str]
    max_tool_calls: int
    tool_timeout_s: float


class AlternatesAnswer(Answer):
    """The next best tools."""

    tools: list[HitAnswer]
