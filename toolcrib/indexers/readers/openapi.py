"""OpenAPI 3 and Swagger 2: every operation is a tool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from toolcrib.indexers.readers.base import (
    Reading,
    Source,
    build_spec,
    is_list,
    is_object,
    kind_of,
    own_fields,
)
from toolcrib.indexers.readers.json_schema import References, is_reference, map_schemas
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.tools import MCP_DEFAULTS

# -- operations ------------------------------------------------------------------------------------

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

HINTS = {
    "get": {"readOnlyHint": True},
    "head": {"readOnlyHint": True},
    "delete": {"destructiveHint": True},
}
"""Hints of MCP that a method implies."""

VERSION = re.compile(r"2\.0|3\.\d+(\.\d+)?")


class OpenApiReader:
    """Reads Swagger 2.0 and OpenAPI 3.x, JSON or YAML, in one file.

    A tool is named by its `operationId`, or by method and path: `GET /orders/{id}/items`
    is `get_orders_id_items`. Webhooks and callbacks are calls to the client, so no tools.
    Extensions named like a field or a hint of ours (`x-sensitivity`, `x-safety-tags`,
    `x-destructiveHint`) become that field.
    """

    format: ClassVar[str] = "openapi"
    reaches_out: ClassVar[bool] = False

    def recognises(self, source: Source) -> bool:
        """Tell whether the file is an object with `openapi` or `swagger`."""
        sample = source.sample
        return isinstance(sample, dict) and ("openapi" in sample or "swagger" in sample)

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every operation; its server is `server` or else the file's stem.

        Raises:
            SourceError: the file cannot be read, or says no version that is known.
        """
        document = source.data
        if not is_object(document):
            raise source.error(f"must be an object, not {kind_of(document)}")
        version = document.get("openapi", document.get("swagger"))
        if not VERSION.fullmatch(str(version)):
            raise source.error(
                f"version {version!r} is not known; 2.0 and 3.x are read",
                "swagger" if "swagger" in document else "openapi",
            )
        yield from _Operations(source, document, source.stem if server is None else server).read()


class _Operations:
    """The operations of one document, read one by one."""

    def __init__(self, source: Source, document: dict[str, Any], server: str) -> None:
        self._source = source
        self._server = server
        self._document = document
        self._schemas = _Schemas(References(document))

    def read(self) -> Reading:
        """Yield every operation as a tool, or what is wrong with it."""
        paths: Any = self._document.get("paths") or {}
        if not is_object(paths):
            raise self._source.error(f"must be an object, not {kind_of(paths)}", "paths")
        for path, item in paths.items():
            # Extensions may stand among the paths; a path begins with a slash.
            if path.startswith("x-"):
                continue
            try:
                operations = list(self._operations_of(item))
            except ValueError as error:
                yield self._source.refusal(str(error), path)
                continue
            for method, shared, operation in operations:
                yield self._tool(path, method, shared, operation)

    def _operations_of(self, item: Any) -> Iterator[tuple[str, list[Any], Any]]:
        item = self._schemas.references.follow(item)
        if not is_object(item):
            raise ValueError(f"must be an object, not {kind_of(item)}")
        shared: Any = item.get("parameters") or []
        if not is_list(shared):
            raise ValueError(f"parameters: must be a list, not {kind_of(shared)}")
        for method in METHODS:
            if method in item:
                yield method, shared, item[method]

    def _tool(
        self, path: str, method: str, shared: list[Any], operation: Any
    ) -> ToolSpec | Refusal:
        place = f"{method.upper()} {path}"
        if not is_object(operation):
            reason = f"an operation must be an object, not {kind_of(operation)}"
            return self._source.refusal(reason, place)
        try:
            takes = _input_schema(self._schemas, shared, operation)
            gives = self._output_schema(operation)
        except ValueError as error:
            return self._source.refusal(str(error), place)
        tags: Any = operation.get("tags") or []
        more = {key[2:]: value for key, value in operation.items() if key.startswith("x-")}
        said = {name: more[name] for name in MCP_DEFAULTS if isinstance(more.get(name), bool)}
        deprecated = {"deprecated": True} if operation.get("deprecated") is True else {}
        hints = HINTS.get(method, {}) | said | deprecated
        fields: dict[str, Any] = {
            **own_fields(more),
            "name": operation.get("operationId") or _slug(method, path),
            "description": _description(operation),
            "server": self._server,
            "input_schema": takes,
            "output_schema": gives,
            "category": tags[0] if is_list(tags) and tags else None,
            "tags": tags,
            "annotations": {"httpMethod": method.upper(), "path": path, **hints},
        }
        return build_spec(self._source.name, place, fields)

    def _output_schema(self, operation: dict[str, Any]) -> dict[str, Any] | None:
        """Give the schema of the first successful response that has one."""
        responses: Any = operation.get("responses") or {}
        if not is_object(responses):
            raise ValueError(f"responses: must be an object, not {kind_of(responses)}")
        for status in sorted(status for status in responses if status.startswith("2")):
            response = self._schemas.references.follow(responses[status])
            if not is_object(response):
                continue
            if "schema" in response:
                return self._schemas.plain(response["schema"])
            schema = self._schemas.of_content(response.get("content"))
            if schema is not None:
                return schema
        return None


