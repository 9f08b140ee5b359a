"""One server behind the gateway: connected to, watched, connected to again when it died."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, TypeAlias

from mcp import MCPError
from pydantic import ValidationError

from toolcrib.errors import OverloadedError, ServiceUnavailableError
from toolcrib.gateway.config import ServerConfig
from toolcrib.gateway.front import ANYONE
from toolcrib.gateway.lane import Lane
from toolcrib.indexers.readers.mcp_config import HttpTarget, Target
from toolcrib.indexers.readers.mcp_session import is_closed

__all__ = ["Health", "Rhythm", "State", "Upstream"]

State: TypeAlias = Literal["starting", "up", "down", "unusable"]

MAX_LANES = 64
SLOWEST = 12
"""A server that stays dead is tried at last after so many times the first wait."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often what is looked at; the settings have what users may want to change.

    A server is asked for a sign of life every `ping_s`, with `pong_s` to give it; one that does
    not tell of changes is asked for its tools every `refresh_s`. Approvals are looked for every
    `poll_s`. A search waits `patience_s` for servers that are still starting. A conversation's
    own links are closed after `idle_s` without a call, and an open question after that too.
    """

    ping_s: float = 15.0
    pong_s: float = 5.0
    refresh_s: float = 60.0
    poll_s: float = 1.0
    patience_s: float = 5.0
    idle_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Health:
    """How a server is, why, and since when (seconds of the monotonic clock)."""

    state: State
    reason: str
    since: float


class Upstream:
    """Keeps a link to a server; `run` never ends by itself and raises nothing.

    `is_shared`: there is but one client, so that all calls may go over the one link. `listed`
    gets the tools as they came whenever they may have changed, `noticed` is told when the
    health has changed.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        connect_s: float,
        retry_s: float,
        rhythm: Rhythm,
        at_once: asyncio.Semaphore,
        is_shared: bool,
        listed: Callable[[Upstream, list[Any]], Awaitable[None]],
        noticed: Callable[[Upstream], None],
    ) -> None:
        self.config = config
        self.settled = asyncio.Event()
        self._tried = asyncio.Event()
        self._connect_s = connect_s
        self._retry_s = retry_s
        self._rhythm = rhythm
        self._at_once = at_once
        self._is_shared = is_shared
        self._listed = listed
        self._noticed = noticed
        self._main: Lane | None = None
        self._lanes: dict[str, Lane] = {}
        self._opening: dict[str, asyncio.Task[Lane]] = {}
        self.health = Health("starting", "it is being connected to", monotonic())
        if config.target is None:
            self.health = Health("unusable", config.problem, monotonic())
            self.settled.set()
            self._tried.set()

    @property
    def name(self) -> str:
        """The server's name in the configuration."""
        return self.config.name

    # -- watching ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, watch, and connect again; until cancelled."""
        target = self.config.target
        if target is None:
            return
        wait_s = self._retry_s
        try:
            while True:
                was_up_at = await self._one_life(target)
                if was_up_at is not None and monotonic() - was_up_at > self._retry_s:
                    wait_s = self._retry_s
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, SLOWEST * self._retry_s)
        finally:
            await self.close()

    async def _one_life(self, target: Target) -> float | None:
        """From connecting to the end; gives when it was up, None if it never was."""
        lane, up_at = Lane(target, is_one_callers=self._is_shared), None
        try:
            async with self._at_once:
                await lane.link.open(self._connect_s)
                tools = await self._tools(lane)
            self._main, up_at = lane, monotonic()
            self._turn("up", "")
            await self._listed(self, tools)
            self.settled.set()
            await self._watch(lane)
        except Exception as error:
            logger.debug("the server %r failed", self.name, exc_info=True)
            lane.link.give_up(_in_words(error))
        finally:
            self._main = None
            await asyncio.shield(lane.link.close())
        if isinstance(target, HttpTarget):
            # Its sessions died with it; a process of another conversation may well live on.
            await self.close()
        self._turn("down", lane.link.reason)
        self.settled.set()
        return up_at

    async def _watch(self, lane: Lane) -> None:
        """Follow changes of the tools until the link ends, or the server stops to answer."""
        link, listed_at = lane.link, monotonic()
        while not link.ended.is_set():
            waits = [asyncio.create_task(event.wait()) for event in (link.ended, link.changed)]
            try:
                await asyncio.wait(
                    waits, timeout=self._rhythm.ping_s, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                for wait in waits:
                    wait.cancel()
            is_due = monotonic() - listed_at >= self._rhythm.refresh_s
            if link.changed.is_set() or (is_due and not link.tells_changes):
                listed_at = monotonic()
                await self._listed(self, await self._tools(lane))
            elif not link.ended.is_set():
                await self._check(lane)
            await self._close_idle()

    async def _check(self, lane: Lane) -> None:
        # A server that works on a call may well be too busy to answer; calls have a limit.
        if lane.is_busy or await lane.link.is_alive(self._rhythm.pong_s):
            return
        if not lane.link.is_over:
            lane.link.give_up(f"it gave no sign of life within {self._rhythm.pong_s:g} s")
        await lane.link.close()

    async def _tools(self, lane: Lane) -> list[Any]:
        try:
            async with asyncio.timeout(self._connect_s):
                return await lane.link.tools()
        except TimeoutError:
            raise ServiceUnavailableError(
                f"it did not list its tools within {self._connect_s:g} s",
            ) from None

    def _turn(self, state: State, reason: str) -> None:
        changed = state != self.health.state
        since = monotonic() if changed else self.health.since
        self.health = Health(state, reason, since)
        self._tried.set()
        if changed:
            self._noticed(self)

    # -- calling -------------------------------------------------------------------------------

    async def lane(self, key: str) -> Lane:
        """The way of a conversation to the server; of nobody's in particular, the main one.

        Raises:
            ServiceUnavailableError: the server is dead, or does not let us in again.
            OverloadedError: too many conversations use the server.
        """
        if not self._tried.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._tried.wait(), self._connect_s)
        if self._main is None or self._main.link.is_over:
            raise ServiceUnavailableError(self.health.reason or "the server does not answer")
        if self._is_shared or key == ANYONE:
            return self._main
        known = self._lanes.get(key)
        if known is not None and not known.link.is_over:
            return known
        if key not in self._opening:
            self._opening[key] = asyncio.create_task(self._open_lane(key))
        return await asyncio.shield(self._opening[key])

    async def _open_lane(self, key: str) -> Lane:
        assert self.config.target is not None
        try:
            if len(self._lanes) >= MAX_LANES:
                raise OverloadedError(
                    f"{MAX_LANES} conversations use the server {self.name!r} already",
                )
            lane = Lane(self.config.target, is_one_callers=True)
            await lane.link.open(self._connect_s)
        finally:
            del self._opening[key]
        self._lanes[key] = lane
        return lane

    async def doubt(self, lane: Lane) -> None:
        """Look whether the server is still there, after a call of it failed."""
        await self._check(lane)
        if self._main is not None and self._main is not lane:
            await self._check(self._main)

    async def leave(self, key: str) -> None:
        """A conversation is over: close what it used."""
        if key in self._opening:
            self._opening[key].cancel()
        lane = self._lanes.pop(key, None)
        if lane is not None:
            await lane.link.close()

    async def close(self) -> None:
        """End every conversation with the server."""
        for opening in self._opening.values():
            opening.cancel()
        lanes = [*self._lanes.values(), *([self._main] if self._main else [])]
        self._lanes.clear()
        await asyncio.gather(*(lane.link.close() for lane in lanes))

    async def _close_idle(self) -> None:
        for key, lane in list(self._lanes.items()):
            idle_s = monotonic() - lane.used_at
            if lane.link.is_over or (idle_s > self._rhythm.idle_s and not lane.is_busy):
                await self.leave(key)


def _in_words(error: Exception) -> str:
    if isinstance(error, MCPError) and is_closed(error):
        # How it ended is known to the link.
        return ""
    if isinstance(error, MCPError):
        return f"it answered with the error {error.message[:200]!r} (code {error.code})"
    if isinstance(error, ValidationError):
        return "it answered with something that is not MCP"
    return str(error) or "it does not answer"
