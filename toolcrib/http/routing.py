"""Routing: endpoints as data, and what each request of them passes on its way in and out.

JSON bodies are read once and strictly: no NaN, no half characters, no bottomless nesting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from toolcrib.errors import ToolcribError
from toolcrib.http.context import RequestContext, context_of, header, is_upload
from toolcrib.http.errors import InvalidRequestError
from toolcrib.records.codec import adapter, dump, faults

__all__ = [
    "AS_WHOLE",
    "JSON",
    "JSON_LINES",
    "STRICT",
    "Body",
    "Count",
    "Endpoint",
    "QueryText",
    "TokenBudget",
    "Words",
    "answer",
    "documented",
    "make_routes",
    "template_of",
]

JSON = "application/json"
JSON_LINES = "application/jsonl"

ANSWERED = frozenset({"", "*/*", "application/*", JSON, "application/problem+json", JSON_LINES})
"""Whoever accepts one of these accepts the answer."""

LARGE = 64 * 1024
"""Larger bodies are parsed in a thread: the event loop has others to serve."""

MAX_NESTING = 200
"""What the parser follows."""

MAX_K = 1000
"""More tools than any turn can use; embedded, there is no such limit."""

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, regex_engine="python-re")
"""Of bodies: what is unknown or of another type is refused, not guessed at."""


def documented(**extra: Any) -> ConfigDict:
    """The same, with something more in its schema."""
    return {**STRICT, "json_schema_extra": extra}


class Body(BaseModel):
    """The body of a request."""

    model_config = STRICT


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


AS_WHOLE = BeforeValidator(_whole)
"""Stands behind the bounds of a whole number: JSON has one kind of numbers, so 5.0 is one too."""

Count = Annotated[int, Field(ge=1, le=MAX_K), AS_WHOLE]
TokenBudget = Annotated[int, Field(ge=1, le=1_000_000), AS_WHOLE]

Words = Annotated[
    str, Field(pattern=r"[^\W_]"), WithJsonSchema({"type": "string", "pattern": r"[\p{L}\p{N}]"})
]
"""Text with at least one letter or digit; where a pattern is documented apart, that is how others
than Python write the same."""

QueryText = Annotated[str, Field(pattern=r"[^\s\x1c-\x1f\x85\ufeff]")]
"""Text with more than white space, as Python and as JavaScript have it."""

Call: TypeAlias = Callable[..., Awaitable[Response | None]]


@dataclass(frozen=True)
class Endpoint:
    """One operation: the docstring of `call` says what it does, its annotations what it takes.

    `call` is given the context, the parameter of the path, the `query` and the `body`, as far as
    it takes them; without an answer it is one of 204. With a body of JSON Lines `upload` is
    called in its place, with its query and the request. `answer` is what a good answer looks
    like; None for one without a body, and for one that is no JSON but of `media_type`. `errors`
    are those that not every endpoint has. One that `writes` needs a key that may.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    call: Call
    tag: str
    answer: Any = None
    errors: tuple[type[ToolcribError], ...] = ()
    writes: bool = False
    upload: Call | None = None
    media_type: str = JSON

    @cached_property
    def takes(self) -> dict[str, Any]:
        """The types of what is taken from a request, by name, in order."""
        return _taken(self.call)

    @cached_property
    def upload_query(self) -> Any:
        """The type of the query of an upload, None without one."""
        return None if self.upload is None else _taken(self.upload)["query"]

    @property
    def body(self) -> Any:
        """The type of the body, None without one."""
        return self.takes.get("body")

    @property
    def query(self) -> Any:
        """The type of the query, None without one."""
        return self.takes.get("query")

    @property
    def key(self) -> Any:
        """The type of the parameter of the path, None without one."""
        keys = [kind for name, kind in self.takes.items() if name not in {"body", "query"}]
        return keys[0] if keys else None

    @property
    def is_empty(self) -> bool:
        """Whether a good answer has no body."""
        return self.answer is None and self.media_type == JSON

    @property
    def parameter(self) -> str:
        """The parameter of the path; empty where it has none."""
        return self.path.partition("{")[2].partition("}")[0].removesuffix(":path")

    @property
    def template(self) -> str:
        """The path as it is documented, and counted."""
        return _template(self.path)


def _template(path: str) -> str:
    return path.replace(":path", "")


def _taken(call: Call) -> dict[str, Any]:
    hints = get_type_hints(call, include_extras=True)
    return {name: hint for name, hint in hints.items() if name not in {"context", "return"}}


def answer(record: object, *, full: bool = False) -> Response:
    """A good answer; a record is written as JSON once."""
    return Response(dump(record, full=full), media_type=JSON)


