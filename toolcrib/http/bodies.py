"""JSON bodies, read once and strictly: no NaN, no half characters, no bottomless nesting."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, TypeAlias, cast, get_origin

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

from toolcrib.http.faults import InvalidRequestError, faults_of
from toolcrib.http.visits import header, visit_of

__all__ = ["JsonRoute", "PageRoute", "WritingRoute"]

ANSWERED = frozenset({"", "*/*", "application/*", "application/json", "application/problem+json"})
"""Whoever accepts one of these accepts the answer."""

Call: TypeAlias = Callable[[BaseModel, Request], Coroutine[Any, Any, Response]]

LARGE = 64 * 1024
"""Larger bodies are parsed in a thread: the event loop has others to serve."""

MAX_NESTING = 200
"""What the parser follows."""


class JsonRoute(APIRoute):
    """An endpoint that takes JSON, where it takes anything, and answers with JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handle = _handle_body(self) or super().get_route_handler()
        takes_body = self.body_field is not None
        single = _single(self)

        async def handler(request: Request) -> Response:
            self.check(request)
            _require_once(request, single)
            return await handle(await _JsonRequest.read(request) if takes_body else request)

        return handler

    def check(self, request: Request) -> None:
        """Turn away what cannot be answered, before its body is looked at."""
        _require_acceptable(request)


class WritingRoute(JsonRoute):
    """One that needs a key that may write."""

    def check(self, request: Request) -> None:
        """Turn away whom may only read, too."""
        super().check(request)
        visit_of(request).require_write()


class PageRoute(JsonRoute):
    """One whose answer is no JSON, and is sent whatever is accepted."""

    def check(self, request: Request) -> None:
        """Let everything pass."""


class _JsonRequest(Request):
    """A request whose body is parsed already."""

    parsed: Any = None

    @classmethod
    async def read(cls, request: Request) -> _JsonRequest:
        """Read and parse the body.

        Raises:
            InvalidRequestError: it is no JSON.
            HTTPException: it says that it is none.
        """
        made = cls(request.scope, request.receive)
        body = await made.body()
        if body:
            _require_json(request)
            made.parsed = await _parse(body, request)
        return made

    async def json(self) -> Any:
        """The parsed body."""
        return self.parsed


def _handle_body(route: APIRoute) -> Callable[[Request], Coroutine[Any, Any, Response]] | None:
    """What answers where there is nothing but a body to look at; None where there is more.

    What the framework does for any endpoint takes twice as long as all of this.
    """
    known, call = route.dependant, cast("Call", route.endpoint)
    others = (known.path_params, known.query_params, known.header_params, known.dependencies)
    if len(known.body_params) != 1 or any(others):
        return None
    model = cast("type[BaseModel]", known.body_params[0].field_info.annotation)

    async def handle(request: Request) -> Response:
        assert isinstance(request, _JsonRequest)
        try:
            body = model.model_validate(request.parsed)
        except ValidationError as error:
            raise InvalidRequestError(faults_of(error.errors(include_url=False))) from None
        return await call(body, request)

    return handle


def _single(route: APIRoute) -> frozenset[str]:
    """The parameters of a route's query that stand for one value."""
    known = route.dependant.query_params
    return frozenset(
        each.alias for each in known if get_origin(each.field_info.annotation) is not list
    )


def _require_once(request: Request, names: AbstractSet[str]) -> None:
    """Stop a parameter that is given twice, since nobody can tell which one is meant."""
    if not request.scope["query_string"]:
        return
    given = [name for name, _ in request.query_params.multi_items() if name in names]
    faults = [(name, "given more than once") for name in names if given.count(name) > 1]
    if faults:
        raise InvalidRequestError(sorted(faults))


async def _parse(body: bytes, request: Request) -> Any:
    parse = partial(from_json, body, allow_inf_nan=False)
    try:
        if len(body) <= LARGE:
            return parse()
        return await visit_of(request).house.workers.read(parse)
    except ValueError as error:
        reason = str(error)
        if reason.startswith("recursion limit exceeded"):
            reason = f"nested deeper than {MAX_NESTING} levels"
        raise InvalidRequestError([("body", f"not valid JSON: {reason}")]) from None


def _require_json(request: Request) -> None:
    given = (header(request.scope, b"content-type") or b"").decode("latin-1")
    kind = given.partition(";")[0].strip().lower()
    is_json = kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )
    if not is_json:
        raise HTTPException(415, "send the body as application/json")


def _require_acceptable(request: Request) -> None:
    accepted = header(request.scope, b"accept")
    if accepted is None or accepted in {b"*/*", b"application/json"}:
        return
    kinds = {each.partition(";")[0].strip() for each in accepted.decode("latin-1").split(",")}
    if kinds.isdisjoint(ANSWERED):
        raise HTTPException(406, "the answer is application/json; accept that, or */*")
