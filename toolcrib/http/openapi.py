"""OpenAPI document of the service, with all answers of every endpoint, and its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from inspect import cleandoc
from typing import Any

from pydantic.json_schema import JsonSchemaMode

from toolcrib import __version__, errors
from toolcrib.http.errors import HTTP_PROBLEMS, PROBLEM_TYPE, ProblemBody
from toolcrib.http.routing import JSON, JSON_LINES, Endpoint
from toolcrib.problems import PROBLEMS, slug_of
from toolcrib.records.codec import as_json, schemas

EXAMPLE_REQUEST_ID = "3f0c5a1e9b7d4c62"

ERRORS_WITH_NEAREST = {
    errors.UnknownToolError,
    errors.UnknownCollectionError,
    errors.UnknownQuestionError,
}
"""Errors that suggest names similar to an unknown one."""

REF_TEMPLATE = "#/components/schemas/{model}"

ABOUT = """\
Hands an AI agent the few tools and passages that its current turn needs.

Send a key as `Authorization: Bearer tc_...`. A key has a scope, which limits every search, listing,
count and suggestion: tools and passages outside of it are unknown. The header `Toolcrib-Namespace`
names the namespace, for a key that has several.

Errors are problems by RFC 9457, of the type `urn:toolcrib:problem:...`. A body that is no JSON, or
not of the endpoint's type, gets 422.
"""

TAGS = {
    "tools": "The registry, and finding tools in it.",
    "knowledge": "Collections of documents, and finding passages in them.",
    "turns": "Deciding what a turn needs.",
    "decisions": "Logged decisions, and feedback on them.",
    "learning": "Examples learned from requests that ended in a successful call.",
    "quarantine": "Tools that are not served until they are approved.",
    "reports": "Evaluation reports.",
    "gateway": "Servers and calls of a gateway.",
    "keys": "The caller, and the keys of the service.",
    "health": "Liveness, readiness and metrics; without a key.",
}

GUARDED_ENDPOINT_ERRORS: tuple[type[errors.ToolcribError], ...] = (
    errors.UnauthenticatedError,
    errors.ForbiddenError,
    errors.TooLargeError,
    errors.QueryError,
    errors.RateLimitedError,
    errors.StoreError,
    errors.OverloadedError,
    errors.ServiceUnavailableError,
    errors.StoreUnavailableError,
    errors.DeadlineError,
    errors.StoreWriteError,
)
"""Errors of every endpoint that needs a key."""

REQUEST_ID_HEADER = {
    "X-Request-Id": {
        "description": "The id that the request sent, or a new one.",
        "schema": {"type": "string"},
    }
}

NAMESPACE = {
    "name": "Toolcrib-Namespace",
    "in": "header",
    "required": False,
    "description": "Name of the namespace; by default the only one of the key.",
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_.-]{0,62}$"},
    "example": "default",
}

SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key: `tc_...`."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """OpenAPI document of a service with these endpoints."""
    schemas = _Schemas(endpoints)
    paths: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    for each in endpoints:
        paths.setdefault(each.template, {})[each.method.lower()] = _operation(each, schemas, shared)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "toolcrib",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "version": __version__,
        },
        "servers": [{"url": "/", "description": "The service that this document is from."}],
        "security": [{name: []} for name in SECURITY],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": SECURITY,
            "responses": shared,
        },
        "tags": [{"name": name, "description": says} for name, says in TAGS.items()],
    }


class _Schemas:
    """Schemas of all requests and answers, by type; created together so that names agree."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        kinds: dict[tuple[Any, JsonSchemaMode], None] = {(ProblemBody, "serialization"): None}
        for each in endpoints:
            kinds |= {
                (kind, "validation"): None
                for kind in (each.key, each.query, each.body, each.upload_query)
                if kind is not None
            }
            if each.answer is not None:
                kinds[each.answer, "serialization"] = None
        made, shared = schemas(list(kinds), REF_TEMPLATE)
        self.of = dict(zip(kinds, made, strict=True))
        # Generators of clients name classes by titles: a record has two schemas, and one title.
        self.components = {
            name: {**each, **_description(each), "title": name} for name, each in shared.items()
        }

    def fields(self, kind: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.of[kind, "validation"]
        if "$ref" in found:
            found = self.of[kind, "validation"] = self.components.pop(_name(found["$ref"]))
        return found["properties"]


_JSON_WORDS = {"None": "null", "True": "true", "False": "false"}


def _description(schema: Mapping[str, Any]) -> dict[str, str]:
    """Description of a schema: its docstring without exceptions, and with JSON's constants."""
    if "description" not in schema:
        return {}
    text = str(schema["description"]).partition("\n\nRaises:")[0]
    words = "|".join(_JSON_WORDS)
    return {"description": re.sub(rf"\b({words})\b", lambda found: _JSON_WORDS[found[0]], text)}


def _name(ref: str) -> str:
    return ref.rpartition("/")[2]


def _operation(endpoint: Endpoint, schemas: _Schemas, shared: dict[str, Any]) -> dict[str, Any]:
    summary, _, more = (endpoint.call.__doc__ or "").partition("\n")
    made: dict[str, Any] = {
        "tags": [endpoint.tag],
        "summary": summary.rstrip("."),
        "operationId": endpoint.call.__name__,
    }
    if more.strip():
        made["description"] = cleandoc(more)
    if not endpoint.is_guarded:
        made["security"] = []
    if parameters := list(_parameters(endpoint, schemas)):
        made["parameters"] = parameters
    if endpoint.body is not None:
        made["requestBody"] = _request_body(endpoint, schemas)
    made["responses"] = _responses(endpoint, schemas, shared)
    return made


def _parameters(endpoint: Endpoint, schemas: _Schemas) -> Iterator[dict[str, Any]]:
    if endpoint.key is not None:
        schema = schemas.of[endpoint.key, "validation"]
        yield _parameter(endpoint.parameter, "path", schema) | {"required": True}
    for query in filter(None, (endpoint.query, endpoint.upload_query)):
        for name, schema in schemas.fields(query).items():
            yield _parameter(name, "query", schema)
    if endpoint.is_guarded:
        yield NAMESPACE


def _parameter(name: str, place: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    says = {"description": schema["description"]} if "description" in schema else {}
    return {"name": name, "in": place, **says, "schema": dict(schema)}


def _request_body(endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {JSON: {"schema": schemas.of[endpoint.body, "validation"]}}
    if endpoint.upload is not None:
        says = cleandoc(endpoint.upload.__doc__ or "")
        content[JSON_LINES] = {"schema": {"type": "string", "description": says}}
    return {"required": True, "content": content}


def _responses(endpoint: Endpoint, schemas: _Schemas, shared: dict[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any]
    if endpoint.answer is None and endpoint.media_type == JSON:
        answers = {"204": {"description": "Done.", "headers": REQUEST_ID_HEADER}}
    else:
        is_json = endpoint.answer is not None
        schema = schemas.of[endpoint.answer, "serialization"] if is_json else {"type": "string"}
        content = {endpoint.media_type: {"schema": schema}}
        answers = {
            "200": {"description": "The answer.", "headers": REQUEST_ID_HEADER, "content": content}
        }
    by_status: dict[int, list[ProblemBody]] = {}
    for each in _problems(endpoint):
        by_status.setdefault(each.status, []).append(each)
    for status, problems in by_status.items():
        name = "-or-".join(each.slug for each in problems)
        shared[name] = _response(problems)
        answers[str(status)] = {"$ref": f"#/components/responses/{name}"}
    return dict(sorted(answers.items()))


def _problems(endpoint: Endpoint) -> Iterator[ProblemBody]:
    """Examples of all problems of an endpoint."""
    known: set[int] = set()
    common = GUARDED_ENDPOINT_ERRORS if endpoint.is_guarded else ()
    for kind in dict.fromkeys((*common, *endpoint.errors)):
        row = PROBLEMS[kind]
        known.add(row.status)
        nearest = () if kind in ERRORS_WITH_NEAREST else None
        heads = slug_of(kind), row.title, row.status, row.title, EXAMPLE_REQUEST_ID
        yield ProblemBody.make(*heads, nearest=nearest, retry_after_s=row.retry_after_s)
    # Statuses of HTTP itself, without an error class of toolcrib.
    has_body, has_key = endpoint.body is not None, endpoint.key is not None
    for status, applies in ((415, has_body), (406, endpoint.media_type == JSON), (404, has_key)):
        if applies and status not in known:
            slug, title = HTTP_PROBLEMS[status]
            yield ProblemBody.make(slug, title, status, title, EXAMPLE_REQUEST_ID)


def _response(problems: Sequence[ProblemBody]) -> dict[str, Any]:
    headers: dict[str, Any] = dict(REQUEST_ID_HEADER)
    if any(each.slug == slug_of(errors.UnauthenticatedError) for each in problems):
        headers["WWW-Authenticate"] = {
            "description": "The scheme `Bearer`; for tokens also the address of their metadata.",
            "schema": {"type": "string"},
        }
    if any(each.retry_after_s is not None for each in problems):
        headers["Retry-After"] = {
            "description": "Seconds after which to repeat the request.",
            "schema": {"type": "integer"},
        }
    examples = {each.slug: {"value": as_json(each)} for each in problems}
    schema = {"$ref": "#/components/schemas/ProblemBody"}
    return {
        "description": "; ".join(each.title for each in problems) + ".",
        "headers": headers,
        "content": {PROBLEM_TYPE: {"schema": schema, "examples": examples}},
    }


# -- the page --------------------------------------------------------------------------------------

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886; border-radius: .4rem; }
details { border-bottom: 1px solid #8886; padding: .4rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: start; vertical-align: top; padding: .2rem .6rem .2rem 0; }
td code { overflow-wrap: anywhere; }
"""

_CODE = re.compile("`([^`]+)`")

DOCS_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Policy that allows the page's own style only."""


def docs_page(described: Mapping[str, Any]) -> str:
    """HTML page of an OpenAPI document: operations by tag, then schemas."""
    info, tags = described["info"], described["tags"]
    operations: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            shown = _operation_html(method, path, operation, described["components"]["responses"])
            operations.setdefault(operation["tags"][0], []).append(shown)
    sections = (
        f'<h2 id="{tag["name"]}">{tag["name"]}</h2>\n{_text_html(tag["description"])}\n'
        + "\n".join(operations[tag["name"]])
        for tag in tags
    )
    links = " · ".join(f'<a href="#{each["name"]}">{each["name"]}</a>' for each in tags)
    title = f"{escape(info['title'])} {escape(info['version'])}"
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{title}: HTTP API</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
            f"<h1>{title}: HTTP API</h1>\n{_text_html(info['description'])}",
            '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>',
            f'<nav aria-label="Groups">{links} · <a href="#schemas">schemas</a></nav>',
            *sections,
            '<h2 id="schemas">Schemas</h2>',
            *map(_schema_html, described["components"]["schemas"].items()),
            "</main>\n</body>\n</html>\n",
        )
    )


def _operation_html(
    method: str, path: str, operation: Mapping[str, Any], shared: Mapping[str, Any]
) -> str:
    heads = f"<code>{method.upper()} {escape(path)}</code> {escape(operation['summary'])}"
    parameters = (
        (f"<code>{escape(each['name'])}</code>", each["in"], escape(each.get("description", "")))
        for each in operation.get("parameters", ())
    )
    body = operation.get("requestBody", {}).get("content", {})
    answers: list[tuple[str, str, str]] = []
    for status, each in operation["responses"].items():
        response = shared[_name(each["$ref"])] if "$ref" in each else each
        links = ", ".join(map(_schema_link, response.get("content", {}).values()))
        answers.append((status, escape(response["description"]), links))
    return "\n".join(
        (
            f'<details id="{operation["operationId"]}">\n<summary>{heads}</summary>',
            _text_html(operation.get("description", "")),
            _table_html(("parameter", "in", "about"), parameters),
            *(
                f"<p>Body, <code>{kind}</code>: {_schema_link(each)}</p>"
                for kind, each in body.items()
            ),
            _table_html(("status", "answer", "shape"), answers),
            "</details>",
        )
    )


def _schema_link(content: Mapping[str, Any]) -> str:
    """Link to a schema, or the schema itself if it has no name."""
    schema = content.get("schema", {})
    if (ref := schema.get("$ref")) is not None:
        name = escape(_name(ref))
        return f'<a href="#schema-{name}">{name}</a>'
    return f"<code>{escape(json.dumps(schema, ensure_ascii=False))}</code>"


def _schema_html(named: tuple[str, Mapping[str, Any]]) -> str:
    name, schema = escape(named[0]), escape(json.dumps(named[1], ensure_ascii=False, indent=2))
    return (
        f'<details id="schema-{name}">\n<summary><code>{name}</code></summary>\n'
        f"<pre>{schema}</pre>\n</details>"
    )


def _table_html(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Table of HTML cells; empty without rows."""
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><tr>{head}</tr>{body}</table>" if lines else ""


def _text_html(text: str) -> str:
    """Paragraphs of a description, with its code marked."""
    marked = _CODE.sub(r"<code>\1</code>", escape(text.strip()))
    return "".join(f"<p>{each}</p>" for each in marked.split("\n\n") if each)
