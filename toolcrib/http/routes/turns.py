"""Turns over HTTP: context, decisions, alternates, guidance, history and feedback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from toolcrib.crib import Crib
from toolcrib.errors import (
    CalibrationError,
    FeedbackError,
    MissingExtraError,
    QuestionRenderError,
    UnknownDecisionError,
    UnknownQuestionError,
    UnknownToolError,
)
from toolcrib.http.context import RequestContext
from toolcrib.http.routes.tools import IF_SHAPED, Shape, shaped_response
from toolcrib.http.routing import (
    AS_WHOLE,
    Body,
    Count,
    Endpoint,
    Identifier,
    QueryText,
    TokenBudget,
    answer,
    strict_config,
)
from toolcrib.indexers.readers.base import is_list
from toolcrib.records import (
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
from toolcrib.records.answers import Alternates, LeftOut
from toolcrib.records.log import DecisionPage, DecisionRecord, FeedbackRecord, OutcomeRecord
from toolcrib.records.turns import (
    MAX_TRAJECTORY_EVENTS,
    CapabilitySelection,
    Classification,
    newest_messages,
)
from toolcrib.retrieval.options import MAX_NEEDS, KnowledgeOptions
from toolcrib.router.choices.flow import LoopState
from toolcrib.router.decision_log import Feedback

LOG_DELAY_S = 0.1
"""Delay until another process has written a decision that it already returned."""

MAX_PAGE_DECISIONS = 200
MAX_PAGES_READ = 20
"""Pages of the log that are read for one page of a caller who sees few decisions."""

DecisionId = Annotated[str, Field(min_length=1, max_length=200)]

EXAMPLE_DECISION_ID = "0d4c1c1e2f6a4f0b9d5a4d1d0a7b8c9e"
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


def _recent_messages(messages: Any) -> Any:
    """Last messages; older ones are not validated, because there may be many."""
    return newest_messages(messages) if is_list(messages) else messages


class TurnBody(Body):
    """A user's text, with its context.

    Invalid `attachments` are ignored. `needs`: one line for each tool that the agent wants. `scope`
    narrows the key's; `max_sensitivity`: limit of the answer's destination. `trajectory`: the
    agent's events so far, of the types `tool` (`name`, `parameters`, `success`, `error`, `result`),
    `prompt` (`text`) and `search` (`text`, `found`), each with `at` in seconds; invalid events are
    ignored. `step`: what the agent wrote before its next call; it is the query for tools.
    `thread_id`: id of the conversation, returned unchanged.
    """

    model_config = strict_config(examples=[EXAMPLE_TURN])

    text: str = ""
    history: Annotated[list[MessageBody], BeforeValidator(_recent_messages)] = Field(default=[])
    attachments: list[Any] | None = None
    metadata: dict[str, Any] = Field(default={})
    scope: Scope | None = None
    max_sensitivity: Sensitivity | None = None
    needs: list[QueryText] = Field(default=[], max_length=MAX_NEEDS)
    trajectory: list[dict[str, Any]] = Field(default=[], max_length=MAX_TRAJECTORY_EVENTS)
    step: str | None = None
    thread_id: str | None = Field(default=None, max_length=200)
    unreadable: Annotated[int, Field(ge=0, le=2**31), AS_WHOLE] = 0

    def as_turn(self, context: RequestContext) -> Turn:
        """Turn within the caller's scope; call it in a thread, because the turn may be long."""
        given = {name: getattr(self, name) for name in Turn.model_fields}
        history = [each.model_dump() for each in self.history]
        return Turn.model_validate(given | {"history": history, "scope": context.scope(self.scope)})


class RouteBody(TurnBody):
    """A turn to decide: `k` tools or `auto`, within `budget_ms`; `shown`: tools of earlier turns.

    `passages`: limit of their number; `token_budget`: of their tokens; `collections`: their
    sources.
    """

    k: Count | Literal["auto"] | None = None
    passages: Count | None = None
    collections: list[str] | None = Field(default=None, max_length=1_000)
    token_budget: TokenBudget | None = None
    budget_ms: float | None = Field(default=None, ge=0)
    shown: list[str] = Field(default=[], max_length=10_000)
    shape: Shape = "summary"


