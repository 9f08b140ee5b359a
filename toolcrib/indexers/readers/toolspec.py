"""Our own `ToolSpec`s: JSON Lines, or a JSON or YAML list, bare or under `tools`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, ClassVar

from toolcrib.indexers.readers.base import dialect_of, dialects_in, entries
from toolcrib.indexers.readers.base import Reading, Source, build_spec
from toolcrib.records import Refusal, ToolSpec

__all__ = ["ToolSpecReader"]

FIELDS = tuple(ToolSpec.model_fields)

FOREIGN = {
    "function": "a function definition, which --format functions reads",
    "mcp": "an MCP tool, which --format mcp reads",
}
"""What is not a ToolSpec though it has a name; read as one it would lose its schema."""


class ToolSpecReader:
    """Reads `ToolSpec`s; JSON Lines are streamed, so a file of any size works.

    A key that is nearly a field is refused, as it is a typing error; every other
    unknown key is kept under `annotations`.
    """

    format: ClassVar[str] = "toolspec"

    def recognises(self, source: Source) -> bool:
        """Whether the file holds tools, none of them a provider's or an MCP definition.

        Objects with no more than name, description and input_schema are ours in JSON
        Lines, and Anthropic's otherwise.
        """
        dialects = dialects_in(source)
        own = "toolspec" in dialects or ("anthropic" in dialects and source.is_lines)
        return own and not dialects & FOREIGN.keys()

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool; `server` overrides the field, and nothing else fills it.

        Raises:
            SourceError: the file cannot be read (on), or holds no list of tools.
        """
        for entry in entries(source):
            if isinstance(entry, Refusal):
                yield entry
                continue
            place, tool = entry
            dialect = dialect_of(tool)
            if dialect in FOREIGN:
                yield source.refusal(f"this is {FOREIGN[dialect]}", place)
            elif mistake := _misspelt(tool):
                yield source.refusal(mistake, place)
            else:
                yield build_spec(source.name, place, _fields(tool, server))


def _misspelt(tool: dict[str, Any]) -> str:
    mistakes = [
        f"unknown field {key!r}; did you mean {near[0]!r}?"
        for key in tool
        if key not in FIELDS and (near := get_close_matches(key.lower(), FIELDS, 1, 0.8))
    ]
    return " ".join(mistakes)


def _fields(tool: dict[str, Any], server: str | None) -> dict[str, Any]:
    fields = {key: value for key, value in tool.items() if key in FIELDS}
    extra = {k: v for k, v in tool.items() if k not in FIELDS and v is not None}
    annotations: Any = tool.get("annotations") or {}
    # Annotations of a wrong type are left for the validation to name.
    if extra and isinstance(annotations, dict):
        fields["annotations"] = {**extra, **annotations}
    if server is not None:
        fields["server"] = server
    return fields
