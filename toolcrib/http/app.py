"""Application: routes, the console's page, and admission of requests.

Admission checks limits, key and deadline before a request, and records its end.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache, partial
from http import HTTPStatus
from mimetypes import guess_type
from pathlib import Path

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolcrib.access.keys import ANYONE, Caller, RateLimiter
from toolcrib.access.tokens import KeysAndTokens
from toolcrib.errors import (
    DeadlineError,
    OverloadedError,
    ServiceUnavailableError,
    StoreError,
    TooLargeError,
    ToolcribError,
    UnauthenticatedError,
)
from toolcrib.http.authenticator import Authenticator, Callers
from toolcrib.http.context import RequestContext, header, is_upload
from toolcrib.http.errors import on_error, on_http, problem_response
from toolcrib.http.openapi import DOCS_POLICY, docs_page, document
from toolcrib.http.routes import admin, knowledge, tools, turns
from toolcrib.http.routing import GUARDED_PREFIX, JSON, Endpoint, make_routes, template_of
from toolcrib.http.state import UPLOAD_FACTOR, ServiceState
from toolcrib.language_models import count_usage
from toolcrib.settings import Settings
from toolcrib.store.namespaced import check_name
from toolcrib.telemetry import UNMATCHED_ROUTE, Telemetry
from toolcrib.tenants import Tenants

ENDPOINTS: tuple[Endpoint, ...] = (
    *tools.ENDPOINTS,
    *knowledge.ENDPOINTS,
    *turns.ENDPOINTS,
    *admin.ENDPOINTS,
)

CONSOLE_POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Policy that allows the service's own files only: no inline script or style, no other address."""

PAGE_HEADERS = {
    "Content-Security-Policy": CONSOLE_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    # Revalidate each time, with 304 for an unchanged file.
    "Cache-Control": "no-cache",
}

DOCS_HEADERS = {**PAGE_HEADERS, "Content-Security-Policy": DOCS_POLICY}

CONSOLE = Path(__file__).with_name("console") / "static"
"""Built files of the console: a page that explains decisions."""


def make_app(
    namespaces: Tenants, settings: Settings, *, callers: Callers, telemetry: Telemetry | None = None
) -> Starlette:
    """Service over these namespaces, which stay open when the service ends.

    `callers` verifies keys and tokens. `telemetry` is by default that of the settings.

    Raises:
        MissingExtraError: the extra `service` is not installed.
    """
    state = ServiceState(namespaces, settings, telemetry or Telemetry.of(settings.service))
    admin.watch(state)
    authenticator = Authenticator(callers, state.workers)
    rates = RateLimiter(settings.service.rate)
    routes = [
        *make_routes(ENDPOINTS),
        _document_route("/openapi.json", openapi, JSON),
        _document_route("/docs", _docs_page, "text/html", DOCS_HEADERS),
        *_token_metadata(callers),
        *_console(),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(_Admission, state, authenticator, rates, routes)],
        exception_handlers={ToolcribError: on_error, HTTPException: on_http},
        lifespan=lambda _app: _lifespan(state),
    )
    app.router.redirect_slashes = False
    app.state.service = state
    return app


@asynccontextmanager
async def _lifespan(state: ServiceState) -> AsyncGenerator[None]:
    yield
    state.draining = True
    state.close()


@cache
def openapi() -> bytes:
    """OpenAPI document as JSON text; cached."""
    return to_json(document(ENDPOINTS))


@cache
def _docs_page() -> str:
    return docs_page(document(ENDPOINTS))


def _token_metadata(callers: Callers) -> list[Route]:
    """Route of the metadata that lead clients to the issuer of tokens, if there is one."""
    if not isinstance(callers, KeysAndTokens) or callers.resource is None:
        return []
    # Allow clients in a browser, which have another origin.
    headers = {"Access-Control-Allow-Origin": "*"}
    make = partial(to_json, callers.metadata())
    return [_document_route(callers.metadata_path, make, JSON, headers)]


def _document_route(
    path: str, make: Callable[[], bytes | str], kind: str, headers: Mapping[str, str] | None = None
) -> Route:
    async def send(_request: Request) -> Response:
        return Response(make(), media_type=kind, headers=headers)

    return Route(path, send)


