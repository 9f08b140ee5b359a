"""Request context: who asks, of which namespace, and what becomes of the request."""

from __future__ import annotations

import asyncio
import math
import re
import time
import uuid
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request

from toolcrib.access.keys import ANYONE, Caller, within
from toolcrib.access.quarantine import Quarantine
from toolcrib.crib import Crib
from toolcrib.errors import DeadlineError, ForbiddenError
from toolcrib.http.state import ServiceState
from toolcrib.http.workers import Owner
from toolcrib.indexers.documents.sources import RawDocument
from toolcrib.language_models import UsageMeter, metered
from toolcrib.records import Passage, Refusal, Scope
from toolcrib.router.decision_log_db import DatabaseLog
from toolcrib.telemetry import RequestSummary

__all__ = ["RequestContext", "context_of", "context_of_scope", "header", "is_upload"]

_Made = TypeVar("_Made")

REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
KEY = "toolcrib"
"""Where the context stands in an ASGI scope."""

UPLOAD_TYPES = frozenset({b"application/jsonl", b"application/x-ndjson"})


@dataclass(slots=True)
class RequestContext(RequestSummary):
    """A request, with what is to be counted, traced and logged of it when it is answered.

    `caller` and `namespace` are known once it is admitted. When it `is_over`, nobody waits for
    what is still done for it. `meter` adds up what language models were asked. One that
    `is_elsewhere` is to be answered by the process that owns the store.
    """

    state: ServiceState = field(kw_only=True)
    caller: Caller = ANYONE
    deadline: asyncio.Timeout | None = None
    is_over: bool = False
    is_elsewhere: bool = False
    meter: UsageMeter = field(default_factory=UsageMeter)

    @classmethod
    def begin(cls, state: ServiceState, scope: MutableMapping[str, Any]) -> RequestContext:
        """The context of an ASGI scope, which it is put into."""
        given = header(scope, b"x-request-id")
        if given is not None and REQUEST_ID.fullmatch(given):
            request_id = given.decode("ascii")
        else:
            request_id = uuid.uuid4().hex
        parent = header(scope, b"traceparent")
        traceparent = None if parent is None else parent.decode("latin-1")
        method = scope["method"]
        context = scope[KEY] = cls(request_id, method, traceparent=traceparent, state=state)
        return context

    def require_write(self) -> None:
        """Stop a caller that may only read.

        Raises:
            ForbiddenError: it may not write.
        """
        if not self.caller.may_write:
            raise ForbiddenError("this key may only read; writing needs a key made with --write")

    def scope(self, asked: Scope | None = None) -> Scope:
        """What the caller may use, narrowed to what it asks for."""
        return within(self.caller.scope(), asked)

    def quarantine(self) -> Quarantine:
        """What is held back of the namespace."""
        return Quarantine(self.state.namespaces.records_db, self.namespace)

    def log(self) -> DatabaseLog:
        """The decisions of the namespace."""
        return self.state.namespaces.log(self.namespace)

    @property
    def owner(self) -> Owner:
        """Whose work it is."""
        return Owner(self.namespace, self.caller.key_id)

    async def read(self, work: Callable[[Crib], _Made]) -> _Made:
        """Do something with the namespace's crib, in a thread."""
        return await self.run(partial(self._work, work))

    async def run(self, work: Callable[[], _Made]) -> _Made:
        """Do something else that only reads, in a thread."""
        return await self.state.workers.read(work, self.owner)

    async def write(self, work: Callable[[Crib], _Made]) -> _Made:
        """Do something that writes, in a thread; other processes hear of it."""
        return await self.state.workers.write(partial(self._work_and_tell, work), self.owner)

    async def convert(
        self, document: RawDocument, collection: str, max_tokens: int
    ) -> list[Passage | Refusal]:
        """What a document is split into by a process of its own, which ends with the deadline."""
        when = None if self.deadline is None else self.deadline.when()
        now = asyncio.get_running_loop().time()
        until = time.monotonic() + (math.inf if when is None else when - now)
        converters = self.state.converters

        def work() -> list[Passage | Refusal]:
            left_s = max(0.0, until - time.monotonic())
            return list(
                document.passages(collection, converters, max_tokens=max_tokens, timeout_s=left_s)
            )

        return await self.state.workers.convert(work, self.owner)

    def checkpoint(self) -> None:
        """Within a write, let other tenants go first, and stop what nobody waits for any more.

        Raises:
            DeadlineError: the request is over.
        """
        self.state.workers.give_way(self.owner)
        if self.is_over:
            raise DeadlineError("nobody waits for this any more")

    def extend(self, seconds: float) -> None:
        """Give the request so many seconds from now."""
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + seconds)

    def answered(
        self,
        stages: Mapping[str, float],
        *,
        verdict: str | None = None,
        degraded: tuple[str, ...] = (),
        text: str | None = None,
    ) -> None:
        """Note what the answer says of itself; `text` is the user's, for traces that may tell."""
        self.stages, self.verdict, self.degraded, self.text = stages, verdict, degraded, text

    def _work(self, work: Callable[[Crib], _Made]) -> _Made:
        with metered(self.meter):
            return work(self.state.namespaces.crib(self.namespace))

    def _work_and_tell(self, work: Callable[[Crib], _Made]) -> _Made:
        try:
            return self._work(work)
        finally:
            # Also after a failure: part of it may have been written.
            self.state.namespaces.announce_write(self.namespace)


def context_of(request: Request) -> RequestContext:
    """The context of a request."""
    return context_of_scope(request.scope)


def context_of_scope(scope: Mapping[str, Any]) -> RequestContext:
    """The context of a request, by its ASGI scope."""
    return scope[KEY]


def header(scope: Mapping[str, Any], name: bytes) -> bytes | None:
    """The value of a header, given in small letters; None where it is absent."""
    return next((value for key, value in scope["headers"] if key == name), None)


def is_upload(scope: Mapping[str, Any]) -> bool:
    """Whether a request's body is one of JSON Lines."""
    kind = (header(scope, b"content-type") or b"").partition(b";")[0].strip().lower()
    return kind in UPLOAD_TYPES
