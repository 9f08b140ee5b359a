"""Turns of a conversation, with the events of an agent, and decisions about turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias, cast, get_args

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import from_json

from toolcrib.errors import require_type
from toolcrib.records.answers import ToolSelection
from toolcrib.records.codec import UNLESS_EMPTY, FrozenModel, Milliseconds, Score, is_object
from toolcrib.records.knowledge import KnowledgeResult
from toolcrib.records.scope import Scope, Sensitivity, lowest

COMMAND_PREFIX = "/caps:"
"""Beginning of a message that switches the selection of capabilities."""

MAX_HISTORY_MESSAGES = 20
"""Newest messages of a history that are read."""

MAX_ATTACHMENTS = 20
"""Attachments of a turn that are read."""

MAX_TRAJECTORY_EVENTS = 1_000
"""Most events of a turn's trajectory; only the last 200 are read."""

RouteKind: TypeAlias = Literal["tools", "knowledge", "both", "none", "general"]
"""Destination of a turn: tools, passages, both, none (small talk), or the general tool."""

Outcome: TypeAlias = Literal["success", "failure"]
"""Outcome of a tool call, or of a whole decision."""


ROLE_NAMES = {"human": "user", "ai": "assistant", "model": "assistant"}
"""Roles of other formats."""


class Message(BaseModel):
    """Earlier message; any role other than `user` counts as `assistant`.

    `content` may be a list of parts, as providers write it. LangChain's `type` stands for the role,
    and the `parts` of Google and Vercel for the content.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: Annotated[str, AfterValidator(lambda role: ROLE_NAMES.get(role, role))] = Field(
        default="user", validation_alias=AliasChoices("role", "type")
    )
    content: str = Field(default="", validation_alias=AliasChoices("content", "parts"))

    @field_validator("content", mode="before", json_schema_input_type=str | list[Any] | None)
    @classmethod
    def _text_of_parts(cls, value: Any) -> Any:
        """Join the text parts of a message that a provider wrote as a list of parts."""
        if value is None:
            return ""
        if not isinstance(value, list):
            return value
        parts = cast("list[Any]", value)
        texts = [part.get("text") for part in parts if is_object(part)]
        return "\n".join(text for text in texts if isinstance(text, str))


class Attachment(BaseModel):
    """File that came with the turn: its name and MIME type, where known."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = ""
    mime: str = ""

    @model_validator(mode="after")
    def _check_not_empty(self) -> Attachment:
        if not self.name.strip() and not self.mime.strip():
            raise ValueError("an attachment needs a name or a MIME type")
        return self


EventKind: TypeAlias = Literal["tool", "prompt", "search", "other"]
"""A call of a tool, a message, a search for tools, or an unreadable event."""

FIELD_ALIASES = {
    "name": ("tool", "tool_name"),
    "parameters": ("arguments", "args", "input", "tool_input"),
    "success": ("ok",),
    "text": ("content",),
    "result": ("output", "tool_response"),
}
"""Names of an event's fields in other formats."""


