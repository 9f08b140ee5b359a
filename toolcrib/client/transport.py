"""Transport: requests to a service, repeated where a retry helps, and answers as records.

Redirects are not followed, since they would carry the key.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from http import HTTPStatus
from types import NoneType
from typing import Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib import errors
from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import QueryError, ServiceError, ToolcribError
from toolcrib.extras import import_extra, makes_http_client
from toolcrib.indexers.writer import Listener
from toolcrib.records import IndexProgress, IndexReport, Passage, Refusal, ToolSpec
from toolcrib.records.codec import as_json, dump, list_of, load, object_of
from toolcrib.retries import Retries

PROBLEM = "urn:toolcrib:problem:"
REQUEST = "urn:toolcrib:request:"

MAX_SERVICE_REASON_CHARS = 300

RETRYABLE_STATUSES = frozenset({429, 502, 503})
"""Statuses after which a retry may succeed."""

UNPROCESSED_ERRORS = (errors.RateLimitedError, errors.OverloadedError)
"""Errors that a service raises before it does any work."""

ERROR_BY_STATUS: Mapping[int, type[ServiceError]] = {
    401: errors.UnauthenticatedError,
    403: errors.ForbiddenError,
    408: errors.DeadlineError,
    413: errors.TooLargeError,
    429: errors.RateLimitedError,
    502: errors.ServiceUnavailableError,
    503: errors.ServiceUnavailableError,
    504: errors.DeadlineError,
}
"""Error class by status, for answers without a problem document, as of a proxy."""

LOCAL_ERRORS = (errors.SourceError, errors.MissingExtraError)
"""Errors that a problem's slug cannot become: they need more fields, or are about this machine."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer as received; header names are in lower case, `phrase` explains the status."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    phrase: str = ""

    @property
    def is_good(self) -> bool:
        """True for a status of success."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def kind(self) -> str:
        """Media type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(eq=False)
class AttemptError(Exception):
    """Failure of one attempt, with the `error` to raise.

    `transient`: a retry may succeed, after `after_s` seconds if known. `unprocessed`: the service
    did no work, so that any request may be retried.
    """

    error: ToolcribError
    _: KW_ONLY
    transient: bool = False
    unprocessed: bool = False
    after_s: float | None = None


def error_class(slug: str) -> type[ToolcribError] | None:
    """Error class by a problem's slug: `unknown-tool` is `UnknownToolError`."""
    name = "".join(word.capitalize() for word in slug.split("-")) + "Error"
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, ToolcribError) else None


def reply_failure(reply: Reply, place: str, about: str) -> AttemptError:
    """Failure by an answer; `about` is the requested tool or collection."""
    problem = _problem(reply)
    after_s = _retry_after(reply, problem)
    error = _problem_error(problem, about) or _status_error(reply, problem, place)
    if isinstance(error, ServiceError):
        error.retry_after_s = after_s
    if request := str(problem.get("instance", "")).removeprefix(REQUEST):
        error.add_note(f"toolcrib request {request} at {place}")
    return AttemptError(
        error,
        transient=reply.status in RETRYABLE_STATUSES,
        unprocessed=isinstance(error, UNPROCESSED_ERRORS),
        after_s=after_s,
    )


def connection_failure(
    failure: Exception, httpx: Any, place: str, timeout_s: float
) -> AttemptError:
    """Failure of a request without a whole answer."""
    words = (
        str(failure).strip().partition("\n")[0][:MAX_SERVICE_REASON_CHARS] or type(failure).__name__
    )
    if isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout):
        error = errors.ServiceUnavailableError(
            f"the service at {place} cannot be reached ({words}): start `toolcrib serve` there, "
            "or correct the URL"
        )
        return AttemptError(error, transient=True, unprocessed=True)
    if isinstance(failure, httpx.TimeoutException):
        return _timeout_failure(place, timeout_s)
    if isinstance(failure, httpx.TransportError) and not isinstance(
        failure, httpx.LocalProtocolError | httpx.UnsupportedProtocol
    ):
        error = errors.ServiceUnavailableError(f"the service at {place} broke off ({words})")
        return AttemptError(error, transient=True)
    return AttemptError(ServiceError(f"the request to the service at {place} failed ({words})"))


def _timeout_failure(place: str, timeout_s: float) -> AttemptError:
    words = f"the service at {place} did not answer within {timeout_s:g} s"
    return AttemptError(errors.DeadlineError(words))


def _problem(reply: Reply) -> dict[str, Any]:
    if reply.kind in {"application/problem+json", "application/json"}:
        with suppress(ValueError, RecursionError):
            return object_of(json.loads(reply.body))
    return {}


