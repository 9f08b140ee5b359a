"""An MCP server over streamable HTTP that does what servers do; prints its port when it listens."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import warnings
from dataclasses import dataclass

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.tools.base import ToolResult
from mcp.types import SamplingMessage, TextContent

warnings.simplefilter("ignore")
server = FastMCP("web")
cancelled: list[str] = []


@dataclass
class Who:
    """Somebody."""

    name: str


@server.tool
def echo(said: str = "") -> dict[str, str]:
    """Repeat what is said."""
    return {"given": said}


@server.tool
def fail() -> ToolResult:
    said = TextContent(type="text", text="no")
    return ToolResult(content=[said], structured_content={"code": 7}, is_error=True)


@server.tool
async def elicit(ctx: Context) -> str:
    return str(await ctx.elicit("Who?", Who))


@server.tool
async def sample(ctx: Context) -> str:
    said = SamplingMessage(role="user", content=TextContent(type="text", text="Hi"))
    about = {"max_tokens": 9, "related_request_id": ctx.request_id}
    result = await ctx.session.create_message([said], **about)
    return f"{result.model}: {result.content}"


@server.tool
async def roots(ctx: Context) -> str:
    return str((await ctx.session.list_roots()).roots)


@server.tool
async def log(ctx: Context) -> str:
    for level in ("debug", "warning"):
        await ctx.session.send_log_message(level, {"at": level}, "deep", ctx.request_id)
    return "logged"


@server.tool
async def progress(ctx: Context) -> str:
    for done in (1, 2):
        await ctx.report_progress(done, 2, "going")
    return "done"


@server.tool
async def hang(ctx: Context) -> str:
    """Answer when it is too late."""
    await ctx.report_progress(0)
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        cancelled.append("hang")
        raise
    return ""


@server.tool
def huge(chars: int) -> str:
    return "x" * chars


@server.tool
def tell(ctx: Context) -> dict[str, object]:
    request = ctx.request_context.request
    return {"pid": os.getpid(), "cancelled": cancelled, "headers": dict(request.headers)}


@server.tool
async def count(ctx: Context) -> str:
    counted = (await ctx.get_state("counted") or 0) + 1
    await ctx.set_state("counted", counted)
    return str(counted)


def main() -> None:
    """Serve until killed, at the port given or any free one."""
    # Such a socket may take a port again at once.
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.http_app(path="/mcp"), log_level="critical")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