def _slug(method: str, path: str) -> str:
    return re.sub(r"\W+", "_", f"{method} {path}").strip("_")


def _description(operation: dict[str, Any]) -> Any:
    """Give summary and description as two paragraphs, or one where they say the same."""
    summary, description = operation.get("summary"), operation.get("description")
    if not (isinstance(summary, str) and isinstance(description, str)):
        return description or summary
    if description.strip().startswith(summary.strip().rstrip(".")):
        return description
    return f"{summary}\n\n{description}".strip()


# -- schemas ---------------------------------------------------------------------------------------

NOT_JSON_SCHEMA = frozenset({"nullable", "discriminator", "xml", "externalDocs"})
"""Keywords that only OpenAPI knows, or that point at what is no longer there."""

BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


class _Schemas:
    """The schemas of one document, each written out and translated once."""

    def __init__(self, references: References) -> None:
        self.references = references
        self._done: dict[str, Any] = {}

    def plain(self, schema: Any) -> dict[str, Any]:
        """Give `schema` as JSON Schema, to be shared and not changed; {} for true or none.

        Raises ValueError for a reference that cannot be followed.
        """
        key = schema["$ref"] if is_reference(schema) and len(schema) == 1 else None
        if key in self._done:
            return self._done[key]
        plain = map_schemas(self.references.write_out(schema), _as_json_schema)
        plain = plain if is_object(plain) else {}
        if key is not None:
            self._done[key] = plain
        return plain

    def of_content(self, content: Any) -> dict[str, Any] | None:
        """Give the schema of the media type that is nearest to JSON; None without one."""
        media = content if is_object(content) else {}
        for kind in sorted(media, key=lambda kind: "json" not in kind):
            described = self.references.follow(media[kind])
            if is_object(described) and "schema" in described:
                return self.plain(described["schema"])
        return None


def _as_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in schema.items() if key not in NOT_JSON_SCHEMA}
    for exclusive, bound in BOUNDS.items():
        # OpenAPI 3.0 marks a bound as exclusive with true; JSON Schema repeats the number.
        if isinstance(marked := plain.get(exclusive), bool):
            del plain[exclusive]
            if marked and bound in plain:
                plain[exclusive] = plain.pop(bound)
    return _with_null(plain) if schema.get("nullable") is True else plain


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {"anyOf": [schema, {"type": "null"}]}
    with_null = {**schema, "type": [kind, "null"]}
    if is_list(values := schema.get("enum")) and None not in values:
        with_null["enum"] = [*values, None]
    return with_null


# -- parameters and bodies -------------------------------------------------------------------------

SENT_BY_THE_CLIENT = frozenset({"accept", "authorization", "content-type"})
"""Headers that OpenAPI says to ignore as parameters: they are not the caller's to choose."""

NOT_A_SCHEMA = frozenset({"name", "in", "required", "collectionFormat", "allowEmptyValue"})
"""Keys beside the schema's keywords in a parameter of Swagger 2."""