def _problem_error(problem: Mapping[str, Any], about: str) -> ToolcribError | None:
    """Error of a toolcrib problem; None for any other document, or an unknown problem."""
    slug = str(problem.get("type", ""))
    kind = error_class(slug.removeprefix(PROBLEM)) if slug.startswith(PROBLEM) else None
    if kind is None or issubclass(kind, LOCAL_ERRORS):
        return None
    detail = str(problem.get("detail", "")) or kind.__name__
    if issubclass(
        kind, errors.UnknownToolError | errors.UnknownCollectionError | errors.UnknownQuestionError
    ):
        return kind(about, tuple(map(str, list_of(problem.get("nearest")))))
    return kind(detail)


def _status_error(reply: Reply, problem: Mapping[str, Any], place: str) -> ServiceError:
    """Error of an answer without a toolcrib problem."""
    if HTTPStatus.MULTIPLE_CHOICES <= reply.status < HTTPStatus.BAD_REQUEST:
        where = reply.headers.get("location", "").partition("?")[0][:MAX_SERVICE_REASON_CHARS]
        return ServiceError(
            f"the service at {place} redirects to {where or 'another address'!r}, to which the key "
            "is not sent; if the service is there, give this URL"
        )
    kind = ERROR_BY_STATUS.get(reply.status, ServiceError)
    words = f"{reply.status} {reply.phrase}".strip()
    reason = _reason(reply, problem)
    return kind(f"the service at {place} answered {words}{f': {reason}' if reason else ''}")


def _reason(reply: Reply, problem: Mapping[str, Any]) -> str:
    if detail := problem.get("detail") or problem.get("title"):
        return str(detail)[:MAX_SERVICE_REASON_CHARS]
    if reply.kind == "text/html":
        return "an HTML page, not toolcrib's; check the URL, and any proxy before the service"
    text = reply.body[: 4 * MAX_SERVICE_REASON_CHARS].decode("utf-8", "replace")
    return re.sub(r"\s+", " ", text).strip()[:MAX_SERVICE_REASON_CHARS]


def _retry_after(reply: Reply, problem: Mapping[str, Any]) -> float | None:
    """Seconds to wait: by the problem, which has fractions, else by the header."""
    given: Any = problem.get("retry_after_s", reply.headers.get("retry-after"))
    # A proxy may give a date, which is ignored: the usual pause applies.
    with suppress(TypeError, ValueError):
        if 0 <= (seconds := float(given)) < math.inf:
            return seconds
    return None


_Record = TypeVar("_Record")
_Result = TypeVar("_Result")

CLIENT_FEATURE = "a crib at a URL"
CLIENT_EXTRA = "client"

IDLE_S = 30.0
"""Seconds that an unused connection is kept: half as long as the service keeps it, because a
request fails on a connection that is just closing."""

MAX_WAIT_S = 10.0
"""Longest requested wait before a retry; a longer one is raised as an error."""

WAIT_JITTER = 0.2
"""Largest share that is added to a requested wait at random, so that clients do not all return
at one moment."""

MAX_ANSWER_BYTES = 256 * 2**20

UPLOAD_SILENCE_S = 120.0
"""Longest pause in the answer to an upload: the engine may be building its graph."""

_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")

_URL_EXAMPLE = "write it like https://tools.example.org"

Entry: TypeAlias = tuple[str, ToolSpec | Passage | Refusal]
"""Name of a source, and one of its entries."""


@dataclass(frozen=True, slots=True)
class _Line:
    """Line of an answer to an upload."""

    progress: IndexProgress | None = None
    report: IndexReport | None = None
    problem: dict[str, Any] | None = None


