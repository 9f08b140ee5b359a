"""Turns over HTTP: read, decided, helped on after a failure, looked back at, and judged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from toolcrib.crib import Crib
from toolcrib.errors import (
    CalibrationError,
    FeedbackError,
    QuestionRenderError,
    UnknownDecisionError,
    UnknownQuestionError,
    UnknownToolError,
)
from toolcrib.http.context import RequestContext
from toolcrib.http.routes.tools import Shape, shaped
from toolcrib.http.routing import (
    AS_WHOLE,
    Body,
    Count,
    Endpoint,
    QueryText,
    TokenBudget,
    answer,
    documented,
)
from toolcrib.records import (
    Alternates,
    Context,
    Decision,
    Guidance,
    Outcome,
    Scope,
    Sensitivity,
    ToolHit,
    ToolSelection,
    Turn,
)
from toolcrib.records.choices import CapabilitySelection, Classification
from toolcrib.records.history import DecisionRecord, FeedbackRecord, OutcomeRecord
from toolcrib.records.turns import MAX_HISTORY_MESSAGES, MAX_TRAJECTORY_EVENTS
from toolcrib.retrieval.options import MAX_NEEDS, KnowledgeOptions
from toolcrib.router.decision_log import Feedback
from toolcrib.router.flow import LoopState

__all__ = ["ENDPOINTS"]

PATIENCE_S = 0.1
"""Another process writes its decisions a moment after it has answered."""

MAX_PAGE = 200
MAX_PAGES = 20
"""How far back a page is looked for, for a caller who sees few of a namespace's decisions."""

DecisionId = Annotated[str, Field(min_length=1, max_length=200)]
Id = Annotated[str, Field(min_length=1, max_length=1100)]

EXAMPLE_ID = "0d4c1c1e2f6a4f0b9d5a4d1d0a7b8c9e"
EXAMPLE_TURN: dict[str, Any] = {
    "text": "and now send it to Ana",
    "history": [{"role": "user", "content": "write a summary of the meeting"}],
}

EXAMPLE_STUCK: dict[str, Any] = {
    "text": "write to Ana",
    "trajectory": [
        {
            "type": "tool",
            "name": "mail/send_mail",
            "parameters": {"to": "ana"},
            "success": False,
            "error": "550 mailbox unavailable",
        }
    ]
    * 3,
}

# -- turns -----------------------------------------------------------------------------------


class MessageBody(Body):
    """One earlier message; `content` may be a list of parts, as providers write it."""

    model_config = ConfigDict(extra="ignore")

    role: str = "user"
    content: str | list[Any] | None = ""


def _last(messages: Any) -> Any:
    """The messages that are looked at: of the others none is checked, there may be many."""
    return (
        cast("list[Any]", messages)[-MAX_HISTORY_MESSAGES:]
        if isinstance(messages, list)
        else messages
    )


class TurnBody(Body):
    """What a user says now, and what is known around it.

    What is no attachment in `attachments` is left out. `needs`: one line for each tool that the
    agent wishes for. `scope` narrows what the key allows;
    `max_sensitivity` is the ceiling of where the answer goes. `trajectory`: what the agent did so
    far, as events of the types `tool` (`name`, `parameters`, `success`, `error`, `result`),
    `prompt` (`text`) and `search` (`text`, `found`), each with `at` in seconds; what cannot be
    read is not looked at. `thread_id`: the conversation it belongs to, handed back.
    """

    model_config = documented(examples=[EXAMPLE_TURN])

    text: str = ""
    history: Annotated[list[MessageBody], BeforeValidator(_last)] = Field(default=[])
    attachments: list[Any] | None = None
    metadata: dict[str, Any] = Field(default={})
    scope: Scope | None = None
    max_sensitivity: Sensitivity | None = None
    needs: list[QueryText] = Field(default=[], max_length=MAX_NEEDS)
    trajectory: list[dict[str, Any]] = Field(default=[], max_length=MAX_TRAJECTORY_EVENTS)
    thread_id: str | None = Field(default=None, max_length=200)
    unreadable: Annotated[int, Field(ge=0, le=2**31), AS_WHOLE] = 0

    def as_turn(self, context: RequestContext) -> Turn:
        """The turn, within what the caller may use; for a thread, since it may be long."""
        told = {name: getattr(self, name) for name in Turn.model_fields}
        history = [each.model_dump() for each in self.history]
        return Turn.model_validate(told | {"history": history, "scope": context.scope(self.scope)})


class RouteBody(TurnBody):
    """A turn to decide: `k` tools or `auto`, within `budget_ms`; `shown` are of earlier turns.

    At most so many `passages`, of `token_budget` tokens, out of `collections` of these names.
    """

    k: Count | Literal["auto"] | None = None
    passages: Count | None = None
    collections: list[str] | None = Field(default=None, max_length=1_000)
    token_budget: TokenBudget | None = None
    budget_ms: float | None = Field(default=None, ge=0)
    shown: list[str] = Field(default=[], max_length=10_000)
    shape: Shape = "summary"


