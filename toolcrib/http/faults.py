"""Errors as RFC 9457 problems, whoever raised them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from toolcrib.errors import (
    QueryError,
    UnauthenticatedError,
    UnknownCollectionError,
    UnknownToolError,
)
from toolcrib.http.visits import visit_of
from toolcrib.problems import problem_of, retry_after, slug_of, told

__all__ = [
    "PROBLEM_TYPE",
    "InvalidRequestError",
    "faults_of",
    "on_error",
    "on_http",
    "on_invalid",
    "problem_response",
]

TYPE_NAME = re.compile(r"[-\[(']|^(str|TurnBody)$|Json$")

PROBLEM_TYPE = "application/problem+json"

SHOWN_FAULTS = 20
"""Of a request that is wrong in more places, the first ones are told."""

METHOD_NOT_ALLOWED = 405

HTTP_PROBLEMS = {
    404: ("not-found", "There is nothing at this address"),
    405: ("method-not-allowed", "This address does not take this method"),
    406: ("not-acceptable", "There is no answer of the kinds that are accepted"),
    415: ("unsupported-media-type", "The body is of a kind that is not read"),
}
"""What HTTP itself has words for: slug and title."""


class InvalidRequestError(QueryError):
    """A request is wrong in these places: pairs of place and reason."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        self.faults = tuple(faults[:SHOWN_FAULTS])
        super().__init__("; ".join(f"{place}: {reason}" for place, reason in self.faults))


def problem_response(error: Exception, request_id: str) -> Response:
    """The answer that says what went wrong."""
    problem = problem_of(error)
    more: dict[str, Any] = {}
    headers: dict[str, str] = {}
    if isinstance(error, UnknownToolError | UnknownCollectionError):
        more["nearest"] = list(error.nearest)
    if isinstance(error, InvalidRequestError):
        more["errors"] = [{"place": place, "reason": reason} for place, reason in error.faults]
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = 'Bearer realm="toolcrib"'
    if (after := retry_after(error)) is not None:
        more["retry_after_s"] = round(after, 3)
        headers["Retry-After"] = str(math.ceil(after))
    body = {
        "type": f"urn:toolcrib:problem:{slug_of(type(error))}",
        "title": problem.title,
        "status": problem.status,
        "detail": told(error),
        "instance": f"urn:toolcrib:request:{request_id}",
        **more,
    }
    return _response(body, headers)


async def on_error(request: Request, error: Exception) -> Response:
    """Answer what an endpoint raised, and leave what needs to be looked at in the log."""
    visit = visit_of(request)
    visit.house.telemetry.failed(visit.request_id, error)
    return problem_response(error, visit.request_id)


async def on_invalid(request: Request, error: Exception) -> Response:
    """Answer a request that is not what its endpoint takes."""
    assert isinstance(error, RequestValidationError)
    # Each begins with the part of the request that it is in.
    faults = [{**fault, "loc": fault["loc"][1:] or fault["loc"]} for fault in error.errors()]
    return problem_response(InvalidRequestError(faults_of(faults)), visit_of(request).request_id)


async def on_http(request: Request, error: Exception) -> Response:
    """Answer what HTTP itself has words for."""
    assert isinstance(error, HTTPException)
    slug, title = HTTP_PROBLEMS.get(error.status_code, ("http", "It cannot be answered"))
    body = {
        "type": f"urn:toolcrib:problem:{slug}",
        "title": title,
        "status": error.status_code,
        "detail": title if error.detail in {"Not Found", "Method Not Allowed"} else error.detail,
        "instance": f"urn:toolcrib:request:{visit_of(request).request_id}",
    }
    headers = dict(error.headers or {})
    if error.status_code == METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_here(request))
    return _response(body, headers)


def _response(body: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    whole = {**body, "detail": str(body["detail"]).encode(errors="replace").decode()}
    return Response(to_json(whole), body["status"], headers, PROBLEM_TYPE)


def faults_of(errors: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Place and reason of each of pydantic's errors."""
    return [(_place(error), str(error["msg"])) for error in errors]


def _place(error: Mapping[str, Any]) -> str:
    """The way to a field, without the names of the types that were tried on it."""
    steps: Sequence[int | str] = error["loc"]
    # The last step to what is unknown is the caller's own word.
    own = steps[-1:] if error["type"] == "extra_forbidden" else ()
    tried = steps[: len(steps) - len(own)]
    way = [step for step in tried if isinstance(step, int) or not TYPE_NAME.search(step)]
    return ".".join(map(str, (*way, *own))) or "body"


def _methods_here(request: Request) -> tuple[str, ...]:
    """Every method of the first template that this address fits."""
    fitting = [
        route
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
    ]
    templates = [(route.path, route.methods or set[str]()) for route in fitting]
    same = (methods for path, methods in templates if path == templates[0][0])
    return tuple(sorted(set[str]().union(*same)))
