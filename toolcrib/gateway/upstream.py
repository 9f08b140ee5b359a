"""Upstream: a server behind the gateway, with its connections, health checks and retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from fastmcp.server.context import Context
from mcp import ClientSession, MCPError
from mcp.types import METHOD_NOT_FOUND, PaginatedRequestParams, PaginatedResult
from pydantic import ValidationError

from toolcrib.access.logins import Logins
from toolcrib.caches import BoundedMap
from toolcrib.errors import OverloadedError, ServiceUnavailableError
from toolcrib.gateway.config import ServerConfig
from toolcrib.gateway.connection import ObservedCall, UpstreamConnection, wait_for_first
from toolcrib.gateway.downstream import SHARED_KEY
from toolcrib.indexers.readers.mcp_config import HttpTarget, Target
from toolcrib.indexers.readers.mcp_session import is_closed
from toolcrib.records.reports import Unready

UpstreamState: TypeAlias = Literal["starting", "up", "down", "unusable"]

OfferKind: TypeAlias = Literal["prompt", "resource", "template"]
OFFER_KINDS: tuple[OfferKind, ...] = get_args(OfferKind)
Offers: TypeAlias = dict[OfferKind, list[Any]]
"""Listed prompts and resources, unparsed, by kind; a kind whose listing failed is missing."""

TakeListing: TypeAlias = Callable[[str, list[Any], str, Offers], Awaitable[None]]

MAX_PARALLEL_CONNECTIONS = 8
"""Servers that connect at the same time."""

MAX_REMOVED_SERVERS = 100
"""Removed servers that are kept for calls under way."""

MAX_CONNECTIONS = 64
MAX_OFFERS = 1_000
"""Offers of one kind from one server; more would mean many pages for every client."""

MAX_OFFER_PAGES = 100

MAX_RETRY_FACTOR = 12
"""Longest wait before a retry, as a multiple of the first wait."""

STATE_TEXTS = {
    "starting": "is still being connected to",
    "down": "does not answer",
    "not_started": "could not be started (the gateway's log says why)",
    "unusable": "is misconfigured (the gateway's log says why)",
    "needs_authorisation": "needs authorisation",
    "authorisation_expired": "must be authorised again",
}
"""States of a server whose tools cannot be called, and reasons, in texts for models."""

_Answer = TypeVar("_Answer")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Timeouts and periods of the gateway.

    `connect_s`: for a handshake, and again for a listing of tools. `call_s`: for a call or another
    request. `offers_s`: for a listing of prompts and resources; tools are served without it too.
    `retry_s`: before a dead server's first retry; later waits are longer. `ping_s`: between health
    checks, with the timeout `pong_s`. `refresh_s`: between listings of a server that announces no
    changes, or whose last listing was incomplete. `poll_s`: between checks for approvals.
    `patience_s`: wait of a search for tools that are not searchable yet. `opening_s`: wait of a
    search of known tools for the index. `first_search_s`: time for a first search before known
    servers start. `idle_s`: idle time after which a conversation's connections and open questions
    are closed. `handshake_s`: wait of a handshake for new servers.
    """

    connect_s: float = 20.0
    call_s: float = 30.0
    retry_s: float = 5.0
    ping_s: float = 15.0
    pong_s: float = 5.0
    refresh_s: float = 60.0
    poll_s: float = 1.0
    patience_s: float = 10.0
    opening_s: float = 0.5
    first_search_s: float = 0.25
    idle_s: float = 600.0
    handshake_s: float = 2.0
    offers_s: float = 5.0


@dataclass(frozen=True, slots=True)
class UpstreamHealth:
    """State of a server, its reason, and its begin (seconds of the monotonic clock).

    `unready`: reason why its tools cannot be called, unless the server is up. `is_started`: False
    if the last start of a command failed.
    """

    state: UpstreamState
    reason: str
    since: float
    unready: Unready = "server_down"
    is_started: bool = True

    @property
    def in_words(self) -> str | None:
        """State of a server that is not up, in a text for models."""
        if not self.is_started:
            return STATE_TEXTS["not_started"]
        return STATE_TEXTS.get(self.state if self.unready == "server_down" else self.unready)


