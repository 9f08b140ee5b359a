"""Metrics, for Prometheus to read."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import Request
from starlette.responses import Response

from toolcrib.http.endpoints import Endpoint
from toolcrib.http.house import House
from toolcrib.http.visits import visit_of

__all__ = ["ENDPOINTS", "watch"]

PATIENCE_S = 1.0
"""How long the number of tools is waited for."""


def watch(house: House) -> None:
    """Let the metrics show how the house is."""
    metrics = house.telemetry.metrics
    metrics.watch("requests_under_way", "Requests under way.", lambda: house.under_way)
    metrics.watch("abandoned_work", "Work that nobody waits for.", lambda: house.workers.abandoned)
    metrics.watch("decisions_dropped", "Decisions that were not logged.", house.dropped)
    metrics.watch("tools", "Tools of the default namespace.", house.readiness.tools)


async def read_metrics(request: Request) -> Response:
    """Give all metrics in Prometheus' text format."""
    house = visit_of(request).house
    # Metrics are most wanted while something fails: they wait neither for the store, nor for
    # the threads that do.
    with suppress(Exception):
        await house.readiness.facts(PATIENCE_S)
    text, kind = await asyncio.to_thread(house.telemetry.metrics.text)
    return Response(text, headers={"Content-Type": kind})


ENDPOINTS = (Endpoint("GET", "/metrics", read_metrics, "health", media_type="text/plain"),)
