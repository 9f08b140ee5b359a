"""The OpenAPI document: complete, so that whatever an endpoint can answer stands in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from toolcrib.errors import (
    DeadlineError,
    ForbiddenError,
    OverloadedError,
    QueryError,
    RateLimitedError,
    ServiceUnavailableError,
    StoreError,
    StoreUnavailableError,
    StoreWriteError,
    TooLargeError,
    ToolcribError,
    UnauthenticatedError,
    UnknownCollectionError,
    UnknownToolError,
)
from toolcrib.http.endpoints import Endpoint
from toolcrib.http.faults import HTTP_PROBLEMS, PROBLEM_TYPE
from toolcrib.http.wire.problem import ProblemAnswer
from toolcrib.problems import PROBLEMS, slug_of

__all__ = ["document"]

ABOUT = """\
Hands an AI agent the few tools and passages that its current turn needs.

Send a key as `Authorization: Bearer tc_...`. A key has a scope, which holds inside every search,
listing, count and suggestion: what it does not allow is as unknown as what is not there. The
header `Toolcrib-Namespace` says which namespace is meant, for a key that has several.

Errors are problems as RFC 9457 has them, of the type `urn:toolcrib:problem:...`. A body that is
no JSON, or not what an endpoint takes, is answered with 422.
"""

TAGS = {
    "tools": "The registry, and finding tools in it.",
    "knowledge": "Collections of documents, and finding passages in them.",
    "turns": "Deciding what a turn needs.",
    "decisions": "Looking back at decisions, and saying what would have been right.",
    "quarantine": "Tools that are held back until somebody has looked at them.",
    "reports": "Evaluation reports.",
    "keys": "Whom the service takes a caller for.",
    "health": "Whether the service answers; without a key.",
}

GUARDED: tuple[type[ToolcribError], ...] = (
    UnauthenticatedError,
    ForbiddenError,
    TooLargeError,
    QueryError,
    RateLimitedError,
    StoreError,
    OverloadedError,
    ServiceUnavailableError,
    StoreUnavailableError,
    DeadlineError,
    StoreWriteError,
)
"""What every endpoint that needs a key can answer."""

OPEN: dict[str, tuple[type[ToolcribError], ...]] = {
    "/healthz": (StoreError,),
    "/readyz": (StoreError, ServiceUnavailableError, StoreUnavailableError),
    "/metrics": (StoreError,),
}

REQUEST_ID = {
    "X-Request-Id": {
        "description": "The request's own id, or one that was made for it.",
        "schema": {"type": "string"},
    }
}

NAMESPACE = {
    "name": "Toolcrib-Namespace",
    "in": "header",
    "required": False,
    "description": "Which namespace is meant; by default the only one that the key is for.",
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_.-]{0,62}$"},
    "example": "default",
}

SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key: `tc_...`."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def document(app: FastAPI, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The document of an application with these endpoints; made once."""
    if app.openapi_schema is None:
        app.openapi_schema = _document(app, endpoints)
    return app.openapi_schema


def _document(app: FastAPI, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    made = get_openapi(
        title="toolcrib",
        version=app.version,
        description=ABOUT,
        routes=app.routes,
        tags=[{"name": name, "description": says} for name, says in TAGS.items()],
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    schemas = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = ProblemAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs")
    schemas["Problem"] = problem
    made["components"]["securitySchemes"] = SECURITY
    shared: dict[str, Any] = {}
    for endpoint in endpoints:
        path = endpoint.path.replace(":path", "")
        _complete(made["paths"][path][endpoint.method.lower()], endpoint, shared)
    made["components"]["responses"] = shared
    return made


def _complete(operation: dict[str, Any], endpoint: Endpoint, shared: dict[str, Any]) -> None:
    """Say of an operation what FastAPI cannot know; answers that others give too are `shared`."""
    good = next(code for code in operation["responses"] if code.startswith("2"))
    answers = {good: operation["responses"][good] | {"headers": REQUEST_ID}}
    answers[good]["description"] = _GOOD.get(good, "The answer.")
    if endpoint.answer is None and not endpoint.is_empty:
        answers[good]["content"] = {endpoint.media_type: {"schema": {"type": "string"}}}
    is_guarded = endpoint.path not in OPEN
    common = GUARDED if is_guarded else OPEN[endpoint.path]
    problems = _problems((*common, *endpoint.errors))
    for status in _of_http(endpoint, takes_body="requestBody" in operation):
        problems.setdefault(status, _by_http(status))
    for status, (name, says) in problems.items():
        shared[name] = says
        answers[str(status)] = {"$ref": f"#/components/responses/{name}"}
    operation["responses"] = dict(sorted(answers.items()))
    if is_guarded:
        operation["security"] = [{name: []} for name in SECURITY]
        operation.setdefault("parameters", []).append(NAMESPACE)


_GOOD = {"200": "The answer.", "204": "Done."}


def _of_http(endpoint: Endpoint, *, takes_body: bool) -> list[int]:
    """Statuses that are HTTP's own and no error class of ours."""
    statuses = [415] if takes_body else []
    if endpoint.media_type == "application/json":
        statuses.append(406)
    return [*statuses, 404] if "{" in endpoint.path else statuses


def _problems(errors: Iterable[type[ToolcribError]]) -> dict[int, tuple[str, dict[str, Any]]]:
    """By status, what the answers for these errors are called, and what they look like."""
    by_status: dict[int, list[type[ToolcribError]]] = {}
    for kind in dict.fromkeys(errors):
        by_status.setdefault(PROBLEMS[kind].status, []).append(kind)
    return {status: _several(kinds) for status, kinds in by_status.items()}


def _several(kinds: Sequence[type[ToolcribError]]) -> tuple[str, dict[str, Any]]:
    titles = [PROBLEMS[kind].title for kind in kinds]
    examples = {slug_of(kind): {"value": _example(kind)} for kind in kinds}
    retries = any(PROBLEMS[kind].retry_after_s is not None for kind in kinds)
    return "-or-".join(examples), _answer(titles, examples, retries=retries)


def _by_http(status: int) -> tuple[str, dict[str, Any]]:
    slug, title = HTTP_PROBLEMS[status]
    return slug, _answer([title], {slug: {"value": _problem(slug, title, status, title)}})


def _answer(
    titles: Iterable[str], examples: Mapping[str, Any], *, retries: bool = False
) -> dict[str, Any]:
    headers: dict[str, Any] = dict(REQUEST_ID)
    if retries:
        headers["Retry-After"] = {
            "description": "Seconds after which to ask again.",
            "schema": {"type": "integer"},
        }
    content: dict[str, Any] = {"schema": {"$ref": "#/components/schemas/Problem"}}
    if examples:
        content["examples"] = dict(examples)
    return {
        "description": "; ".join(f"{title}." for title in titles).replace(".;", ";"),
        "headers": headers,
        "content": {PROBLEM_TYPE: content},
    }


def _example(kind: type[ToolcribError]) -> dict[str, Any]:
    problem = PROBLEMS[kind]
    shown = _problem(slug_of(kind), problem.title, problem.status, problem.title)
    if kind in {UnknownToolError, UnknownCollectionError}:
        shown["nearest"] = []
    if problem.retry_after_s is not None:
        shown["retry_after_s"] = problem.retry_after_s
    return shown


def _problem(slug: str, title: str, status: int, detail: str) -> dict[str, Any]:
    return {
        "type": f"urn:toolcrib:problem:{slug}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": "urn:toolcrib:request:3f0c5a1e9b7d4c62",
    }
