"""Monitoring of a gateway over HTTP: that it is alive, and its metrics; no key is asked for."""

from __future__ import annotations

from time import monotonic

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult
from mcp.types import CallToolRequestParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from toolcrib.gateway.catalog import RESERVED
from toolcrib.gateway.gateway import Gateway
from toolcrib.telemetry import MetricsRegistry

__all__ = ["monitor"]

CALL_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
OTHERS = "server"
"""What tools of servers are called in metrics, whose labels name none of them."""

FRESH = {"Cache-Control": "no-store"}


def monitor(gateway: Gateway) -> None:
    """Serve `/healthz` and `/metrics` beside a gateway's own address.

    Raises:
        MissingExtraError: the extra `gateway` is not installed as a whole.
    """
    metrics = MetricsRegistry("the gateway's metrics", "gateway")
    watch, index, pool = metrics.watch, gateway.index, gateway.pool
    watch("gateway_tools", "Tools on offer.", lambda: len(index.catalog))
    watch("gateway_tools_held", "Tools held back until they are approved.", lambda: index.held)
    watch("gateway_servers", "Servers behind the gateway.", lambda: len(list(pool)))
    watch(
        "gateway_servers_up",
        "Servers whose tools can be called.",
        lambda: len(list(pool)) - len(pool.not_up()),
    )
    gateway.server.add_middleware(_Calls(metrics))

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=FRESH)

    async def read_metrics(_request: Request) -> Response:
        text, kind = metrics.text()
        return Response(text, headers={"Content-Type": kind, **FRESH})

    gateway.server.custom_route("/healthz", methods=["GET"])(healthz)
    gateway.server.custom_route("/metrics", methods=["GET"])(read_metrics)


class _Calls(Middleware):
    """Counts calls, and how long they take."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        says = "Calls: of the gateway's own tools by name, of servers' tools together."
        self._calls = metrics.counter("gateway_calls", says, "tool", "outcome")
        self._took = metrics.histogram("gateway_call_seconds", "Time of a call.", "tool", CALL_S)

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Count a call when it has ended, however it ended."""
        name, began, outcome = context.message.name, monotonic(), "failure"
        try:
            result = await call_next(context)
            outcome = "failure" if result.is_error else "success"
        finally:
            tool = name if name in RESERVED else OTHERS
            self._calls(tool, outcome).inc()
            self._took(tool).observe(monotonic() - began)
        return result