def _console() -> list[Route]:
    """Routes of the console's files, served from memory without a key; their data need one."""
    files = sorted(path for path in CONSOLE.rglob("*") if path.is_file())
    names = [path.relative_to(CONSOLE).as_posix() for path in files]
    paths = ["/" if name == "index.html" else f"/{name}" for name in names]
    return [Route(path, _file(file)) for path, file in zip(paths, files, strict=True)]


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()
    kind = guess_type(path.name)[0] or "application/octet-stream"
    tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    headers = {**PAGE_HEADERS, "ETag": tag}

    async def send(request: Request) -> Response:
        # A proxy that compresses makes the tag weak, and a client may send several.
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return send


# -- around every request ----------------------------------------------------------------------

PARSED_BODY_FACTOR = 8
"""Memory of a parsed body, as a multiple of its bytes."""

MIN_BODY_BYTES_PER_S = 16 * 1024
"""Slowest rate at which a body may arrive."""

SWITCH_INTERVAL_S, SHORT_SWITCH_INTERVAL_S = sys.getswitchinterval(), 0.0005
"""Interval of switches between threads, and a tenth of it while requests are refused. Each switch
costs time, a tenth of a search in sum; but a refusal must not wait for searches."""

CLIENT_CLOSED_STATUS = 499
"""Status, from nginx, in metrics and the log for a client that left before its body or the answer
was complete."""

DEFAULT_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
"""Headers of an answer that does not set them itself."""


