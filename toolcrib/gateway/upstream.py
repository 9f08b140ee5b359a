"""Upstream: a server behind the gateway, connected to, watched, and connected to again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from fastmcp.server.context import Context
from mcp import ClientSession, MCPError
from mcp.types import METHOD_NOT_FOUND, PaginatedRequestParams
from pydantic import ValidationError

from toolcrib.errors import OverloadedError, ServiceUnavailableError
from toolcrib.gateway.config import ServerConfig
from toolcrib.gateway.connection import UpstreamConnection, first_of
from toolcrib.gateway.downstream import SHARED
from toolcrib.indexers.readers.mcp_config import HttpTarget, Target
from toolcrib.indexers.readers.mcp_session import is_closed
from toolcrib.records.reports import Unready

__all__ = [
    "OFFER_KINDS",
    "WORDS",
    "Intervals",
    "OfferKind",
    "Offers",
    "Upstream",
    "UpstreamHealth",
    "UpstreamPool",
    "UpstreamState",
]

UpstreamState: TypeAlias = Literal["starting", "up", "down", "unusable"]

OfferKind: TypeAlias = Literal["prompt", "resource", "template"]
OFFER_KINDS: tuple[OfferKind, ...] = get_args(OfferKind)
Offers: TypeAlias = dict[OfferKind, list[dict[str, Any]]]
"""By kind; a kind that could not be listed is missing."""

Listed: TypeAlias = Callable[[str, list[Any], str, Offers], Awaitable[None]]

AT_ONCE = 8
"""Servers that are connected to at the same time."""

MAX_CONNECTIONS = 64
MAX_OFFERS = 1_000
"""Of each kind and server; more would make a listing of many pages for every client."""

MAX_OFFER_PAGES = 100

SLOWEST = 12
"""A server that stays dead is tried at last after so many times the first wait."""

WORDS = {
    "starting": "is still being connected to",
    "down": "does not answer",
    "unusable": "is misconfigured",
}

_Answer = TypeVar("_Answer")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Intervals:
    """How long what may take, and how often what is looked at.

    A server has `connect_s` to shake hands, and as long to list its tools, and `offers_s` for
    prompts and resources, without which its tools are served all the same; a dead one is tried
    again after `retry_s`, then ever less often. It is asked for a sign of life every `ping_s`,
    with `pong_s` to give it; one that does not tell of changes, or could not list all that it
    has, is asked for its lists every `refresh_s`. Approvals are looked for every `poll_s`. A search
    waits `patience_s` for tools that cannot be found yet. A conversation's own connections are
    closed after `idle_s` without a call, and an open question after that too. A handshake waits
    `handshake_s` for servers that were never met before.
    """

    connect_s: float = 20.0
    retry_s: float = 5.0
    ping_s: float = 15.0
    pong_s: float = 5.0
    refresh_s: float = 60.0
    poll_s: float = 1.0
    patience_s: float = 10.0
    idle_s: float = 600.0
    handshake_s: float = 2.0
    offers_s: float = 5.0


@dataclass(frozen=True, slots=True)
class UpstreamHealth:
    """How a server is, why, and since when (seconds of the monotonic clock).

    `lacks_authorisation`: it is down because it does not know who we are.
    """

    state: UpstreamState
    reason: str
    since: float
    lacks_authorisation: bool = False


class Upstream:
    """Keeps a connection to a server; `run` never ends by itself and raises nothing.

    `is_shared`: there is but one client, so that all calls may go over the one connection. `listed`
    gets the server's name, its tools as they came, its instructions, and its prompts and
    resources, whenever they may have changed. `changed` is called when the health has. `settled`
    is set once it was connected to, or tried.
    """

    def __init__(
        self,
        config: ServerConfig,
        listed: Listed,
        changed: Callable[[Upstream], None],
        intervals: Intervals,
        *,
        is_shared: bool = False,
        at_once: asyncio.Semaphore | None = None,
    ) -> None:
        self.config = config
        self.settled = asyncio.Event()
        self._tried = asyncio.Event()
        self._listed, self._changed, self._intervals = listed, changed, intervals
        self._is_shared = is_shared
        self._at_once = at_once or asyncio.Semaphore(1)
        self._main: UpstreamConnection | None = None
        self._own: dict[str, UpstreamConnection] = {}
        self._opening: dict[str, asyncio.Task[UpstreamConnection]] = {}
        self.health = UpstreamHealth("starting", "it is being connected to", monotonic())
        if config.target is None:
            self.health = UpstreamHealth("unusable", config.problem, monotonic())
            self.settled.set()
            self._tried.set()

    @property
    def is_up(self) -> bool:
        """Whether its tools can be called; those of one that has just died cannot."""
        return self.health.state == "up" and self._main is not None and not self._main.is_over

    @property
    def name(self) -> str:
        """The server's name in the configuration."""
        return self.config.name

    # -- watching ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, watch, and connect again; until cancelled."""
        if (target := self.config.target) is None:
            return
        wait_s = retry_s = self._intervals.retry_s
        try:
            while True:
                was_up_at = await self._one_life(target)
                if was_up_at is not None and monotonic() - was_up_at > retry_s:
                    wait_s = retry_s
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, SLOWEST * retry_s)
        finally:
            await self.close()

    async def _one_life(self, target: Target) -> float | None:
        """From connecting to the end; gives when it was up, None if it never was."""
        connection, up_at = UpstreamConnection(target, has_one_caller=self._is_shared), None
        try:
            async with self._at_once:
                await connection.open(self._intervals.connect_s)
                listed = await self._listing(connection)
            self._main, up_at = connection, monotonic()
            self._turn("up", "")
            await self._listed(self.name, *listed)
            self.settled.set()
            await self._watch(connection, listed[-1])
        except Exception as error:
            logger.debug("the server %r failed", self.name, exc_info=True)
            connection.give_up(_in_words(error))
        finally:
            self._main = None
            await asyncio.shield(connection.close())
        if isinstance(target, HttpTarget):
            # Its sessions died with it; a process of another conversation may well live on.
            await self.close()
        self._turn("down", connection.reason, lacks_authorisation=connection.lacks_authorisation)
        self.settled.set()
        return up_at

    async def _watch(self, connection: UpstreamConnection, offers: Offers) -> None:
        """Follow changes of the lists until the connection ends, or the server is silent."""
        listed_at = monotonic()
        while not connection.ended.is_set():
            await first_of(self._intervals.ping_s, connection.ended, connection.changed)
            is_due = monotonic() - listed_at >= self._intervals.refresh_s
            is_known = connection.tells_changes and len(offers) == len(OFFER_KINDS)
            if connection.changed.is_set() or (is_due and not is_known):
                listed_at = monotonic()
                tools, instructions, offers = await self._listing(connection)
                await self._listed(self.name, tools, instructions, offers)
            elif not connection.ended.is_set():
                await self._check(connection)
            await self._close_idle()

    async def _check(self, connection: UpstreamConnection) -> None:
        # A server that works on a call may well be too busy to answer; calls have a limit.
        pong_s = self._intervals.pong_s
        if connection.is_busy or await connection.is_alive(pong_s):
            return
        if not connection.is_over:
            connection.give_up(f"it gave no sign of life within {pong_s:g} s")
        await connection.close()

    async def _listing(self, connection: UpstreamConnection) -> tuple[list[Any], str, Offers]:
        """Its tools, its instructions, and what it offers beside."""
        try:
            async with asyncio.timeout(self._intervals.connect_s):
                tools = await connection.tools()
        except TimeoutError:
            raise ServiceUnavailableError(
                f"it did not list its tools within {self._intervals.connect_s:g} s"
            ) from None
        offers = await _offers(connection, self._intervals.offers_s)
        return tools, connection.instructions, offers

    def _turn(
        self, state: UpstreamState, reason: str, *, lacks_authorisation: bool = False
    ) -> None:
        changed = state != self.health.state
        since = monotonic() if changed else self.health.since
        self.health = UpstreamHealth(state, reason, since, lacks_authorisation)
        self._tried.set()
        if changed:
            self._changed(self)

    # -- calling -------------------------------------------------------------------------------

    async def connection(self, key: str) -> UpstreamConnection:
        """A conversation's connection to the server; the main one where nobody can be told apart.

        Raises:
            ServiceUnavailableError: the server is dead, or does not let us in again.
            OverloadedError: too many conversations use the server.
        """
        if not self._tried.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._tried.wait(), self._intervals.connect_s)
        if self._main is None or self._main.is_over:
            raise ServiceUnavailableError(self.health.reason or "the server does not answer")
        if self._is_shared or key == SHARED:
            return self._main
        known = self._own.get(key)
        if known is not None and not known.is_over:
            return known
        if key not in self._opening:
            self._opening[key] = asyncio.create_task(self._open(key))
        return await asyncio.shield(self._opening[key])

    async def ask(
        self, key: str, work: Callable[[ClientSession], Awaitable[_Answer]], timeout_s: float
    ) -> _Answer:
        """Ask the server for something beside a call, over a conversation's connection.

        Raises:
            TimeoutError: it takes longer.
            ServiceUnavailableError, OverloadedError: as for `connection`.
        """
        connection = await self.connection(key)
        connection.reads += 1
        try:
            async with asyncio.timeout(timeout_s):
                return await work(connection.session)
        finally:
            connection.reads -= 1
            connection.used_at = monotonic()

    async def _open(self, key: str) -> UpstreamConnection:
        assert self.config.target is not None
        try:
            if len(self._own) >= MAX_CONNECTIONS:
                raise OverloadedError(
                    f"{MAX_CONNECTIONS} conversations use the server {self.name!r} already"
                )
            connection = UpstreamConnection(self.config.target, has_one_caller=True)
            await connection.open(self._intervals.connect_s)
        finally:
            del self._opening[key]
        self._own[key] = connection
        return connection

    async def check(self, connection: UpstreamConnection) -> None:
        """Look whether the server is still there, after a call of it failed."""
        await self._check(connection)
        if self._main is not None and self._main is not connection:
            await self._check(self._main)

    async def leave(self, key: str) -> None:
        """A conversation is over: close what it used."""
        if key in self._opening:
            self._opening[key].cancel()
        connection = self._own.pop(key, None)
        if connection is not None:
            await connection.close()

    async def close(self) -> None:
        """End every connection to the server."""
        for opening in self._opening.values():
            opening.cancel()
        connections = [*self._own.values(), *([self._main] if self._main else [])]
        self._own.clear()
        await asyncio.gather(*(each.close() for each in connections))

    async def _close_idle(self) -> None:
        for key, each in list(self._own.items()):
            is_idle = monotonic() - each.used_at > self._intervals.idle_s and not each.is_busy
            # Another one may be opened in its place at this moment: that is left alone.
            if (each.is_over or is_idle) and self._own.get(key) is each:
                del self._own[key]
                await each.close()


