"""The tool objects inside a file, one by one, whichever way the file strings them together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, cast

from toolcrib.indexers.readers.parsing import decode, parse_json
from toolcrib.indexers.readers.base import MAX_SOURCE_BYTES, Source
from toolcrib.indexers.readers.base import kind_of
from toolcrib.records import Refusal, ToolSpec

__all__ = ["Dialect", "dialect_of", "dialects_in", "entries"]

LIST_KEYS = ("tools", "functions")
"""Keys under which an object holds its list of tools."""

Entry: TypeAlias = tuple[str, dict[str, Any]]
"""Where an object stands (`line 17`, `tools[3]`) and the object."""

Dialect: TypeAlias = Literal["toolspec", "function", "anthropic", "mcp"]

SHARED_FIELDS = frozenset({"name", "description", "input_schema"})
OWN_FIELDS = frozenset(ToolSpec.model_fields) - SHARED_FIELDS
"""Fields that only a ToolSpec has; the shared ones are an Anthropic definition as well."""


def dialect_of(tool: dict[str, Any]) -> Dialect | None:
    """Tell whose way of writing a tool this is; None when it is nobody's."""
    if "inputSchema" in tool:
        return "mcp"
    if isinstance(tool.get("function"), dict) or ("name" in tool and "parameters" in tool):
        return "function"
    if "name" in tool and OWN_FIELDS & tool.keys():
        return "toolspec"
    if "type" in tool and ("name" in tool or "custom" in tool):
        return "function"
    if "input_schema" in tool and "name" in tool:
        return "anthropic"
    return "toolspec" if "name" in tool else None


def dialects_in(source: Source) -> set[Dialect]:
    """Collect the dialects of the tools in the source's sample; empty when it holds none."""
    if source.sample is None:
        return set()
    _, values = _listed(source.sample)
    tools = [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]
    return {dialect for tool in tools if (dialect := dialect_of(tool))}


def entries(source: Source) -> Iterator[Entry | Refusal]:
    """Yield every tool object of JSON Lines, a list, an object with a list, or a single one.

    Raises:
        SourceError: the source cannot be read, or is no list and no object.
    """
    if source.is_lines:
        yield from _line_entries(source)
        return
    where, values = _listed(source.data)
    if not isinstance(source.data, list | dict):
        raise source.error(f"must be a list or an object, not {kind_of(source.data)}")
    for index, value in enumerate(values):
        yield _entry(source, f"{where}[{index}]" if where is not None else "", value)


def _listed(data: object) -> tuple[str | None, list[object]]:
    """Give the key under which the list stands ("" for a bare list, None for one object)."""
    if isinstance(data, list):
        return "", cast("list[object]", data)
    if isinstance(data, dict):
        mapping = cast("dict[str, object]", data)
        for key in LIST_KEYS:
            values = mapping.get(key)
            if isinstance(values, list):
                return key, cast("list[object]", values)
        return None, [mapping]
    return None, []


def _line_entries(source: Source) -> Iterator[Entry | Refusal]:
    for number, line in source.lines():
        place = f"line {number}"
        if len(line) > MAX_SOURCE_BYTES:
            yield source.refusal(f"longer than {MAX_SOURCE_BYTES:,} bytes", place)
            continue
        try:
            value = parse_json(decode(line))
        except ValueError as error:
            # The parser sees one line, so its own count of lines says nothing.
            yield source.refusal(str(error).replace("at line 1 column", "at column"), place)
        else:
            yield _entry(source, place, value)


def _entry(source: Source, place: str, value: object) -> Entry | Refusal:
    if isinstance(value, dict):
        return place, cast("dict[str, Any]", value)
    return source.refusal(f"a tool must be an object, not {kind_of(value)}", place)
