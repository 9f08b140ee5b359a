"""Function definitions as OpenAI and Anthropic take them, in one list or mixed."""

from __future__ import annotations

from typing import Any, ClassVar

from toolcrib.indexers.readers.base import (
    Reading,
    Source,
    dialects_in,
    is_object,
    kind_of,
    refuse_foreign,
    specs_in,
)

CALLABLE_TYPES = frozenset({"function", "custom"})
"""The types of tool that the caller defines; every other one is run by the provider."""

KNOWN_KEYS = frozenset({"type", "name", "description", "parameters", "input_schema"})


class FunctionsReader:
    """Reads OpenAI definitions (nested or flat) and Anthropic ones.

    What a definition says beyond name, description and schema (`strict`,
    `cache_control`) is kept under `annotations`.
    """

    format: ClassVar[str] = "functions"
    reaches_out: ClassVar[bool] = False

    def recognises(self, source: Source) -> bool:
        """Tell whether the file holds function definitions; Anthropic's have no field of ours."""
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
        name = source.stem if server is None else server
        return specs_in(source, lambda tool: {**_fields(tool), "server": name})


def _fields(tool: dict[str, Any]) -> dict[str, Any]:
    kind = tool.get("type") or "function"
    if not isinstance(kind, str):
        raise ValueError(f"type: must be text, not {kind_of(kind)}")  # noqa: TRY004
    if kind not in CALLABLE_TYPES:
        raise ValueError(
            f"type {kind!r} is a tool that the provider runs itself, not a function definition; "
            "remove it from the file"
        )
    refuse_foreign(tool, "toolspec", "mcp")
    nested = tool.get(kind)
    definition = nested if is_object(nested) else tool
    schema = definition.get("parameters")
    more = {k: v for k, v in definition.items() if k not in KNOWN_KEYS and v is not None}
    return {
        "name": definition.get("name"),
        "description": definition.get("description"),
        "input_schema": definition.get("input_schema") if schema is None else schema,
        "annotations": more,
    }
