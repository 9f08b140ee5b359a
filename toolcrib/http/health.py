"""Whether the service is alive, and whether it can answer; no key is asked for."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from toolcrib.errors import ServiceUnavailableError
from toolcrib.http.endpoints import Endpoint, answer
from toolcrib.http.visits import visit_of
from toolcrib.http.wire.health import AliveAnswer, ReadyAnswer

__all__ = ["ENDPOINTS"]


async def is_alive(request: Request) -> Response:  # noqa: ARG001 -- nothing of it is looked at
    """Say that the process answers."""
    return answer({"status": "ok"})


async def is_ready(request: Request) -> Response:
    """Say whether requests can be answered: by the store, the model, and the index."""
    house = visit_of(request).house
    if house.draining:
        raise ServiceUnavailableError("the service is stopping", retry_after_s=1.0)
    return answer(await house.readiness.facts(house.settings.service.timeout_s))


ENDPOINTS = (
    Endpoint("GET", "/healthz", is_alive, "health", AliveAnswer),
    Endpoint("GET", "/readyz", is_ready, "health", ReadyAnswer),
)
