"""Application: routes, the console's page, and what stands around them.

Limits, keys and a deadline before a request is worked on, and a way out after.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from mimetypes import guess_type
from pathlib import Path

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolcrib.access.keys import ANYONE
from toolcrib.errors import (
    DeadlineError,
    OverloadedError,
    ServiceUnavailableError,
    TooLargeError,
    ToolcribError,
)
from toolcrib.http.authenticator import Authenticator, Callers, RateLimiter
from toolcrib.http.context import RequestContext, header, is_upload
from toolcrib.http.errors import on_error, on_http, problem_response
from toolcrib.http.openapi import document
from toolcrib.http.routes import admin, health, knowledge, learning, tools, turns
from toolcrib.http.routing import JSON, Endpoint, make_routes, template_of
from toolcrib.http.state import UPLOAD_FACTOR, ServiceState
from toolcrib.http.workers import Shares
from toolcrib.language_models import metered
from toolcrib.settings import Settings
from toolcrib.store.namespaced import check_name
from toolcrib.telemetry import UNMATCHED, Telemetry
from toolcrib.tenants import Tenants

__all__ = ["ENDPOINTS", "make_app", "openapi"]

ENDPOINTS: tuple[Endpoint, ...] = (
    *tools.ENDPOINTS,
    *knowledge.ENDPOINTS,
    *turns.ENDPOINTS,
    *learning.ENDPOINTS,
    *admin.ENDPOINTS,
    *health.ENDPOINTS,
)

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Nothing but our own files: no inline script or style, and no other address."""

PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    # Asked for each time, and answered with 304 while nothing has changed.
    "Cache-Control": "no-cache",
}

INDEX = "index.html"


def make_app(
    namespaces: Tenants, settings: Settings, *, callers: Callers, telemetry: Telemetry | None = None
) -> Starlette:
    """The service over these namespaces, which stay open when it ends.

    `callers` tells whose key is whose. `telemetry` is what the settings say by default.

    Raises:
        MissingExtraError: the extra `service` is not installed.
    """
    state = ServiceState(namespaces, settings, telemetry or Telemetry.of(settings.service))
    health.watch(state)
    authenticator = Authenticator(callers, state.workers)
    rates = RateLimiter(settings.service.rate)
    routes = make_routes(ENDPOINTS)
    app = Starlette(
        routes=[*routes, Route("/openapi.json", _openapi), *_console()],
        middleware=[Middleware(_Admission, state, authenticator, rates, routes)],
        exception_handlers={ToolcribError: on_error, HTTPException: on_http},
        lifespan=lambda _app: _life(state),
    )
    app.router.redirect_slashes = False
    app.state.service = state
    return app


@asynccontextmanager
async def _life(state: ServiceState) -> AsyncGenerator[None]:
    yield
    state.draining = True
    state.close()


@cache
def openapi() -> bytes:
    """The OpenAPI document, as JSON text; made once."""
    return to_json(document(ENDPOINTS))


async def _openapi(request: Request) -> Response:  # noqa: ARG001 -- nothing of it is looked at
    return Response(openapi(), media_type=JSON)


def _console() -> list[Route]:
    """Routes of the console's built files, where they are part of this installation.

    They are served from memory to anybody; their data need a key.
    """
    try:
        from toolcrib.http.console import assets
    except ImportError:
        return []
    folder = assets()
    if not (folder / INDEX).is_file():
        return []
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [(path, path.relative_to(folder).as_posix()) for path in files]
    return [Route("/" if name == INDEX else f"/{name}", _file(path)) for path, name in names]


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()
    kind = guess_type(path.name)[0] or "application/octet-stream"
    tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    headers = {**PAGE_HEADERS, "ETag": tag}

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return send


# -- around every request ----------------------------------------------------------------------

GUARDED = "/v1/"
"""What needs a key, and counts as work."""

PARSED = 8
"""What a body takes once it is parsed as a whole, in times of its bytes; lines are not."""

BODY_BYTES_PER_S = 16 * 1024
"""How fast a body must come at least."""

PLAIN = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
"""What is said of every answer that says nothing else of itself."""