def _input_schema(
    schemas: _Schemas, shared: list[Any], operation: dict[str, Any]
) -> dict[str, Any]:
    """Merge path-level parameters (`shared`), the operation's own and its body.

    A body's properties stand beside the parameters; a body that is no object, or that has
    a property named like a parameter, becomes the property `body`.
    Raises ValueError for a reference that cannot be followed and a parameter without name or place.
    """
    form = _Form(schemas)
    body: tuple[dict[str, Any], bool] | None = None
    for parameter in _parameters(schemas.references, shared, operation):
        if parameter["in"] == "body":
            body = schemas.plain(parameter.get("schema")), parameter.get("required") is True
        elif parameter["in"] != "header" or parameter["name"].lower() not in SENT_BY_THE_CLIENT:
            form.add(parameter)
    request = schemas.references.follow(operation.get("requestBody"))
    if is_object(request):
        body = schemas.of_content(request.get("content")) or {}, request.get("required") is True
    if body is not None:
        form.add_body(body[0], required=body[1])
    return form.schema()


def _parameters(
    references: References, shared: list[Any], operation: dict[str, Any]
) -> list[dict[str, Any]]:
    """Give the parameters in order; the operation's own replace those of its path."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    own: Any = operation.get("parameters") or []
    if not is_list(own):
        raise ValueError("parameters: must be a list")
    for index, reference in enumerate([*shared, *own], -len(shared)):
        parameter = references.follow(reference)
        fields = parameter if is_object(parameter) else {}
        name, place = fields.get("name"), fields.get("in")
        if not (isinstance(name, str) and isinstance(place, str)):
            where = f"parameters[{index}]" if index >= 0 else "a parameter of the path"
            raise ValueError(f"{where}: needs the fields `name` and `in`")  # noqa: TRY004
        found[name, place] = fields
    return list(found.values())


class _Form:
    """The properties gathered so far, and which of them are required."""

    def __init__(self, schemas: _Schemas) -> None:
        self._schemas = schemas
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []

    def add(self, parameter: dict[str, Any]) -> None:
        """Add a parameter; one in another place of the same name gets the place before it."""
        name = parameter["name"]
        if name in self._properties:
            name = f"{parameter['in']}_{name}"
        schema = self._schema_of(parameter)
        for key in ("description", "deprecated"):
            if parameter.get(key):
                schema = {**schema, key: parameter[key]}
        self._put(name, schema, required=parameter.get("required") is True)

    def _schema_of(self, parameter: dict[str, Any]) -> dict[str, Any]:
        if "schema" in parameter:
            return self._schemas.plain(parameter["schema"])
        if "content" in parameter:
            return self._schemas.of_content(parameter["content"]) or {}
        inline = {k: v for k, v in parameter.items() if k not in NOT_A_SCHEMA}
        if inline.get("type") == "file":
            inline |= {"type": "string", "format": "binary"}
        return self._schemas.plain(inline)

    def add_body(self, schema: dict[str, Any], *, required: bool) -> None:
        """Add a request body."""
        properties, needed = _object_of(schema)
        properties = {
            name: field
            for name, field in properties.items()
            if not (is_object(field) and field.get("readOnly") is True)
        }
        if not properties or properties.keys() & self._properties.keys():
            name = "body" if "body" not in self._properties else "request_body"
            self._put(name, schema, required=required)
            return
        for name, field in properties.items():
            self._put(name, field, required=name in needed)

    def _put(self, name: str, schema: dict[str, Any], *, required: bool) -> None:
        self._properties[name] = schema
        if required:
            self._required.append(name)

    def schema(self) -> dict[str, Any]:
        """Give everything gathered as the schema of one object."""
        required = {"required": self._required} if self._required else {}
        return {"type": "object", "properties": self._properties, **required}


def _object_of(schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Give properties and required names, those of all parts of an `allOf` together."""
    properties: dict[str, Any] = {}
    required: set[str] = set()
    parts = schema.get("allOf")
    for part in filter(is_object, parts if is_list(parts) else []):
        inherited, needed = _object_of(part)
        properties |= inherited
        required |= needed
    own, needed = schema.get("properties"), schema.get("required")
    if is_object(own):
        properties |= own
    if is_list(needed):
        required |= {name for name in needed if isinstance(name, str)}
    return properties, required
