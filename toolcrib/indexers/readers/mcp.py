"""MCP tools: of a saved `tools/list` answer, a live server, or all servers of an mcp.json."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeGuard, TypeVar
from urllib.parse import urlsplit

from toolcrib.errors import SourceError
from toolcrib.extras import needs_extra
from toolcrib.indexers.readers.base import (
    DATA_SUFFIXES,
    FILE_BY_URL,
    Reading,
    Source,
    build_spec,
    dialect_of,
    dialects_in,
    is_list,
    is_object,
    kind_of,
    own_fields,
    refuse_foreign,
    specs_in,
)
from toolcrib.indexers.readers.mcp_config import (
    NO_SERVERS,
    HttpTarget,
    ServerEntry,
    StdioTarget,
    Target,
    find_servers,
    server_entries,
)
from toolcrib.indexers.readers.mcp_session import (
    Authorisation,
    Follow,
    SessionState,
    explain,
    explain_timeout,
    follow,
    last_line,
    quiet_sdk,
)
from toolcrib.records import Refusal
from toolcrib.records.codec import object_of
from toolcrib.records.tools import ALWAYS_LOAD, SEARCH_HINT

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

# -- saved lists -----------------------------------------------------------------------------------

LIST_RESULT_KEYS = frozenset({"tools", "nextCursor", "_meta", "resultType", "ttlMs", "cacheScope"})
"""Keys of a `tools/list` result; other formats have `tools` with other keys."""


class McpListReader:
    """Reads a saved `tools/list` answer: the result, the JSON-RPC response, or the bare tools.

    From `_meta`, FastMCP's tags and version and our own fields under `toolcrib` become the tool's;
    Anthropic's hints for searches become annotations. The rest of `_meta`, and icons, are dropped.
    """

    format: ClassVar[str] = "mcp"
    reaches_out: ClassVar[bool] = False

    def recognises(self, source: Source) -> bool:
        """True if the content has MCP tools (some have `inputSchema`) or an empty list."""
        sample = source.sample
        if _is_response(sample):
            return "error" in sample or _is_result(sample.get("result"))
        return "mcp" in dialects_in(source) or _is_result(sample)

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool, and refusals for wrong tools and for an incomplete list.

        The server is `server`, else the file's stem.
        """
        name = source.stem if server is None else server

        def fields(tool: dict[str, Any]) -> dict[str, Any]:
            refuse_foreign(tool, "function")
            return tool_fields(tool, name)

        data = None if source.is_lines else source.data
        if _is_response(data):
            data = _result_of(source, data)
            yield from tool_specs(source.name, "result.tools", data["tools"], name)
        else:
            yield from specs_in(source, fields)
        if is_object(data) and data.get("nextCursor"):
            more = "the server has more pages after this one"
            reason = f"the list is incomplete: {more}; save them all, or read the live server"
            yield source.refusal(reason, "nextCursor")


def tool_specs(source: str, place: str, tools: list[Any], server: str) -> Reading:
    """Yield a specification, or a refusal at `place[i]`, for each tool of a `tools/list` answer."""
    for number, tool in enumerate(tools):
        where = f"{place}[{number}]"
        if is_object(tool):
            yield build_spec(source, where, tool_fields(tool, server))
        else:
            yield Refusal(source, where, f"a tool must be an object, not {kind_of(tool)}")


def tool_fields(tool: dict[str, Any], server: str | None) -> dict[str, Any]:
    """Fields of the specification of an MCP tool."""
    meta = object_of(tool.get("_meta"))
    # FastMCP's own place, as MCP has no field for tags and version.
    marks = object_of(meta.get("fastmcp", meta.get("_fastmcp")))
    own = own_fields(meta.get("toolcrib"))
    return {
        **own,
        "name": tool.get("name"),
        "description": tool.get("description"),
        "server": server,
        # The Python SDK dumps its models with underscores by default.
        "input_schema": tool.get("inputSchema", tool.get("input_schema")),
        "output_schema": tool.get("outputSchema", tool.get("output_schema")),
        "annotations": _annotations(tool, meta),
        "tags": marks.get("tags", own.get("tags")),
        "version": marks.get("version"),
    }