class Upstream:
    """Connection manager of a server of a pool; `run` never ends by itself and raises nothing.

    `settled` is set after the first connection or failure. `is_removed`: the configuration no
    longer has its entry, or has another. `login`: command line of a login, empty for a server that
    takes no login.
    """

    def __init__(self, config: ServerConfig, pool: UpstreamPool) -> None:
        self.config = config
        self.settled = asyncio.Event()
        self._attempt_ended = asyncio.Event()
        self._pool, self._intervals, logins = pool, pool.intervals, pool.logins
        self._auth = logins and logins.auth(config.target)
        self.login = logins.command(self.name) if logins and self._auth else ""
        self._main: UpstreamConnection | None = None
        self._own: dict[str, UpstreamConnection] = {}
        self._opening: dict[str, asyncio.Task[UpstreamConnection]] = {}
        self.is_removed = self._has_restarted = False
        self.health = UpstreamHealth("starting", "it is being connected to", monotonic())
        if config.target is None:
            self.health = UpstreamHealth("unusable", config.problem, monotonic())
            self.settled.set()
            self._attempt_ended.set()

    @property
    def is_up(self) -> bool:
        """True if the server's tools can be called, which needs a live connection."""
        return self.health.state == "up" and self._main is not None and not self._main.is_over

    @property
    def name(self) -> str:
        """Name of the server in the configuration."""
        return self.config.name

    # -- connecting and checking -----------------------------------------------------------------

    async def run(self) -> None:
        """Connect, check and reconnect, until cancelled."""
        if (target := self.config.target) is None:
            return
        wait_s = retry_s = self._intervals.retry_s
        try:
            while True:
                was_up_at = await self._connect_once(target)
                if was_up_at is not None and monotonic() - was_up_at > retry_s:
                    wait_s = retry_s
                is_early = self._has_restarted or await self._pause(wait_s)
                wait_s = retry_s if is_early else min(2 * wait_s, MAX_RETRY_FACTOR * retry_s)
        finally:
            await self.close()

    async def _pause(self, wait_s: float) -> bool:
        """Wait before a retry; True if a login ended the wait."""
        until = monotonic() + wait_s
        while (left_s := until - monotonic()) > 0:
            await asyncio.sleep(min(left_s, self._intervals.poll_s))
            is_refused = self.health.unready != "server_down"
            if is_refused and self._auth is not None and await self._auth.is_renewed():
                return True
        return False

    async def _connect_once(self, target: Target) -> float | None:
        """Connect and serve until the end; return the time when the server was up, or None."""
        connection, up_at = self._connection(target, has_one_caller=self._pool.is_shared), None
        try:
            async with self._pool.connecting:
                await connection.open(self._intervals.connect_s)
                listed = await self._listing(connection)
            self._main, up_at = connection, monotonic()
            self._set_health("up", "")
            await self._pool.take_listing(self.name, *listed)
            self.settled.set()
            await self._watch(connection, listed[-1])
        except Exception as error:
            logger.debug("the server %r failed", self.name, exc_info=True)
            connection.give_up(_reason(error))
        finally:
            self._main = None
            await asyncio.shield(connection.close())
        if isinstance(target, HttpTarget):
            # All sessions ended with the server, but another conversation's process may survive.
            await self.close()
        self._has_restarted = up_at is not None and connection.has_lost_session
        is_started = up_at is not None or isinstance(target, HttpTarget)
        self._set_health("down", *self._refusal(connection), is_started=is_started)
        self.settled.set()
        return up_at

    def _connection(self, target: Target, *, has_one_caller: bool) -> UpstreamConnection:
        observe = self._pool.observe_call
        return UpstreamConnection(
            target, has_one_caller=has_one_caller, auth=self._auth, observe_call=observe
        )

    def _refusal(self, connection: UpstreamConnection) -> tuple[str, Unready]:
        """Reason why a connection ended, in words and for programs."""
        if not connection.lacks_authorisation:
            return connection.reason, "server_down"
        if self._auth is None:
            return connection.reason, "needs_authorisation"
        unready = "authorisation_expired" if self._auth.login else "needs_authorisation"
        return f"it {STATE_TEXTS[unready]}: run `{self.login}`", unready

    async def _watch(self, connection: UpstreamConnection, offers: Offers) -> None:
        """Follow changes of the lists until the connection ends, or the server does not answer."""
        listed_at = monotonic()
        while not connection.ended.is_set():
            await wait_for_first(self._intervals.ping_s, connection.ended, connection.changed)
            is_due = monotonic() - listed_at >= self._intervals.refresh_s
            is_complete = connection.announces_changes and len(offers) == len(OFFER_KINDS)
            if connection.changed.is_set() or (is_due and not is_complete):
                listed_at = monotonic()
                tools, instructions, offers = await self._listing(connection)
                await self._pool.take_listing(self.name, tools, instructions, offers)
            elif not connection.ended.is_set():
                await self._check(connection)
            await self._close_idle()

    async def _check(self, connection: UpstreamConnection) -> None:
        # A server may be too busy with a call to answer; calls have their own timeout.
        pong_s = self._intervals.pong_s
        is_lost = connection.has_lost_session
        if not is_lost and (connection.is_busy or await connection.is_alive(pong_s)):
            return
        if connection.has_lost_session:
            if connection is self._main:
                # Calls wait from now on, until the server is connected to again.
                self._attempt_ended.clear()
            connection.give_up("it ended the session, as after a restart")
        elif connection.lacks_authorisation:
            connection.give_up("it refuses the authorisation that it took before")
        elif not connection.is_over:
            connection.give_up(f"it gave no sign of life within {pong_s:g} s")
        await connection.close()

    async def _listing(self, connection: UpstreamConnection) -> tuple[list[Any], str, Offers]:
        """Tools, instructions and offers of the server."""
        try:
            async with asyncio.timeout(self._intervals.connect_s):
                tools = await connection.tools()
        except TimeoutError:
            raise ServiceUnavailableError(
                f"it did not list its tools within {self._intervals.connect_s:g} s"
            ) from None
        offers = await _list_offers(self.name, connection, self._intervals.offers_s)
        return tools, connection.instructions, offers

    def _set_health(
        self,
        state: UpstreamState,
        reason: str,
        unready: Unready = "server_down",
        *,
        is_started: bool = True,
    ) -> None:
        changed = (state, unready) != (self.health.state, self.health.unready)
        since = monotonic() if changed else self.health.since
        self.health = UpstreamHealth(state, reason, since, unready, is_started)
        # A restarted server is connected to again at once, so calls wait for it.
        if state == "up" or not self._has_restarted:
            self._attempt_ended.set()
        if changed:
            self._pool.report_health(self)

    # -- connections of conversations ------------------------------------------------------------

    async def connection(self, key: str) -> UpstreamConnection:
        """A conversation's own connection; the main connection for clients with a shared key.

        Raises:
            ServiceUnavailableError: the server is dead, or refuses another connection.
            OverloadedError: too many conversations have calls under way.
        """
        if not self._attempt_ended.is_set():
            await wait_for_first(self._intervals.connect_s, self._attempt_ended)
        if self._main is None or self._main.is_over:
            raise ServiceUnavailableError(self.health.reason or "the server does not answer")
        if self._pool.is_shared or key == SHARED_KEY:
            return self._main
        known = self._own.get(key)
        if known is not None and not known.is_over:
            return known
        if key not in self._opening:
            self._opening[key] = asyncio.create_task(self._open(key))
            # Retrieve the error even if the caller has left.
            self._opening[key].add_done_callback(lambda task: task.cancelled() or task.exception())
        opening = self._opening[key]
        # Unlike `shield`, this keeps a cancelled opening from ending the caller's conversation.
        await asyncio.wait({opening})
        if opening.cancelled():
            raise ServiceUnavailableError(self.health.reason or "the connection was closed")
        return opening.result()

    async def ask(self, key: str, work: Callable[[ClientSession], Awaitable[_Answer]]) -> _Answer:
        """Run a request that is no call, over a conversation's connection.

        Raises:
            TimeoutError: the request takes too long.
            ServiceUnavailableError, OverloadedError: as for `connection`.
        """
        connection = await self.connection(key)
        connection.reads += 1
        try:
            async with asyncio.timeout(self._intervals.call_s):
                return await work(connection.session)
        finally:
            connection.reads -= 1
            connection.used_at = monotonic()

    async def _open(self, key: str) -> UpstreamConnection:
        assert self.config.target is not None
        try:
            if len(self._own.keys() | self._opening.keys()) > MAX_CONNECTIONS:
                await self._evict()
            connection = self._connection(self.config.target, has_one_caller=True)
            await connection.open(self._intervals.connect_s)
        except ServiceUnavailableError as error:
            logger.warning("%s: a conversation got no connection: %s", self.name, error)
            raise
        finally:
            del self._opening[key]
        self._own[key] = connection
        return connection

    async def _evict(self) -> None:
        """Close the longest idle conversation's connection: many clients end without notice."""
        idle = {key: each.used_at for key, each in self._own.items() if not each.is_busy}
        if not idle:
            raise OverloadedError(
                f"{MAX_CONNECTIONS} conversations are using the server {self.name!r}"
            )
        await self._own.pop(min(idle, key=idle.__getitem__)).close()

    async def check(self, connection: UpstreamConnection) -> None:
        """Check that the server is alive, after a failed call."""
        await self._check(connection)
        if self._main is not None and self._main is not connection:
            await self._check(self._main)

    async def leave(self, key: str) -> None:
        """Close the connections of an ended conversation."""
        if (opening := self._opening.get(key)) is not None:
            opening.cancel()
        if (connection := self._own.pop(key, None)) is not None:
            await connection.close()

    async def close(self) -> None:
        """Close all connections to the server."""
        for opening in self._opening.values():
            opening.cancel()
        connections = [self._main, *self._own.values()]
        self._own.clear()
        await asyncio.gather(*(each.close() for each in connections if each is not None))

    async def _close_idle(self) -> None:
        for key, each in list(self._own.items()):
            is_idle = monotonic() - each.used_at > self._intervals.idle_s and not each.is_busy
            # A new connection may have replaced this one.
            if (each.is_over or is_idle) and self._own.get(key) is each:
                del self._own[key]
                await each.close()


