"""Turns: read, decided, and helped on after a failure."""

from __future__ import annotations

from functools import partial

from fastapi import Request
from starlette.responses import Response

from toolcrib.crib import Crib
from toolcrib.errors import CalibrationError, UnknownDecisionError, UnknownToolError
from toolcrib.http.endpoints import Endpoint, answer
from toolcrib.http.past import log_of, require_visible
from toolcrib.http.searching import shaped
from toolcrib.http.visits import Visit, visit_of
from toolcrib.http.wire.turns import (
    AlternatesAnswer,
    AlternatesBody,
    ContextAnswer,
    DecisionAnswer,
    RouteBody,
    TurnBody,
)
from toolcrib.records import Decision, ToolHit, Turn

__all__ = ["ENDPOINTS"]


async def detect_context(body: TurnBody, request: Request) -> Response:
    """Say what kind of turn it is; nothing is called or written for it."""
    visit = visit_of(request)
    turn = _turn(visit, body)
    context = await visit.read(lambda crib: crib.detect(turn))
    visit.answered({}, text=body.text)
    return answer(context.as_dict())


async def route_turn(body: RouteBody, request: Request) -> Response:
    """Decide a turn: what kind it is, which tools and which passages it needs."""
    visit = visit_of(request)
    turn = _turn(visit, body)
    decision = await visit.read(partial(_route, visit, body, turn))
    verdict = decision.tools.verdict
    visit.answered(decision.took_ms, verdict=verdict, degraded=decision.degraded, text=body.text)
    shown = decision.as_dict()
    if body.shape != "summary":
        tools = shaped(decision.tools.tools, shown["tools"]["items"], body.shape)
        tools["items"] = tools.pop("tools")
        shown["tools"] |= tools
    return answer(shown)


def _route(visit: Visit, body: RouteBody, turn: Turn, crib: Crib) -> Decision:
    visit.house.logs.add(log_of(visit))
    by = visit.caller.key_id or None
    return crib.route(turn, k=body.k, budget_ms=body.budget_ms, shown=body.shown, by=by)


async def find_alternates(body: AlternatesBody, request: Request) -> Response:
    """Find the next best tools for what a failed one was to do, never one that failed before."""
    visit = visit_of(request)
    if isinstance(body.turn, str):
        turn = Turn(text=body.turn, scope=visit.scope())
    else:
        turn = _turn(visit, body.turn)
    hits = await visit.read(partial(_alternates, visit, body, turn))
    shown = [hit.as_dict() for hit in hits]
    if body.shape == "full":
        return answer(shaped(hits, shown, body.shape))
    return answer({"tools": shown})


def _alternates(visit: Visit, body: AlternatesBody, turn: Turn, crib: Crib) -> tuple[ToolHit, ...]:
    crib.get_tool(body.failed_tool, scope=turn.scope)
    if body.decision_id is not None:
        require_visible(visit, body.decision_id)
    return crib.alternates(body.failed_tool, turn, decision_id=body.decision_id, k=body.k)


def _turn(visit: Visit, body: TurnBody) -> Turn:
    return body.as_turn(visit.scope(body.scope and body.scope.as_scope()))


TAG = "turns"

ENDPOINTS = (
    Endpoint("POST", "/v1/detect", detect_context, TAG, ContextAnswer),
    Endpoint("POST", "/v1/route", route_turn, TAG, DecisionAnswer, (CalibrationError,)),
    Endpoint(
        "POST",
        "/v1/alternates",
        find_alternates,
        TAG,
        AlternatesAnswer,
        (UnknownToolError, UnknownDecisionError, CalibrationError),
    ),
)
