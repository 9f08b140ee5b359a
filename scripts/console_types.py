"""Writes the console's types of what the service answers, from the OpenAPI document.

    python scripts/console_types.py

A test fails when the committed file is another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from toolcrib.http.app import openapi

TARGET = Path(__file__).parent.parent / "console" / "src" / "api" / "schema.ts"

HEAD = "/** What the service answers. Written by scripts/console_types.py; do not edit. */\n"

SIMPLE = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def written() -> str:
    """The file, as it is to be."""
    document = json.loads(openapi())
    schemas: dict[str, Any] = document["components"]["schemas"]
    names = sorted(_reached(document["paths"], schemas))
    return HEAD + "".join(f"\n{_interface(name, schemas[name])}" for name in names)


def _reached(paths: Mapping[str, Any], schemas: Mapping[str, Any]) -> set[str]:
    """The names of all that an answer may hold."""
    operations = [operation for item in paths.values() for operation in item.values()]
    found: set[str] = set()
    waiting = list(_references([each["responses"].get("200", {}) for each in operations]))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(schemas[name])
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        if "/schemas/" in (found := str(known.get("$ref", ""))):
            yield _last(found)
        yield from _references(list(known.values()))
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _references(each)


def _interface(name: str, schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    fields = "".join(
        f"  {field}{'' if field in required else '?'}: {_type(kind)};\n"
        for field, kind in schema["properties"].items()
    )
    return f"export interface {_name(name)} {{\n{fields}}}\n"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _name(_last(schema["$ref"]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    made = {"array": _array, "object": _object}.get(schema.get("type", ""))
    return made(schema) if made else SIMPLE.get(schema.get("type", ""), "unknown")


def _array(schema: Mapping[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"readonly [{', '.join(map(_type, schema['prefixItems']))}]"
    item = _type(schema.get("items", {}))
    return f"readonly ({item})[]" if " " in item else f"readonly {item}[]"


def _object(schema: Mapping[str, Any]) -> str:
    values: Any = schema.get("additionalProperties")
    kind = _type(cast("Mapping[str, Any]", values)) if isinstance(values, dict) else "unknown"
    return f"Readonly<Record<string, {kind}>>"


def _last(reference: str) -> str:
    return reference.rpartition("/")[2]


def _name(name: str) -> str:
    """Of a schema that is read and written differently, the written one has the plain name."""
    return name.removesuffix("-Output").replace("-", "")


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf-8")
