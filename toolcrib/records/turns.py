"""Turns of a conversation, and the decision that is made for each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from toolcrib.records.answers import ToolSelection
from toolcrib.records.codec import UNLESS_EMPTY, Milliseconds, Score
from toolcrib.records.guidance import GuidanceInjection, TrajectoryEvent
from toolcrib.records.knowledge import KnowledgeResult
from toolcrib.records.scope import Scope, Sensitivity, lowest
from toolcrib.records.usage import ModelUsage

__all__ = [
    "AgentDecision",
    "Attachment",
    "Context",
    "Decision",
    "Entity",
    "Message",
    "Outcome",
    "Route",
    "RouteKind",
    "Turn",
]

HISTORY = 20
"""Older messages are not looked at."""

MAX_ATTACHMENTS = 20
"""Files of a turn that are looked at."""

MAX_TRAJECTORY = 1_000
"""Of a longer one send the end: older events than the last 200 are not looked at."""

RouteKind: TypeAlias = Literal["tools", "knowledge", "both", "none", "general"]
"""Where a turn goes: tools, passages, both; nowhere (small talk); or to the general tool, since
nothing here fits."""


Outcome: TypeAlias = Literal["success", "failure"]
"""How a call of a tool ended, or what became of a whole decision."""


class Message(BaseModel):
    """One earlier message; roles other than `user` are taken as the assistant's."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str = "user"
    content: str = ""

    @field_validator("content", mode="before")
    @classmethod
    def _text_of_parts(cls, value: Any) -> Any:
        """Providers also write a message as a list of parts; those of text are joined."""
        if value is None:
            return ""
        if not isinstance(value, list):
            return value
        parts = cast("list[Any]", value)
        texts = [cast("dict[str, Any]", part).get("text") for part in parts if _is_dict(part)]
        return "\n".join(text for text in texts if isinstance(text, str))


class Attachment(BaseModel):
    """A file that came with the turn: its name and MIME type, where known."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = ""
    mime: str = ""

    @model_validator(mode="after")
    def _says_something(self) -> Attachment:
        if not self.name.strip() and not self.mime.strip():
            raise ValueError("an attachment needs a name or a MIME type")
        return self


class Turn(BaseModel):
    """What a user says now, and what is known around it.

    Only the last messages of `history` are kept. What is no attachment in `attachments` is
    left out and counted in `unreadable`. `scope` is the caller's; `max_sensitivity` is the
    ceiling of where the answer goes (a model outside the house, say). `needs`: one line for each
    tool that the agent wishes for, each searched by itself. `trajectory` is what the agent did
    so far, oldest first: where it shows that the agent is stuck, other tools come, and a hint.
    `thread_id`: the conversation it belongs to, handed back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = ""
    history: tuple[Message, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    scope: Scope | None = None
    max_sensitivity: Sensitivity | None = None
    needs: tuple[str, ...] = ()
    trajectory: tuple[TrajectoryEvent, ...] = Field(default=(), max_length=MAX_TRAJECTORY)
    thread_id: str | None = Field(default=None, max_length=200)
    unreadable: int = Field(default=0, ge=0)

    @property
    def reach(self) -> Scope | None:
        """What may come into the answer: the caller's scope, below both ceilings."""
        if self.max_sensitivity is None:
            return self.scope
        scope = self.scope or Scope()
        return replace(scope, max_sensitivity=lowest(scope.max_sensitivity, self.max_sensitivity))

    @model_validator(mode="before")
    @classmethod
    def _keep_what_can_be_read(cls, fields: Any) -> Any:
        if not _is_dict(fields):
            return fields
        kept = dict(cast("dict[str, Any]", fields))
        if isinstance(history := kept.get("history"), list | tuple):
            kept["history"] = cast("list[Any]", history)[-HISTORY:]
        if "attachments" in kept:
            kept["attachments"], unreadable = _readable(kept["attachments"])
            if isinstance(before := kept.get("unreadable", 0), int):
                kept["unreadable"] = before + unreadable
        return kept


def _readable(given: Any) -> tuple[list[Attachment], int]:
    if given is None:
        return [], 0
    if not isinstance(given, list | tuple):
        return [], 1
    entries = cast("list[Any]", given)
    found: list[Attachment] = []
    for entry in entries:
        named = {"name": entry} if isinstance(entry, str) else entry
        with suppress(ValidationError):
            found.append(Attachment.model_validate(named))
    return found, len(entries) - len(found)


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


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
    kind it is, None for a real request. `need` is what answers the turn best (`act`, `know`,
    `both`, `neither`); `needs` says how likely each does, where a classifier told.
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
    needs: Annotated[dict[str, Score], UNLESS_EMPTY] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Route:
    """Where a turn goes, and why; `corrected_from` is what the first guess was."""

    kind: RouteKind
    reason: str
    confidence: Score | None = None
    corrected_from: RouteKind | None = None


@dataclass(frozen=True, slots=True)
class AgentDecision:
    """Which target a turn is for, one of those in the settings, and why, in 200 characters.

    `tables` and `columns` are all of the allowlist. `signals` say in short words what was
    noticed and corrected. `thread_id` is the turn's.
    """

    target: str
    confidence: Score
    reason: str
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything that was decided for a turn.

    `search_text` is what was searched with: the turn's text, or that joined with what it leans
    on. `agent` is null where no targets are configured. `took_ms` are milliseconds a stage;
    `degraded` names what failed or did not fit into the budget. `usage` is what language models
    were asked, `guidance` are hints for an agent that is stuck. At most `max_tool_calls` calls of
    `tool_timeout_s` seconds each should follow.
    """

    NOT_IN_SUMMARY: ClassVar[Any] = {"tools": ToolSelection.NOT_IN_SUMMARY}

    id: str
    context: Context
    route: Route
    tools: ToolSelection
    knowledge: KnowledgeResult
    search_text: str
    agent: AgentDecision | None = None
    signals: tuple[str, ...] = ()
    took_ms: dict[str, Milliseconds] = field(default_factory=dict[str, float])
    degraded: tuple[str, ...] = ()
    max_tool_calls: int = 5
    tool_timeout_s: float = 30.0
    usage: Annotated[tuple[ModelUsage, ...], UNLESS_EMPTY] = ()
    guidance: Annotated[tuple[GuidanceInjection, ...], UNLESS_EMPTY] = ()
