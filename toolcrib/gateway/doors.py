"""Doors: the tools by which a client calls found tools, one for each risk, with its annotations.

A host can then allow reading once and for all, and ask its user before anything is destroyed.
"""

from __future__ import annotations

from types import MappingProxyType

from mcp.types import ToolAnnotations

from toolcrib.integrations.formats import OwnTool
from toolcrib.records import ToolSpec

DOORS = MappingProxyType(
    {
        OwnTool.CALL_TOOL_READ: (
            "Call a found tool that only reads.",
            ToolAnnotations(read_only_hint=True),
        ),
        OwnTool.CALL_TOOL_WRITE: (
            "Call a found tool that writes, and destroys nothing.",
            ToolAnnotations(read_only_hint=False, destructive_hint=False),
        ),
        OwnTool.CALL_TOOL_DESTRUCTIVE: (
            "Call a found tool that may overwrite or delete, or does not say what it does.",
            ToolAnnotations(read_only_hint=False, destructive_hint=True),
        ),
    }
)
"""Description and annotations of each door, the mildest first."""


def door_of(spec: ToolSpec) -> OwnTool:
    """The mildest door that a tool may be called by; a tool without hints is destructive, by MCP.

    Tags that a model guessed do not count: they must not open a milder door.
    """
    tags = spec.safety_tags
    if "destructive" in tags or not {"writes", "read_only"} & {*tags}:
        return OwnTool.CALL_TOOL_DESTRUCTIVE
    return OwnTool.CALL_TOOL_WRITE if "writes" in tags else OwnTool.CALL_TOOL_READ


def passes(spec: ToolSpec, door: OwnTool) -> bool:
    """True if a tool may be called by a door: by its own, or a stricter one."""
    order = list(DOORS)
    return door in DOORS and order.index(door) >= order.index(door_of(spec))