def _annotations(tool: dict[str, Any], meta: dict[str, Any]) -> Any:
    """Annotations, with the tool's own title and the search hints of `_meta`."""
    annotations = tool.get("annotations")
    beside = {key: meta[key] for key in (SEARCH_HINT, ALWAYS_LOAD) if key in meta}
    if (title := tool.get("title")) is not None:
        beside["title"] = title
    if beside and (annotations is None or is_object(annotations)):
        return {**(annotations or {}), **beside}
    return annotations


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
    """True for a JSON-RPC response; some programs save it without its `jsonrpc` field."""
    keys = object_of(data)
    return is_object(keys.get("result")) or ("jsonrpc" in keys and "error" in keys)


def _is_result(data: Any) -> bool:
    if not is_object(data) or not is_list(tools := data.get("tools")):
        return False
    has_mcp = any(is_object(tool) and dialect_of(tool) == "mcp" for tool in tools)
    return has_mcp or (not tools and data.keys() <= LIST_RESULT_KEYS)


# -- one live server -------------------------------------------------------------------------------

STDIO_PREFIX = "stdio:"


@dataclass(frozen=True, slots=True)
class McpLimits:
    """Limits on reading live servers.

    `timeout_s` is for one server, from its start to its last page; `max_pages` ends an endless
    list; `at_once` servers are read in parallel.
    """

    timeout_s: float = 30.0
    max_pages: int = 10_000
    at_once: int = 8


DEFAULT_MCP_LIMITS = McpLimits()


class _LiveReader:
    """Base of the readers that call servers; `env` defaults to the process' environment.

    Only here may variables be read outside the settings: files refer to any variables, and a
    command is started as the user's shell would start it.
    """

    reaches_out: ClassVar[bool] = True

    def __init__(
        self, limits: McpLimits = DEFAULT_MCP_LIMITS, env: Mapping[str, str] | None = None
    ) -> None:
        self._limits = limits
        self._env = os.environ if env is None else env