class ClassifyBody(TurnBody):
    """A turn to classify by a question of the service's settings.

    `variables` are for the question's template; `outputs` are those of earlier nodes of an agent's
    graph, by name.
    """

    model_config = strict_config(examples=[{"question": "support", "text": "where is my parcel?"}])

    question: Annotated[str, Field(min_length=1, max_length=200)]
    variables: dict[str, Any] = Field(default={})
    outputs: dict[str, Any] = Field(default={})


class CapabilitiesBody(TurnBody):
    """A turn to select capabilities of the service's settings for.

    `bypass`: activates all, or overrides a bypass of the conversation or the settings. `state`: of
    an agent's loop; after a failure in it, capabilities are selected again.
    """

    model_config = strict_config(examples=[{"text": "plot the revenue of March as bars"}])

    bypass: bool | None = None
    state: LoopState | None = None


class AlternatesBody(Body):
    """A tool that failed in a turn, given as a body or a text."""

    model_config = strict_config(
        examples=[{"failed_tool": "mail/send_mail", "turn": "write to Ana", "k": 2}]
    )

    failed_tool: Identifier
    turn: TurnBody | str
    decision_id: DecisionId | None = None
    k: Count = 3
    shape: Literal["summary", "full"] = "summary"


class GuidanceBody(TurnBody):
    """A turn with its trajectory; `given`: keys of earlier hints."""

    model_config = strict_config(examples=[EXAMPLE_STUCK])

    given: list[str] = Field(default=[], max_length=1_000)


@dataclass(frozen=True, slots=True)
class ShapedSelection(ToolSelection):
    """The tools of a turn, in the requested shape."""

    tools: tuple[ToolHit, ...] | tuple[dict[str, Any], ...]  # pyright: ignore[reportIncompatibleVariableOverride]
    names: Annotated[dict[str, str], IF_SHAPED] = field(default_factory=dict[str, str])
    left_out: Annotated[tuple[LeftOut, ...], IF_SHAPED] = ()


@dataclass(frozen=True, slots=True)
class RoutedTurn(Decision):
    """Decision of a turn."""

    tools: ShapedSelection


async def detect_context(context: RequestContext, body: TurnBody) -> Context:
    """Detect the context of a turn; calls and writes nothing."""
    found = await context.read(lambda crib: crib.detect(body.as_turn(context)))
    context.record_answer({}, text=body.text)
    return found


async def route_turn(context: RequestContext, body: RouteBody) -> Annotated[Response, RoutedTurn]:
    """Decide a turn: its context, tools and passages."""

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
    context.record_answer(made.took_ms, verdict=verdict, degraded=made.degraded, text=body.text)
    return shaped_response(made, body.shape)


async def classify_turn(context: RequestContext, body: ClassifyBody) -> Classification:
    """Classify a turn by a question."""
    given = {"variables": body.variables, "outputs": body.outputs}
    return await _choose(
        context, body, lambda crib, turn: crib.classify(body.question, turn, **given)
    )


async def select_capabilities(
    context: RequestContext, body: CapabilitiesBody
) -> CapabilitySelection:
    """Select the capabilities that a turn needs, each judged by itself."""
    given: dict[str, Any] = {"bypass": body.bypass, "state": body.state}
    return await _choose(context, body, lambda crib, turn: crib.select_capabilities(turn, **given))


_Choice = TypeVar("_Choice", Classification, CapabilitySelection)


async def _choose(
    context: RequestContext, body: TurnBody, choose: Callable[[Crib, Turn], _Choice]
) -> _Choice:
    def work(crib: Crib) -> _Choice:
        made = choose(crib, body.as_turn(context))
        crib.turns.assign(made.id, context.caller.key_id)
        return made

    found = await context.read(work)
    context.record_answer({}, degraded=found.degraded, text=body.text)
    return found


