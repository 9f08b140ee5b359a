"""The servers over HTTP on loopback; prints the port once connections are accepted."""

from __future__ import annotations

import gzip
import json
import socket
import sys
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route


def app(kind: str, options: list[str]) -> Starlette:
    """The application of that kind: `web`, `pages`, `clock` or `clock-sse`."""
    if kind == "web":
        return web()
    # Imported here as the SDK takes long and `web` does without.
    if kind == "pages":
        import pages

        return pages.build(pages.parser.parse_args(options)).streamable_http_app()
    import clock

    return clock.server.streamable_http_app() if kind == "clock" else clock.server.sse_app()


def web() -> Starlette:
    """A web server that is no MCP server, in every way that we tell apart."""
    return Starlette(
        routes=[
            _route("/html", lambda _: HTMLResponse("<h1>Welcome</h1>")),
            _route("/json", lambda _: JSONResponse({"status": "ok"})),
            _route("/down", lambda _: HTMLResponse("<h1>Bad gateway</h1>", 502)),
            _route("/busy", lambda _: JSONResponse({"error": "wait"}, 429)),
            _route("/get-only", lambda _: HTMLResponse("<h1>GET only</h1>", 405)),
            _route("/moved", lambda _: RedirectResponse("http://example.invalid/mcp?key=s3cret")),
            _route("/locked", _locked),
            Route("/huge", _huge, methods=["POST"]),
            Route("/packed", _huge, methods=["POST"]),
            Route("/cut", _huge, methods=["POST"]),
        ]
    )


def _route(path: str, answer: Callable[[Request], Response]) -> Route:
    async def respond(request: Request) -> Response:
        return answer(request)

    return Route(path, respond, methods=["GET", "POST", "DELETE"])


def _locked(request: Request) -> Response:
    """401 for whoever does not show the token, 403 with an error of JSON-RPC for who does."""
    if request.headers.get("authorization") != "Bearer s3cret":
        return JSONResponse({"error": "invalid_token"}, 401)
    error = {"code": -32000, "message": "your plan has no tools"}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 403)


async def _huge(request: Request) -> Response:
    """An MCP server whose list is large, compressed without being asked for it, or cut off."""
    sent = await request.json()
    if "id" not in sent:
        return Response(status_code=202)
    if sent["method"] == "initialize":
        info = {"serverInfo": {"name": "huge", "version": "1"}, "capabilities": {"tools": {}}}
        result = {"protocolVersion": sent["params"]["protocolVersion"], **info}
    elif sent["method"] == "tools/list":
        result = {"tools": [], "note": "x" * 100_000}
    else:
        error = {"code": -32601, "message": "Method not found"}
        return JSONResponse({"jsonrpc": "2.0", "id": sent["id"], "error": error})
    answer = {"jsonrpc": "2.0", "id": sent["id"], "result": result}
    if sent["method"] == "initialize" or request.url.path == "/huge":
        return JSONResponse(answer)
    if request.url.path == "/cut":
        return JSONResponse(answer, headers={"Content-Length": "1000000"})
    packed = gzip.compress(json.dumps(answer).encode())
    return Response(packed, headers={"Content-Encoding": "gzip"}, media_type="application/json")


def main() -> None:
    """Serve until killed."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    # Whoever connects from here on waits in the backlog: no one has to poll for readiness.
    listener.listen()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app(sys.argv[1], sys.argv[2:]), log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