def make_routes(endpoints: Sequence[Endpoint]) -> list[Route]:
    """One route for each path, in their order; it knows which methods it takes."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for each in endpoints:
        by_path.setdefault(each.path, {})[each.method] = each
    return [_route(path, methods) for path, methods in by_path.items()]


def _route(path: str, methods: Mapping[str, Endpoint]) -> Route:
    async def respond(request: Request) -> Response:
        endpoint = methods[request.method]
        context = context_of(request)
        context.route = endpoint.template
        return await _respond(endpoint, context, request)

    made = Route(path, respond, methods=list(methods))
    # Starlette would answer HEAD wherever it answers GET.
    made.methods = set(methods)
    return made


def template_of(routes: Sequence[Route], scope: Scope) -> str | None:
    """The documented path that a request's address fits, whatever its method; None for none."""
    fits = (route for route in routes if route.matches(scope)[0] is not Match.NONE)
    return next((_template(route.path) for route in fits), None)


async def _respond(endpoint: Endpoint, context: RequestContext, request: Request) -> Response:
    if endpoint.media_type == JSON:
        _require_acceptable(request)
    if endpoint.writes:
        context.require_write()
    if endpoint.upload is not None and is_upload(request.scope):
        call, query = endpoint.upload, endpoint.upload_query
        given: list[Any] = [_query(query, request), request]
    else:
        call, given = endpoint.call, await _arguments(endpoint, context, request)
    return await call(context, *given) or Response(status_code=204)


async def _arguments(endpoint: Endpoint, context: RequestContext, request: Request) -> list[Any]:
    found: list[Any] = []
    if endpoint.key is not None:
        name = endpoint.parameter
        found.append(_checked(endpoint.key, request.path_params[name], name))
    if endpoint.query is not None:
        found.append(_query(endpoint.query, request))
    if endpoint.upload_query is not None:
        # Of no use to a body of JSON, but not to be wrong either.
        _query(endpoint.upload_query, request)
    if endpoint.body is not None:
        found.append(await _body(endpoint.body, context, request))
    return found


def _query(kind: Any, request: Request) -> Any:
    """The parameters behind the path.

    Raises:
        InvalidRequestError: one is wrong, or given twice, since nobody can tell which is meant.
    """
    given: dict[str, Any] = {}
    twice: list[tuple[str, str]] = []
    for name, type_ in get_type_hints(kind).items():
        values = request.query_params.getlist(name)
        if get_origin(type_) is tuple:
            given[name] = values
        elif values:
            given[name] = values[0]
            twice += [(name, "given more than once")] * (len(values) > 1)
    if twice:
        raise InvalidRequestError(sorted(twice))
    return _checked(kind, given)


def _checked(kind: Any, value: Any, name: str = "query") -> Any:
    try:
        return adapter(kind).validate_python(value)
    except ValidationError as error:
        raise InvalidRequestError(faults(error, name)) from None


async def _body(kind: Any, context: RequestContext, request: Request) -> Any:
    """The body, as what it has to be.

    Raises:
        InvalidRequestError: it is no JSON, or not what the endpoint takes.
        HTTPException: it says that it is none.
    """
    if is_upload(request.scope):
        raise HTTPException(415, "send the body as application/json")
    content = await request.body()
    if content:
        _require_json(request)
    if len(content) <= LARGE:
        return _parsed(kind, content)
    return await context.run(lambda: _parsed(kind, content))


def _parsed(kind: Any, content: bytes) -> Any:
    try:
        if b"NaN" in content or b"Infinity" in content:
            # Inside of strings they are words, outside no JSON.
            from_json(content, allow_inf_nan=False)
        return adapter(kind).validate_json(content, strict=True)
    except ValidationError as error:
        found = [_of_json(*fault) for fault in faults(error, "body")]
        raise InvalidRequestError(found) from None
    except ValueError as error:
        raise InvalidRequestError([("body", f"not valid JSON: {error}")]) from None


def _of_json(place: str, reason: str) -> tuple[str, str]:
    if not reason.startswith("Invalid JSON: "):
        return place, reason
    said = reason.removeprefix("Invalid JSON: ")
    if said.startswith("recursion limit exceeded"):
        said = f"nested deeper than {MAX_NESTING} levels"
    return place, f"not valid JSON: {said}"


def _require_json(request: Request) -> None:
    given = (header(request.scope, b"content-type") or b"").decode("latin-1")
    kind = given.partition(";")[0].strip().lower()
    is_json = kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))
    if not is_json:
        raise HTTPException(415, "send the body as application/json")


def _require_acceptable(request: Request) -> None:
    accepted = header(request.scope, b"accept")
    if accepted is None or accepted in {b"*/*", b"application/json"}:
        return
    kinds = {each.partition(";")[0].strip() for each in accepted.decode("latin-1").split(",")}
    if kinds.isdisjoint(ANSWERED):
        raise HTTPException(406, "the answer is application/json; accept that, or */*")
