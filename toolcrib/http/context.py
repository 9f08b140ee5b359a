"""Request context: caller, namespace, deadline, and the work of one request."""

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

from starlette.datastructures import Headers

from toolcrib.access.keys import ANYONE, Caller, intersection
from toolcrib.access.quarantine import Quarantine
from toolcrib.crib import Crib
from toolcrib.documents.sources import RawDocument
from toolcrib.errors import DeadlineError, ForbiddenError
from toolcrib.http.state import ServiceState
from toolcrib.http.workers import Owner
from toolcrib.language_models import UsageMeter, count_usage
from toolcrib.records import Passage, Refusal, Scope
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.router.decision_log_db import DatabaseLog
from toolcrib.telemetry import RequestSummary

_Result = TypeVar("_Result")

REQUEST_ID_FORMAT = re.compile(r"[A-Za-z0-9._:-]{1,128}")
SCOPE_KEY = "toolcrib"
"""Key of the context in an ASGI scope."""

UPLOAD_TYPES = frozenset({"application/jsonl", "application/x-ndjson"})


@dataclass(slots=True)
class RequestContext(RequestSummary):
    """Request with the facts for metrics, traces and logs.

    `caller` and `namespace` are set on admission. `is_over`: no client waits for the answer.
    `meter` sums the usage of language models.
    """

    state: ServiceState = field(kw_only=True)
    caller: Caller = ANYONE
    deadline: asyncio.Timeout | None = None
    is_over: bool = False
    meter: UsageMeter = field(default_factory=partial(UsageMeter, keeps=True))

    @classmethod
    def begin(cls, state: ServiceState, scope: MutableMapping[str, Any]) -> RequestContext:
        """Create the context of an ASGI scope, and store it there."""
        given, parent = header(scope, "x-request-id"), header(scope, "traceparent")
        request_id = given if given and REQUEST_ID_FORMAT.fullmatch(given) else uuid.uuid4().hex
        context = cls(request_id, scope["method"], traceparent=parent, state=state)
        scope[SCOPE_KEY] = context
        return context

    def require_write(self) -> None:
        """Require a key that may write."""
        if not self.caller.may_write:
            raise ForbiddenError("this key may only read; writing needs a key made with --write")

    def require_admin(self) -> None:
        """Require a key that may manage keys and servers."""
        if not self.caller.may_administer:
            raise ForbiddenError("this needs a key made with `toolcrib keys create NAME --admin`")

    @property
    def sees_all_decisions(self) -> bool:
        """True for a key that writes and has no scope: decisions name tools and collections."""
        return self.caller.may_write and self.scope() == Scope()

    def sees_decision(self, record: Mapping[str, Any]) -> bool:
        """True for the caller's own decisions, and for all if its key may see them."""
        return self.sees_all_decisions or record.get("by") == self.caller.key_id

    @property
    def sees_everything(self) -> bool:
        """True for a key that sees all tools, in the default namespace."""
        return self.namespace == DEFAULT_NAMESPACE and self.scope() == Scope()

    @property
    def sees_activity(self) -> bool:
        """True for a key that may see a gateway's calls: it writes, and sees everything."""
        return self.caller.may_write and self.sees_everything

    def scope(self, requested: Scope | None = None) -> Scope:
        """Caller's scope, narrowed to the requested one."""
        return intersection(self.caller.grant.scope(), requested)

    def quarantine(self) -> Quarantine:
        """Quarantine of the namespace."""
        return Quarantine(self.state.namespaces.records_db, self.namespace)

    def log(self) -> DatabaseLog:
        """Decision log of the namespace."""
        return self.state.namespaces.log(self.namespace)

    @property
    def owner(self) -> Owner:
        """Owner of the request's work."""
        return Owner(self.namespace, self.caller.key_id)

    async def read(self, work: Callable[[Crib], _Result]) -> _Result:
        """Run work that reads the namespace's crib, in a thread."""
        return await self.run(partial(self._work, work))

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Run other work that only reads, in a thread."""
        return await self.state.workers.read(work, self.owner)

    async def write(self, work: Callable[[Crib], _Result]) -> _Result:
        """Run work that writes, in a thread; other processes are notified."""
        return await self.state.workers.write(partial(self._work_and_notify, work), self.owner)

    async def convert(self, document: RawDocument, collection: str) -> list[Passage | Refusal]:
        """Split a document in a separate process, which ends at the deadline."""
        when = None if self.deadline is None else self.deadline.when()
        now = asyncio.get_running_loop().time()
        until = time.monotonic() + (math.inf if when is None else when - now)
        converters = self.state.converters
        max_tokens = self.state.settings.documents.max_tokens

        def work() -> list[Passage | Refusal]:
            left_s = max(0.0, until - time.monotonic())
            return list(
                document.passages(collection, converters, max_tokens=max_tokens, timeout_s=left_s)
            )

        return await self.state.workers.convert(work, self.owner)

    def checkpoint(self) -> None:
        """During a write, let other tenants go first, and stop once the request is over."""
        self.state.workers.give_way(self.owner)
        if self.is_over:
            raise DeadlineError("the client no longer waits for the answer")

    def extend(self, seconds: float) -> None:
        """Move the deadline to this many seconds from now."""
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + seconds)

    def record_answer(
        self,
        stages: Mapping[str, float],
        *,
        verdict: str | None = None,
        degraded: tuple[str, ...] = (),
        text: str | None = None,
    ) -> None:
        """Record facts of the answer; `text`: the user's, for traces that may contain it."""
        self.stages, self.verdict, self.degraded, self.text = stages, verdict, degraded, text

    def _work(self, work: Callable[[Crib], _Result]) -> _Result:
        with count_usage(self.meter):
            return work(self.state.namespaces.crib(self.namespace))

    def _work_and_notify(self, work: Callable[[Crib], _Result]) -> _Result:
        try:
            return self._work(work)
        finally:
            # A failed write may have written a part.
            self.state.namespaces.announce_write(self.namespace)


def context_of(scope: Mapping[str, Any]) -> RequestContext:
    """Context in an ASGI scope."""
    return scope[SCOPE_KEY]


def header(scope: Mapping[str, Any], name: str) -> str | None:
    """Value of a header; None without the header."""
    return Headers(raw=scope["headers"]).get(name)


def media_type(scope: Mapping[str, Any]) -> str:
    """Media type of a request's body, without parameters."""
    return (header(scope, "content-type") or "").partition(";")[0].strip().lower()


def is_upload(scope: Mapping[str, Any]) -> bool:
    """True for a request with a body of JSON Lines."""
    return media_type(scope) in UPLOAD_TYPES
