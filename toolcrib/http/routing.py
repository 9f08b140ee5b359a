"""Routing: endpoints as data, and the parsing and answering of their requests.

JSON bodies are read once and strictly: no NaN, no lone surrogates, no unbounded nesting.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from toolcrib.errors import ToolcribError, did_you_mean, nearest
from toolcrib.http.context import RequestContext, context_of, header, is_upload, media_type
from toolcrib.http.errors import PROBLEM_TYPE, InvalidRequestError
from toolcrib.records.codec import adapter, dump, faults, pattern_validator

JSON = "application/json"
JSON_LINES = "application/jsonl"

GUARDED_PREFIX = "/v1/"
"""Paths with this prefix need a key, and count as work."""

ACCEPTABLE_TYPES = frozenset({"", "*/*", "application/*", JSON, PROBLEM_TYPE, JSON_LINES})
"""A client that accepts one of these types accepts the answer."""

PARSE_IN_THREAD_ABOVE_BYTES = 64 * 1024
"""Larger bodies are parsed in a thread, so that the event loop stays responsive."""

MAX_BODY_DEPTH = 200
"""Depth of JSON that pydantic's parser accepts."""

MAX_K = 1000
"""Maximum number of tools in an answer, more than a turn can use; the library has none."""

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, regex_engine="python-re")
"""Rules of bodies: unknown fields and other types are refused, nothing is converted."""


def strict_config(*, any_of: Sequence[Mapping[str, Any]] = (), **extra: Any) -> ConfigDict:
    """`STRICT`, with additions to the schema; a body must match one of the schemas `any_of`."""
    if any_of:
        # Beside `properties`, generators of clients would take `anyOf` for the whole schema.
        extra["allOf"] = [{"anyOf": list(any_of)}]
    return {**STRICT, "json_schema_extra": extra}


class Body(BaseModel):
    """Body of a request."""

    model_config = STRICT


AS_WHOLE = BeforeValidator(
    lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
)
"""Stands behind the bounds of an integer: JSON has one number type, so 5.0 is an integer too."""

Count = Annotated[int, Field(ge=1, le=MAX_K), AS_WHOLE]
TokenBudget = Annotated[int, Field(ge=1, le=1_000_000), AS_WHOLE]
Identifier = Annotated[str, Field(min_length=1, max_length=1100)]
"""Id of a tool, or another text of at most its length."""

Words = Annotated[
    str,
    pattern_validator(re.compile(r"[^\W_]"), "no letter and no digit"),
    WithJsonSchema({"type": "string", "pattern": r"[\p{L}\p{N}]"}),
]
"""Text with at least one letter or digit; the documented pattern is equivalent in JavaScript."""

_NOT_BLANK = re.compile(r"[^\s\x1c-\x1f\x85\ufeff]")

QueryText = Annotated[
    str,
    pattern_validator(_NOT_BLANK, "is empty"),
    WithJsonSchema({"type": "string", "pattern": _NOT_BLANK.pattern}),
]
"""Text with more than white space, by the definitions of Python and of JavaScript."""

Call: TypeAlias = Callable[..., Awaitable[object]]


@dataclass(frozen=True)
class Endpoint:
    """Operation, documented by the docstring of `call` and typed by its annotations.

    `call` takes the context, and as annotated the path's parameter, `query` and `body`; it returns
    a record, None for an answer of 204, or a response that is annotated with its record's type.
    `upload` handles a body of JSON Lines, and takes its query and the request. `errors`: in
    addition to those of every endpoint. `writes` requires a key that may write, `administers` a key
    with the access `admin`.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    call: Call
    tag: str
    errors: tuple[type[ToolcribError], ...] = ()
    writes: bool = False
    administers: bool = False
    upload: Call | None = None
    media_type: str = JSON

    @cached_property
    def takes(self) -> dict[str, Any]:
        """Types of the parameters, by name, in order."""
        hints = get_type_hints(self.call, include_extras=True)
        return {name: hint for name, hint in hints.items() if name not in {"context", "return"}}

    @cached_property
    def answer(self) -> Any:
        """Type of a successful answer; None without a body, or with one that is not JSON."""
        kind = get_type_hints(self.call, include_extras=True)["return"]
        if get_origin(kind) is Annotated:
            return get_args(kind)[1]
        return None if kind in {NoneType, Response} else kind

    @cached_property
    def upload_query(self) -> Any:
        """Type of an upload's query, None without one."""
        return None if self.upload is None else get_type_hints(self.upload)["query"]

    @property
    def body(self) -> Any:
        """Type of the body, None without one."""
        return self.takes.get("body")

    @property
    def query(self) -> Any:
        """Type of the query, None without one."""
        return self.takes.get("query")

    @property
    def key(self) -> Any:
        """Type of the path's parameter, None without one."""
        keys = [kind for name, kind in self.takes.items() if name not in {"body", "query"}]
        return keys[0] if keys else None

    @property
    def is_guarded(self) -> bool:
        """True if a request needs a key."""
        return self.path.startswith(GUARDED_PREFIX)

    @property
    def parameter(self) -> str:
        """Name of the path's parameter; empty without one."""
        return self.path.partition("{")[2].partition("}")[0].removesuffix(":path")

    @property
    def template(self) -> str:
        """Path in the documentation and in metrics."""
        return self.path.replace(":path", "")


def answer(record: object, *, full: bool = False) -> Response:
    """Successful answer, as JSON."""
    return Response(dump(record, full=full), media_type=JSON)