class TrajectoryEvent(BaseModel):
    """Event of an agent's work; `at` is in seconds of any clock, None if unknown.

    Without `success`, the text of the result decides. `found` are the names of tools that a search
    found. Dictionaries of other formats are read for a call or message, and keep their other
    fields. An unreadable dictionary becomes an event of type `other`, which guidance ignores.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    type: EventKind = "tool"
    at: float | None = Field(default=None, allow_inf_nan=False)
    name: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])
    success: bool | None = None
    error: str | None = None
    result: Any = None
    text: str = ""
    found: tuple[str, ...] = ()

    @model_validator(mode="wrap")
    @classmethod
    def _read_any_dictionary(cls, given: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(given, Mapping):
            return read(given)
        fields = cast("Mapping[str, Any]", given)
        try:
            return read(_with_own_names(fields))
        except ValidationError:
            return read({"type": "other", "given": dict(fields)})


def _with_own_names(given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {key: value for key, value in given.items() if key != "type"}
    kind = given.get("type")
    if kind == "other":
        return {**fields, "type": kind}
    for ours, others in FIELD_ALIASES.items():
        for theirs in others + (("query",) if (kind, ours) == ("search", "text") else ()):
            if ours not in fields and theirs in fields:
                fields[ours] = fields.pop(theirs)
    fields["parameters"] = call_arguments(fields.get("parameters"))
    if fields.get("error") is not None:
        fields["error"] = str(fields["error"])
        fields.setdefault("success", False)
    if isinstance(fields.get("at"), str):
        fields["at"] = _seconds(fields["at"])
    if kind not in get_args(EventKind):
        is_said = "text" in fields and fields.get("role", "user") == "user"
        kind = "tool" if fields.get("name") else "prompt" if is_said else "other"
    return {**fields, "type": kind}


def call_arguments(given: Any) -> dict[str, Any]:
    """Arguments of a call, parsed if a provider wrote them as JSON text."""
    if isinstance(given, str):
        with suppress(ValueError):
            given = from_json(given or "{}", allow_inf_nan=False)
    if isinstance(given, Mapping):
        return dict(cast("Mapping[str, Any]", given))
    return {} if given is None else {"arguments": given}


def _seconds(at: str) -> float | str:
    with suppress(ValueError):
        return datetime.fromisoformat(at).timestamp()
    return at


@dataclass(frozen=True, slots=True)
class TrajectoryPattern:
    """Pattern in a trajectory; detectors add fields of their own.

    `confidence` is from 0 to 1, and no probability. `first_seen` is the time of the first event,
    `occurrences` the number of repetitions, `evidence` a short description.
    """

    type: str
    confidence: Score
    evidence: str
    first_seen: float
    occurrences: int


class GuidanceInjection(FrozenModel):
    """Short hint for an agent; the lowest `priority` comes first."""

    key: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    content: str = Field(min_length=1, max_length=500)
    priority: int = 100
    category: str = "recovery"


@dataclass(frozen=True, slots=True)
class Guidance:
    """The hints for a trajectory, and the patterns that it shows."""

    injections: tuple[GuidanceInjection, ...] = ()
    patterns: tuple[TrajectoryPattern, ...] = ()


class Turn(FrozenModel):
    """Message of a user, and its surroundings.

    Only the last messages of `history` are kept. Unreadable entries of `attachments` are left out,
    and counted in `unreadable`. `scope` is the caller's; `max_sensitivity` is the ceiling of the
    answer's destination (such as a hosted model). `needs` has one line for each tool that the
    agent wants, searched separately. `trajectory` are the agent's events so far, oldest first: a
    stuck agent gets other tools, and a hint. `step` is the agent's text before its next call,
    perhaps empty: the answer then has tools for this call, and the tools called before.
    `thread_id` names the conversation, and is returned.
    """

    text: str = ""
    history: tuple[Message, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    scope: Scope | None = None
    max_sensitivity: Sensitivity | None = None
    needs: tuple[str, ...] = ()
    trajectory: tuple[TrajectoryEvent, ...] = Field(default=(), max_length=MAX_TRAJECTORY_EVENTS)
    step: str | None = None
    thread_id: str | None = Field(default=None, max_length=200)
    unreadable: int = Field(default=0, ge=0)

    if TYPE_CHECKING:
        # Wider than the fields, which hold the values as they are read.
        def __init__(  # noqa: PLR0913 -- one for each field
            self,
            *,
            text: str = ...,
            history: Sequence[Message | dict[str, Any]] = ...,
            attachments: Sequence[Attachment | dict[str, Any] | str] | None = ...,
            metadata: dict[str, Any] = ...,
            scope: Scope | None = ...,
            max_sensitivity: Sensitivity | None = ...,
            needs: Sequence[str] = ...,
            trajectory: Sequence[TrajectoryEvent | Mapping[str, Any]] = ...,
            step: str | None = ...,
            thread_id: str | None = ...,
            unreadable: int = ...,
        ) -> None: ...

    @classmethod
    def of(cls, turn: Turn | str) -> Turn:
        """Turn of a text; a turn as it is.

        Raises:
            QueryError: the value is of another type.
        """
        if isinstance(turn, Turn):
            return turn
        require_type(turn, str, "turn", "a Turn or a text")
        return cls(text=turn)

    @property
    def called(self) -> tuple[str, ...]:
        """Names of the tools that the trajectory called, in its order."""
        return tuple(each.name for each in self.trajectory if each.type == "tool" and each.name)

    @property
    def reach(self) -> Scope | None:
        """Scope of the answer: the caller's, below both ceilings."""
        if self.max_sensitivity is None:
            return self.scope
        scope = self.scope or Scope()
        return replace(scope, max_sensitivity=lowest(scope.max_sensitivity, self.max_sensitivity))

    @model_validator(mode="before")
    @classmethod
    def _keep_readable(cls, fields: Any) -> Any:
        if not is_object(fields):
            return fields
        kept = dict(fields)
        if isinstance(history := kept.get("history"), list | tuple):
            kept["history"] = newest_messages(list(cast("list[Any]", history)))
        if "attachments" in kept:
            kept["attachments"], unreadable = _readable(kept["attachments"])
            if isinstance(before := kept.get("unreadable", 0), int):
                kept["unreadable"] = before + unreadable
        return kept


def newest_messages(history: list[Any]) -> list[Any]:
    """Newest messages, after the last older command of a user (`/caps:off`), if any."""
    older, newest = history[:-MAX_HISTORY_MESSAGES], history[-MAX_HISTORY_MESSAGES:]
    for message in reversed(older):
        given = message if is_object(message) else getattr(message, "__dict__", {})
        text = given.get("content")
        is_command = isinstance(text, str) and text.lstrip()[:6].casefold() == COMMAND_PREFIX
        if is_command and given.get("role", "user") == "user":
            return [message, *newest]
    return newest


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


