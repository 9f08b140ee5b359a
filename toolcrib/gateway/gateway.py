"""Gateway: upstream servers, catalog, index, search and calls, joined to one MCP server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken, AuthProvider

from toolcrib import __version__
from toolcrib.errors import SettingsError, did_you_mean, nearest
from toolcrib.gateway.calls import Alternatives, CallBudgets, CallRunner
from toolcrib.gateway.catalog import CatalogProvider
from toolcrib.gateway.config import ServerConfig
from toolcrib.gateway.downstream import Handshake, Level, Notifications, Reporter
from toolcrib.gateway.guidance import GatewayGuidance
from toolcrib.gateway.index import GatewayIndex, Storage, StoreThread
from toolcrib.gateway.offers import OffersProvider
from toolcrib.gateway.search import GatewaySearch, UnknownTools
from toolcrib.gateway.upstream import Intervals, Upstream, UpstreamPool
from toolcrib.indexers.writer import ListenerScope, unheard
from toolcrib.records import Scope, Sensitivity
from toolcrib.settings import Settings

__all__ = ["Gateway", "GatewayOptions"]

logger = logging.getLogger(__name__)


def _silent(level: Level, text: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """What one gateway is for, and how it goes about it.

    Only tools with one of `tags`, no more sensitive than `max_sensitivity`; `pinned` ones, by
    id, are shown always. `is_shared`: there is but one client, as over stdio.
    """

    tags: frozenset[str] | None = None
    max_sensitivity: Sensitivity | None = None
    pinned: tuple[str, ...] = ()
    is_shared: bool = False
    report: Reporter = _silent
    progress: ListenerScope = unheard
    intervals: Intervals = field(default_factory=Intervals)


class Gateway:
    """Stands in front of servers as one MCP server, which is `server`."""

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        settings: Settings,
        storage: Storage,
        options: GatewayOptions | None = None,
        *,
        auth: AuthProvider | None = None,
    ) -> None:
        self._settings, self._storage = settings, storage
        self._options = options = options or GatewayOptions()
        chosen = settings.gateway
        self._pinned = (*chosen.pinned, *_pinned(options, configs))
        servers = frozenset(config.name for config in configs)
        scope = Scope(servers=servers, tags=options.tags, max_sensitivity=options.max_sensitivity)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self._store = StoreThread()
        self._notifications = Notifications(self._leave, self._shown)
        by_name = {config.name: config for config in configs}
        self.index = index = GatewayIndex(
            by_name, storage, self._report, self._changed.set, options.progress
        )
        intervals = replace(
            options.intervals, connect_s=chosen.connect_timeout_s, retry_s=chosen.retry_s
        )
        self.pool = UpstreamPool(
            configs, index.receive, self._health_changed, intervals, is_shared=options.is_shared
        )
        self._budgets = budgets = CallBudgets(chosen.max_calls)
        shared = options.is_shared
        guidance = GatewayGuidance(self._other_tools, enabled=chosen.guidance, is_shared=shared)
        self._search = GatewaySearch(
            index, self.pool, budgets, guidance, scope=scope, settings=chosen, pinned=self._pinned
        )
        self._alternatives = Alternatives(index, self._search.scope, self.pool.not_up)
        beside = self._alternatives, self._notifications.level, guidance
        self._calls = CallRunner(self.pool, budgets, *beside, timeout_s=chosen.call_timeout_s)
        self._provider = CatalogProvider(
            lambda: index.catalog, scope, self.pool.note, self._calls.call
        )
        self._offers = OffersProvider(
            lambda kind: index.offers[kind],
            scope,
            self.pool,
            index.held_specs,
            timeout_s=chosen.call_timeout_s,
        )
        self.server = self._make_server(auth)
        self._notifications.join(self.server)
        # Innermost: nobody is told of anything before they have their answer.
        self.server.add_middleware(Handshake(self._instructions))

    def _make_server(self, auth: AuthProvider | None) -> FastMCP:
        return FastMCP(
            name="toolcrib",
            version=__version__,
            auth=auth,
            lifespan=self._lifespan,
            providers=[self._provider, self._offers],
            transforms=[self._search],
            middleware=[UnknownTools(self._search)],
            dereference_schemas=False,
            mask_error_details=True,
        )

    # -- running -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lifespan(self, _server: FastMCP) -> AsyncGenerator[None]:
        async with self.running():
            yield

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Connect to all servers and keep it so for the time of the block; does not wait."""
        self._loop = asyncio.get_running_loop()
        self._spawn(self._open())
        self._spawn(self.index.follow_approvals(self._options.intervals.poll_s))
        self._spawn(self._notifications.follow(self._changed))
        for upstream in self.pool:
            if upstream.config.problem:
                self._report("error", f"{upstream.name}: {upstream.config.problem}")
                self.index.give_up(upstream.name)
            self._spawn(upstream.run())
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self.close()

    async def close(self) -> None:
        """End every connection and let go of the index; a second call does nothing."""
        self._loop = None
        self._calls.close()
        self._notifications.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.pool.close()
        await self.index.close()
        await self._store.close()

    async def _open(self) -> None:
        await self.index.recall()
        crib = await self._store.open(
            self._storage.location, self._settings, self._report, self._options.progress
        )
        await self.index.work(self._search.open, crib)
        await self.index.open(crib)
        await self.pool.settled()
        self._look_for_pinned()

    def _look_for_pinned(self) -> None:
        """Report what is to be pinned and cannot be; a server that is not up may have it yet."""
        away = tuple(f"{server}/" for server in self.pool.not_up())
        for tool_id in self._pinned:
            if self.index.catalog.get(tool_id) is None and not tool_id.startswith(away):
                near = nearest(tool_id, (entry.spec.id for entry in self.index.catalog))
                self._report("error", f"there is no tool {tool_id!r} to pin{did_you_mean(near)}")

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a part of the gateway failed", exc_info=error)
            self._report("error", f"a part of the gateway failed: {error}")

    # -- what happens --------------------------------------------------------------------------

    async def _other_tools(self, name: str, key: str) -> list[str]:
        """The names of the tools to use in place of one, for what a conversation searched for."""
        entry = self.index.catalog.named(name)
        return [] if entry is None else await self._alternatives.names(entry, self._budgets.of(key))

    async def _shown(self, token: AccessToken | None) -> dict[str, object]:
        """By list, something that is another thing when a key's holder is shown another."""
        tools = self._provider.tools()

        def shown() -> dict[str, object]:
            return {"tools": self._search.shown(tools, token), **self._offers.shown(token)}

        return await self.index.work(shown)

    def _health_changed(self, upstream: Upstream) -> None:
        health = upstream.health
        if health.state == "down":
            self.index.give_up(upstream.name)
            self._report("warning", f"{upstream.name}: down: {health.reason}; it is tried again")
        self._changed.set()

    async def _instructions(self, key: str) -> str:
        """What a conversation is told to begin with, once servers new to us had time to speak."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.intervals.handshake_s):
                await self.index.is_recalled.wait()
                new = (each for each in self.pool if not self.index.knows(each.name))
                await asyncio.gather(*(each.settled.wait() for each in new))
        return self._search.instructions(key)

    async def _leave(self, key: str) -> None:
        """A conversation is over: what it used is closed."""
        self._calls.leave(key)
        self._search.leave(key)
        await self.pool.leave(key)

    def _report(self, level: Level, text: str) -> None:
        """Tell the operator and the clients; from any thread."""
        self._options.report(level, text)
        if self._loop is not None:
            log = partial(self._notifications.log, level, text)
            self._loop.call_soon_threadsafe(lambda: self._spawn(log()))


def _pinned(options: GatewayOptions, configs: Sequence[ServerConfig]) -> tuple[str, ...]:
    """The ids to pin, all of servers that are there; their tools are known to them alone.

    Raises:
        SettingsError: one is not.
    """
    servers = [config.name for config in configs]
    for tool_id in options.pinned:
        if not tool_id.startswith(tuple(f"{server}/" for server in servers)):
            server, slash, name = tool_id.rpartition("/")
            near = [f"{each}{slash}{name}" for each in nearest(server, servers)]
            raise SettingsError(
                f"--pin: no server here has a tool {tool_id!r}{did_you_mean(near)}; "
                f"an id is SERVER/NAME, and servers are {', '.join(servers)}"
            )
    return options.pinned
