"""What a model is told when it searches among tools, and when it names one that is not there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from fastmcp.tools.base import ToolResult
from mcp.types import TextContent, ToolAnnotations

from toolcrib.records import FindResult

__all__ = ["SEARCHES", "definition", "failure", "found", "nearest", "spoken", "unknown_tool"]

SEARCHES = ToolAnnotations(read_only_hint=True, open_world_hint=False)
"""What is said of a tool that only looks things up."""

NOTHING_FITS = (
    "No tool here fits. Say in other words what the tool must do, or go on without one; "
    "do not call a tool that was not listed."
)
NOT_SURE = "None fits for sure; this is the general one that is nearest."

MAX_NEAREST = 5


def definition(described: Mapping[str, Any]) -> dict[str, Any]:
    """What a model needs of an MCP tool to call it: its name, what it does, its arguments."""
    kept = ("name", "description", "inputSchema")
    return {key: described[key] for key in kept if described.get(key)}


def found(result: FindResult, tools: Sequence[Mapping[str, Any]], **notes: Any) -> ToolResult:
    """The answer to a search: `tools` are definitions, best first; `notes` stand beside them.

    That nothing fits is said in so many words: an agent must not take the next best.
    """
    answer: dict[str, Any] = {"tools": list(tools), "verdict": result.verdict}
    if result.confidence is not None:
        answer["confidence"] = round(result.confidence, 3)
    if not tools:
        answer["note"] = NOTHING_FITS
    elif result.fallback:
        answer["note"] = NOT_SURE
    return spoken({**answer, **{key: note for key, note in notes.items() if note}})


def spoken(answer: dict[str, Any]) -> ToolResult:
    """An answer for programs, with the same as text for models."""
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return ToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


def failure(text: str) -> ToolResult:
    """An answer that says what went wrong and what to do."""
    return ToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def unknown_tool(name: str, names: Iterable[str], search: str) -> ToolResult:
    """The answer to a call of a tool that is not in reach; `names` are those that are."""
    close = nearest(name, names)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    return failure(
        f"There is no tool {name[:100]!r}.{hint} Call {search} to see what there is, and use a "
        "name exactly as it stands in its answer.",
    )


def nearest(name: str, names: Iterable[str], most: int = MAX_NEAREST) -> list[str]:
    """The names most like one that is unknown, best first; case is no difference."""
    known: dict[str, str] = {}
    for each in names:
        known.setdefault(each.casefold(), each)
    return [known[each] for each in get_close_matches(name.casefold(), known, n=most, cutoff=0.5)]
