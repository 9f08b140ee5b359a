"""Our own `ToolSpec`s: JSON Lines, or a JSON or YAML list, bare or under `tools`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, ClassVar

from toolcrib.errors import did_you_mean
from toolcrib.indexers.readers.base import Reading, Source, dialects_in, refuse_foreign, specs_in
from toolcrib.records import ToolSpec


class ToolSpecReader:
    """Reads `ToolSpec`s; JSON Lines are streamed, so a file of any size works.

    A key that resembles a field is refused as a typing error; all other unknown keys are kept
    under `annotations`.
    """

    format: ClassVar[str] = "toolspec"
    reaches_out: ClassVar[bool] = False

    def recognises(self, source: Source) -> bool:
        """True if the file has tools, and no provider's or MCP definitions.

        Objects with only name, description and input_schema are ours in JSON Lines, else
        Anthropic's.
        """
        dialects = dialects_in(source)
        own = "toolspec" in dialects or ("anthropic" in dialects and source.is_lines)
        return own and not dialects & {"function", "mcp"}

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool; `server` overrides the field, which has no other default."""
        return specs_in(source, lambda tool: _fields(tool, server))


def _fields(tool: dict[str, Any], server: str | None) -> dict[str, Any]:
    refuse_foreign(tool, "function", "mcp")
    known = ToolSpec.model_fields
    unknown = [key for key in tool if key not in known]
    near = {key: get_close_matches(key.lower(), known, 1, 0.8) for key in unknown}
    if mistakes := [f"unknown field {k!r}{did_you_mean(f)}" for k, f in near.items() if f]:
        raise ValueError(" ".join(mistakes))
    fields = {key: value for key, value in tool.items() if key in known}
    # `toolcrib show --json` adds `links`, which are computed again.
    extra = {k: tool[k] for k in unknown if k != "links" and tool[k] is not None}
    annotations: Any = tool.get("annotations") or {}
    # Validation reports annotations of a wrong type.
    if extra and isinstance(annotations, dict):
        fields["annotations"] = {**extra, **annotations}
    return fields if server is None else {**fields, "server": server}