@dataclass(frozen=True, slots=True)
class Entity:
    """Typed span of the turn's text, from character `start` to before `end`."""

    type: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Context:
    """Detected context of a turn; detection calls no tool and writes nothing.

    `intent` and `domain` are None if no label fits (out of scope). `smalltalk` is its kind, None
    for a real request. `need` is the best kind of answer (`act`, `know`, `both`, `neither`);
    `needs` has the probability of each, if a classifier ran. `confidences` are probabilities by
    field; `confidence` is the lower of intent's and domain's. `signals` are short notes on the
    text. JSON lacks the text.
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
    """Route of a turn, and its reason; `corrected_from` is the first guess."""

    kind: RouteKind
    reason: str
    confidence: Score | None = None
    corrected_from: RouteKind | None = None


@dataclass(frozen=True, slots=True)
class AgentDecision:
    """Target of a turn, one of the settings', and the reason in at most 200 characters.

    `tables` and `columns` are in the allowlist. `signals` are short notes on evidence and
    corrections. `thread_id` is the turn's.
    """

    target: str
    confidence: Score
    reason: str
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    thread_id: str | None = None


# -- usage of language models --------------------------------------------------------------------

ModelUse: TypeAlias = Literal[
    "enrich",
    "rerank",
    "judge",
    "context",
    "agents",
    "capabilities",
    "questions",
    "conversation",
    "guidance",
]
"""Use of a language model; each may have its own model and timeout."""


class Price(FrozenModel):
    """Price of a million tokens of a model, in any currency."""

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0)

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Cost of a number of tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


Cost = Annotated[float, PlainSerializer(lambda value: round(value, 8), return_type=float)]


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Calls and tokens of one use of a model.

    `calls` counts requests, `failed` the requests without an answer. Tokens are as the server
    reported. `cost` is in the currency of the settings' prices, None without prices.
    """

    use: str
    model: str
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Cost | None = None

    def plus(self, more: ModelUsage) -> ModelUsage:
        """Sum of two usages of one use and model."""
        costs = [each.cost for each in (self, more) if each.cost is not None]
        return replace(
            self,
            calls=self.calls + more.calls,
            failed=self.failed + more.failed,
            input_tokens=self.input_tokens + more.input_tokens,
            output_tokens=self.output_tokens + more.output_tokens,
            cost=sum(costs) if costs else None,
        )


def totals(usages: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """Sum usages by use and model."""
    known: dict[tuple[str, str], ModelUsage] = {}
    for each in usages:
        before = known.get((each.use, each.model))
        known[each.use, each.model] = each if before is None else before.plus(each)
    return tuple(known.values())


# -- decisions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision on a turn.

    `search_text` is the searched text: the turn's, or the turn's joined with earlier messages that
    it refers to. `agent` is null without configured targets. `took_ms`: milliseconds by stage;
    `degraded` names stages that failed or exceeded the budget. `usage` counts calls of language
    models; `guidance` has hints for a stuck agent. At most `max_tool_calls` calls, of
    `tool_timeout_s` seconds each, should follow.
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


@dataclass(frozen=True, slots=True)
class Classification:
    """Class of a turn, by a question.

    `branch` is the id of a class; None if the question was `skipped`, as its `run_if` is false.
    `matched` is False if no class fits; `branch` is the default then. `confidence` is the
    probability that the class fits (if not `matched`: that no class fits), None if a language
    model chose, which states no probability. `degraded` names the failed part: `llm`. `id` is for
    `feedback`, if learning is on.
    """

    branch: str | None
    matched: bool
    confidence: Score | None = None
    degraded: tuple[str, ...] = ()
    skipped: Annotated[bool, UNLESS_EMPTY] = False
    id: Annotated[str, UNLESS_EMPTY] = ""


@dataclass(frozen=True, slots=True)
class FailedCapability:
    """Capability that is off because no decision about it was possible, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class CapabilitySelection:
    """Active capabilities of a turn: the always active first, the rest in their order.

    `probabilities`: that each is needed, unless a language model decided. `bypassed`: all are
    active, without a selection. `reclassifications`: number of new selections after a failure.
    `signals`: `bypassed`, `nothing_selected`, `reclassified`, `reclassification_limit`. `degraded`
    names failed parts: `llm`, `encoder`. `next`: the loop's next node (`router.choices.flow`), by
    `orchestration_mode`. `id` is for `feedback`, if learning is on.
    """

    active: tuple[str, ...]
    probabilities: dict[str, Score] = field(default_factory=dict[str, float])
    failed: tuple[FailedCapability, ...] = ()
    bypassed: bool = False
    reclassifications: int = 0
    signals: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    next: str = ""
    id: Annotated[str, UNLESS_EMPTY] = ""

    @property
    def update(self) -> dict[str, Any]:
        """Update of a loop's state, which clears the plan of other capabilities."""
        return {
            "capabilities": self.active,
            "plan": None,
            "step": 0,
            "error": None,
            "failure": "",
            "attempts": 0,
            "reclassifications": self.reclassifications,
        }
