"""Health: whether the service is alive and can answer, and its metrics; no key is asked for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from toolcrib.errors import ServiceUnavailableError
from toolcrib.http.context import RequestContext
from toolcrib.http.routing import Endpoint, answer
from toolcrib.http.state import ServiceState
from toolcrib.records import ServiceInfo

__all__ = ["ENDPOINTS", "watch"]

PATIENCE_S = 1.0
"""How long the number of tools is waited for."""


@dataclass(frozen=True, slots=True)
class Alive:
    """The process answers."""

    status: Literal["ok"] = "ok"


async def is_alive(context: RequestContext) -> Response:  # noqa: ARG001 -- it looks at nothing
    """Say that the process answers."""
    return answer(Alive())


async def is_ready(context: RequestContext) -> Response:
    """Say whether requests can be answered: by the store, the model, and the index."""
    if context.state.draining:
        raise ServiceUnavailableError("the service is stopping", retry_after_s=1.0)
    return answer(await context.state.readiness.info(context.state.settings.service.timeout_s))


def watch(state: ServiceState) -> None:
    """Let the metrics show how the service is."""
    metrics = state.telemetry.metrics
    metrics.watch("requests_under_way", "Requests under way.", lambda: state.under_way)
    metrics.watch("abandoned_work", "Work that nobody waits for.", lambda: state.workers.abandoned)
    metrics.watch("decisions_dropped", "Decisions that were not logged.", state.dropped)
    metrics.watch("tools", "Tools of the default namespace.", state.readiness.tools)


async def read_metrics(context: RequestContext) -> Response:
    """Give all metrics in Prometheus' text format."""
    # Metrics are most wanted while something fails: they wait neither for the store, nor for
    # the threads that do.
    with suppress(Exception):
        await context.state.readiness.info(PATIENCE_S)
    text, kind = await asyncio.to_thread(context.state.telemetry.metrics.text)
    return Response(text, headers={"Content-Type": kind})


ENDPOINTS = (
    Endpoint("GET", "/healthz", is_alive, "health", Alive),
    Endpoint("GET", "/readyz", is_ready, "health", ServiceInfo),
    Endpoint("GET", "/metrics", read_metrics, "health", media_type="text/plain"),
)