class ClassifyBody(TurnBody):
    """A turn, and the name of the question of the service's settings that it is classified by.

    `variables` are for the question's template, `outputs` what earlier nodes of an agent's graph
    gave, by their names.
    """

    model_config = documented(examples=[{"question": "support", "text": "where is my parcel?"}])

    question: Annotated[str, Field(min_length=1, max_length=200)]
    variables: dict[str, Any] = Field(default={})
    outputs: dict[str, Any] = Field(default={})


class CapabilitiesBody(TurnBody):
    """A turn to select capabilities for, of those of the service's settings.

    `bypass`: whether all are active, in place of what the conversation or the settings say.
    `state`: of an agent's loop; where it says what failed, they are selected anew.
    """

    model_config = documented(examples=[{"text": "plot the revenue of March as bars"}])

    bypass: bool | None = None
    state: LoopState | None = None


class AlternatesBody(Body):
    """A tool that failed in a turn, given whole or as its text."""

    model_config = documented(
        examples=[{"failed_tool": "mail/send_mail", "turn": "write to Ana", "k": 2}]
    )

    failed_tool: Id
    turn: TurnBody | str
    decision_id: DecisionId | None = None
    k: Count = 3
    shape: Literal["summary", "full"] = "summary"


class GuidanceBody(TurnBody):
    """A turn with its trajectory; `given` are the keys of hints that were given before."""

    model_config = documented(examples=[EXAMPLE_STUCK])

    given: list[str] = Field(default=[], max_length=1_000)


@dataclass(frozen=True, slots=True)
class ShapedSelection(ToolSelection):
    """The tools of a turn, in the shape that was asked for."""

    tools: Annotated[  # pyright: ignore[reportIncompatibleVariableOverride]
        tuple[ToolHit, ...] | tuple[dict[str, Any], ...], Field(alias="items")
    ]
    names: Annotated[dict[str, str], Field(exclude_if=lambda _: False)] = field(
        default_factory=dict[str, str]
    )


@dataclass(frozen=True, slots=True)
class RoutedTurn(Decision):
    """Everything that was decided for a turn."""

    tools: ShapedSelection


async def detect_context(context: RequestContext, body: TurnBody) -> Response:
    """Say what kind of turn it is; nothing is called or written for it."""
    found = await context.read(lambda crib: crib.detect(body.as_turn(context)))
    context.answered({}, text=body.text)
    return answer(found)


async def route_turn(context: RequestContext, body: RouteBody) -> Response:
    """Decide a turn: what kind it is, which tools and which passages it needs."""

    def work(crib: Crib) -> Decision:
        context.state.logs.add(context.log())
        by = context.caller.key_id or None
        return crib.turns.route(
            body.as_turn(context),
            k=body.k,
            budget_ms=body.budget_ms,
            shown=body.shown,
            passages=KnowledgeOptions(body.passages, body.collections, body.token_budget),
            by=by,
        )

    made = await context.read(work)
    verdict = made.tools.verdict
    context.answered(made.took_ms, verdict=verdict, degraded=made.degraded, text=body.text)
    return shaped(made, made.tools.tools, body.shape, "tools", "items")


async def classify_turn(context: RequestContext, body: ClassifyBody) -> Response:
    """Say which class of a question a turn belongs to."""

    def work(crib: Crib) -> Classification:
        turn = body.as_turn(context)
        return crib.classify(body.question, turn, variables=body.variables, outputs=body.outputs)

    found = await context.read(work)
    context.answered({}, degraded=found.degraded, text=body.text)
    return answer(found)


async def select_capabilities(context: RequestContext, body: CapabilitiesBody) -> Response:
    """Say which capabilities a turn needs, each judged by itself."""
    turn = body.as_turn(context)
    found = await context.read(
        lambda crib: crib.select_capabilities(turn, bypass=body.bypass, state=body.state)
    )
    context.answered({}, degraded=found.degraded, text=body.text)
    return answer(found)


async def find_alternates(context: RequestContext, body: AlternatesBody) -> Response:
    """Find the next best tools for what a failed one was to do, never one that failed before."""
    given = TurnBody(text=body.turn) if isinstance(body.turn, str) else body.turn
    if body.decision_id is not None:
        await _require_visible(context, body.decision_id)

    def work(crib: Crib) -> tuple[ToolHit, ...]:
        turn = given.as_turn(context)
        crib.get_tool(body.failed_tool, scope=turn.scope)
        return crib.alternates(body.failed_tool, turn, decision_id=body.decision_id, k=body.k)

    return answer(Alternates(await context.read(work)), full=body.shape == "full")


async def give_guidance(context: RequestContext, body: GuidanceBody) -> Response:
    """Give the one useful hint for an agent that is stuck, if there is one."""
    found = await context.read(lambda crib: crib.guidance(body.as_turn(context), given=body.given))
    return answer(found)


