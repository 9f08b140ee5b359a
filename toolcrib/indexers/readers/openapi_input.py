"""What an operation takes, parameters and body, as one JSON Schema of an object."""

from __future__ import annotations

from typing import Any, cast

from toolcrib.indexers.readers.openapi import Schemas
from toolcrib.indexers.readers.json_schema import References

__all__ = ["input_schema"]

SENT_BY_THE_CLIENT = frozenset({"accept", "authorization", "content-type"})
"""Headers that OpenAPI says to ignore as parameters: they are not the caller's to choose."""

NOT_A_SCHEMA = frozenset({"name", "in", "required", "collectionFormat", "allowEmptyValue"})
"""What stands beside the schema's keywords in a parameter of Swagger 2."""


def input_schema(
    references: References,
    schemas: Schemas,
    shared: list[Any],
    operation: dict[str, Any],
) -> dict[str, Any]:
    """Merge path-level parameters (`shared`), the operation's own and its body.

    A body's properties stand beside the parameters; a body that is no object, or that has
    a property named like a parameter, becomes the property `body`.

    Raises:
        UnresolvableError: a reference cannot be followed.
        ValueError: a parameter has no name or place.
    """
    form = _Form(schemas)
    body: tuple[Any, bool] | None = None
    for parameter in _parameters(references, shared, operation):
        if parameter["in"] == "body":
            body = schemas.plain(parameter.get("schema")), parameter.get("required") is True
        elif not _is_set_by_client(parameter):
            form.add(parameter)
    request = references.follow(operation.get("requestBody"))
    if isinstance(request, dict):
        described = cast("dict[str, Any]", request)
        schema = schemas.of_content(described.get("content"))
        body = (schema or {}), described.get("required") is True
    if body is not None:
        form.add_body(body[0], required=body[1])
    return form.schema()


def _parameters(
    references: References,
    shared: list[Any],
    operation: dict[str, Any],
) -> list[dict[str, Any]]:
    """Give the parameters in order; the operation's own replace those of its path."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    own: Any = operation.get("parameters") or []
    if not isinstance(own, list):
        raise ValueError("parameters: must be a list")  # noqa: TRY004 -- of the file, not of us
    listed = [*shared, *cast("list[Any]", own)]
    for index, reference in enumerate(listed, -len(shared)):
        parameter = references.follow(reference)
        name, place = _named(parameter)
        if name is None or place is None:
            where = f"parameters[{index}]" if index >= 0 else "a parameter of the path"
            raise ValueError(f"{where}: needs the fields `name` and `in`")
        found[name, place] = cast("dict[str, Any]", parameter)
    return list(found.values())


def _named(parameter: Any) -> tuple[str | None, str | None]:
    if not isinstance(parameter, dict):
        return None, None
    fields = cast("dict[str, Any]", parameter)
    name, place = fields.get("name"), fields.get("in")
    return name if isinstance(name, str) else None, place if isinstance(place, str) else None


def _is_set_by_client(parameter: dict[str, Any]) -> bool:
    return parameter["in"] == "header" and parameter["name"].lower() in SENT_BY_THE_CLIENT


class _Form:
    """The properties gathered so far, and which of them are required."""

    def __init__(self, schemas: Schemas) -> None:
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
        properties = {k: v for k, v in properties.items() if not _is_read_only(v)}
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
    parts: Any = schema.get("allOf")
    for part in cast("list[Any]", parts) if isinstance(parts, list) else []:
        if isinstance(part, dict):
            inherited, needed = _object_of(cast("dict[str, Any]", part))
            properties |= inherited
            required |= needed
    own, needed = schema.get("properties"), schema.get("required")
    if isinstance(own, dict):
        properties |= cast("dict[str, Any]", own)
    if isinstance(needed, list):
        required |= {name for name in cast("list[Any]", needed) if isinstance(name, str)}
    return properties, required


def _is_read_only(schema: Any) -> bool:
    return isinstance(schema, dict) and cast("dict[str, Any]", schema).get("readOnly") is True