class Transport:
    """Connections to one service. Safe for several threads.

    Raises:
        SettingsError: `url` is no URL of a service, or an argument is impossible.
        MissingExtraError: the extra `client` is not installed.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        namespace: str | None = None,
        *,
        timeout_s: float = 10.0,
        attempts: int = 4,
        clock: Clock | None = None,
    ) -> None:
        if not timeout_s > 0 or attempts < 1:
            raise errors.SettingsError(
                f"timeout_s is {timeout_s} and attempts are {attempts}; there must be "
                "more than 0 seconds and at least 1 attempt"
            )
        self.url = _check_url(url)
        # The headers hold the key, so no error or repr shows them.
        headers = {"Accept": "application/json", "User-Agent": "toolcrib"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {_header_value('api_key', api_key)}"
        if namespace is not None:
            headers["Toolcrib-Namespace"] = _header_value("namespace", namespace)
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._httpx = import_extra("httpx2", CLIENT_FEATURE, CLIENT_EXTRA)
        self._retries = Retries(attempts, first_pause_s=0.1, max_pause_s=2.0, jitter_s=0.2)
        self._connect = partial(
            self._httpx.Client,
            headers=headers,
            timeout=timeout_s,
            limits=self._httpx.Limits(max_keepalive_connections=20, keepalive_expiry=IDLE_S),
            follow_redirects=False,
        )
        with makes_http_client(self.url):
            self._pool, self._process = self._connect(), os.getpid()

    def ask(
        self,
        kind: type[_Record],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        about: str = "",
        repeatable: bool = True,
    ) -> _Record:
        """Send a request, and read its answer as a record; `about` is the tool or collection.

        `NoneType` is the kind of an empty answer. `repeatable`: the request is idempotent.

        Raises:
            QueryError: the body holds a value that JSON cannot.
            ToolcribError: an error of the service; `ServiceError` or a subclass if the service
                does not answer, or gives an answer that is not toolcrib's.
        """
        content = _content(body)

        def attempt() -> _Record:
            return self._read(kind, about, self._reply(method, path, content))

        return self._retry(attempt, repeatable=repeatable)

    def upload(
        self,
        path: str,
        entries: Iterable[Entry],
        query: Mapping[str, str | None],
        progress: Listener | None,
    ) -> IndexReport:
        """Send entries with their sources as JSON Lines, and return the service's report."""
        params = {name: value for name, value in query.items() if value is not None}
        content = _upload_content(entries)
        return self._retry(partial(self._attempt_upload, path, params, content, progress))

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self._pool.close()

    def _client(self) -> Any:
        if self._pool.is_closed:
            raise ServiceError("this crib is closed; open another one")
        if self._process != os.getpid():
            # On connections from before a fork, parent and child read each other's answers.
            self._pool, self._process = self._connect(), os.getpid()
        return self._pool

    def _retry(self, attempt: Callable[[], _Result], *, repeatable: bool = True) -> _Result:
        http_errors = self._httpx.HTTPError, self._httpx.InvalidURL, self._httpx.StreamError

        def attempt_once() -> _Result:
            try:
                return attempt()
            except http_errors as error:
                raise connection_failure(error, self._httpx, self.url, self._timeout_s) from error

        try:
            return self._retries(attempt_once, partial(_retry_decision, repeatable=repeatable))
        except AttemptError as failed:
            raise failed.error from failed.__cause__

    def _reply(self, method: str, path: str, content: bytes | None) -> Reply:
        headers = {} if content is None else {"Content-Type": "application/json"}
        until = self._clock() + self._timeout_s
        with self._client().stream(
            method, self.url + path, content=content, headers=headers
        ) as response:
            return self._read_reply(response, until)

    def _attempt_upload(
        self, path: str, query: Mapping[str, str], content: bytes, progress: Listener | None
    ) -> IndexReport:
        timeout = self._httpx.Timeout(self._timeout_s, read=max(self._timeout_s, UPLOAD_SILENCE_S))
        with self._client().stream(
            "POST",
            self.url + path,
            params=query,
            content=content,
            headers={"Content-Type": "application/jsonl"},
            timeout=timeout,
        ) as response:
            if not response.is_success or "jsonl" not in response.headers.get("content-type", ""):
                reply = self._read_reply(response, self._clock() + self._timeout_s)
                if not reply.is_good:
                    raise reply_failure(reply, self.url, "")
                kind = reply.kind or "something"
                raise self._malformed_reply(ValueError(f"{kind} in place of JSON Lines"))
            for line in _lines(response.iter_bytes()):
                try:
                    part = load(_Line, line)
                except ValueError as error:
                    raise self._malformed_reply(error) from error
                if part.progress is not None and progress is not None:
                    progress(part.progress)
                if part.problem is not None:
                    headers, problem = {"content-type": "application/json"}, to_json(part.problem)
                    status = part.problem.get("status", HTTPStatus.INTERNAL_SERVER_ERROR)
                    raise reply_failure(Reply(status, headers, problem), self.url, "")
                if part.report is not None:
                    return part.report
        error = ServiceError(f"the service at {self.url} broke off an upload; send it again")
        raise AttemptError(error, transient=True)

    def _read_reply(self, response: Any, until: float) -> Reply:
        """Read the whole answer, bounded in time and size."""
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if self._clock() > until:
                raise _timeout_failure(self.url, self._timeout_s)
            if len(body) > MAX_ANSWER_BYTES:
                most = f"{MAX_ANSWER_BYTES:,}"
                raise AttemptError(
                    ServiceError(f"the service at {self.url} sent more than {most} bytes")
                )
        status, phrase = response.status_code, response.reason_phrase
        return Reply(status, response.headers, bytes(body), phrase)

    def _read(self, kind: type[_Record], about: str, reply: Reply) -> _Record:
        if not reply.is_good:
            raise reply_failure(reply, self.url, about)
        is_empty = kind is NoneType
        wanted = HTTPStatus.NO_CONTENT if is_empty else HTTPStatus.OK
        try:
            if reply.status != wanted:
                raise ValueError(f"status {reply.status}, not {wanted:d}")  # noqa: TRY301
            if not is_empty and not reply.kind.endswith("json"):
                raise ValueError(f"{reply.kind or 'something'} in place of JSON")  # noqa: TRY301
            return load(kind, b"null" if is_empty else reply.body)
        except ValueError as error:
            raise self._malformed_reply(error) from error

    def _malformed_reply(self, error: Exception) -> AttemptError:
        words = " ".join(str(error).split())[:200]
        return AttemptError(
            ServiceError(
                f"the answer of the service at {self.url} is not toolcrib's ({words}); check "
                "the URL, and the version of the service"
            )
        )


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Complete lines that are not blank."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(bytes.strip, lines)


