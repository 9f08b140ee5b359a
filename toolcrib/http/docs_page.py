"""Documentation page: the OpenAPI document as one HTML page without scripts or other addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

STYLE = """
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

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Allow nothing but the page's own style."""


def docs_page(document: Mapping[str, Any]) -> str:
    """HTML page of an OpenAPI document: operations by tag, then schemas."""
    info, tags = document["info"], document["tags"]
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    sections = (
        _section(tag, [each for each in operations if tag["name"] in each[2]["tags"]], document)
        for tag in tags
    )
    links = " · ".join(f'<a href="#{each["name"]}">{each["name"]}</a>' for each in tags)
    title = f"{escape(info['title'])} {escape(info['version'])}"
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{title}: HTTP API</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<h1>{title}: HTTP API</h1>\n{_text(info['description'])}",
            '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>',
            f'<nav aria-label="Groups">{links} · <a href="#schemas">schemas</a></nav>',
            *sections,
            '<h2 id="schemas">Schemas</h2>',
            *map(_schema, document["components"]["schemas"].items()),
            "</main>\n</body>\n</html>\n",
        )
    )


def _section(
    tag: Mapping[str, str],
    operations: Iterable[tuple[str, str, Mapping[str, Any]]],
    document: Mapping[str, Any],
) -> str:
    shown = "\n".join(_operation(*each, document) for each in operations)
    return f'<h2 id="{tag["name"]}">{tag["name"]}</h2>\n{_text(tag["description"])}\n{shown}'


def _operation(
    method: str, path: str, operation: Mapping[str, Any], document: Mapping[str, Any]
) -> str:
    heads = f"<code>{method.upper()} {escape(path)}</code> {escape(operation['summary'])}"
    parameters = (
        (f"<code>{escape(each['name'])}</code>", each["in"], escape(each.get("description", "")))
        for each in operation.get("parameters", ())
    )
    body = operation.get("requestBody", {}).get("content", {})
    responses = operation["responses"].items()
    answers = ((status, *_answer(each, document)) for status, each in responses)
    return "\n".join(
        (
            f'<details id="{operation["operationId"]}">\n<summary>{heads}</summary>',
            _text(operation.get("description", "")),
            _table(("parameter", "in", "about"), parameters),
            *(f"<p>Body, <code>{kind}</code>: {_kind(each)}</p>" for kind, each in body.items()),
            _table(("status", "answer", "shape"), answers),
            "</details>",
        )
    )


def _answer(answer: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[str, str]:
    if (ref := answer.get("$ref")) is not None:
        answer = document["components"]["responses"][ref.rpartition("/")[2]]
    shapes = (_kind(each) for each in answer.get("content", {}).values())
    return escape(answer["description"]), ", ".join(shapes)


def _kind(content: Mapping[str, Any]) -> str:
    """Link to a schema, or the schema itself."""
    schema = content.get("schema", {})
    if (ref := schema.get("$ref")) is not None:
        name = escape(ref.rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    return f"<code>{escape(json.dumps(schema, ensure_ascii=False))}</code>"


def _schema(named: tuple[str, Mapping[str, Any]]) -> str:
    name, schema = escape(named[0]), escape(json.dumps(named[1], ensure_ascii=False, indent=2))
    return (
        f'<details id="schema-{name}">\n<summary><code>{name}</code></summary>\n'
        f"<pre>{schema}</pre>\n</details>"
    )


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Table of cells that are HTML; nothing without rows."""
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><tr>{head}</tr>{body}</table>" if lines else ""


def _text(text: str) -> str:
    """Paragraphs of a description, with its code."""
    marked = _CODE.sub(r"<code>\1</code>", escape(text.strip()))
    return "".join(f"<p>{each}</p>" for each in marked.split("\n\n") if each)
