"""Our own `ToolSpec`s: JSON Lines, or a JSON or YAML list, bare or under `tools`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, ClassVar

from toolcrib.indexers.readers.base import Reading, Source, dialects_in, refuse_foreign, specs_in
from toolcrib.records import ToolSpec

TOOL_SPEC_FIELDS = tuple(ToolSpec.model_fields)


class ToolSpecReader:
    """Reads `ToolSpec`s; JSON Lines are streamed, so a file of any size works.

    A key that is nearly a field is refused, as it is a typing error; every other
    unknown key is kept under `annotations`.
    """

    format: ClassVar[str] = "toolspec"
    reaches_out: ClassVar[bool] = False

    def recognises(self, source: Source) -> bool:
        """Tell whether the file holds tools, none of them a provider's or an MCP definition.

        Objects with no more than name, description and input_schema are ours in JSON
        Lines, and Anthropic's otherwise.
        """
        dialects = dialects_in(source)
        own = "toolspec" in dialects or ("anthropic" in dialects and source.is_lines)
        return own and not dialects & {"function", "mcp"}

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool; `server` overrides the field, and nothing else fills it."""
        return specs_in(source, lambda tool: _fields(tool, server))


def _fields(tool: dict[str, Any], server: str | None) -> dict[str, Any]:
    refuse_foreign(tool, "function", "mcp")
    if mistakes := _misspelt(tool):
        raise ValueError(mistakes)
    fields = {key: value for key, value in tool.items() if key in TOOL_SPEC_FIELDS}
    # `toolcrib show --json` tells the links too, which come from the schemas again.
    known = {*TOOL_SPEC_FIELDS, "links"}
    extra = {k: v for k, v in tool.items() if k not in known and v is not None}
    annotations: Any = tool.get("annotations") or {}
    # Annotations of a wrong type are left for the validation to name.
    if extra and isinstance(annotations, dict):
        fields["annotations"] = {**extra, **annotations}
    return fields if server is None else {**fields, "server": server}


def _misspelt(tool: dict[str, Any]) -> str:
    mistakes = [
        f"unknown field {key!r}; did you mean {near[0]!r}?"
        for key in tool
        if key not in TOOL_SPEC_FIELDS
        and (near := get_close_matches(key.lower(), TOOL_SPEC_FIELDS, 1, 0.8))
    ]
    return " ".join(mistakes)
