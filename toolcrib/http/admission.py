"""What every request passes before it is worked on: limits, keys and a deadline, and a way out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from toolcrib.errors import (
    DeadlineError,
    OverloadedError,
    ServiceUnavailableError,
    TooLargeError,
)
from toolcrib.http.faults import problem_response
from toolcrib.http.house import House
from toolcrib.http.visits import Visit, header
from toolcrib.namespaces import check_name

__all__ = ["Admission"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

GUARDED = "/v1/"
"""What needs a key, and counts as work."""

PLAIN = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
"""What is said of every answer that says nothing else of itself."""


class Admission:
    """Stands around the application; a plain ASGI middleware, since every request pays for it."""

    def __init__(self, app: App, house: House) -> None:
        self._app = app
        self._house = house
        self._service = house.settings.service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        visit = Visit.begin(self._house, scope)
        out = _Out(send, visit)
        try:
            if scope["path"].startswith(GUARDED):
                await self._guarded(scope, receive, out, visit)
            else:
                await self._app(scope, receive, out)
        except Exception as error:  # noqa: BLE001 -- the answer says so, and the log says more
            await self._fail(error, scope, receive, out, visit)
        finally:
            took_ms = (time.perf_counter() - started) * 1000
            self._house.telemetry.finished(visit.served(scope, took_ms))

    async def _guarded(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        with self._place(visit):
            deadline = asyncio.timeout(self._service.timeout_s)
            try:
                async with deadline:
                    await self._admit(scope, visit)
                    bounded = _bounded(scope, receive, self._service.max_body_bytes)
                    await self._app(scope, bounded, send)
            except TimeoutError:
                if not deadline.expired():
                    raise
                visit.turned_away = "deadline"
                raise DeadlineError(
                    f"no answer within {self._service.timeout_s:g} s; what was to be written may "
                    "still be, and can be sent again",
                ) from None

    async def _admit(self, scope: Scope, visit: Visit) -> None:
        """Find out who asks and of which namespace; raises for whom is turned away."""
        visit.turned_away = "key"
        visit.caller = await self._house.door.caller(scope)
        visit.turned_away = "rate"
        self._house.rates.count(visit.caller)
        visit.turned_away = "namespace"
        asked = header(scope, b"toolcrib-namespace")
        visit.namespace = check_name(
            visit.caller.namespace(None if asked is None else asked.decode("latin-1")),
        )
        visit.turned_away = None

    @contextmanager
    def _place(self, visit: Visit) -> Generator[None]:
        """One of the places for requests under way; raises at once where none is free."""
        house = self._house
        if house.draining:
            visit.turned_away = "stopping"
            raise ServiceUnavailableError("the service is stopping; ask another one, or again")
        if house.under_way + house.workers.abandoned >= self._service.concurrent:
            visit.turned_away = "overload"
            house.pace.hurry()
            raise OverloadedError(
                f"{self._service.concurrent} requests are under way already; ask again later",
            )
        house.under_way += 1
        try:
            yield
        finally:
            house.under_way -= 1
            if house.under_way <= self._service.concurrent // 2:
                house.pace.calm()

    async def _fail(
        self, error: Exception, scope: Scope, receive: Receive, out: _Out, visit: Visit
    ) -> None:
        self._house.telemetry.failed(visit.request_id, error)
        if not out.started:
            response = problem_response(error, visit.request_id)
            await response(scope, receive, out)


class _Out:
    """Sends, adds what every answer has, and remembers the status."""

    def __init__(self, send: Send, visit: Visit) -> None:
        self._send = send
        self._visit = visit
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._visit.status = message["status"]
            headers = message["headers"] = list(message.get("headers", ()))
            present = {name for name, _ in headers}
            headers += [pair for pair in PLAIN if pair[0] not in present]
            headers.append((b"x-request-id", self._visit.request_id.encode("ascii")))
        await self._send(message)


def _bounded(scope: Scope, receive: Receive, most: int) -> Receive:
    """Receive no more than so many bytes; raises TooLargeError, at once where the header tells."""
    declared = header(scope, b"content-length") or b"0"
    if declared.isdigit() and int(declared[:20]) > most:
        raise _too_large(most)
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise _too_large(most)
        return message

    return bounded


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(
        f"the body is larger than {most:,} bytes, the most that is taken; send it in parts",
    )
