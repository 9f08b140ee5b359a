"""What is held back: seen, and let go or forgotten."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from typing import Any

from fastapi import Request
from starlette.responses import Response

from toolcrib.access.quarantine import Held
from toolcrib.crib import Crib
from toolcrib.errors import ForbiddenError, UnknownToolError
from toolcrib.http.endpoints import Endpoint, answer, nothing
from toolcrib.http.tool_writing import allows, write_tools
from toolcrib.http.tools import ToolId
from toolcrib.http.visits import Visit, visit_of
from toolcrib.http.wire.quarantine import QuarantineAnswer, VerdictBody

__all__ = ["ENDPOINTS"]


async def list_quarantine(request: Request) -> Response:
    """List the tools that are held back, with what the audit found."""
    visit = visit_of(request)
    return answer({"held": await visit.look(lambda: _in_reach(visit))})


def _in_reach(visit: Visit) -> list[dict[str, Any]]:
    return [held.as_dict() for held in visit.quarantine().list() if _is_in_reach(visit, held)]


def _is_in_reach(visit: Visit, held: Held) -> bool:
    return allows(visit.scope(), held.spec)


async def judge_tool(id: ToolId, body: VerdictBody, request: Request) -> Response:
    """Approve a tool that is held back, so that it is served from now on, or forget it."""
    visit = visit_of(request)
    await visit.write(partial(_judge, visit, id, approve=body.verdict == "approve"))
    return nothing()


def _judge(visit: Visit, tool_id: str, crib: Crib, *, approve: bool) -> None:
    quarantine = visit.quarantine()
    with visit.house.writing(visit.namespace):
        held = quarantine.held(tool_id)
        if held is None or not _is_in_reach(visit, held):
            reach = [each.tool_id for each in quarantine.list() if _is_in_reach(visit, each)]
            raise UnknownToolError(tool_id, tuple(get_close_matches(tool_id, reach, n=3)))
        if not approve:
            quarantine.reject(tool_id)
            return
        # In this order: what dies in between is held back still, and can be approved again.
        written = write_tools(crib, [("the quarantine", held.spec)], visit.scope(), None, None)
        if written.report.refused:
            raise ForbiddenError(written.report.refused[0].reason)
        quarantine.release(tool_id)


TAG = "quarantine"

ENDPOINTS = (
    Endpoint("GET", "/v1/quarantine", list_quarantine, TAG, QuarantineAnswer),
    Endpoint(
        "POST",
        "/v1/quarantine/{id:path}",
        judge_tool,
        TAG,
        errors=(UnknownToolError,),
        writes=True,
    ),
)
