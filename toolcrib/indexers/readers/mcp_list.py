"""Tools as an MCP server lists them: a saved `tools/list` answer, and the tools in any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypeGuard

from toolcrib.indexers.readers.base import dialect_of, dialects_in, entries
from toolcrib.indexers.readers.base import Reading, Source, build_spec
from toolcrib.indexers.readers.base import kind_of
from toolcrib.records import Refusal, ToolSpec

__all__ = ["McpListReader", "is_object", "tool_specs"]

RESULT_KEYS = frozenset({"tools", "nextCursor", "_meta", "resultType", "ttlMs", "cacheScope"})
"""What a `tools/list` result may hold; other formats have `tools` too, beside other keys."""


class McpListReader:
    """Reads a saved `tools/list` answer: the result, the JSON-RPC response, or the bare tools.

    Tags and version that FastMCP hides in `_meta` become the tool's; nothing else in `_meta`,
    and no icon, is kept.
    """

    format: ClassVar[str] = "mcp"

    def recognises(self, source: Source) -> bool:
        """Whether the content holds MCP tools (some have `inputSchema`) or says there are none."""
        sample = source.sample
        if _is_response(sample):
            return "error" in sample or _is_result(sample.get("result"))
        return "mcp" in dialects_in(source) or _is_result(sample)

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool, and a refusal for each wrong one and for a list that goes on.

        The server is `server` or else the file's stem.

        Raises:
            SourceError: it cannot be read (on), is a saved error, or holds no list of tools.
        """
        name = source.stem if server is None else server
        if source.is_lines:
            yield from _read_entries(source, name)
            return
        data = source.data
        if _is_response(data):
            data = _result_of(source, data)
            yield from tool_specs(source.name, "result.tools", data["tools"], name)
        else:
            yield from _read_entries(source, name)
        if is_object(data) and data.get("nextCursor"):
            yield source.refusal(
                "the list is incomplete: the server has more pages after this one; "
                "save them all, or read the live server",
                "nextCursor",
            )


def tool_specs(
    source: str, place: str, tools: list[Any], server: str
) -> Iterator[ToolSpec | Refusal]:
    """Yield a specification, or a refusal at `place[i]`, for each tool of a `tools/list` answer."""
    for number, tool in enumerate(tools):
        where = f"{place}[{number}]"
        if is_object(tool):
            yield build_spec(source, where, _fields(tool, server))
        else:
            yield Refusal(source, where, f"a tool must be an object, not {kind_of(tool)}")


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a parsed value is a JSON object."""
    return isinstance(value, dict)


def _read_entries(source: Source, server: str) -> Reading:
    for entry in entries(source):
        if isinstance(entry, Refusal):
            yield entry
            continue
        place, tool = entry
        if dialect_of(tool) == "function":
            reason = "this is a function definition, which --format functions reads"
            yield source.refusal(reason, place)
        else:
            yield build_spec(source.name, place, _fields(tool, server))


def _fields(tool: dict[str, Any], server: str) -> dict[str, Any]:
    marks = _fastmcp_marks(tool.get("_meta"))
    return {
        "name": tool.get("name"),
        "description": tool.get("description"),
        "server": server,
        # The Python SDK writes its models with underscores unless told otherwise.
        "input_schema": tool.get("inputSchema", tool.get("input_schema")),
        "output_schema": tool.get("outputSchema", tool.get("output_schema")),
        "annotations": _titled(tool.get("annotations"), tool.get("title")),
        "tags": marks.get("tags"),
        "version": marks.get("version"),
    }


def _titled(annotations: Any, title: Any) -> Any:
    """Give the annotations as they are, with the tool's title unless they have one."""
    if title is None:
        return annotations
    if annotations is None:
        return {"title": title}
    if is_object(annotations) and not annotations.get("title"):
        return {**annotations, "title": title}
    return annotations


def _fastmcp_marks(meta: Any) -> dict[str, Any]:
    """FastMCP's tags and version: MCP itself has no field for either."""
    if not is_object(meta):
        return {}
    for key in ("fastmcp", "_fastmcp"):
        marks = meta.get(key)
        if is_object(marks):
            return marks
    return {}


def _result_of(source: Source, response: dict[str, Any]) -> dict[str, Any]:
    if "error" in response:
        error = response["error"]
        said = error.get("message") if is_object(error) else error
        reason = f"the server answered tools/list with the error {said!r}; there is nothing to read"
        raise source.error(reason, "error")
    result = response["result"]
    if not isinstance(result.get("tools"), list):
        reason = "expected a list of tools; save the whole answer to tools/list"
        raise source.error(reason, "result.tools")
    return result


def _is_response(data: Any) -> TypeGuard[dict[str, Any]]:
    """Tell a JSON-RPC response; some programs save it without its `jsonrpc` line."""
    if not is_object(data):
        return False
    return is_object(data.get("result")) or ("jsonrpc" in data and "error" in data)


def _is_result(data: Any) -> bool:
    if not is_object(data) or not isinstance(data.get("tools"), list):
        return False
    tools: list[Any] = data["tools"]
    has_mcp = any(is_object(tool) and dialect_of(tool) == "mcp" for tool in tools)
    return has_mcp or (not tools and data.keys() <= RESULT_KEYS)
