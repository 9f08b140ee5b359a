"""Middleware: limits, keys and a deadline before a request is worked on, and a way out after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolcrib.errors import (
    DeadlineError,
    OverloadedError,
    ServiceUnavailableError,
    TooLargeError,
)
from toolcrib.http.authenticator import Authenticator, RateLimiter
from toolcrib.http.context import RequestContext, header, is_upload
from toolcrib.http.errors import problem_response
from toolcrib.http.state import ServiceState
from toolcrib.tenants import check_name

__all__ = ["Admission"]

GUARDED = "/v1/"
"""What needs a key, and counts as work."""

UPLOAD_FACTOR = 32
"""Times `service.max_body_bytes`: the most in a body of JSON Lines."""

PLAIN = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
"""What is said of every answer that says nothing else of itself."""


class Admission:
    """Stands around the application; a plain ASGI middleware, since every request pays for it."""

    def __init__(
        self, app: ASGIApp, state: ServiceState, authenticator: Authenticator, rates: RateLimiter
    ) -> None:
        self._app = app
        self._state = state
        self._authenticator = authenticator
        self._rates = rates
        self._service = state.settings.service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        context = RequestContext.begin(self._state, scope)
        out = _Out(send, context)
        try:
            if scope["path"].startswith(GUARDED):
                await self._guarded(scope, receive, out, context)
            else:
                await self._app(scope, receive, out)
        except Exception as error:  # noqa: BLE001 -- the answer says so, and the log says more
            await self._fail(error, scope, receive, out, context)
        finally:
            took_ms = (time.perf_counter() - started) * 1000
            self._state.telemetry.finished(context.summary(scope, took_ms))

    async def _guarded(
        self, scope: Scope, receive: Receive, send: Send, context: RequestContext
    ) -> None:
        with self._place(context):
            deadline = context.deadline = asyncio.timeout(self._service.timeout_s)
            try:
                async with deadline:
                    await self._admit(scope, context)
                    bounded = _bounded(scope, receive, self._most(scope))
                    await self._app(scope, bounded, send)
            except TimeoutError:
                if not deadline.expired():
                    raise
                context.turned_away = "deadline"
                raise DeadlineError(
                    f"no answer within {self._service.timeout_s:g} s; what was to be written may "
                    "still be, and can be sent again",
                ) from None

    async def _admit(self, scope: Scope, context: RequestContext) -> None:
        """Find out who asks and of which namespace; raises for whom is turned away."""
        context.turned_away = "key"
        context.caller = await self._authenticator.caller(scope)
        context.turned_away = "rate"
        self._rates.count(context.caller)
        context.turned_away = "namespace"
        asked = header(scope, b"toolcrib-namespace")
        context.namespace = check_name(
            context.caller.namespace(None if asked is None else asked.decode("latin-1")),
        )
        context.turned_away = None

    def _most(self, scope: Scope) -> int:
        """The bytes of a body; of JSON Lines, each is read by itself, so that many may come."""
        most = self._service.max_body_bytes
        return UPLOAD_FACTOR * most if is_upload(scope) else most

    @contextmanager
    def _place(self, context: RequestContext) -> Generator[None]:
        """One of the places for requests under way; raises at once where none is free."""
        state = self._state
        if state.draining:
            context.turned_away = "stopping"
            raise ServiceUnavailableError("the service is stopping; ask another one, or again")
        if state.under_way + state.workers.abandoned >= self._service.concurrent:
            context.turned_away = "overload"
            state.switch_interval.shorten()
            raise OverloadedError(
                f"{self._service.concurrent} requests are under way already; ask again later",
            )
        state.under_way += 1
        try:
            yield
        finally:
            state.under_way -= 1
            if state.under_way <= self._service.concurrent // 2:
                state.switch_interval.restore()

    async def _fail(
        self, error: Exception, scope: Scope, receive: Receive, out: _Out, context: RequestContext
    ) -> None:
        self._state.telemetry.failed(context.request_id, error)
        if not out.started:
            response = problem_response(error, context.request_id)
            await response(scope, receive, out)


class _Out:
    """Sends, adds what every answer has, and remembers the status."""

    def __init__(self, send: Send, context: RequestContext) -> None:
        self._send = send
        self._context = context
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._context.status = message["status"]
            headers = message["headers"] = list(message.get("headers", ()))
            present = {name for name, _ in headers}
            headers += [pair for pair in PLAIN if pair[0] not in present]
            headers.append((b"x-request-id", self._context.request_id.encode("ascii")))
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