def path_segment(name: str) -> str:
    """Quote a name as one segment of a path."""
    if name in {".", ".."}:
        # Clients resolve the segments "." and ".." away.
        return name.replace(".", "%2E")
    return quote(name, safe="", errors="surrogatepass")


def _content(body: Mapping[str, Any] | None) -> bytes | None:
    if body is None:
        return None
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise QueryError(f"the request holds a value that JSON cannot: {error}") from error


def _retry_decision(failure: Exception, *, repeatable: bool) -> bool | float:
    """Retry after a failure: never (False), after the usual pause (True), or after seconds."""
    if not (isinstance(failure, AttemptError) and failure.transient):
        return False
    if not (repeatable or failure.unprocessed):
        return False
    if not failure.after_s:
        return True
    if failure.after_s > MAX_WAIT_S:
        return False
    return failure.after_s * random.uniform(1, 1 + WAIT_JITTER)  # noqa: S311 -- it is no secret


def _check_url(url: str) -> str:
    parts = _split(url)
    if parts.username is not None or parts.password is not None:
        raise errors.SettingsError(
            "the URL of the service has a user name or password; remove them, and give the key "
            "as api_key"
        )
    if parts.query or parts.fragment:
        raise errors.SettingsError(f"{url!r} must have no query and no fragment; {_URL_EXAMPLE}")
    return url.rstrip("/")


def _split(url: str) -> SplitResult:
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return parts
    shown = re.sub(r"//[^/@]*@", "//", str(url))
    raise errors.SettingsError(
        f"{shown!r} is not the URL of a service; {_URL_EXAMPLE}, or use Crib.open for a folder"
    )


def _header_value(name: str, value: str) -> str:
    """Check that a header can carry a value; the error hides the value: it may be a secret."""
    if _HEADER_VALUE.fullmatch(value) is None:
        raise errors.SettingsError(
            f"{name} is empty, or has spaces, line ends or accents; give it without them"
        )
    return value


# -- uploads ----------------------------------------------------------------------------------


def _upload_content(entries: Iterable[Entry]) -> bytes:
    """Lines of a body; items that cannot be written come last, as refusals."""
    lines: list[bytes] = []
    refused: list[bytes] = []
    for source, item in entries:
        try:
            lines.append(_line(source, item))
        except (PydanticSerializationError, UnicodeEncodeError):
            reason = "holds half a character (a lone surrogate); mend the text"
            refused.append(_refused_line(source, item, reason))
        except ValueError as error:
            refused.append(_refused_line(source, item, f"cannot be sent: {error}"))
    return b"".join((*lines, *refused))


def _line(source: str, item: ToolSpec | Passage | Refusal) -> bytes:
    line = b"[" + to_json(source) + b"," + dump(item) + b"]\n"
    if isinstance(item, ToolSpec):
        # Parsed here too: the service refuses JSON that is nested too deeply.
        from_json(line)
    return line


def _refused_line(source: str, item: ToolSpec | Passage | Refusal, reason: str) -> bytes:
    """Line of an item that cannot be sent: a refusal, which the service reports."""
    match item:
        case ToolSpec():
            refused = Refusal("", item.id, reason)
        case Passage():
            refused = Refusal(item.document, f"part {item.position + 1}", reason)
        case Refusal():
            refused = item
    legible = Refusal(*map(_without_surrogates, (refused.source, refused.place, refused.reason)))
    return to_json([_without_surrogates(source), as_json(legible)]) + b"\n"


def _without_surrogates(text: str) -> str:
    return text.encode(errors="replace").decode()
