"""Decisions of the past: looked back at, and what is said of them."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from toolcrib.crib import Crib
from toolcrib.errors import FeedbackError, UnknownDecisionError
from toolcrib.http.endpoints import Endpoint, answer, nothing
from toolcrib.http.past import log_of, recent, require_visible
from toolcrib.http.visits import Visit, visit_of
from toolcrib.http.wire.records import DecisionsAnswer, RecordAnswer
from toolcrib.http.wire.turns import FeedbackBody, OutcomeBody

__all__ = ["ENDPOINTS"]

MAX_PAGE = 200


async def list_decisions(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """List decisions, newest first: all of the namespace for a key that may write, else its own."""
    visit = visit_of(request)
    found, before = await visit.look(lambda: recent(visit, limit, cursor))
    return answer({"decisions": found, "next": before})


async def get_decision(
    id: Annotated[str, Path(max_length=200)],
    request: Request,
) -> Response:
    """Give a decision as it was logged, with the feedback and outcomes that were told of it."""
    visit = visit_of(request)

    def look() -> dict[str, object]:
        record = require_visible(visit, id)
        said = log_of(visit).about(id)
        return {"decision": record, "feedback": said.feedback, "outcomes": said.outcomes}

    return answer(await visit.look(look))


async def report_outcome(body: OutcomeBody, request: Request) -> Response:
    """Say how a call of a tool ended; alternates avoid what failed."""
    visit = visit_of(request)
    await visit.read(partial(_report, visit, body))
    return nothing()


def _report(visit: Visit, body: OutcomeBody, crib: Crib) -> None:
    require_visible(visit, body.decision_id)
    crib.report_outcome(body.decision_id, body.tool, body.outcome, took_ms=body.took_ms)


async def give_feedback(body: FeedbackBody, request: Request) -> Response:
    """Say what would have been right for a decision."""
    visit = visit_of(request)
    await visit.read(partial(_feedback, visit, body))
    return nothing()


def _feedback(visit: Visit, body: FeedbackBody, crib: Crib) -> None:
    require_visible(visit, body.decision_id)
    crib.feedback(body.decision_id, **body.model_dump(exclude={"decision_id"}, exclude_none=True))


TAG = "decisions"
UNKNOWN = (UnknownDecisionError,)

ENDPOINTS = (
    Endpoint("GET", "/v1/decisions", list_decisions, TAG, DecisionsAnswer),
    Endpoint("GET", "/v1/decisions/{id}", get_decision, TAG, RecordAnswer, UNKNOWN),
    Endpoint("POST", "/v1/outcomes", report_outcome, TAG, errors=(UnknownDecisionError,)),
    Endpoint(
        "POST",
        "/v1/feedback",
        give_feedback,
        TAG,
        errors=(UnknownDecisionError, FeedbackError),
    ),
)
