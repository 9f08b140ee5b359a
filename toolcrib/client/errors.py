"""What went wrong with a request, as our errors: a problem, a page of a proxy, or silence."""

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

MAX_WORDS = 300

PASSING = frozenset({429, 502, 503})
"""Statuses after which the same request may work a moment later."""

TURNED_AWAY = (RateLimitedError, OverloadedError)
"""What a service says before it does any work."""

OF_STATUS: Mapping[int, type[ServiceError]] = {
    401: UnauthenticatedError,
    403: ForbiddenError,
    408: DeadlineError,
    413: TooLargeError,
    429: RateLimitedError,
    502: ServiceUnavailableError,
    503: ServiceUnavailableError,
    504: DeadlineError,
}
"""What a status means where nothing else is said, as by a proxy."""

UNTELLABLE = (SourceError, MissingExtraError)
"""Errors that know more than the wire tells, or would speak of the wrong machine."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it came; names of headers in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_good(self) -> bool:
        """Whether it answers what was asked, as far as its status says."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def kind(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class FailedError(Exception):
    """One attempt failed, by `error`.

    `passing`: a later attempt may work, after `after_s` seconds where that is known. `unworked`:
    nothing was done for the request, so that it can be repeated whatever it asks.
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


def kind_named(slug: str) -> type[ToolcribError] | None:
    """The class of a problem, by its slug: `unknown-tool` is an `UnknownToolError`."""
    name = "".join(word.capitalize() for word in slug.split("-")) + "Error"
    return getattr(errors, name) if name in errors.__all__ else None


def refusal(reply: Reply, place: str, about: str) -> FailedError:
    """The failure that an answer speaks of; `about` is the tool or collection asked for."""
    problem = _problem(reply)
    after_s = _retry_after(reply, problem)
    error = _told(problem, about, after_s) or _untold(reply, problem, place, after_s)
    if request := str(problem.get("instance", "")).removeprefix(REQUEST):
        error.add_note(f"toolcrib request {request} at {place}")
    return FailedError(
        error,
        passing=reply.status in PASSING,
        unworked=isinstance(error, TURNED_AWAY),
        after_s=after_s,
    )


def silence(failure: Exception, httpx: Any, place: str, timeout_s: float) -> FailedError:
    """The failure of a request that got no whole answer."""
    words = str(failure).strip().partition("\n")[0][:MAX_WORDS] or type(failure).__name__
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


def _told(problem: Mapping[str, Any], about: str, after_s: float | None) -> ToolcribError | None:
    """The error that a problem of ours stands for; None where it is none, or a newer one."""
    slug = str(problem.get("type", ""))
    kind = kind_named(slug.removeprefix(PROBLEM)) if slug.startswith(PROBLEM) else None
    if kind is None or issubclass(kind, UNTELLABLE):
        return None
    detail = str(problem.get("detail", "")) or kind.__name__
    if issubclass(kind, UnknownToolError | UnknownCollectionError | UnknownQuestionError):
        return kind(about, tuple(map(str, list_of(problem.get("nearest")))))
    if issubclass(kind, ServiceError):
        return kind(detail, retry_after_s=after_s)
    return kind(detail)


def _untold(
    reply: Reply, problem: Mapping[str, Any], place: str, after_s: float | None
) -> ServiceError:
    """The error of an answer that is no problem of ours."""
    if HTTPStatus.MULTIPLE_CHOICES <= reply.status < HTTPStatus.BAD_REQUEST:
        where = reply.headers.get("location", "").partition("?")[0][:MAX_WORDS]
        return ServiceError(
            f"the service at {place} sends to {where or 'another address'!r}; no key is sent "
            "there: if it is right, give its URL"
        )
    kind = OF_STATUS.get(reply.status, ServiceError)
    words = f"{reply.status} {_phrase(reply.status)}".strip()
    said = _words(reply, problem)
    return kind(
        f"the service at {place} answered {words}{f': {said}' if said else ''}",
        retry_after_s=after_s,
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _words(reply: Reply, problem: Mapping[str, Any]) -> str:
    if detail := problem.get("detail") or problem.get("title"):
        return str(detail)[:MAX_WORDS]
    if reply.kind == "text/html":
        return "a page of HTML, so not of toolcrib; look at what stands before it, and at the URL"
    text = reply.body[: 4 * MAX_WORDS].decode("utf-8", "replace")
    return re.sub(r"\s+", " ", text).strip()[:MAX_WORDS]


def _retry_after(reply: Reply, problem: Mapping[str, Any]) -> float | None:
    """Seconds to wait: the problem's own, which are finer, else those of the header."""
    given = problem.get("retry_after_s", reply.headers.get("retry-after"))
    if given is None or isinstance(given, bool):
        return None
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = _until(str(given), reply.headers.get("date", ""))
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(when: str, sent: str) -> float:
    """A date is read against that of its own answer, so that no clock has to be right."""
    try:
        wait = parsedate_to_datetime(when) - parsedate_to_datetime(sent)
    except (ValueError, TypeError):
        return math.nan
    return max(0.0, wait.total_seconds())