class _Admission:
    """Admission of requests; a plain ASGI middleware, because every request pays its cost."""

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
        """Answer one request, also after any error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        context = RequestContext.begin(self._state, scope)
        sender = _ResponseSender(send, context)
        try:
            context.turned_away = "key"
            self._authenticator.require_local(scope)
            context.turned_away = None
            if scope["path"].startswith(GUARDED_PREFIX):
                with count_usage(context.meter):
                    await self._guard(scope, receive, sender, context)
            else:
                await self._app(scope, receive, sender)
        except ClientDisconnect:
            context.status, context.turned_away = CLIENT_CLOSED_STATUS, "disconnect"
        except Exception as error:  # noqa: BLE001 -- becomes the answer and a log entry
            self._state.telemetry.log_fault(context.request_id, error)
            if not sender.started:
                challenge = self._authenticator.challenge
                answer = problem_response(error, context.request_id, challenge)
                await answer(scope, receive, sender)
        finally:
            sender.record_disconnect()
            context.took_ms = (time.perf_counter() - started) * 1000
            context.key_id = context.caller.key_id or context.key_id
            context.model_requests = context.meter.requests
            if context.route == UNMATCHED_ROUTE:
                # The request was refused before routing; its address may be known.
                context.route = template_of(self._routes, scope) or UNMATCHED_ROUTE
            self._state.telemetry.record(context)

    async def _guard(
        self, scope: Scope, receive: Receive, send: Send, context: RequestContext
    ) -> None:
        self._refuse_while_draining(context)
        deadline = context.deadline = asyncio.timeout(self._service.timeout_s)
        try:
            async with deadline:
                context.turned_away = "key"
                context.caller = await self._caller(scope, context)
                # Take a place after authentication: wrong keys must not take the places of others.
                with self._take_place(context):
                    self._admit(scope, context)
                    with self._take_share(context, scope) as take:
                        bounded = self._bounded_receive(scope, receive, context, take)
                        await self._app(scope, bounded, send)
        except TimeoutError:
            if not deadline.expired():
                raise
            context.turned_away = "deadline"
            raise DeadlineError(
                f"no answer within {self._service.timeout_s:g} s; what was written by then "
                "stays; send the whole request again"
            ) from None
        finally:
            context.is_over = True

    async def _caller(self, scope: Scope, context: RequestContext) -> Caller:
        try:
            return await self._authenticator.caller(scope)
        except UnauthenticatedError as error:
            # The log says who still sends a key that holds no longer.
            context.key_id = error.key_id
            raise
        except (OverloadedError, StoreError) as error:
            # Nothing is known of the key.
            context.turned_away = "overload" if isinstance(error, OverloadedError) else None
            raise

    def _admit(self, scope: Scope, context: RequestContext) -> None:
        """Check rate and namespace of the caller; raises to refuse the request."""
        context.turned_away = "rate"
        self._rates.count(context.caller.key_id, context.caller.grant)
        context.turned_away = "namespace"
        context.namespace = check_name(
            context.caller.namespace(header(scope, "toolcrib-namespace"))
        )
        context.turned_away = None

    def _refuse_while_draining(self, context: RequestContext) -> None:
        if self._state.draining:
            context.turned_away = "stopping"
            raise ServiceUnavailableError("the service is stopping; use another one, or try again")

    @contextmanager
    def _take_place(self, context: RequestContext) -> Generator[None]:
        """Take one of the places for concurrent requests; raises at once if none is free."""
        state = self._state
        self._refuse_while_draining(context)
        if state.under_way + state.workers.abandoned_jobs >= self._service.concurrent:
            context.turned_away = "overload"
            sys.setswitchinterval(SHORT_SWITCH_INTERVAL_S)
            raise OverloadedError(
                f"{self._service.concurrent} requests are under way already; try again later"
            )
        state.under_way += 1
        try:
            yield
        finally:
            state.under_way -= 1
            if state.under_way <= self._service.concurrent // 2:
                sys.setswitchinterval(SWITCH_INTERVAL_S)

    @contextmanager
    def _take_share(
        self, context: RequestContext, scope: Scope
    ) -> Generator[Callable[[int], None]]:
        """Take a place from the share of key and tenant; refuse the request if it is full.

        Yields a function that checks the size of the body so far, and takes memory for it.
        """
        places, memory, owner = self._state.places, self._state.bytes, context.owner
        if context.caller is not ANYONE and not places.has_room(owner, 1):
            context.turned_away = "share"
            raise OverloadedError(
                "this key or its namespace uses its whole share of concurrent requests; wait "
                "for their answers"
            )
        # JSON Lines are parsed one by one, so uploads may be larger.
        size, factor = (UPLOAD_FACTOR, 1) if is_upload(scope) else (1, PARSED_BODY_FACTOR)
        max_bytes, held = size * self._service.max_body_bytes, 0

        def take(received: int) -> None:
            nonlocal held
            if received > max_bytes:
                raise TooLargeError(
                    f"the body is larger than {max_bytes:,} bytes, the limit; send it in parts"
                )
            more = received * factor - held
            if more <= 0:
                return
            if not memory.has_room(owner, more):
                context.turned_away = "share"
                raise OverloadedError(
                    "the bodies under way take the whole memory share of this key or its "
                    "namespace; send one after the other"
                )
            held += more
            memory.take(owner, more)

        places.take(owner, 1)
        try:
            yield take
        finally:
            memory.take(owner, -held)
            places.take(owner, -1)

    def _bounded_receive(
        self,
        scope: Scope,
        receive: Receive,
        context: RequestContext,
        take: Callable[[int], None],
    ) -> Receive:
        """Limit the size and duration of a body; a declared length is checked at once."""
        service = self._service
        declared = header(scope, "content-length") or "0"
        if declared.isdecimal():
            take(int(declared[:20]))
        received, waited_s, is_whole = 0, 0.0, False

        async def receive_bounded() -> Message:
            nonlocal received, waited_s, is_whole
            if is_whole:
                return await receive()
            began = time.monotonic()
            allowed = asyncio.timeout(service.body_s + received / MIN_BODY_BYTES_PER_S - waited_s)
            try:
                async with allowed:
                    message = await receive()
            except TimeoutError:
                if not allowed.expired():
                    raise
                context.turned_away = "body"
                raise DeadlineError("the body arrives too slowly; send it again") from None
            waited_s += time.monotonic() - began
            received += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            take(received)
            return message

        return receive_bounded


class _ResponseSender:
    """Sends an answer with the headers of every answer, and records its status."""

    def __init__(self, send: Send, context: RequestContext) -> None:
        self._send = send
        self._context = context
        self.started = False
        self._ended = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._context.status = message["status"]
            headers = message["headers"] = list(message.get("headers", ()))
            present = {name for name, _ in headers}
            headers += [pair for pair in DEFAULT_HEADERS if pair[0] not in present]
            headers.append((b"x-request-id", self._context.request_id.encode("ascii")))
        await self._send(message)
        self._ended = message["type"] == "http.response.body" and not message.get("more_body")

    def record_disconnect(self) -> None:
        """Record that the client left before the end of the answer, if so."""
        if self.started and not self._ended and self._context.status < HTTPStatus.BAD_REQUEST:
            self._context.status = CLIENT_CLOSED_STATUS
