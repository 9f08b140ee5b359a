"""What an operation of OpenAPI or Swagger takes: parameters and body as one schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.indexers.readers.conformance import split
from toolcrib.indexers.readers.registry import read_source
from toolcrib.records import Refusal, ToolSpec

OK: dict[str, Any] = {"responses": {"200": {"description": "ok"}}}
STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def document(paths: dict[str, Any], version: str = "3.1.0", **rest: Any) -> dict[str, Any]:
    key = "swagger" if version.startswith("2") else "openapi"
    return {key: version, "info": {"title": "Shop", "version": "1"}, "paths": paths, **rest}


def write(folder: Path, content: Any) -> str:
    path = folder / "shop.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def read(folder: Path, content: Any) -> tuple[list[ToolSpec], list[Refusal]]:
    return split(read_source(write(folder, content)))


def takes(folder: Path, operation: dict[str, Any], version: str = "3.1.0", **rest: Any) -> Any:
    """Read one POST operation and give its input schema."""
    paths = {"/x": {"post": {**OK, **operation}}}
    tools, refusals = read(folder, document(paths, version, **rest))
    assert refusals == []
    return tools[0].input_schema


def json_body(schema: Any, **rest: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, **rest}}


def test_parameters_of_path_and_operation_and_body_are_one_object(tmp_path: Path) -> None:
    shared = [
        {"name": "id", "in": "path", "required": True, "schema": STRING},
        {"name": "lang", "in": "query", "schema": STRING, "description": "of the path"},
        {"name": "Authorization", "in": "header", "schema": STRING},
    ]
    own = {"name": "lang", "in": "query", "schema": {"enum": ["de"]}, "description": "Language"}
    filter_ = {
        "name": "filter",
        "in": "query",
        "content": {"application/json": {"schema": INTEGER}},
    }
    body = {
        "type": "object",
        "required": ["amount", "created"],
        "properties": {
            "amount": INTEGER,
            "note": STRING,
            "created": {"type": "string", "readOnly": True},
        },
    }
    put = {**OK, "parameters": [own, filter_], **json_body(body)}
    tools, refusals = read(tmp_path, document({"/x/{id}": {"parameters": shared, "put": put}}))
    assert refusals == []
    assert tools[0].input_schema == {
        "type": "object",
        "properties": {
            "id": STRING,
            "lang": {"enum": ["de"], "description": "Language"},
            "filter": INTEGER,
            "amount": INTEGER,
            "note": STRING,
        },
        "required": ["id", "amount"],
    }


def test_a_body_that_would_hide_a_parameter_becomes_one_property(tmp_path: Path) -> None:
    body = {"type": "object", "properties": {"id": INTEGER}}
    parameters = [{"name": "id", "in": "query", "schema": STRING}]
    schema = takes(tmp_path, {"parameters": parameters, **json_body(body, required=True)})
    assert schema == {
        "type": "object",
        "properties": {"id": STRING, "body": body},
        "required": ["body"],
    }


@pytest.mark.parametrize(
    "body",
    [{"type": "array", "items": STRING}, STRING, {"oneOf": [STRING, INTEGER]}, {"type": "object"}],
)
def test_a_body_without_properties_becomes_one_property(tmp_path: Path, body: Any) -> None:
    assert takes(tmp_path, json_body(body)) == {"type": "object", "properties": {"body": body}}


def test_the_parts_of_an_all_of_are_one_body(tmp_path: Path) -> None:
    parts = [True, {"$ref": "#/components/schemas/Base"}, {"properties": {"b": INTEGER}}]
    base = {"type": "object", "properties": {"a": STRING}, "required": ["a"]}
    schema = takes(tmp_path, json_body({"allOf": parts}), components={"schemas": {"Base": base}})
    assert schema == {
        "type": "object",
        "properties": {"a": STRING, "b": INTEGER},
        "required": ["a"],
    }


def test_two_parameters_of_one_name_in_two_places(tmp_path: Path) -> None:
    parameters = [{"name": "v", "in": place, "schema": STRING} for place in ("query", "header")]
    schema = takes(tmp_path, {"parameters": parameters})
    assert schema["properties"] == {"v": STRING, "header_v": STRING}


def test_json_is_preferred_among_media_types(tmp_path: Path) -> None:
    content = {"text/csv": {"schema": STRING}, "application/vnd.x+json": {"schema": INTEGER}}
    schema = takes(tmp_path, {"requestBody": {"content": content}})
    assert schema["properties"] == {"body": INTEGER}


def test_nullable_and_exclusive_bounds_become_json_schema(tmp_path: Path) -> None:
    properties = {
        "a": {"type": "string", "nullable": True},
        "b": {"type": "string", "nullable": True, "enum": ["x"]},
        "c": {"allOf": [INTEGER], "nullable": True},
        "d": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "xml": {"name": "d"}},
        "e": {"type": "number", "maximum": 9, "exclusiveMaximum": False},
        "nullable": {"type": "boolean", "default": {"nullable": True}},
    }
    schema = takes(tmp_path, json_body({"type": "object", "properties": properties}), "3.0.3")
    assert schema["properties"] == {
        "a": {"type": ["string", "null"]},
        "b": {"type": ["string", "null"], "enum": ["x", None]},
        "c": {"anyOf": [{"allOf": [INTEGER]}, {"type": "null"}]},
        "d": {"type": "number", "exclusiveMinimum": 0},
        "e": {"type": "number", "maximum": 9},
        "nullable": {"type": "boolean", "default": {"nullable": True}},
    }


def test_swagger_2(tmp_path: Path) -> None:
    parameters = [
        {"name": "q", "in": "query", "type": "array", "items": STRING, "collectionFormat": "csv"},
        {"name": "photo", "in": "formData", "type": "file", "required": True},
        {"$ref": "#/parameters/Page"},
    ]
    page = {"name": "page", "in": "query", "type": "integer", "minimum": 1}
    schema = takes(tmp_path, {"parameters": parameters}, "2.0", parameters={"Page": page})
    assert schema == {
        "type": "object",
        "properties": {
            "q": {"type": "array", "items": STRING},
            "photo": {"type": "string", "format": "binary"},
            "page": {"type": "integer", "minimum": 1},
        },
        "required": ["photo"],
    }


def test_a_parameter_without_a_schema_takes_anything(tmp_path: Path) -> None:
    parameters = [
        {"name": "a", "in": "query", "content": {}},
        {"name": "b", "in": "query", "schema": True},
        {"name": "c", "in": "query"},
    ]
    schema = takes(tmp_path, {"parameters": parameters})
    assert schema["properties"] == {"a": {}, "b": {}, "c": {}}


def test_swagger_2_body(tmp_path: Path) -> None:
    pet = {"type": "object", "properties": {"name": STRING}, "required": ["name"]}
    body = {"name": "pet", "in": "body", "schema": {"$ref": "#/definitions/Pet"}}
    schema = takes(tmp_path, {"parameters": [body]}, "2.0", definitions={"Pet": pet})
    assert schema == pet
