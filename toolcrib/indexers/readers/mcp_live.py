"""One live MCP server, named directly: `http(s)://...` or `stdio:COMMAND ARGS`."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, TypeVar
from urllib.parse import urlsplit

from toolcrib.errors import MissingExtraError
from toolcrib.indexers.readers.mcp import tool_specs
from toolcrib.indexers.readers.mcp_config import (
    HttpTarget,
    Listing,
    McpLimits,
    StdioTarget,
    Target,
)
from toolcrib.indexers.readers.base import Reading, Source

__all__ = ["McpLiveReader", "list_tools", "require_sdk", "run_to_end"]

T = TypeVar("T")

DEFAULT_LIMITS = McpLimits()

STDIO_PREFIX = "stdio:"

logger = logging.getLogger(__name__)


class McpLiveReader:
    """Asks one running (HTTP) or started (stdio) server for its tools.

    The server's name is `server`, or else what it calls itself. `env` is the environment
    that a started command gets, all of it, as a shell would hand it on; None is our own.
    """

    format: ClassVar[str] = "mcp-live"

    def __init__(
        self, limits: McpLimits = DEFAULT_LIMITS, env: Mapping[str, str] | None = None
    ) -> None:
        self._limits = limits
        self._env = env

    def recognises(self, source: Source) -> bool:
        """Whether the name is a URL or starts with `stdio:`; nothing is connected to."""
        name = source.name.lower()
        return source.path is None and name.startswith((STDIO_PREFIX, "http://", "https://"))

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool; a refusal at the end if the server failed after the first page.

        Raises:
            MissingExtraError: the extra `mcp` is not installed.
            SourceError: the server failed before it gave any tool, or the name has no command.
        """
        target = self._target(source)
        require_sdk()
        limits = self._limits
        listing = run_to_end(lambda: list_tools(target, limits.timeout_s, limits.max_pages))
        if listing.failure and not listing.tools:
            raise source.error(listing.failure, listing.server)
        name = server if server is not None else listing.server or _fallback_name(target)
        yield from tool_specs(source.name, "tools", list(listing.tools), name)
        if listing.failure:
            yield source.refusal(listing.failure, name)

    def _target(self, source: Source) -> Target:
        if not source.name.lower().startswith(STDIO_PREFIX):
            return HttpTarget(source.name)
        try:
            words = shlex.split(source.name[len(STDIO_PREFIX) :])
        except ValueError as error:
            reason = f"the command cannot be split into words: {error}; check its quotes"
            raise source.error(reason) from None
        if not words:
            raise source.error("names no command; write stdio:COMMAND ARGS")
        # A reader made without settings must still start commands as the user's shell would;
        # this is the one place here that looks at the process environment.
        env = os.environ if self._env is None else self._env
        return StdioTarget(words[0], tuple(words[1:]), env=dict(env))


async def list_tools(
    target: Target,
    timeout_s: float = DEFAULT_LIMITS.timeout_s,
    max_pages: int = DEFAULT_LIMITS.max_pages,
) -> Listing:
    """Ask one server for all its tools; never raises for what the server does or fails to do.

    `timeout_s` seconds hold for the whole conversation; a started process is gone on return,
    also when the caller is cancelled.
    """
    import anyio

    from toolcrib.indexers.readers.mcp_session import explain, explain_silence, last_line
    from toolcrib.indexers.readers.mcp_session import Talk, follow, quiet_sdk

    talk = Talk(target)
    failure = ""
    # A file, not a pipe: no one has to read it for the server to go on, and the screen stays clean.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as stderr, quiet_sdk():
        with anyio.CancelScope() as scope:
            scope.deadline = anyio.current_time() + timeout_s
            try:
                await follow(talk, stderr, max_pages)
            # Whatever a server provokes is that server's failure: others must go on.
            except Exception as error:
                if talk.complete or scope.cancel_called:
                    logger.debug("closing the connection failed", exc_info=True)
                else:
                    failure = explain(talk, error, last_line(stderr))
        if scope.cancel_called and not talk.complete:
            failure = explain_silence(talk, timeout_s, last_line(stderr))
    return Listing(talk.server, tuple(talk.tools), failure)


def require_sdk() -> None:
    """Raise `MissingExtraError` unless the MCP SDK can be imported."""
    try:
        # `MCPError` is new in the SDK's second version, the oldest that this is written for.
        from mcp import MCPError as _  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("reading live MCP servers", "mcp") from error


def run_to_end(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` in an event loop of its own; in a thread of its own if this one has a loop."""
    import anyio

    if not _loop_runs_here():
        return anyio.run(work)
    with ThreadPoolExecutor(max_workers=1) as fresh_thread:
        return fresh_thread.submit(anyio.run, work).result()


def _loop_runs_here() -> bool:
    import anyio

    # The first knows asyncio also outside a task; the second knows trio, and a thread that
    # `asyncio.to_thread` handed a copy of the loop's context, in which anyio would not run.
    for probe in (asyncio.get_running_loop, anyio.get_cancelled_exc_class):
        try:
            probe()
        except RuntimeError:
            continue
        return True
    return False


def _fallback_name(target: Target) -> str:
    """Name a server that does not say its own name, as the newest protocol allows."""
    if isinstance(target, HttpTarget):
        return urlsplit(target.url).hostname or ""
    return Path(target.command).name