def make_routes(endpoints: Sequence[Endpoint]) -> list[Route]:
    """Routes in the order of endpoints, one for each path with all its methods."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for each in endpoints:
        by_path.setdefault(each.path, {})[each.method] = each
    return [_route(path, methods) for path, methods in by_path.items()]


def _route(path: str, methods: Mapping[str, Endpoint]) -> Route:
    async def respond(request: Request) -> Response:
        # Starlette routes HEAD like GET; the server omits the body.
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        context = context_of(request.scope)
        context.route = endpoint.template
        return await _respond(endpoint, context, request)

    return Route(path, respond, methods=list(methods))


def template_of(routes: Sequence[Route], scope: Scope) -> str | None:
    """Documented path of a request's address, for any method; None for an unknown address."""
    fits = (route for route in routes if route.matches(scope)[0] is not Match.NONE)
    return next((route.path.replace(":path", "") for route in fits), None)


async def _respond(endpoint: Endpoint, context: RequestContext, request: Request) -> Response:
    if endpoint.media_type == JSON:
        _require_acceptable(request)
    if endpoint.writes:
        context.require_write()
    if endpoint.administers:
        context.require_admin()
    if endpoint.body is not None:
        _require_uncompressed(request)
    if endpoint.upload is not None and is_upload(request.scope):
        call, query = endpoint.upload, endpoint.upload_query
        given: list[Any] = [_query(query, request), request]
    else:
        call, given = endpoint.call, await _arguments(endpoint, context, request)
    made = await call(context, *given)
    if made is None:
        return Response(status_code=204)
    return made if isinstance(made, Response) else answer(made)


async def _arguments(endpoint: Endpoint, context: RequestContext, request: Request) -> list[Any]:
    found: list[Any] = []
    if endpoint.key is not None:
        name = endpoint.parameter
        found.append(_validate(endpoint.key, request.path_params[name], name))
    if endpoint.query is not None:
        found.append(_query(endpoint.query, request))
    elif endpoint.upload_query is not None:
        # A JSON body does not use the query, but an invalid query is still refused.
        _query(endpoint.upload_query, request)
    else:
        _refuse_parameters(request, {})
    if endpoint.body is not None:
        found.append(await _body(endpoint, context, request))
    return found


def _refuse_parameters(request: Request, known: Collection[str]) -> None:
    """Refuse unknown query parameters: a misspelt filter would not filter."""
    unknown = sorted(request.query_params.keys() - known)
    if unknown:
        raise InvalidRequestError(
            [(name, f"unknown{did_you_mean(nearest(name, known))}") for name in unknown]
        )


def _query(kind: Any, request: Request) -> Any:
    hints = get_type_hints(kind)
    _refuse_parameters(request, hints)
    listed = {name for name, type_ in hints.items() if get_origin(type_) is tuple}
    given = {name: request.query_params.getlist(name) for name in request.query_params}
    repeated = sorted(name for name in given.keys() - listed if len(given[name]) > 1)
    if repeated:
        raise InvalidRequestError([(name, "given more than once") for name in repeated])
    return _validate(kind, {n: v if n in listed else v[0] for n, v in given.items()})


def _validate(kind: Any, value: Any, name: str = "query") -> Any:
    try:
        return adapter(kind).validate_python(value)
    except ValidationError as error:
        raise InvalidRequestError(faults(error, name)) from None


async def _body(endpoint: Endpoint, context: RequestContext, request: Request) -> Any:
    if is_upload(request.scope) or (await request.body() and not _is_json(request)):
        known = JSON if endpoint.upload is None else f"{JSON} or {JSON_LINES}"
        raise HTTPException(415, f"send the body as {known}")
    # Windows editors begin a file with a byte order mark, which readers of files ignore too.
    kind, content = endpoint.body, (await request.body()).removeprefix(BOM_UTF8)
    if len(content) <= PARSE_IN_THREAD_ABOVE_BYTES:
        return _parse_json(kind, content)
    return await context.run(lambda: _parse_json(kind, content))


def _parse_json(kind: Any, content: bytes) -> Any:
    try:
        if b"NaN" in content or b"Infinity" in content:
            # These are valid in strings only.
            from_json(content, allow_inf_nan=False)
        return adapter(kind).validate_json(content, strict=True)
    except ValidationError as error:
        found = [_json_fault(*fault) for fault in faults(error, "body")]
        raise InvalidRequestError(found) from None
    except ValueError as error:
        raise InvalidRequestError([("body", f"not valid JSON: {error}")]) from None


def _json_fault(place: str, reason: str) -> tuple[str, str]:
    if not reason.startswith("Invalid JSON: "):
        return place, reason
    cause = reason.removeprefix("Invalid JSON: ")
    if cause.startswith("recursion limit exceeded"):
        cause = f"nested deeper than {MAX_BODY_DEPTH} levels"
    return place, f"not valid JSON: {cause}"


def _require_uncompressed(request: Request) -> None:
    encoding = header(request.scope, "content-encoding") or "identity"
    if encoding.strip().lower() != "identity":
        raise HTTPException(
            415, f"a body of the Content-Encoding {encoding!r} is not read; send it uncompressed"
        )


def _is_json(request: Request) -> bool:
    kind = media_type(request.scope)
    return kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


def _require_acceptable(request: Request) -> None:
    accepted = header(request.scope, "accept") or ""
    kinds = {each.partition(";")[0].strip() for each in accepted.split(",")}
    if kinds.isdisjoint(ACCEPTABLE_TYPES):
        raise HTTPException(406, "the answer is application/json; accept that, or */*")