async def find_alternates(
    context: RequestContext, body: AlternatesBody
) -> Annotated[Response, Alternates]:
    """Find the next best tools for a failed one, without tools that failed before."""
    given = TurnBody(text=body.turn) if isinstance(body.turn, str) else body.turn
    if body.decision_id is not None:
        await _require_visible(context, body.decision_id)

    def work(crib: Crib) -> tuple[ToolHit, ...]:
        turn = given.as_turn(context)
        return crib.alternates(body.failed_tool, turn, decision_id=body.decision_id, k=body.k)

    return answer(Alternates(await context.read(work)), full=body.shape == "full")


async def give_guidance(context: RequestContext, body: GuidanceBody) -> Guidance:
    """Get the one useful hint for an agent that is stuck, if there is one."""
    return await context.read(lambda crib: crib.guidance(body.as_turn(context), given=body.given))


# -- decision log ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DecisionsQuery:
    """A page of decisions, older than the `cursor`; `reports`: with feedback and outcomes."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_DECISIONS)] = 50
    cursor: Annotated[str, Field(max_length=200)] | None = None
    reports: bool = False


@dataclass(frozen=True, slots=True)
class DecisionHistory:
    """A logged decision, with its feedback and outcomes."""

    decision: DecisionRecord
    feedback: tuple[FeedbackRecord, ...]
    outcomes: tuple[OutcomeRecord, ...]


@dataclass(frozen=True, slots=True)
class ReportedCall:
    """Outcome of a tool call; `by` is the id of the key whose decision offered the tool."""

    outcome: OutcomeRecord
    by: str | None


@dataclass(frozen=True, slots=True)
class ReportedCalls:
    """Reported calls; those of the newest decisions come first."""

    calls: tuple[ReportedCall, ...]


@dataclass(frozen=True, slots=True)
class OutcomesQuery:
    """Number of calls in the answer."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_DECISIONS)] = 50


class OutcomeBody(Body):
    """Outcome of a tool call."""

    model_config = strict_config(
        examples=[
            {"decision_id": EXAMPLE_DECISION_ID, "tool": "mail/send_mail", "outcome": "failure"}
        ]
    )

    decision_id: DecisionId
    tool: Identifier
    outcome: Outcome
    took_ms: float | None = Field(default=None, ge=0)


