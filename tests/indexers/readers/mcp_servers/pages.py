"""A server whose list comes in pages; told on the command line how many, and how it misbehaves."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import ListToolsResult, PaginatedRequestParams, Tool

parser = argparse.ArgumentParser()
parser.add_argument("--name", default="pages")
parser.add_argument("--tools", type=int, default=6)
parser.add_argument("--size", type=int, default=2)
parser.add_argument("--dies-at", type=int, help="the page (from 1) at which it ends itself")
parser.add_argument("--endless", choices=["same", "fresh"], help="never ends; its cursors")
parser.add_argument("--empty-cursor", action="store_true", help='"" for "no more pages"')


def build(options: argparse.Namespace) -> Server[Any]:
    """The server that the options describe."""

    async def list_tools(_: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        cursor = params.cursor if params and params.cursor else "0"
        page = int(cursor.removeprefix("again-"))
        if options.dies_at == page + 1:
            sys.stderr.write(f"page {page + 1} was too much\n")
            os._exit(3)
        first = page * options.size
        numbers = range(first, min(first + options.size, options.tools))
        if options.endless:
            following = "again-0" if options.endless == "same" else str(page + 1)
            numbers = range(first, first + options.size)
        else:
            following = str(page + 1) if first + options.size < options.tools else None
        if following is None and options.empty_cursor:
            following = ""
        return ListToolsResult(tools=[_tool(number) for number in numbers], next_cursor=following)

    return Server(options.name, on_list_tools=list_tools)


def _tool(number: int) -> Tool:
    return Tool(
        name=f"tool_{number}",
        description=f"Does thing number {number}.",
        input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
    )


async def main() -> None:
    """Serve over stdio until stdin closes."""
    server = build(parser.parse_args())
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