class _Admission:
    """Stands around the application; a plain ASGI middleware, since every request pays for it."""

    def __init__(
        self,
        app: ASGIApp,
        state: ServiceState,
        authenticator: Authenticator,
        rates: RateLimiter,
        routes: Sequence[Route],
    ) -> None:
        self._app = app
        self._routes = routes
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
            context.turned_away = "key"
            self._authenticator.require_local(scope)
            context.turned_away = None
            if scope["path"].startswith(GUARDED):
                with metered(context.meter):
                    await self._guarded(scope, receive, out, context)
            else:
                await self._app(scope, receive, out)
        except Exception as error:  # noqa: BLE001 -- the answer says so, and the log says more
            self._state.telemetry.log_fault(context.request_id, error)
            if not out.started:
                await problem_response(error, context.request_id)(scope, receive, out)
        finally:
            context.took_ms = (time.perf_counter() - started) * 1000
            context.key_id, context.usage = context.caller.key_id, context.meter.usage
            if context.route == UNMATCHED:
                # It got no further than this, yet its address may be one of ours.
                context.route = template_of(self._routes, scope) or UNMATCHED
            if not context.is_elsewhere:
                self._state.telemetry.record(context)

    async def _guarded(
        self, scope: Scope, receive: Receive, send: Send, context: RequestContext
    ) -> None:
        with self._place(context):
            deadline = context.deadline = asyncio.timeout(self._service.timeout_s)
            try:
                async with deadline:
                    await self._admit(scope, context)
                    with self._share(context, scope) as body:
                        bounded = self._bounded(scope, receive, body)
                        await self._app(scope, bounded, send)
            except TimeoutError:
                if not deadline.expired():
                    raise
                context.turned_away = "deadline"
                raise DeadlineError(
                    f"no answer within {self._service.timeout_s:g} s; what was written by then "
                    "stays, and all of it can be sent again"
                ) from None
            finally:
                context.is_over = True

    async def _admit(self, scope: Scope, context: RequestContext) -> None:
        """Find out who asks and of which namespace; raises for whom is turned away."""
        context.turned_away = "key"
        context.caller = await self._authenticator.caller(scope)
        context.turned_away = "rate"
        self._rates.count(context.caller)
        context.turned_away = "namespace"
        asked = header(scope, b"toolcrib-namespace")
        context.namespace = check_name(
            context.caller.namespace(None if asked is None else asked.decode("latin-1"))
        )
        context.turned_away = None

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
                f"{self._service.concurrent} requests are under way already; ask again later"
            )
        state.under_way += 1
        try:
            yield
        finally:
            state.under_way -= 1
            if state.under_way <= self._service.concurrent // 2:
                state.switch_interval.restore()

    @contextmanager
    def _share(self, context: RequestContext, scope: Scope) -> Generator[_Held]:
        """A part of what the caller's key and tenant may have; raises where they have enough."""
        places, owner = self._state.places, context.owner
        if context.caller is not ANYONE and not places.has_room(owner, 1):
            context.turned_away = "share"
            raise OverloadedError(
                "this key, or its namespace, has as many requests under way as are not kept for "
                "others; wait for their answers"
            )
        held = _Held(context, self._state.bytes, 1 if is_upload(scope) else PARSED)
        places.take(owner, 1)
        try:
            yield held
        finally:
            held.give_back()
            places.take(owner, -1)

    def _bounded(self, scope: Scope, receive: Receive, held: _Held) -> Receive:
        """Receive no more than a body may have, at once where the header tells, nor too slowly.

        Raises:
            TooLargeError: it has more.
            DeadlineError: its bytes do not come.
        """
        service = self._service
        # Of JSON Lines each is read by itself, so that many may come.
        most = service.max_body_bytes * (UPLOAD_FACTOR if is_upload(scope) else 1)
        declared = header(scope, b"content-length") or b"0"
        if declared.isdigit():
            if int(declared[:20]) > most:
                raise _too_large(most)
            held.hold(int(declared[:20]))
        received, waited_s, is_whole = 0, 0.0, False

        async def bounded() -> Message:
            nonlocal received, waited_s, is_whole
            if is_whole:
                return await receive()
            began = time.monotonic()
            allowed = asyncio.timeout(service.body_s + received / BODY_BYTES_PER_S - waited_s)
            try:
                async with allowed:
                    message = await receive()
            except TimeoutError:
                if not allowed.expired():
                    raise
                held.context.turned_away = "body"
                raise DeadlineError("the body comes too slowly; send it again") from None
            waited_s += time.monotonic() - began
            received += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if received > most:
                raise _too_large(most)
            held.hold(received)
            return message

        return bounded


class _Held:
    """The bytes of memory that a body takes of its owner's share, for each of its own `times`."""

    def __init__(self, context: RequestContext, shares: Shares, times: int) -> None:
        self.context = context
        self._shares = shares
        self._times = times
        self._bytes = 0

    def hold(self, received: int) -> None:
        """Hold what this many bytes of the body take.

        Raises:
            OverloadedError: the bodies of its key or tenant take as much as is not for others.
        """
        more = received * self._times - self._bytes
        if more <= 0:
            return
        if not self._shares.has_room(self.context.owner, more):
            self.context.turned_away = "share"
            raise OverloadedError(
                "the bodies under way take as much memory as there is for this key and its "
                "namespace; send one after the other"
            )
        self._bytes += more
        self._shares.take(self.context.owner, more)

    def give_back(self) -> None:
        """Hold nothing any more."""
        self._shares.take(self.context.owner, -self._bytes)
        self._bytes = 0


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


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(
        f"the body is larger than {most:,} bytes, the most that is taken; send it in parts"
    )
