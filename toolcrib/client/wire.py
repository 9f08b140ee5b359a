"""What both ways of sending have in common: how a call is put, repeated, and its answer taken."""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolcrib.client.address import Address
from toolcrib.client.calls import Call, as_json
from toolcrib.client.faults import FailedError, Reply, refusal, silence
from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import DeadlineError, ServiceError, SettingsError
from toolcrib.extras import import_extra

__all__ = ["Incoming", "Manner", "Wire", "wait"]

Answer = TypeVar("Answer")

FEATURE = "a crib at a URL"
EXTRA = "client"

IDLE_S = 30.0
"""How long an unused connection is kept: half as long as by the service, since a request that
meets the moment of its closing fails."""

MAX_WAIT_S = 10.0
"""Who is asked to wait longer than this is told so instead."""

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 2.0
JITTER_S = 0.2
SPREAD = 0.2
"""What a service asks to wait is drawn out by up to this share, so that not all come at once."""

MAX_ANSWER_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Manner:
    """How a service is asked: seconds for each attempt, and how many attempts."""

    timeout_s: float = 10.0
    attempts: int = 4
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        if not self.timeout_s > 0 or self.attempts < 1:
            raise SettingsError(
                f"timeout_s is {self.timeout_s} and attempts are {self.attempts}; there must be "
                "more than 0 seconds and at least 1 attempt",
            )


class Wire:
    """Knows the service and the libraries; sends nothing itself.

    Raises:
        MissingExtraError: the extra `client` is not installed.
    """

    def __init__(self, address: Address, manner: Manner) -> None:
        self.address = address
        self._manner = manner
        self._httpx = import_extra("httpx2", FEATURE, EXTRA)
        self._stamina = import_extra("stamina", FEATURE, EXTRA)

    def pool(self) -> Any:
        """Connections for threads."""
        return self._httpx.Client(**self._options())

    def async_pool(self) -> Any:
        """Connections for one event loop."""
        return self._httpx.AsyncClient(**self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "headers": self.address.headers,
            "timeout": self._manner.timeout_s,
            "limits": self._httpx.Limits(max_keepalive_connections=20, keepalive_expiry=IDLE_S),
            # The key would go where the service says.
            "follow_redirects": False,
        }

    def request(self, call: Call[Any]) -> dict[str, Any]:
        """A call as the arguments of a request.

        Raises:
            QueryError: its body cannot be written as JSON.
        """
        made: dict[str, Any] = {"method": call.method, "url": f"{self.address.url}{call.path}"}
        if call.body is not None:
            made["content"] = as_json(call.body)
            made["headers"] = {"Content-Type": "application/json"}
        return made

    def caller(self) -> Any:
        """What calls a function again, as `wait` says."""
        return self._stamina.RetryingCaller(**self._pauses())

    def async_caller(self) -> Any:
        """The same for coroutine functions."""
        return self._stamina.AsyncRetryingCaller(**self._pauses())

    def _pauses(self) -> dict[str, Any]:
        return {
            "attempts": self._manner.attempts,
            "timeout": None,
            "wait_initial": FIRST_WAIT_S,
            "wait_max": LONGEST_WAIT_S,
            "wait_jitter": JITTER_S,
        }

    @contextmanager
    def attempt(self) -> Generator[Incoming]:
        """One attempt, with what its answer comes into; whatever is in its way is a FailedError."""
        place, manner = self.address.url, self._manner
        try:
            yield Incoming(place, manner)
        except (self._httpx.HTTPError, self._httpx.InvalidURL, self._httpx.StreamError) as error:
            raise silence(error, self._httpx, place, manner.timeout_s) from error

    def answer(self, call: Call[Answer], reply: Reply) -> Answer:
        """What an answer says, as records.

        Raises:
            FailedError: it is not the answer that was asked for.
        """
        place = self.address.url
        if not reply.is_good:
            raise refusal(reply, place, call.about)
        try:
            if reply.status != call.status:
                raise ValueError(f"status {reply.status}, not {call.status}")  # noqa: TRY301
            return call.read(_parsed(reply) if reply.body else None)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            words = " ".join(str(error).split())[:200]
            raise FailedError(
                ServiceError(
                    f"the service at {place} did not answer as toolcrib does ({words}): look at "
                    "the URL, and at the version of the service",
                ),
            ) from error


class Incoming:
    """The body of an answer while it comes in; bounded in time and in size."""

    def __init__(self, place: str, manner: Manner) -> None:
        self._place = place
        self._manner = manner
        self._until = manner.clock() + manner.timeout_s
        self._body = bytearray()

    def take(self, piece: bytes) -> None:
        """Put in the next piece.

        Raises:
            FailedError: it is late, or too much.
        """
        self._body += piece
        if self._manner.clock() > self._until:
            allowed = self._manner.timeout_s
            raise FailedError(
                DeadlineError(f"the service at {self._place} did not answer within {allowed:g} s"),
            )
        if len(self._body) > MAX_ANSWER_BYTES:
            raise FailedError(
                ServiceError(
                    f"the service at {self._place} sent more than {MAX_ANSWER_BYTES:,} bytes",
                ),
            )

    def reply(self, status: int, headers: Mapping[str, str]) -> Reply:
        """The whole answer."""
        return Reply(status, {k.lower(): v for k, v in headers.items()}, bytes(self._body))


def wait(failure: Exception, *, repeatable: bool) -> bool | float:
    """Whether to try again: not at all, after the usual time, or after so many seconds."""
    if not (isinstance(failure, FailedError) and failure.passing):
        return False
    if not (repeatable or failure.unworked):
        return False
    if not failure.after_s:
        return True
    if failure.after_s > MAX_WAIT_S:
        return False
    return failure.after_s * random.uniform(1, 1 + SPREAD)  # noqa: S311 -- it is no secret


def _parsed(reply: Reply) -> Any:
    if not reply.kind.endswith("json"):
        raise ValueError(f"{reply.kind or 'something'} in place of JSON")
    return json.loads(reply.body)