class FeedbackBody(Feedback):
    """Feedback on a decision: the right answers, as far as known."""

    model_config = strict_config(
        any_of=[
            {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
            for name in Feedback.model_fields
        ],
        examples=[
            {"decision_id": EXAMPLE_DECISION_ID, "tools": ["mail/send_mail"], "outcome": "success"}
        ],
    )

    decision_id: DecisionId


async def list_decisions(
    context: RequestContext, query: DecisionsQuery
) -> Annotated[Response, DecisionPage]:
    """List decisions, newest first: all for a key that may write everything, else its own."""

    def read() -> dict[str, Any]:
        page = _recent(context, query.limit, query.cursor)
        if not query.reports:
            return page
        about = [context.log().about(each["id"]) for each in page["decisions"]]
        feedback = [record for each in about for record in each.feedback]
        outcomes = [record for each in about for record in each.outcomes]
        return {**page, "feedback": feedback, "outcomes": outcomes}

    return answer(await context.run(read))


def _recent(context: RequestContext, limit: int, before: str | None) -> dict[str, Any]:
    """Page of the caller's decisions, with the cursor of the next page."""
    log = context.log()
    visible: list[Mapping[str, Any]] = []
    for _ in range(MAX_PAGES_READ):
        page = log.recent(limit, before)
        for record in page:
            if context.sees_decision(record):
                visible.append(record)
            before = record["id"]
            if len(visible) == limit:
                return {"decisions": visible, "next": before}
        if len(page) < limit:
            return {"decisions": visible, "next": None}
    return {"decisions": visible, "next": before}


async def get_decision(
    context: RequestContext, decision_id: Annotated[str, Field(max_length=200)]
) -> Annotated[Response, DecisionHistory]:
    """Get a logged decision, with its feedback and outcomes."""
    record = await _require_visible(context, decision_id)
    notes = await context.run(lambda: context.log().about(decision_id))
    return answer({"decision": record, "feedback": notes.feedback, "outcomes": notes.outcomes})


async def list_outcomes(
    context: RequestContext, query: OutcomesQuery
) -> Annotated[Response, ReportedCalls]:
    """List reported calls of tools: all for a key that may write everything, else its own."""

    def read() -> list[dict[str, Any]]:
        pairs = islice(context.log().outcomes(), query.limit * MAX_PAGES_READ)
        calls = (
            {"outcome": made, "by": of.get("by")} for made, of in pairs if context.sees_decision(of)
        )
        return list(islice(calls, query.limit))

    return answer({"calls": await context.run(read)})


async def report_outcome(context: RequestContext, body: OutcomeBody) -> None:
    """Report the outcome of a call of a tool; alternates avoid failed tools."""
    await _require_visible(context, body.decision_id)
    call = body.decision_id, body.tool, body.outcome
    await context.read(lambda crib: crib.report_outcome(*call, took_ms=body.took_ms))


async def give_feedback(context: RequestContext, body: FeedbackBody) -> None:
    """Give feedback on a decision: the right answers."""
    by = None if context.sees_all_decisions else context.caller.key_id
    if not await context.read(lambda crib: crib.turns.is_pending(body.decision_id, by)):
        await _require_visible(context, body.decision_id)
    feedback = body.model_dump(exclude={"decision_id"}, exclude_none=True)
    await context.read(lambda crib: crib.feedback(body.decision_id, **feedback))


async def _require_visible(context: RequestContext, decision_id: str) -> Mapping[str, Any]:
    """Record of a decision that the caller may see."""
    record = await context.run(lambda: context.log().find(decision_id))
    if record is None and not context.state.namespaces.is_alone:
        # Wait without a thread: a sleeping thread would block other requests.
        await asyncio.sleep(LOG_DELAY_S)
        record = await context.run(lambda: context.log().find(decision_id))
    if record is None or not context.sees_decision(record):
        raise UnknownDecisionError(f"there is no decision {decision_id!r}")
    return record


DECISION_ERRORS = (UnknownDecisionError,)
FEEDBACK_ERRORS = (UnknownDecisionError, FeedbackError)
CLASSIFY_ERRORS = (UnknownQuestionError, QuestionRenderError, MissingExtraError)
ALTERNATE_ERRORS = (UnknownToolError, UnknownDecisionError, CalibrationError)

ENDPOINTS = (
    Endpoint("POST", "/v1/detect", detect_context, "turns"),
    Endpoint("POST", "/v1/route", route_turn, "turns", (CalibrationError,)),
    Endpoint("POST", "/v1/classify", classify_turn, "turns", CLASSIFY_ERRORS),
    Endpoint("POST", "/v1/capabilities", select_capabilities, "turns"),
    Endpoint("POST", "/v1/alternates", find_alternates, "turns", ALTERNATE_ERRORS),
    Endpoint("POST", "/v1/guidance", give_guidance, "turns"),
    Endpoint("GET", "/v1/decisions", list_decisions, "decisions"),
    Endpoint("GET", "/v1/decisions/{id}", get_decision, "decisions", DECISION_ERRORS),
    Endpoint("GET", "/v1/outcomes", list_outcomes, "decisions"),
    Endpoint("POST", "/v1/outcomes", report_outcome, "decisions", DECISION_ERRORS),
    Endpoint("POST", "/v1/feedback", give_feedback, "decisions", FEEDBACK_ERRORS),
)
