"""Gateway: upstream servers, catalog, index, search and calls, joined to one MCP server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken, AuthProvider
from fastmcp.server.context import Context
from fastmcp.server.dependencies import bind_request_context
from mcp.server.context import ServerRequestContext
from mcp.types import ListToolsResult

from toolcrib import __version__
from toolcrib.build import MEMORY
from toolcrib.crib import Crib
from toolcrib.errors import SettingsError, StoreError, ToolcribError, did_you_mean, nearest
from toolcrib.gateway.activity import GatewayRecorder
from toolcrib.gateway.calls import Alternatives, CallBudgets, CallRunner
from toolcrib.gateway.catalog import CatalogProvider
from toolcrib.gateway.config import McpFile, ServerConfig, file_stamp
from toolcrib.gateway.downstream import Clients, Level, Reporter
from toolcrib.gateway.flow import FlowPolicy
from toolcrib.gateway.guidance import GatewayGuidance
from toolcrib.gateway.index import GatewayIndex, ListenerScope, Storage, ignore_all
from toolcrib.gateway.offers import OffersProvider
from toolcrib.gateway.search import LISTING_CAPABILITY, GatewaySearch, ListToolsParams
from toolcrib.gateway.skills import SkillsExtension
from toolcrib.gateway.upstream import Intervals, Upstream, UpstreamPool
from toolcrib.records import Scope, Sensitivity
from toolcrib.settings import Settings
from toolcrib.tenants import Tenants

WARM_UP_QUERY = "search"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """Options of one gateway: the tools that it serves, and its reports.

    `tags`: serve only tools with one of these; `max_sensitivity`: serve no more sensitive tools;
    `pinned`: ids of tools that every client sees. `is_shared`: all requests come from one client,
    as over stdio. `config`: the file that is read again, with its stamp at the last reading.
    """

    tags: frozenset[str] | None = None
    max_sensitivity: Sensitivity | None = None
    pinned: tuple[str, ...] = ()
    is_shared: bool = False
    config: tuple[McpFile, tuple[int, ...]] | None = None
    report: Reporter = lambda _level, _text: None
    progress: ListenerScope = ignore_all
    intervals: Intervals = field(default_factory=Intervals)

    def scope(self, configs: Sequence[ServerConfig]) -> Scope:
        """Scope of the tools of these servers that are served."""
        names = frozenset(c.name for c in configs if c.profile.may_allow(f"{c.name}/"))
        return Scope(servers=names, tags=self.tags, max_sensitivity=self.max_sensitivity)


class StoreThread:
    """Thread that opens and closes the index: a folder is unlocked by the thread that locked it."""

    def __init__(
        self,
        location: str,
        settings: Settings,
        report: Reporter,
        progress: ListenerScope = ignore_all,
    ) -> None:
        self._location, self._settings = location, settings
        self._report, self._progress = report, progress
        self._thread = ThreadPoolExecutor(1, "toolcrib-store")
        self._tenants: asyncio.Future[Tenants] | None = None

    async def open(self) -> Crib:
        """Open the index, or one in memory if that fails: servers list their tools again.

        Raises:
            StoreError: memory fails too.
        """
        self._tenants = asyncio.get_running_loop().run_in_executor(self._thread, self._open)
        return (await asyncio.shield(self._tenants)).crib()

    def _open(self) -> Tenants:
        with self._progress() as listener:
            opened = partial(Tenants.open, settings=self._settings, progress=listener)
            try:
                tenants = opened(self._location)
            except StoreError as error:
                if self._location == MEMORY:
                    raise
                self._report("warning", f"the index is in memory, for this run only: {error}")
                tenants = opened(MEMORY)
        # Load the encoder before the first search.
        tenants.crib().tools.retriever.encode(WARM_UP_QUERY)
        return tenants

    async def close(self) -> None:
        """Close the index, after its opening has ended; idempotent."""
        opening, self._tenants = self._tenants, None
        if opening is not None:
            with suppress(ToolcribError):
                close = (await opening).close
                await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown(wait=False)


class Gateway:
    """Gateway in front of servers; `server` is the MCP server that clients use."""

    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        settings: Settings,
        storage: Storage,
        options: GatewayOptions,
        *,
        auth: AuthProvider | None = None,
    ) -> None:
        chosen = settings.gateway
        _require_servers_of(options.pinned, configs)
        self._options, is_shared = options, options.is_shared
        intervals = replace(
            options.intervals,
            connect_s=chosen.connect_timeout_s,
            call_s=chosen.call_timeout_s,
            retry_s=chosen.retry_s,
        )
        self._tasks: set[asyncio.Task[Any]] = set()
        self._runs: dict[str, asyncio.Task[Any]] = {}
        self._is_greeted = asyncio.Event()
        extensions = {SkillsExtension.identifier: dict[str, Any]()}
        self._clients = Clients(self._instructions, self._leave, self._lists_of, extensions)
        self._store = StoreThread(storage.location, settings, self._report, options.progress)
        self.index = GatewayIndex(
            configs,
            options.scope(configs),
            storage,
            self._report,
            self._clients.changed.set,
            options.progress,
        )
        self.pool = UpstreamPool(
            configs,
            self.index.receive,
            self._health_changed,
            intervals,
            is_shared=is_shared,
            logins=storage.logins,
        )
        budgets = CallBudgets(chosen.max_calls)
        alternatives = Alternatives(self.index, self.pool, budgets)
        guidance = GatewayGuidance(alternatives.names, enabled=chosen.guidance, is_shared=is_shared)
        self._flow = FlowPolicy(chosen.flow, configs)
        self._calls = CallRunner(
            self.pool,
            budgets,
            alternatives,
            self._clients.level,
            guidance,
            self._flow,
        )
        pinned = (*chosen.pinned, *options.pinned)
        shown = chosen.model_copy(update={"pinned": pinned})
        self._search = GatewaySearch(self.index, self.pool, budgets, guidance, shown)
        self._tools = CatalogProvider(self.index, self.pool.note, self._calls.call)
        self._offers = OffersProvider(self.index, self.pool)
        records_db = storage.records_db
        self._recorder = GatewayRecorder(records_db, self.index, self.pool, chosen.activity)
        self.server = self._make_server(auth)

    def _make_server(self, auth: AuthProvider | None) -> FastMCP:
        server = FastMCP(
            name="toolcrib",
            version=__version__,
            auth=auth,
            lifespan=lambda _server: self.running(),
            providers=[self._tools, self._search.skills, self._offers],
            transforms=[self._search],
            middleware=[self._recorder, self._search],
            dereference_schemas=False,
            mask_error_details=True,
            experimental_capabilities=LISTING_CAPABILITY,
        )
        server._mcp_server.add_request_handler(  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            "tools/list", ListToolsParams, partial(self._list_tools, server)
        )
        server.add_extension(SkillsExtension(self._search.skills))
        # The handshake is innermost: no notification may precede its answer.
        self._clients.join(server)
        return server

    async def _list_tools(
        self, server: FastMCP, context: ServerRequestContext[Any, Any], params: ListToolsParams
    ) -> ListToolsResult:
        """List tools as FastMCP does, or those that a query or a filter selects."""
        if params.query is None and params.filter is None:
            listed = await server._on_list_tools(context, params)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            await self._recorder.record_list(context.session, listed.tools)
            return listed
        with bind_request_context(context):
            async with Context(fastmcp=server) as client:
                return await self._search.tool_list_for(client, params)

    # -- running -------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Connect to all servers without waiting; keep the connections until the block ends."""
        self._loop = asyncio.get_running_loop()
        self._spawn(self._open())
        self._spawn(self.index.follow_approvals(self.pool.intervals.poll_s))
        self._spawn(self._clients.follow())
        self._spawn(self._recorder.follow_state(self.pool.intervals.poll_s))
        self._spawn(self._start_servers())
        if self._options.config is not None:
            self._spawn(self._follow_config(*self._options.config))
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self.close()

    async def _start_servers(self) -> None:
        """Start new servers, then known ones, whose tools are searchable already.

        A dozen starting processes would take the processors that the first search needs.
        """
        await self.index.is_recalled.wait()
        for upstream in self.pool:
            if not self.index.knows(upstream.name):
                self._start(upstream)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pool.intervals.patience_s):
                await self.index.is_open.wait()
                if self._options.is_shared:
                    await self._is_greeted.wait()
                    await asyncio.sleep(self.pool.intervals.first_search_s)
                await self._search.is_idle.wait()
        for upstream in self.pool:
            self._start(upstream)

    def _start(self, upstream: Upstream) -> None:
        """Connect to a server once, and report errors of its entry."""
        if upstream.name in self._runs:
            return
        for warning in upstream.config.warnings:
            self._report("warning", f"{upstream.name}: {warning}")
        if upstream.config.problem:
            self._report("error", f"{upstream.name}: {upstream.config.problem}")
            self.index.give_up(upstream.name)
        self._runs[upstream.name] = self._spawn(upstream.run())

    # -- changes of the configuration ------------------------------------------------------------

    async def _follow_config(self, file: McpFile, seen: tuple[int, ...]) -> None:
        """Apply the file's entries whenever it changes."""
        while True:
            await asyncio.sleep(self.pool.intervals.poll_s)
            now = await asyncio.to_thread(file_stamp, file.path)
            if now == seen:
                continue
            seen = now
            try:
                configs = await asyncio.to_thread(file.read, may_be_empty=True)
            except ToolcribError as error:
                self._report("error", f"{error}; the servers are unchanged")
            else:
                await self.reconfigure(configs)

    async def reconfigure(self, configs: Sequence[ServerConfig]) -> None:
        """Add, remove and replace servers; servers with an unchanged entry continue."""
        before = {each.name: each.config for each in self.pool}
        now = {config.name: config for config in configs}
        if now == before:
            return
        for name in (name for name, config in before.items() if now.get(name) != config):
            # Remove before the first await: the servers of the pool may start at any moment.
            self.pool.remove(name)
            if (run := self._runs.pop(name, None)) is not None:
                run.cancel()
                await asyncio.wait({run})
            await self.index.remove(name)
            if name not in now:
                self._report("info", f"{name}: removed")
        self.index.scope = self._options.scope(configs)
        self._flow.update(configs)
        for config in (config for name, config in now.items() if before.get(name) != config):
            await self.index.add(config)
            self._start(self.pool.add(config))
        self._clients.changed.set()

    async def close(self) -> None:
        """Close every connection, then the index; idempotent."""
        self._loop = None
        self._calls.close()
        self._clients.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.pool.close()
        await self.index.wait_for_jobs()
        await asyncio.to_thread(self._recorder.close)
        await self._store.close()

    async def _open(self) -> None:
        _, crib = await asyncio.gather(self.index.recall(), self._store.open())
        await self.index.work(self._search.open, crib)
        await self.index.open(crib)
        await self.pool.wait_settled()
        for problem in self._search.missing_pins():
            self._report("error", problem)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a part of the gateway failed", exc_info=error)
            self._report("error", f"a part of the gateway failed: {error}")

    # -- events --------------------------------------------------------------------------------

    async def _lists_of(self, token: AccessToken | None) -> dict[str, object]:
        """Content of each list that a key's holder sees, for comparison with later content."""
        tools = self._tools.tools()

        def lists() -> dict[str, object]:
            skills, offers = self._search.skills.published_by_uri(token), self._offers.lists(token)
            offers["resources"] = list(skills), offers["resources"]
            return {**offers, "tools": self._search.listing(tools, token)}

        return await self.index.work(lists)

    def _health_changed(self, upstream: Upstream) -> None:
        health = upstream.health
        if health.state == "down":
            self.index.give_up(upstream.name)
            self._report("warning", f"{upstream.name}: down: {health.reason}; the gateway retries")
        self._clients.changed.set()

    async def _instructions(self, key: str) -> str:
        """Instructions for a new conversation; new servers get time to answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pool.intervals.handshake_s):
                await self.index.is_recalled.wait()
                new = (each for each in self.pool if not self.index.knows(each.name))
                await asyncio.gather(*(each.settled.wait() for each in new))
        self._is_greeted.set()
        return self._search.instructions(key)

    async def _leave(self, key: str) -> None:
        self._calls.leave(key)
        self._search.leave(key)
        await self.pool.leave(key)

    def _report(self, level: Level, text: str) -> None:
        """Report to the operator and the clients; thread-safe."""
        self._options.report(level, text)
        if self._loop is not None:
            log = partial(self._clients.log, level, text)
            self._loop.call_soon_threadsafe(lambda: self._spawn(log()))


def _require_servers_of(pinned: Sequence[str], configs: Sequence[ServerConfig]) -> None:
    servers = [config.name for config in configs]
    for tool_id in pinned:
        if not tool_id.startswith(tuple(f"{server}/" for server in servers)):
            server, slash, name = tool_id.rpartition("/")
            near = [f"{each}{slash}{name}" for each in nearest(server, servers)]
            raise SettingsError(
                f"--pin: no server has a tool {tool_id!r}{did_you_mean(near)}; "
                f"an id is SERVER/NAME, and servers are {', '.join(servers)}"
            )
