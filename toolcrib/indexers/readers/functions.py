"""Function definitions as OpenAI and Anthropic take them, in one list or mixed."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from toolcrib.indexers.readers.base import dialect_of, dialects_in, entries
from toolcrib.indexers.readers.base import Reading, Source, build_spec
from toolcrib.indexers.readers.base import kind_of
from toolcrib.records import Refusal, ToolSpec

__all__ = ["FunctionsReader"]

CALLABLE_TYPES = frozenset({"function", "custom"})
"""The types of tool that the caller defines; every other one is run by the provider."""

FOREIGN = {
    "toolspec": "a ToolSpec, which --format toolspec reads",
    "mcp": "an MCP tool, which --format mcp reads",
}
"""What is no function definition though it has a name; read as one it would lose fields."""

KNOWN_KEYS = frozenset({"type", "name", "description", "parameters", "input_schema"})


class FunctionsReader:
    """Reads OpenAI definitions (nested or flat) and Anthropic ones.

    What a definition says beyond name, description and schema (`strict`,
    `cache_control`) is kept under `annotations`.
    """

    format: ClassVar[str] = "functions"

    def recognises(self, source: Source) -> bool:
        """Whether the file holds function definitions, Anthropic's with no field of ours."""
        dialects = dialects_in(source)
        if "mcp" in dialects:
            return False
        anthropic = dialects == {"anthropic"} and not source.is_lines
        return "function" in dialects or anthropic

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every function; its server is `server` or else the file's stem.

        Raises:
            SourceError: the file cannot be read (on), or holds no list of tools.
        """
        for entry in entries(source):
            if isinstance(entry, Refusal):
                yield entry
            else:
                yield _read_one(source, *entry, source.stem if server is None else server)


def _read_one(source: Source, place: str, tool: dict[str, Any], server: str) -> ToolSpec | Refusal:
    kind = tool.get("type") or "function"
    if not isinstance(kind, str):
        return source.refusal(f"type: must be text, not {kind_of(kind)}", place)
    if kind not in CALLABLE_TYPES:
        return source.refusal(
            f"type {kind!r} is a tool that the provider runs itself, not a function definition; "
            "remove it from the file",
            place,
        )
    dialect = dialect_of(tool)
    if dialect in FOREIGN:
        return source.refusal(f"this is {FOREIGN[dialect]}", place)
    nested = tool.get(kind)
    definition = cast("dict[str, Any]", nested) if isinstance(nested, dict) else tool
    schema = definition.get("parameters")
    annotations = {key: value for key, value in definition.items() if key not in KNOWN_KEYS}
    return build_spec(
        source.name,
        place,
        {
            "name": definition.get("name"),
            "description": definition.get("description"),
            "server": server,
            "input_schema": definition.get("input_schema") if schema is None else schema,
            "annotations": {key: value for key, value in annotations.items() if value is not None},
        },
    )
