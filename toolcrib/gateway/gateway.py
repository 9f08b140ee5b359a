"""The gateway: all of its parts, put together and kept running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token
from fastmcp.tools.base import ToolResult

from toolcrib import __version__
from toolcrib.errors import ToolcribError
from toolcrib.gateway.calls import Calls
from toolcrib.gateway.catalogue import Offer
from toolcrib.gateway.config import ServerConfig
from toolcrib.gateway.front import Front, front_key
from toolcrib.gateway.knowledge import Knowledge
from toolcrib.gateway.news import Level, News
from toolcrib.gateway.offering import OfferedTool, Offering
from toolcrib.gateway.opening import open_store
from toolcrib.gateway.search import GatewaySearch, UnknownTools
from toolcrib.gateway.stock import Stock
from toolcrib.gateway.substitutes import Substitutes
from toolcrib.gateway.terms import Backing, Manner, Purpose
from toolcrib.gateway.turns import Turns
from toolcrib.gateway.upstream import Upstream
from toolcrib.gateway.waiting import Waiting
from toolcrib.namespaces import Namespaces
from toolcrib.records import Scope
from toolcrib.settings import Settings

__all__ = ["Gateway"]

AT_ONCE = 8
"""Servers that are connected to at the same time."""

INSTRUCTIONS = (
    "Tools of several servers. Where you do not see the one that you need, call find_tools with "
    "what it must do, then call_tool with a name that it gave."
)

logger = logging.getLogger(__name__)


class Gateway:
    """Stands in front of servers as one MCP server, which is `server`."""

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        settings: Settings,
        backing: Backing,
        *,
        purpose: Purpose | None = None,
        manner: Manner | None = None,
        auth: AuthProvider | None = None,
    ) -> None:
        purpose, self._manner = purpose or Purpose(), manner or Manner()
        self._settings, self._backing = settings, backing
        self._stir = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: asyncio.Future[Namespaces] | None = None
        # A folder's lock can be given back only by the thread that took it.
        self._keeper = ThreadPoolExecutor(1, "toolcrib-store")
        self._shown: object = None

        self._pinned = (*settings.gateway.pinned, *purpose.pinned)
        self._scope = Scope(
            servers=frozenset(config.name for config in configs),
            tags=purpose.tags,
            max_sensitivity=purpose.max_sensitivity,
        )
        overlays = {config.name: config.overlay for config in configs}
        self.stock = Stock(overlays, backing, self._say, self._stir.set)
        at_once = asyncio.Semaphore(AT_ONCE)
        self.upstreams = {config.name: self._upstream(config, at_once) for config in configs}
        self._waiting = Waiting(self.upstreams, self.stock, self._manner.rhythm.patience_s)
        turns = Turns(settings.gateway.max_calls)
        self._search = self._searching(turns)
        self._calls = self._calling(turns)
        self._offering = Offering(
            lambda: self.stock.catalogue, self._scope, self._waiting.note, self._run
        )
        self._news = News(self._leave)
        self.server = self._served(auth)

    def _searching(self, turns: Turns) -> GatewaySearch:
        return GatewaySearch(
            self.stock,
            self._waiting,
            turns,
            scope=self._scope,
            settings=self._settings.gateway,
            pinned=self._pinned,
            key_of=_key,
        )

    def _calling(self, turns: Turns) -> Calls:
        return Calls(
            self.upstreams,
            turns,
            Substitutes(self.stock, self._search.scope, self._waiting.dead),
            timeout_s=self._settings.gateway.call_timeout_s,
            idle_s=self._manner.rhythm.idle_s,
        )

    def _upstream(self, config: ServerConfig, at_once: asyncio.Semaphore) -> Upstream:
        chosen = self._settings.gateway
        return Upstream(
            config,
            connect_s=chosen.connect_timeout_s,
            retry_s=chosen.retry_s,
            rhythm=self._manner.rhythm,
            at_once=at_once,
            is_shared=self._manner.is_shared,
            listed=self._listed,
            noticed=self._noticed,
        )

    def _served(self, auth: AuthProvider | None) -> FastMCP:
        @asynccontextmanager
        async def lifespan(_: FastMCP) -> AsyncGenerator[None]:
            async with self.running():
                yield

        server = FastMCP(
            name="toolcrib",
            version=__version__,
            instructions=INSTRUCTIONS,
            auth=auth,
            lifespan=lifespan,
            providers=[self._offering],
            transforms=[self._search],
            middleware=[UnknownTools(self._search, self._waiting)],
            dereference_schemas=False,
            mask_error_details=True,
        )
        self._news.join(server)
        return server

    # -- running -------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Connect to all servers and keep it so for the time of the block; does not wait."""
        self._loop = asyncio.get_running_loop()
        for work in (self._open(), self._follow_approvals(), self._broadcast()):
            self._spawn(work)
        for upstream in self.upstreams.values():
            if upstream.config.problem:
                self._say("error", f"{upstream.name}: {upstream.config.problem}")
            self._spawn(upstream.run())
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self.close()

    async def close(self) -> None:
        """End every conversation and let go of the index; a second call does nothing."""
        self._loop = None
        self._calls.close()
        self._news.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(upstream.close() for upstream in self.upstreams.values()))
        await self.stock.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            with suppress(ToolcribError):
                opened = await engine
                await asyncio.get_running_loop().run_in_executor(self._keeper, opened.close)
        self._keeper.shutdown(wait=False)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a part of the gateway failed", exc_info=error)
            self._say("error", f"a part of the gateway failed: {error}")

    async def _open(self) -> None:
        location, listener = self._backing.location, self._manner.listener
        opening = partial(open_store, location, self._settings, self._say, listener)
        self._engine = asyncio.get_running_loop().run_in_executor(self._keeper, opening)
        crib = (await asyncio.shield(self._engine)).crib()
        self._search.open(await self.stock.work(Knowledge, crib))
        await self.stock.open(crib, listener)
        await asyncio.gather(*(each.settled.wait() for each in self.upstreams.values()))
        unknown = [tool_id for tool_id in self._pinned if self.stock.catalogue.get(tool_id) is None]
        if unknown:
            self._say("warning", f"there is no tool {unknown[0]!r} to pin; an id is SERVER/NAME")

    async def _follow_approvals(self) -> None:
        """Look now and then whether somebody has approved something."""
        seen: object = None
        told: str | None = None
        while True:
            try:
                # Looked at before the review: what is approved in the midst of it is seen then.
                now = await asyncio.to_thread(self._backing.judge.state)
                if now != seen or self.stock.problem:
                    await self.stock.review()
                seen, told = now, None
            except ToolcribError as error:
                if str(error) != told:
                    logger.warning("approvals cannot be read: %s", error)
                told = str(error)
            await asyncio.sleep(self._manner.rhythm.poll_s)

    async def _broadcast(self) -> None:
        """Tell clients whenever what they are shown is something else."""
        while True:
            await self._stir.wait()
            self._stir.clear()
            shown = self._seen()
            if shown != self._shown:
                self._shown = shown
                await self._news.tools_changed()

    def _seen(self) -> object:
        tools = self._search.shown(self._offering.tools(), self._scope)
        digests = [isinstance(tool, OfferedTool) and tool.offer.payload["digest"] for tool in tools]
        return digests, [(tool.name, tool.description) for tool in tools]

    # -- what happens --------------------------------------------------------------------------

    async def _run(self, offer: Offer, arguments: dict[str, Any], context: Context) -> ToolResult:
        key = _key(context)
        front = Front.of(context, key, self._news.level(key))
        return await self._calls.call(offer, arguments, context, front)

    async def _listed(self, upstream: Upstream, tools: list[Any]) -> None:
        await self.stock.receive(upstream.name, tools)

    def _noticed(self, upstream: Upstream) -> None:
        health = upstream.health
        if health.state == "down":
            self._say("warning", f"{upstream.name}: down: {health.reason}; it is tried again")
        self._stir.set()

    async def _leave(self, key: str) -> None:
        """A conversation is over: what it used is closed."""
        self._calls.leave(key)
        await asyncio.gather(*(upstream.leave(key) for upstream in self.upstreams.values()))

    def _say(self, level: Level, text: str) -> None:
        """Tell the operator and the clients; from any thread."""
        self._manner.say(level, text)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self._spawn(self._news.log(level, text)))


def _key(context: Context) -> str:
    token = get_access_token()
    return front_key(context, token.client_id if token is not None else None)