class UpstreamPool:
    """Servers behind the gateway. Texts of the pool contain none of the servers' own words.

    `take_listing` gets a server's name, its unparsed tools, its instructions, and its prompts and
    resources, whenever they may have changed; `report_health` gets a server whose health has
    changed. `is_shared`: all calls come from one client and share one connection. `observe_call` is
    called after each call of a server's tool.
    """

    def __init__(
        self,
        configs: Iterable[ServerConfig],
        take_listing: TakeListing,
        report_health: Callable[[Upstream], None],
        intervals: Intervals,
        *,
        is_shared: bool = False,
        logins: Logins | None = None,
    ) -> None:
        self.take_listing, self.report_health = take_listing, report_health
        self.intervals, self.is_shared, self.logins = intervals, is_shared, logins
        self.connecting = asyncio.Semaphore(MAX_PARALLEL_CONNECTIONS)
        self.observe_call: ObservedCall = lambda _transport, _took_s, _error: None
        self._upstreams = {each.name: Upstream(each, self) for each in configs}
        self._removed_upstreams: BoundedMap[str, Upstream] = BoundedMap(MAX_REMOVED_SERVERS)

    def add(self, config: ServerConfig) -> Upstream:
        """Add a server."""
        self._upstreams = {**self._upstreams, config.name: Upstream(config, self)}
        return self._upstreams[config.name]

    def remove(self, name: str) -> None:
        """Remove a server, whose run must end; its last calls still find it, in the state down."""
        kept = dict(self._upstreams)
        self._removed_upstreams[name] = removed = kept.pop(name)
        removed.is_removed = True
        self._upstreams = kept

    def __getitem__(self, name: str) -> Upstream:
        return self._upstreams.get(name) or self._removed_upstreams[name]

    def __iter__(self) -> Iterator[Upstream]:
        return iter(self._upstreams.values())

    def is_of_one_client(self, key: str) -> bool:
        """False if several clients may share a key, so that their calls are indistinguishable."""
        return key != SHARED_KEY or self.is_shared

    def unavailable_servers(self) -> tuple[str, ...]:
        """Names of servers whose tools cannot be called."""
        return tuple(each.name for each in self if not each.is_up)

    def note(self, server: str) -> str:
        """Note for tools that cannot be called; empty if they can, or soon will be."""
        health = self[server].health
        is_dead = health.state in {"down", "unusable"}
        return f"[cannot be called now: its server {health.in_words}]" if is_dead else ""

    def unready(self, server: str) -> Unready | None:
        """Reason why a server's tools cannot be called; None if they can."""
        return None if self[server].is_up else self[server].health.unready

    def login(self, server: str) -> str:
        """Command line of a login after which a server can be called; empty if none helps."""
        waits = self.unready(server) in {"needs_authorisation", "authorisation_expired"}
        return self[server].login if waits else ""

    async def wait(
        self,
        context: Context | None,
        events: Sequence[asyncio.Event],
        patience_s: float | None = None,
    ) -> bool:
        """Wait a bounded time for events, and report progress; False if all were set before."""
        if patience_s is None:
            patience_s = self.intervals.patience_s
        until, waited = monotonic() + patience_s, False
        while pending := [event for event in events if not event.is_set()]:
            waited = True
            if (left := until - monotonic()) <= 0:
                break
            if context is not None:
                done = len(events) - len(pending)
                await context.report_progress(done, len(events), "connecting to servers")
            await wait_for_first(left, *pending)
        return waited

    async def wait_settled(self) -> None:
        """Wait until every server is connected, or has failed once."""
        await asyncio.gather(*(each.settled.wait() for each in self))

    async def leave(self, key: str) -> None:
        """Close the connections of an ended conversation."""
        await asyncio.gather(*(each.leave(key) for each in self))

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(each.close() for each in self))


