"""Health over HTTP: liveness, readiness and metrics, without a key."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from toolcrib.errors import ServiceUnavailableError, StoreError, StoreUnavailableError
from toolcrib.http.context import RequestContext
from toolcrib.http.routing import Endpoint, answer
from toolcrib.http.state import ServiceState
from toolcrib.records import ServiceInfo

READINESS_TIMEOUT_S = 1.0
"""Wait of the metrics for the number of tools."""


@dataclass(frozen=True, slots=True)
class Alive:
    """The process answers."""

    status: Literal["ok"] = "ok"


async def is_alive(context: RequestContext) -> Response:  # noqa: ARG001 -- needs no context
    """Answer that the process is alive."""
    return answer(Alive())


async def is_ready(context: RequestContext) -> Response:
    """Check that requests can be answered: store, model and index."""
    if context.state.draining:
        raise ServiceUnavailableError("the service is stopping", retry_after_s=1.0)
    return answer(await context.state.readiness.info(context.state.settings.service.timeout_s))


def watch(state: ServiceState) -> None:
    """Register gauges of the service's state."""
    metrics = state.telemetry.metrics
    metrics.watch("requests_under_way", "Requests under way.", lambda: state.under_way)
    metrics.watch("abandoned_work", "Work that nobody waits for.", lambda: state.workers.abandoned)
    metrics.watch("decisions_dropped", "Decisions that were not logged.", state.dropped)
    metrics.watch("tools", "Tools of the default namespace.", state.readiness.tools)


async def read_metrics(context: RequestContext) -> Response:
    """Give all metrics in Prometheus' text format."""
    # Metrics are needed most while something fails, so they wait neither for the store nor for
    # a worker thread.
    with suppress(Exception):
        await context.state.readiness.info(READINESS_TIMEOUT_S)
    text, kind = await asyncio.to_thread(context.state.telemetry.metrics.text)
    return Response(text, headers={"Content-Type": kind})


ERRORS = (StoreError,)
UNAVAILABLE = (ServiceUnavailableError, StoreUnavailableError)

ENDPOINTS = (
    Endpoint("GET", "/healthz", is_alive, "health", Alive, ERRORS),
    Endpoint("GET", "/readyz", is_ready, "health", ServiceInfo, (*ERRORS, *UNAVAILABLE)),
    Endpoint("GET", "/metrics", read_metrics, "health", None, ERRORS, media_type="text/plain"),
)