class McpLiveReader(_LiveReader):
    """Reads the tools of one running (HTTP) or started (stdio) server.

    The server's name is `server`, else its own. `env` is the whole environment of a started
    command, as from a shell.
    """

    format: ClassVar[str] = "mcp-live"
    follow: ClassVar[Follow] = staticmethod(follow)

    def recognises(self, source: Source) -> bool:
        """True if the name is a URL or starts with `stdio:`; connects to nothing."""
        name = source.name.lower()
        return source.path is None and name.startswith((STDIO_PREFIX, "http://", "https://"))

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool; a refusal at the end if the server failed after the first page."""
        target = self._target(source)
        require_sdk()
        listing = run_to_end(lambda: list_tools(target, self._limits, type(self).follow))
        if listing.failure and not listing.tools:
            raise source.error(listing.failure, listing.server)
        name = server if server is not None else listing.server or _fallback_name(target)
        yield from self._specs(source.name, listing.tools, name)
        if listing.failure:
            yield source.refusal(listing.failure, name)

    def _specs(self, source: str, listed: list[Any], server: str) -> Reading:
        return tool_specs(source, "tools", listed, server)

    def _target(self, source: Source) -> Target:
        if not source.name.lower().startswith(STDIO_PREFIX):
            if Path(urlsplit(source.name).path).suffix.lower() in DATA_SUFFIXES:
                raise source.error(FILE_BY_URL)
            return HttpTarget(source.name)
        try:
            words = shlex.split(source.name[len(STDIO_PREFIX) :])
        except ValueError as error:
            reason = f"the command cannot be split into words: {error}; check its quotes"
            raise source.error(reason) from None
        if not words:
            raise source.error("names no command; write stdio:COMMAND ARGS")
        return StdioTarget(words[0], tuple(words[1:]), env=dict(self._env))


async def list_tools(
    target: Target, limits: McpLimits = DEFAULT_MCP_LIMITS, follow: Follow = follow
) -> SessionState:
    """Read all tools of one server; a failure of the server never raises.

    A started process has ended on return, also if the caller is cancelled.
    """
    import anyio

    state = SessionState(target, Authorisation.of(target))
    # A file, not a pipe, which would block the server if nobody reads it.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as stderr, quiet_sdk():
        with anyio.move_on_after(limits.timeout_s) as scope:
            try:
                await follow(state, stderr, limits.max_pages)
            # Any error is a failure of this server only: the other servers must still be read.
            except Exception as error:
                if state.complete or scope.cancel_called:
                    logger.debug("closing the connection failed", exc_info=True)
                else:
                    state.failure = explain(state, error, last_line(stderr))
        if scope.cancel_called and not state.complete:
            state.failure = explain_timeout(state, limits.timeout_s, last_line(stderr))
    return state


def require_sdk() -> None:
    """Raise `MissingExtraError` unless the MCP SDK can be imported."""
    with needs_extra("reading live MCP servers", "mcp"):
        # `MCPError` is new in version 2 of the SDK, the oldest that we support.
        from mcp import MCPError as _  # noqa: F401


def run_to_end(work: Callable[[], Awaitable[_T]]) -> _T:
    """Run `work` in a new event loop, in another thread if this thread has a loop."""
    import anyio

    if not _loop_runs_here():
        return anyio.run(work)
    with ThreadPoolExecutor(max_workers=1) as fresh_thread:
        return fresh_thread.submit(anyio.run, work).result()


def _loop_runs_here() -> bool:
    import anyio

    # The first probe finds asyncio, also outside a task. The second finds trio, and threads of
    # `asyncio.to_thread`, whose copy of the loop's context keeps anyio from running.
    for probe in (asyncio.get_running_loop, anyio.get_cancelled_exc_class):
        with suppress(RuntimeError):
            probe()
            return True
    return False


def _fallback_name(target: Target) -> str:
    """Name for a server without its own name, which the newest protocol allows."""
    is_http = isinstance(target, HttpTarget)
    return urlsplit(target.url).hostname or "" if is_http else Path(target.command).name


# -- all servers of a configuration ----------------------------------------------------------------


class McpServersReader(_LiveReader):
    """Reads all servers of an `mcp.json`; a failing server is refused, the others are read.

    Placeholders are filled in from `env`.
    """

    format: ClassVar[str] = "mcp-servers"

    def recognises(self, source: Source) -> bool:
        """True if the file names MCP servers; never raises, and connects to nothing."""
        with suppress(SourceError):
            return source.path is not None and find_servers(source) is not None
        return False

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield the tools of every server in the order of the file, and a refusal for each failure.

        Servers that are off (`disabled: true`, `enabled: false`) are left out, and tools that the
        server's entry switches off.
        """
        servers = find_servers(source)
        if not servers:
            raise source.error(NO_SERVERS)
        require_sdk()
        configured = list(server_entries(servers, self._env))
        listings = run_to_end(lambda: _list_all(configured, self._limits))
        for entry in configured:
            listing = listings.get(entry.name)
            yield from (source.refusal(warning, entry.name) for warning in entry.warnings)
            if listing is None:
                yield source.refusal(entry.problem, entry.name)
                continue
            name = entry.name if server is None else server
            specs = tool_specs(source.name, f"{entry.name}: tools", listing.tools, name)
            for tool, item in zip(listing.tools, specs, strict=True):
                if not is_object(tool) or entry.tools.allows(str(tool.get("name", ""))):
                    yield item
            if listing.failure:
                yield source.refusal(listing.failure, entry.name)
                continue
            names = [str(tool.get("name", "")) for tool in filter(is_object, listing.tools)]
            for pattern in entry.tools.idle_patterns(names):
                yield source.refusal(f"{pattern!r} in a list of its tools fits none", entry.name)


async def _list_all(configured: list[ServerEntry], limits: McpLimits) -> dict[str, SessionState]:
    """Read all servers with a target; states by the server's name in the file."""
    import anyio

    listings: dict[str, SessionState] = {}
    places = anyio.CapacityLimiter(limits.at_once)

    async def read_server(name: str, target: Target) -> None:
        async with places:
            listings[name] = await list_tools(target, limits)

    async with anyio.create_task_group() as servers:
        for entry in configured:
            if entry.target is not None:
                servers.start_soon(read_server, entry.name, entry.target)
    return listings
