"""One request on its way: who asks, of which namespace, and what becomes of it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request

from toolcrib.access.keys import ANYONE, Caller, within
from toolcrib.access.quarantine import Quarantine
from toolcrib.crib import Crib
from toolcrib.errors import ForbiddenError
from toolcrib.records import Scope
from toolcrib.telemetry.served import UNMATCHED, Served

if TYPE_CHECKING:
    from toolcrib.http.house import House

__all__ = ["Visit", "header", "visit_of"]

Made = TypeVar("Made")

REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
KEY = "toolcrib"
"""Where a visit stands in an ASGI scope."""


@dataclass(slots=True)
class Visit:
    """A request, with what is to be counted, traced and logged of it when it is answered.

    `caller` and `namespace` are known once it is admitted. `turned_away` is the reason where
    it was not worked on. Stages, verdict and what was degraded are those of the answer.
    """

    house: House
    request_id: str
    caller: Caller = ANYONE
    namespace: str = ""
    status: int = 500
    turned_away: str | None = None
    took_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    verdict: str | None = None
    degraded: tuple[str, ...] = ()
    text: str | None = None

    @classmethod
    def begin(cls, house: House, scope: MutableMapping[str, Any]) -> Visit:
        """The visit of an ASGI scope, which it is put into."""
        given = header(scope, b"x-request-id")
        if given is not None and REQUEST_ID.fullmatch(given):
            request_id = given.decode("ascii")
        else:
            request_id = uuid.uuid4().hex
        visit = scope[KEY] = cls(house, request_id)
        return visit

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
        return Quarantine(self.house.namespaces.ledger, self.namespace)

    async def read(self, work: Callable[[Crib], Made]) -> Made:
        """Do something with the namespace's crib, in a thread."""
        return await self.house.workers.read(partial(self._work, work))

    async def look(self, work: Callable[[], Made]) -> Made:
        """Do something else that only reads, in a thread."""
        return await self.house.workers.read(work)

    async def write(self, work: Callable[[Crib], Made]) -> Made:
        """The same for what writes; other processes hear of it."""
        return await self.house.workers.write(partial(self._work_and_tell, work))

    def answered(
        self,
        took_ms: Mapping[str, float],
        *,
        verdict: str | None = None,
        degraded: tuple[str, ...] = (),
        text: str | None = None,
    ) -> None:
        """Note what the answer says of itself; `text` is the user's, for traces that may tell."""
        self.took_ms, self.verdict, self.degraded, self.text = took_ms, verdict, degraded, text

    def served(self, scope: Mapping[str, Any], took_ms: float) -> Served:
        """What became of it, for whoever counts."""
        route = scope.get("route")
        parent = header(scope, b"traceparent")
        return Served(
            request_id=self.request_id,
            method=scope["method"],
            route=UNMATCHED if route is None else route.path_format,
            status=self.status,
            took_ms=took_ms,
            key_id=self.caller.key_id,
            namespace=self.namespace,
            stages=self.took_ms,
            verdict=self.verdict,
            degraded=self.degraded,
            turned_away=self.turned_away,
            text=self.text,
            traceparent=None if parent is None else parent.decode("latin-1"),
        )

    def _work(self, work: Callable[[Crib], Made]) -> Made:
        return work(self.house.namespaces.crib(self.namespace))

    def _work_and_tell(self, work: Callable[[Crib], Made]) -> Made:
        try:
            return self._work(work)
        finally:
            # Also after a failure: part of it may have been written.
            self.house.namespaces.touched(self.namespace)


def visit_of(request: Request) -> Visit:
    """The visit that a request is."""
    return request.scope[KEY]


def header(scope: Mapping[str, Any], name: bytes) -> bytes | None:
    """The value of a header, given in small letters; None where it is absent."""
    return next((value for key, value in scope["headers"] if key == name), None)
