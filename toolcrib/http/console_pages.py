"""The console: a few built files, served from memory to anybody; its data need a key."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from mimetypes import guess_type
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["add_console"]

POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Nothing but our own files: no inline script or style, and no other address."""

HEADERS = {
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


def add_console(app: FastAPI) -> None:
    """Serve the built files at `/`, where they are part of this installation."""
    try:
        from toolcrib.http.console import assets
    except ImportError:
        return
    folder = assets()
    if not (folder / INDEX).is_file():
        return
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        address = "/" if name == INDEX else f"/{name}"
        app.router.routes.append(Route(address, _file(file), methods=["GET"], name=address))


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()
    kind = guess_type(path.name)[0] or "application/octet-stream"
    tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    headers = {**HEADERS, "ETag": tag}

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return send
