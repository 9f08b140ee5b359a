"""A small server with everything a tool can carry: title, annotations, output schema, `_meta`."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("clock", version="1.2.3")


class Moment(BaseModel):
    """A moment in a time zone."""

    iso: str
    zone: str


@server.tool(
    title="Current time",
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    meta={"fastmcp": {"tags": ["time"], "version": "2"}},
)
def get_time(zone: str = "UTC") -> Moment:
    """Tell the current time in a time zone."""
    return Moment(iso="2026-01-01T00:00:00", zone=zone)


@server.tool()
def set_alarm(at: str) -> str:
    """Set an alarm for a given time."""
    return at


if __name__ == "__main__":
    server.run("stdio")
