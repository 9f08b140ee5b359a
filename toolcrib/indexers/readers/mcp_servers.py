"""A whole mcp.json: every live server that an editor or agent is configured with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import ClassVar

from toolcrib.errors import SourceError
from toolcrib.indexers.readers.mcp_config import ServerEntry, entries, servers_of
from toolcrib.indexers.readers.mcp import tool_specs
from toolcrib.indexers.readers.mcp import list_tools, require_sdk, run_to_end
from toolcrib.indexers.readers.mcp_config import Listing, McpLimits, Target
from toolcrib.indexers.readers.base import Reading, Source
from toolcrib.records import Refusal, ToolSpec

__all__ = ["McpServersReader"]

DEFAULT_LIMITS = McpLimits()


class McpServersReader:
    """Connects to all servers of an `mcp.json`; one that fails is refused, the others go on.

    `env` is what placeholders are filled from; None is the environment of the process.
    """

    format: ClassVar[str] = "mcp-servers"

    def __init__(
        self, limits: McpLimits = DEFAULT_LIMITS, env: Mapping[str, str] | None = None
    ) -> None:
        self._limits = limits
        self._env = env

    def recognises(self, source: Source) -> bool:
        """Whether the file names MCP servers; never raises, and connects to nothing."""
        if source.path is None:
            return False
        try:
            return servers_of(source) is not None
        except SourceError:
            return False

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield the tools of every server in the order of the file, and a refusal for each failure.

        Servers that are switched off (`disabled: true`, `enabled: false`) are left out.

        Raises:
            MissingExtraError: the extra `mcp` is not installed.
            SourceError: the file cannot be parsed or names no servers.
        """
        servers = servers_of(source)
        if not servers:
            reason = "names no MCP servers; put them under 'mcpServers' (VS Code: 'servers')"
            raise source.error(reason)
        require_sdk()
        # The settings know nothing of the variables that someone else's file names; so this
        # boundary may look at the environment, and everything below is handed it.
        env = os.environ if self._env is None else self._env
        configured = list(entries(servers, env))
        listings = run_to_end(lambda: _list_all(configured, self._limits))
        for entry in configured:
            yield from _reading(source.name, entry, listings.get(entry.name), server)


async def _list_all(configured: list[ServerEntry], limits: McpLimits) -> dict[str, Listing]:
    """Collect what each server with a target gave, by the server's name in the file."""
    import anyio

    listings: dict[str, Listing] = {}
    places = anyio.CapacityLimiter(limits.at_once)

    async def one(name: str, target: Target) -> None:
        async with places:
            listings[name] = await list_tools(target, limits.timeout_s, limits.max_pages)

    async with anyio.create_task_group() as servers:
        for entry in configured:
            if entry.target is not None:
                servers.start_soon(one, entry.name, entry.target)
    return listings


def _reading(
    source: str, entry: ServerEntry, listing: Listing | None, server: str | None
) -> Iterator[ToolSpec | Refusal]:
    if listing is None:
        yield Refusal(source, entry.name, entry.problem)
        return
    place = f"{entry.name}: tools"
    yield from tool_specs(
        source, place, list(listing.tools), entry.name if server is None else server
    )
    if listing.failure:
        yield Refusal(source, entry.name, listing.failure)
