"""Finding tools, in the shape that a caller asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Request
from starlette.responses import Response

from toolcrib.errors import CalibrationError
from toolcrib.http.endpoints import Endpoint, answer
from toolcrib.http.visits import visit_of
from toolcrib.http.wire.tools import FindAnswer, SearchBody, Shape
from toolcrib.integrations.formats import export, named_ids
from toolcrib.records import ToolHit
from toolcrib.store.filters import read_filter

__all__ = ["ENDPOINTS", "shaped"]


async def find_tools(body: SearchBody, request: Request) -> Response:
    """Find the tools that fit a query, best first; none where the gate finds none to fit."""
    visit = visit_of(request)
    scope = visit.scope(body.scope and body.scope.as_scope())
    where = None if body.where is None else read_filter(body.where)
    found = await visit.read(
        lambda crib: crib.find_tools(
            body.query,
            body.k,
            scope=scope,
            where=where,
            explain=body.explain,
            gate=body.gate,
            coverage=body.coverage,
        ),
    )
    visit.answered(found.took_ms, verdict=found.verdict, degraded=found.degraded, text=body.query)
    shown = found.as_dict()
    if body.shape != "summary":
        shown |= shaped(found.tools, shown["tools"], body.shape)
    return answer(shown)


def shaped(
    hits: Sequence[ToolHit], summary: Sequence[dict[str, Any]], shape: Shape
) -> dict[str, Any]:
    """What an answer says of its tools in a shape other than the summary that it has already."""
    tools = [hit.tool for hit in hits]
    if shape == "full":
        specs = [tool.model_dump(mode="json") for tool in tools]
        return {"tools": [{**hit, "spec": spec} for hit, spec in zip(summary, specs, strict=True)]}
    return {"tools": export(tools, shape), "names": named_ids(tools, shape)}


ENDPOINTS = (
    Endpoint("POST", "/v1/tools/search", find_tools, "tools", FindAnswer, (CalibrationError,)),
)