async def _list_offers(name: str, connection: UpstreamConnection, timeout_s: float) -> Offers:
    """List prompts and resources; a kind that fails is omitted, unless the connection is over."""
    session, server = connection.session, connection.session.server_capabilities
    offers: Offers = {}
    has_prompts, has_resources = server and server.prompts, server and server.resources
    lists: list[tuple[OfferKind, Any, Callable[..., Awaitable[Any]], str]] = [
        ("prompt", has_prompts, session.list_prompts, "prompts"),
        ("resource", has_resources, session.list_resources, "resources"),
        ("template", has_resources, session.list_resource_templates, "resourceTemplates"),
    ]
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            for kind, has_any, ask, field in lists:
                try:
                    with connection.unparsed(field) as items:
                        if has_any:
                            await _request_pages(ask, items)
                    offers[kind] = items[:MAX_OFFERS]
                except (MCPError, ValidationError) as error:
                    if isinstance(error, MCPError) and is_closed(error):
                        raise
                    logger.warning("%s: %s cannot be listed: %s", name, field, _reason(error))
            return offers
    logger.warning("%s: prompts and resources were not all listed within %g s", name, timeout_s)
    return offers


async def _request_pages(ask: Callable[..., Awaitable[PaginatedResult]], items: list[Any]) -> None:
    """Request the pages of a list that fill `items`, until there are `MAX_OFFERS`."""
    cursor: str | None = None
    for _ in range(MAX_OFFER_PAGES):
        try:
            page = await ask(params=PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            # A server with resources may have no templates.
            if error.code != METHOD_NOT_FOUND:
                raise
            break
        if len(items) >= MAX_OFFERS or page.next_cursor in {None, "", cursor}:
            break
        cursor = page.next_cursor


def _reason(error: Exception) -> str:
    if isinstance(error, MCPError) and is_closed(error):
        # The connection has the reason.
        return ""
    if isinstance(error, MCPError):
        return f"it answered with the error {error.message[:200]!r} (code {error.code})"
    if isinstance(error, ValidationError):
        return "it answered with something that is not MCP"
    return str(error) or "it does not answer"
