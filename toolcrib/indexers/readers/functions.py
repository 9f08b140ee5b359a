"""Function definitions of OpenAI, Anthropic, Gemini and Bedrock, also mixed in one list."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from toolcrib.indexers.readers.base import (
    FRAMEWORK_SCHEMA_KEYS,
    PARAMETER_MAP_KEYS,
    Reading,
    Source,
    dialects_in,
    framework_schema,
    is_object,
    is_parameter_map,
    kind_of,
    nested_definition,
    refuse_foreign,
    schema_of_parameters,
    specs_in,
)
from toolcrib.indexers.readers.json_schema import map_schemas
from toolcrib.indexers.readers.openapi import as_json_schema

CALLABLE_TYPES = frozenset({"function", "custom"})
"""Types of tools that the caller defines; the provider runs all other types."""

PROVIDER_KEYS = frozenset(
    {"googlesearch", "googlesearchretrieval", "codeexecution", "urlcontext", "googlemaps"}
    | {"computeruse", "filesearch", "retrieval", "cachepoint", "systemtool"}
)
"""Only key of entries beside definitions, in lower case without underscores: tools that Gemini and
Bedrock run, and Bedrock's mark for the cache."""

INPUT_KEYS = ("parameters", "parametersJsonSchema", "input_schema", "inputSchema")
OUTPUT_KEYS = ("responseJsonSchema", "response")
KNOWN_KEYS = frozenset(
    {"type", "name", "description", "namespace"}
    | {*INPUT_KEYS, *FRAMEWORK_SCHEMA_KEYS, *PARAMETER_MAP_KEYS}
)


class FunctionsReader:
    """Reads definitions of OpenAI (nested, flat or in namespaces), Anthropic, Gemini and Bedrock.

    Dumped tools of frameworks are read too. Other keys of a definition than name, description and
    schema (`strict`, `cache_control`), also beside a nested one, are kept under `annotations`.
    """

    format: ClassVar[str] = "functions"
    reaches_out: ClassVar[bool] = False

    def recognises(self, source: Source) -> bool:
        """True if the file has function definitions; Anthropic's have no field of ours."""
        dialects = dialects_in(source)
        anthropic = dialects == {"anthropic"} and not source.is_lines
        return "mcp" not in dialects and ("function" in dialects or anthropic)

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every function; its server is `server`, its namespace or else the file's stem."""

        def fields(tool: dict[str, Any]) -> dict[str, Any]:
            own = tool.get("namespace", source.stem)
            return {**_fields(tool), "server": own if server is None else server}

        return specs_in(source, fields)


def _fields(tool: dict[str, Any]) -> dict[str, Any]:
    kind = tool.get("type") or "function"
    if not isinstance(kind, str):
        raise ValueError(f"type: must be text, not {kind_of(kind)}")  # noqa: TRY004
    if kind not in CALLABLE_TYPES:
        what = "is a tool that the provider runs itself, not a function definition"
        raise ValueError(f"type {kind!r} {what}; remove it from the file")
    refuse_foreign(tool, "toolspec", "mcp")
    only = next(iter(tool), "") if len(tool) == 1 else ""
    if only.replace("_", "").lower() in PROVIDER_KEYS:
        raise ValueError(f"{only!r} is the provider's own, not a function definition; remove it")
    nested = nested_definition(tool)
    definition = tool if nested is None else nested
    beside = {key: value for key, value in tool.items() if value is not nested}
    known = KNOWN_KEYS
    schema = _first_of(definition, INPUT_KEYS)
    if "toolSpec" in tool and is_object(schema):
        schema = schema.get("json", schema)
    if is_parameter_map(schema):
        schema = schema_of_parameters(schema)
    returned: Any = None
    if "functionDeclaration" in tool:
        schema = map_schemas(schema, _gemini_schema)
        returned = map_schemas(_first_of(definition, OUTPUT_KEYS), _gemini_schema)
        known = known.union(OUTPUT_KEYS)
    return {
        "name": definition.get("name"),
        "description": definition.get("description"),
        "input_schema": framework_schema(definition) if schema is None else schema,
        "output_schema": returned,
        "annotations": _annotations({**beside, **definition}, known),
    }


def _annotations(fields: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Fields of a definition that have no place elsewhere; its own `annotations` are among them."""
    rest = {k: v for k, v in fields.items() if k not in known and v is not None}
    if not is_object(own := rest.get("annotations")):
        return rest
    return {**own, **{k: v for k, v in rest.items() if k != "annotations"}}


def _first_of(definition: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((definition[key] for key in keys if definition.get(key) is not None), None)


def _gemini_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """JSON Schema of a Gemini schema, which has `OBJECT`, and `nullable` as in OpenAPI."""
    kind = schema.get("type")
    lower = {**schema, "type": kind.lower()} if isinstance(kind, str) else schema
    return as_json_schema(lower)
