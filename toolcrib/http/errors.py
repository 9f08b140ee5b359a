"""Errors as RFC 9457 problems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from toolcrib.errors import QueryError, UnauthenticatedError
from toolcrib.http.context import context_of
from toolcrib.problems import problem_of, public_text, retry_after, slug_of
from toolcrib.records.codec import UNLESS_NONE, dump

PROBLEM_TYPE = "application/problem+json"

MAX_BODY_FAULTS = 20
"""Faults of an invalid request that a problem lists."""

HTTP_PROBLEMS = {
    404: ("not-found", "Nothing has this address"),
    405: ("method-not-allowed", "The endpoint does not support this method"),
    406: ("not-acceptable", "No accepted media type is available"),
    415: ("unsupported-media-type", "The body's media type is not supported"),
}
"""Slug and title of problems that are HTTP's own, by status."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault of an invalid request."""

    place: str
    reason: str


class InvalidRequestError(QueryError):
    """Invalid request; `faults` are pairs of place and reason."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        self.faults = tuple(Fault(*each) for each in faults[:MAX_BODY_FAULTS])
        super().__init__("; ".join(f"{each.place}: {each.reason}" for each in self.faults))


@dataclass(frozen=True, slots=True)
class ProblemBody:
    """Problem by RFC 9457.

    `nearest`: ids or names similar to an unknown one, within the key's scope. `errors`: faults of
    an invalid request. `retry_after_s`: seconds after which the request may be repeated.
    """

    type: Annotated[str, Field(pattern=r"^urn:toolcrib:problem:[a-z-]+$")]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: str
    instance: Annotated[str, Field(pattern=r"^urn:toolcrib:request:.+$")]
    nearest: Annotated[tuple[str, ...] | None, UNLESS_NONE] = None
    errors: Annotated[tuple[Fault, ...] | None, UNLESS_NONE] = None
    retry_after_s: Annotated[float | None, UNLESS_NONE] = None

    @property
    def slug(self) -> str:
        """Last part of the type."""
        return self.type.rpartition(":")[2]

    @classmethod
    def of(cls, error: Exception, request_id: str) -> Self:
        """Problem of an error."""
        row, after = problem_of(error), retry_after(error)
        return cls.make(
            slug_of(type(error)),
            row.title,
            row.status,
            public_text(error),
            request_id,
            nearest=getattr(error, "nearest", None),
            errors=error.faults if isinstance(error, InvalidRequestError) else None,
            retry_after_s=None if after is None else round(after, 3),
        )

    @classmethod
    def make(
        cls, slug: str, title: str, status: int, detail: str, request_id: str, **more: Any
    ) -> Self:
        """Problem with a slug, in a request with an id."""
        kind, instance = f"urn:toolcrib:problem:{slug}", f"urn:toolcrib:request:{request_id}"
        return cls(kind, title, status, detail.encode(errors="replace").decode(), instance, **more)


def problem_response(error: Exception, request_id: str, challenge: str = "") -> Response:
    """Answer with the problem of an error; `challenge`: header text for callers without a key."""
    headers: dict[str, str] = {}
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = f'Bearer realm="toolcrib"{challenge}'
    if (after := retry_after(error)) is not None:
        headers["Retry-After"] = str(math.ceil(after))
    return _response(ProblemBody.of(error, request_id), headers)


async def on_error(request: Request, error: Exception) -> Response:
    """Answer an error that an endpoint raised, and log it."""
    context = context_of(request.scope)
    context.state.telemetry.log_fault(context.request_id, error)
    return problem_response(error, context.request_id)


async def on_http(request: Request, error: Exception) -> Response:
    """Answer an error of HTTP itself."""
    assert isinstance(error, HTTPException)
    slug, title = HTTP_PROBLEMS.get(error.status_code, ("http", "The request failed"))
    detail = title if error.detail in {"Not Found", "Method Not Allowed"} else error.detail
    request_id = context_of(request.scope).request_id
    body = ProblemBody.make(slug, title, error.status_code, detail, request_id)
    headers = dict(error.headers or {})
    if "Allow" in headers:
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
    return _response(body, headers)


def _response(body: ProblemBody, headers: Mapping[str, str]) -> Response:
    return Response(dump(body), body.status, headers, PROBLEM_TYPE)
