"""Application: routes behind the middleware, the console's page, and a clean end."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
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

from toolcrib.errors import ToolcribError
from toolcrib.http.authenticator import Authenticator, Callers, RateLimiter
from toolcrib.http.errors import on_error, on_http
from toolcrib.http.middleware import Admission
from toolcrib.http.openapi import document
from toolcrib.http.routes import admin, health, knowledge, tools, turns
from toolcrib.http.routing import JSON, Endpoint, make_routes
from toolcrib.http.state import ServiceState
from toolcrib.settings import Settings
from toolcrib.telemetry import Telemetry
from toolcrib.tenants import Tenants

__all__ = ["ENDPOINTS", "make_app", "openapi"]

ENDPOINTS: tuple[Endpoint, ...] = (
    *tools.ENDPOINTS,
    *knowledge.ENDPOINTS,
    *turns.ENDPOINTS,
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
    namespaces: Tenants,
    settings: Settings,
    *,
    callers: Callers,
    telemetry: Telemetry | None = None,
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
    app = Starlette(
        routes=[*make_routes(ENDPOINTS), Route("/openapi.json", _openapi), *_console()],
        middleware=[Middleware(Admission, state, authenticator, rates)],
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
    state.workers.close()
    state.telemetry.close()


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