class UpstreamPool:
    """All servers behind the gateway. What it tells of them has no word of theirs."""

    def __init__(
        self,
        configs: Iterable[ServerConfig],
        listed: Listed,
        changed: Callable[[Upstream], None],
        intervals: Intervals,
        *,
        is_shared: bool = False,
    ) -> None:
        at_once = asyncio.Semaphore(AT_ONCE)
        self.intervals, self.is_shared = intervals, is_shared
        self._upstreams = {
            each.name: Upstream(
                each, listed, changed, intervals, is_shared=is_shared, at_once=at_once
            )
            for each in configs
        }

    def __getitem__(self, name: str) -> Upstream:
        return self._upstreams[name]

    def __iter__(self) -> Iterator[Upstream]:
        return iter(self._upstreams.values())

    def not_up(self) -> tuple[str, ...]:
        """The servers whose tools cannot be called."""
        return tuple(each.name for each in self if not each.is_up)

    def note(self, server: str) -> str:
        """Why a server's tools cannot be called; empty where they can, or soon will."""
        state = self[server].health.state
        is_dead = state in {"down", "unusable"}
        return f"[cannot be called now: its server {WORDS[state]}]" if is_dead else ""

    def unready(self, server: str) -> Unready | None:
        """Why a server's tools cannot be called, as a reason; None where they can."""
        if self[server].is_up:
            return None
        lacks = self[server].health.lacks_authorisation
        return "needs_authorisation" if lacks else "server_down"

    async def wait(self, context: Context | None, events: Sequence[asyncio.Event]) -> bool:
        """Wait for these, a bounded time, and tell in the context how far it is.

        Whether there was anything to wait for.
        """
        waits = {asyncio.create_task(event.wait()) for event in events if not event.is_set()}
        waited, until = bool(waits), monotonic() + self.intervals.patience_s
        try:
            while waits and (left := until - monotonic()) > 0:
                done = len(events) - len(waits)
                if context is not None:
                    await context.report_progress(done, len(events), "connecting to servers")
                _, waits = await asyncio.wait(
                    waits, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            for wait in waits:
                wait.cancel()
        return waited

    async def settled(self) -> None:
        """Wait until every server was connected to, or tried."""
        await asyncio.gather(*(each.settled.wait() for each in self))

    async def leave(self, key: str) -> None:
        """A conversation is over: close what it used."""
        await asyncio.gather(*(each.leave(key) for each in self))

    async def close(self) -> None:
        """End every connection."""
        await asyncio.gather(*(each.close() for each in self))


async def _offers(connection: UpstreamConnection, timeout_s: float) -> Offers:
    """Prompts and resources; a server that cannot list them still has its tools.

    Raises:
        MCPError, ServiceUnavailableError: the connection is over.
    """
    session, able = connection.session, connection.session.server_capabilities
    found: Offers = {}
    has_prompts, has_resources = able and able.prompts, able and able.resources
    asked: list[tuple[OfferKind, Any, Callable[..., Awaitable[Any]], str]] = [
        ("prompt", has_prompts, session.list_prompts, "prompts"),
        ("resource", has_resources, session.list_resources, "resources"),
        ("template", has_resources, session.list_resource_templates, "resource_templates"),
    ]
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            for kind, has_any, ask, field in asked:
                try:
                    items = [item async for item in _pages(ask, field)] if has_any else []
                except (MCPError, ValidationError) as error:
                    if isinstance(error, MCPError) and is_closed(error):
                        raise
                    logger.warning("%s cannot be listed: %s", field, _in_words(error))
                    continue
                found[kind] = [
                    item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in items
                ]
            return found
    logger.warning("prompts and resources were not all listed within %g s", timeout_s)
    return found


async def _pages(ask: Callable[..., Awaitable[Any]], field: str) -> AsyncGenerator[Any]:
    cursor: str | None = None
    count = 0
    for _ in range(MAX_OFFER_PAGES):
        try:
            page = await ask(params=PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            # A server of resources need not know templates.
            if error.code == METHOD_NOT_FOUND:
                return
            raise
        for item in getattr(page, field)[: MAX_OFFERS - count]:
            yield item
            count += 1
        if count >= MAX_OFFERS or not page.next_cursor or page.next_cursor == cursor:
            return
        cursor = page.next_cursor


def _in_words(error: Exception) -> str:
    if isinstance(error, MCPError) and is_closed(error):
        # How it ended is known to the connection.
        return ""
    if isinstance(error, MCPError):
        return f"it answered with the error {error.message[:200]!r} (code {error.code})"
    if isinstance(error, ValidationError):
        return "it answered with something that is not MCP"
    return str(error) or "it does not answer"
