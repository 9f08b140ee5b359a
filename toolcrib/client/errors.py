"""Failed requests as toolcrib's errors: a problem, a page of a proxy, or no answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from toolcrib import errors
from toolcrib.errors import (
    DeadlineError,
    ForbiddenError,
    MissingExtraError,
    OverloadedError,
    RateLimitedError,
    ServiceError,
    ServiceUnavailableError,
    SourceError,
    TooLargeError,
    ToolcribError,
    UnauthenticatedError,
    UnknownCollectionError,
    UnknownQuestionError,
    UnknownToolError,
)
from toolcrib.records.codec import list_of, object_of

PROBLEM = "urn:toolcrib:problem:"
REQUEST = "urn:toolcrib:request:"

MAX_REASON_CHARS = 300

RETRYABLE_STATUSES = frozenset({429, 502, 503})
"""Statuses after which the same request may work a moment later."""

UNWORKED_ERRORS = (RateLimitedError, OverloadedError)
"""Errors that a service raises before it does any work."""

ERROR_BY_STATUS: Mapping[int, type[ServiceError]] = {
    401: UnauthenticatedError,
    403: ForbiddenError,
    408: DeadlineError,
    413: TooLargeError,
    429: RateLimitedError,
    502: ServiceUnavailableError,
    503: ServiceUnavailableError,
    504: DeadlineError,
}
"""Error of a status without a problem document, as of a proxy."""

LOCAL_ERRORS = (SourceError, MissingExtraError)
"""Errors with facts that the wire lacks, or about the machine that raises them."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer as received, with header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_good(self) -> bool:
        """True for a status of success."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def kind(self) -> str:
        """Media type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class FailedError(Exception):
    """Failure of one attempt, by `error`.

    `passing`: a later attempt may work, after `after_s` seconds if known. `unworked`: the service
    did no work, so that any request may be repeated.
    """

    def __init__(
        self,
        error: ToolcribError,
        *,
        passing: bool = False,
        unworked: bool = False,
        after_s: float | None = None,
    ) -> None:
        self.error = error
        self.passing = passing
        self.unworked = unworked
        self.after_s = after_s
        super().__init__(error)


def error_class(slug: str) -> type[ToolcribError] | None:
    """Error class by a problem's slug: `unknown-tool` is `UnknownToolError`."""
    name = "".join(word.capitalize() for word in slug.split("-")) + "Error"
    return getattr(errors, name) if name in errors.__all__ else None


def refusal(reply: Reply, place: str, about: str) -> FailedError:
    """Failure by an answer; `about` is the requested tool or collection."""
    problem = _problem(reply)
    after_s = _retry_after(reply, problem)
    error = _problem_error(problem, about, after_s) or _status_error(reply, problem, place, after_s)
    if request := str(problem.get("instance", "")).removeprefix(REQUEST):
        error.add_note(f"toolcrib request {request} at {place}")
    return FailedError(
        error,
        passing=reply.status in RETRYABLE_STATUSES,
        unworked=isinstance(error, UNWORKED_ERRORS),
        after_s=after_s,
    )


def silence(failure: Exception, httpx: Any, place: str, timeout_s: float) -> FailedError:
    """Failure of a request without a whole answer."""
    words = str(failure).strip().partition("\n")[0][:MAX_REASON_CHARS] or type(failure).__name__
    if isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout):
        error = ServiceUnavailableError(
            f"the service at {place} cannot be reached ({words}): start it with `toolcrib serve`, "
            "or correct the URL"
        )
        return FailedError(error, passing=True, unworked=True)
    if isinstance(failure, httpx.TimeoutException):
        error = DeadlineError(f"the service at {place} did not answer within {timeout_s:g} s")
        return FailedError(error)
    if isinstance(failure, httpx.TransportError) and not isinstance(
        failure, httpx.LocalProtocolError | httpx.UnsupportedProtocol
    ):
        error = ServiceUnavailableError(f"the service at {place} broke off ({words})")
        return FailedError(error, passing=True)
    return FailedError(ServiceError(f"the service at {place} cannot be asked ({words})"))


def _problem(reply: Reply) -> dict[str, Any]:
    if reply.kind not in {"application/problem+json", "application/json"}:
        return {}
    try:
        found = json.loads(reply.body)
    except (ValueError, RecursionError):
        return {}
    return object_of(found)


def _problem_error(
    problem: Mapping[str, Any], about: str, after_s: float | None
) -> ToolcribError | None:
    """Error of a toolcrib problem; None for any other document, or an unknown problem."""
    slug = str(problem.get("type", ""))
    kind = error_class(slug.removeprefix(PROBLEM)) if slug.startswith(PROBLEM) else None
    if kind is None or issubclass(kind, LOCAL_ERRORS):
        return None
    detail = str(problem.get("detail", "")) or kind.__name__
    if issubclass(kind, UnknownToolError | UnknownCollectionError | UnknownQuestionError):
        return kind(about, tuple(map(str, list_of(problem.get("nearest")))))
    if issubclass(kind, ServiceError):
        return kind(detail, retry_after_s=after_s)
    return kind(detail)


def _status_error(
    reply: Reply, problem: Mapping[str, Any], place: str, after_s: float | None
) -> ServiceError:
    """Error of an answer without a toolcrib problem."""
    if HTTPStatus.MULTIPLE_CHOICES <= reply.status < HTTPStatus.BAD_REQUEST:
        where = reply.headers.get("location", "").partition("?")[0][:MAX_REASON_CHARS]
        return ServiceError(
            f"the service at {place} redirects to {where or 'another address'!r}, where the key is "
            "not sent; if that is the service, give its URL"
        )
    kind = ERROR_BY_STATUS.get(reply.status, ServiceError)
    words = f"{reply.status} {_phrase(reply.status)}".strip()
    reason = _reason(reply, problem)
    return kind(
        f"the service at {place} answered {words}{f': {reason}' if reason else ''}",
        retry_after_s=after_s,
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _reason(reply: Reply, problem: Mapping[str, Any]) -> str:
    if detail := problem.get("detail") or problem.get("title"):
        return str(detail)[:MAX_REASON_CHARS]
    if reply.kind == "text/html":
        return "an HTML page, not toolcrib's; check the URL, and any proxy before the service"
    text = reply.body[: 4 * MAX_REASON_CHARS].decode("utf-8", "replace")
    return re.sub(r"\s+", " ", text).strip()[:MAX_REASON_CHARS]


def _retry_after(reply: Reply, problem: Mapping[str, Any]) -> float | None:
    """Seconds to wait: by the problem, which is finer, else by the header."""
    given = problem.get("retry_after_s", reply.headers.get("retry-after"))
    if given is None or isinstance(given, bool):
        return None
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = _seconds_until(str(given), reply.headers.get("date", ""))
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _seconds_until(when: str, sent: str) -> float:
    """Seconds to a date, from the answer's own date, so that no clock need be right."""
    try:
        wait = parsedate_to_datetime(when) - parsedate_to_datetime(sent)
    except (ValueError, TypeError):
        return math.nan
    return max(0.0, wait.total_seconds())
