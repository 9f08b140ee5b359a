"""The application: endpoints behind admission, and a life with a beginning and an end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from toolcrib import __version__
from toolcrib.errors import ToolcribError
from toolcrib.http import (
    decisions,
    health,
    knowledge,
    me,
    measures,
    quarantine,
    reports,
    searching,
    tools,
    turns,
)
from toolcrib.http.admission import Admission
from toolcrib.http.bodies import JsonRoute, PageRoute, WritingRoute
from toolcrib.http.callers import Callers, Door, Rates
from toolcrib.http.console_pages import add_console
from toolcrib.http.document import document
from toolcrib.http.endpoints import NOTHING, Endpoint
from toolcrib.http.faults import on_error, on_http, on_invalid
from toolcrib.http.house import House
from toolcrib.http.readiness import Readiness
from toolcrib.http.workers import Workers
from toolcrib.namespaces import Namespaces
from toolcrib.settings import Settings
from toolcrib.telemetry import Telemetry

__all__ = ["ENDPOINTS", "make_app"]

ENDPOINTS: tuple[Endpoint, ...] = (
    *searching.ENDPOINTS,
    *tools.ENDPOINTS,
    *knowledge.ENDPOINTS,
    *turns.ENDPOINTS,
    *decisions.ENDPOINTS,
    *quarantine.ENDPOINTS,
    *me.ENDPOINTS,
    *reports.ENDPOINTS,
    *health.ENDPOINTS,
    *measures.ENDPOINTS,
)


def make_app(
    namespaces: Namespaces,
    settings: Settings,
    *,
    callers: Callers,
    telemetry: Telemetry | None = None,
) -> FastAPI:
    """The service over these namespaces, which stay open when it ends.

    `callers` tells whose key is whose. `telemetry` is what the settings say by default.

    Raises:
        MissingExtraError: the extra `service` is not installed.
    """
    workers = Workers(settings.service.workers)
    house = House(
        namespaces=namespaces,
        settings=settings,
        workers=workers,
        door=Door(callers, workers),
        rates=Rates(settings.service.rate),
        telemetry=telemetry or Telemetry.of(settings.service),
        readiness=Readiness(namespaces, workers),
    )
    measures.watch(house)
    app = FastAPI(
        title="toolcrib",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Its own traces would hold paths, which name tools, and come beside ours.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        lifespan=partial(_life, house),
    )
    for endpoint in ENDPOINTS:
        _add(app, endpoint)
    app.add_exception_handler(ToolcribError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    app.add_middleware(Admission, house=house)
    app.state.house = house
    app.openapi = partial(document, app, ENDPOINTS)
    add_console(app)
    return app


def _add(app: FastAPI, endpoint: Endpoint) -> None:
    summary, _, more = (endpoint.call.__doc__ or "").partition("\n")
    app.router.add_api_route(
        endpoint.path,
        endpoint.call,
        methods=[endpoint.method],
        response_model=endpoint.answer,
        status_code=NOTHING if endpoint.is_empty else 200,
        operation_id=endpoint.call.__name__,
        summary=summary.rstrip("."),
        description=more.strip() or None,
        tags=[endpoint.tag],
        route_class_override=_route_class(endpoint),
    )


def _route_class(endpoint: Endpoint) -> type[JsonRoute]:
    if endpoint.writes:
        return WritingRoute
    return JsonRoute if endpoint.media_type == "application/json" else PageRoute


@asynccontextmanager
async def _life(house: House, _app: FastAPI) -> AsyncGenerator[None]:
    yield
    house.draining = True
    house.workers.close()
    house.telemetry.close()
