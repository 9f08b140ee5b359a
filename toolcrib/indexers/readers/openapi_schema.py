"""Schemas as OpenAPI writes them, turned into plain JSON Schema without references."""

from __future__ import annotations

from typing import Any, cast

from toolcrib.indexers.readers.json_schema import References, is_reference
from toolcrib.indexers.readers.json_schema import rewritten

__all__ = ["Schemas"]

NOT_JSON_SCHEMA = frozenset({"nullable", "discriminator", "xml", "externalDocs"})
"""Keywords that only OpenAPI knows, or that point at what is no longer there."""

BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


class Schemas:
    """The schemas of one document, each written out and translated once."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._done: dict[str, Any] = {}

    def plain(self, schema: Any) -> dict[str, Any]:
        """Give `schema` as JSON Schema, to be shared and not changed; {} for true or none.

        Raises `UnresolvableError` for a reference that cannot be followed.
        """
        key = schema["$ref"] if is_reference(schema) and len(schema) == 1 else None
        if key in self._done:
            return self._done[key]
        plain = rewritten(self._references.written_out(schema), _as_json_schema)
        plain = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {}
        if key is not None:
            self._done[key] = plain
        return plain

    def of_content(self, content: Any) -> dict[str, Any] | None:
        """Give the schema of the media type that is nearest to JSON; None without one."""
        if not isinstance(content, dict):
            return None
        media = cast("dict[str, Any]", content)
        for kind in sorted(media, key=lambda kind: "json" not in kind):
            described = self._references.follow(media[kind])
            if isinstance(described, dict) and "schema" in described:
                return self.plain(cast("dict[str, Any]", described)["schema"])
        return None


def _as_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in schema.items() if key not in NOT_JSON_SCHEMA}
    _number_bounds(plain)
    return _with_null(plain) if schema.get("nullable") is True else plain


def _number_bounds(schema: dict[str, Any]) -> None:
    """OpenAPI 3.0 marks a bound as exclusive with true; JSON Schema repeats the number."""
    for exclusive, bound in BOUNDS.items():
        if isinstance(marked := schema.get(exclusive), bool):
            del schema[exclusive]
            if marked and bound in schema:
                schema[exclusive] = schema.pop(bound)


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {"anyOf": [schema, {"type": "null"}]}
    with_null = {**schema, "type": [kind, "null"]}
    if isinstance(values := schema.get("enum"), list) and None not in values:
        with_null["enum"] = [*cast("list[Any]", values), None]
    return with_null