# -- decisions of the past -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DecisionsQuery:
    """How many decisions to list, older than which one."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50
    cursor: Annotated[str, Field(max_length=200)] | None = None


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """One page of decisions, newest first; `next` is the cursor of older ones."""

    decisions: tuple[DecisionRecord, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class DecisionHistory:
    """A decision as it was logged, and what was said of it."""

    decision: DecisionRecord
    feedback: tuple[FeedbackRecord, ...]
    outcomes: tuple[OutcomeRecord, ...]


class OutcomeBody(Body):
    """How a call of a tool ended."""

    model_config = documented(
        examples=[{"decision_id": EXAMPLE_ID, "tool": "mail/send_mail", "outcome": "failure"}]
    )

    decision_id: DecisionId
    tool: Id
    outcome: Outcome
    took_ms: float | None = Field(default=None, ge=0)


class FeedbackBody(Feedback):
    """What would have been right for a decision, as far as somebody says so."""

    model_config = documented(
        anyOf=[
            {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
            for name in Feedback.model_fields
        ],
        examples=[{"decision_id": EXAMPLE_ID, "tools": ["mail/send_mail"], "outcome": "success"}],
    )

    decision_id: DecisionId


async def list_decisions(context: RequestContext, query: DecisionsQuery) -> Response:
    """List decisions, newest first: all of the namespace for a key that may write, else its own."""
    return answer(await context.run(partial(_recent, context, query.limit, query.cursor)))


def _recent(context: RequestContext, limit: int, before: str | None) -> dict[str, Any]:
    """The caller's last decisions, and behind which one older ones begin."""
    log = context.log()
    found: list[Mapping[str, Any]] = []
    for _ in range(MAX_PAGES):
        page = log.recent(limit, before)
        for record in page:
            if _is_visible(context, record):
                found.append(record)
            before = record["id"]
            if len(found) == limit:
                return {"decisions": found, "next": before}
        if len(page) < limit:
            return {"decisions": found, "next": None}
    return {"decisions": found, "next": before}


async def get_decision(
    context: RequestContext, decision_id: Annotated[str, Field(max_length=200)]
) -> Response:
    """Give a decision as it was logged, with the feedback and outcomes that were told of it."""
    record = await _require_visible(context, decision_id)
    said = await context.run(lambda: context.log().about(decision_id))
    return answer({"decision": record, "feedback": said.feedback, "outcomes": said.outcomes})


async def report_outcome(context: RequestContext, body: OutcomeBody) -> None:
    """Say how a call of a tool ended; alternates avoid what failed."""
    await _require_visible(context, body.decision_id)
    told = body.decision_id, body.tool, body.outcome
    await context.read(lambda crib: crib.report_outcome(*told, took_ms=body.took_ms))


async def give_feedback(context: RequestContext, body: FeedbackBody) -> None:
    """Say what would have been right for a decision."""
    await _require_visible(context, body.decision_id)
    said = body.model_dump(exclude={"decision_id"}, exclude_none=True)
    await context.read(lambda crib: crib.feedback(body.decision_id, **said))


def _is_visible(context: RequestContext, record: Mapping[str, Any]) -> bool:
    """Whether the caller may know of a decision: one of its own, or any where it may write."""
    return context.caller.may_write or record.get("by") == context.caller.key_id


async def _require_visible(context: RequestContext, decision_id: str) -> Mapping[str, Any]:
    """The record of a decision.

    Raises:
        UnknownDecisionError: there is none, or none of the caller's.
    """
    record = await context.run(lambda: context.log().find(decision_id))
    if record is None and not context.state.namespaces.is_alone:
        # Awaited: a thread that slept would keep others from answering.
        await asyncio.sleep(PATIENCE_S)
        record = await context.run(lambda: context.log().find(decision_id))
    if record is None or not _is_visible(context, record):
        raise UnknownDecisionError(f"there is no decision {decision_id!r}")
    return record


UNKNOWN = (UnknownDecisionError,)
NO_ALTERNATES = (UnknownToolError, UnknownDecisionError, CalibrationError)

ENDPOINTS = (
    Endpoint("POST", "/v1/detect", detect_context, "turns", Context),
    Endpoint("POST", "/v1/route", route_turn, "turns", RoutedTurn, (CalibrationError,)),
    Endpoint(
        "POST",
        "/v1/classify",
        classify_turn,
        "turns",
        Classification,
        (UnknownQuestionError, QuestionRenderError),
    ),
    Endpoint("POST", "/v1/capabilities", select_capabilities, "turns", CapabilitySelection),
    Endpoint("POST", "/v1/alternates", find_alternates, "turns", Alternates, NO_ALTERNATES),
    Endpoint("POST", "/v1/guidance", give_guidance, "turns", Guidance),
    Endpoint("GET", "/v1/decisions", list_decisions, "decisions", DecisionPage),
    Endpoint("GET", "/v1/decisions/{id}", get_decision, "decisions", DecisionHistory, UNKNOWN),
    Endpoint("POST", "/v1/outcomes", report_outcome, "decisions", None, UNKNOWN),
    Endpoint("POST", "/v1/feedback", give_feedback, "decisions", None, (*UNKNOWN, FeedbackError)),
)
