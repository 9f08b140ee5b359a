"""Gateway index: screens the tools that servers list, and makes them searchable."""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any, TypeAlias, TypeVar

from fastmcp.server.auth import AccessToken

from toolcrib.access.logins import Logins
from toolcrib.audit import blocks
from toolcrib.crib import Crib
from toolcrib.errors import StoreError, ToolcribError, UnknownToolError
from toolcrib.gateway.approval import NON_TOOL_ID_MARK, Approval, Screening, Specs, is_tool
from toolcrib.gateway.auth import granted_scope, has_tool
from toolcrib.gateway.catalog import CatalogEntry, ToolCatalog
from toolcrib.gateway.config import ServerConfig
from toolcrib.gateway.downstream import Reporter
from toolcrib.gateway.offers import is_offer, offer_specs
from toolcrib.gateway.upstream import OFFER_KINDS, Offers
from toolcrib.indexers.readers.mcp import tool_specs
from toolcrib.indexers.sync import is_current
from toolcrib.indexers.writer import Listener, ignore
from toolcrib.records import Refusal, Scope, ToolSpec
from toolcrib.records.codec import object_of
from toolcrib.records.definitions import provider_name
from toolcrib.records.reports import Held, Unready
from toolcrib.store.filters import And, Equals, Not, from_scope
from toolcrib.store.payload import tool_payload
from toolcrib.store.records_db import DbRow, RecordsDb
from toolcrib.text import LETTERS_OR_DIGITS, count_of, name_words

IS_SKILL = Equals("kind", "skill")
"""Skills are indexed too. A skill belongs to no server, even if its server field names one."""

OPENING_MESSAGE = "The index of tools is still opening. Search again in a moment."

LISTINGS_NAMESPACE = "listings/default"
"""Records namespace: the last listing of each server, served until the server is connected."""

INSTRUCTIONS_SUFFIX = f"{NON_TOOL_ID_MARK}instructions"
"""Suffix of the id of a server's instructions, which are screened like a tool's text."""

MAX_SERVER_INSTRUCTIONS_CHARS = 4_000

MAX_REPORTED_WARNINGS = 5
"""Warnings about one server that are reported to the operator singly."""

_Result = TypeVar("_Result")

logger = logging.getLogger(__name__)

ListenerScope: TypeAlias = Callable[[], AbstractContextManager[Listener]]
"""Opens a listener for one run, and closes it with the run."""


def ignore_all() -> AbstractContextManager[Listener]:
    """Open a listener that ignores progress."""
    return nullcontext(ignore)


@dataclass(frozen=True, slots=True)
class Storage:
    """Location of the index, its records database, approvals, and logins at servers."""

    location: str
    records_db: RecordsDb
    approval: Approval
    logins: Logins | None = None


@dataclass(frozen=True, slots=True)
class PendingServer:
    """Server whose current tools are not searchable yet, `since` a monotonic time.

    `over` is set once waiting longer is of no use.
    """

    since: float = field(default_factory=time.monotonic)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class GatewayIndex:
    """Screens what servers list, offers what passes, and synchronises the index with the offer.

    A tool that may no longer be served leaves the `catalog` first; a new tool joins once it is
    searchable, server by server. Until then the server is `pending`, as is a server that has not
    listed its tools. `offers`: specs that are no tools. `instructions`: those that passed, by
    server. `scope`: of the tools to serve. `notify_change` is called after every change.
    `problem`: error of the last screening, or None.
    """

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        scope: Scope,
        storage: Storage,
        report: Reporter,
        notify_change: Callable[[], None],
        progress: ListenerScope,
    ) -> None:
        self.scope = scope
        self.catalog, self.offers = ToolCatalog(), ToolCatalog()
        self.pending = {config.name: PendingServer() for config in configs}
        self.instructions: dict[str, str] = {}
        self.is_open, self.is_recalled = asyncio.Event(), asyncio.Event()
        self.problem: str | None = None
        self._configs = {config.name: config for config in configs}
        self._storage = storage
        self._report, self._notify_change, self._progress = report, notify_change, progress
        self._crib: Crib | None = None
        self._listings: dict[str, Specs] = {}
        self._screened_listings: Mapping[str, Specs] = {}
        self._screenings: dict[str, Screening] = {}
        self._unindexed_servers: set[str] = set()
        self._not_offered: dict[str, list[tuple[CatalogEntry, Unready]]] = {}
        self._removed_servers: list[str] = []
        self._reviews_asked = self._reviews_done = 0
        self._one_at_a_time = asyncio.Lock()
        self._threads: set[asyncio.Task[Any]] = set()

    async def work(self, job: Callable[..., _Result], *given: Any, **more: Any) -> _Result:
        """Run a job on index or records in a thread, which continues after a cancellation."""
        thread = asyncio.create_task(asyncio.to_thread(job, *given, **more))
        self._threads.add(thread)
        thread.add_done_callback(self._threads.discard)
        return await asyncio.shield(thread)

    async def wait_for_jobs(self) -> None:
        """Wait for the jobs in threads, before their data are closed or cleared."""
        if self._threads:
            await asyncio.wait(self._threads)

    def scope_of(self, token: AccessToken | None) -> Scope:
        """Scope of a key's holder."""
        return granted_scope(token, self.scope)

    def grants(self, token: AccessToken | None) -> Callable[[CatalogEntry], bool]:
        """Function that is true for a tool that a key's holder may find and call."""
        where = from_scope(self.scope_of(token))
        return lambda entry: entry.fits(where) and has_tool(token, entry.spec.id)

    def find(self, name: str, token: AccessToken | None) -> CatalogEntry | None:
        """Tool with this name for a key's holder; tools out of their reach change nothing."""
        return self.catalog.find(name, self.grants(token))

    @property
    def crib(self) -> Crib:
        """Crib of the index; available once `is_open` is set."""
        assert self._crib is not None
        return self._crib

    def held_count_of(self, server: str) -> int:
        """Number of a server's quarantined tools."""
        return sum(is_tool(each.spec) for each in self._screenings.get(server, Screening()).held)

    def knows(self, server: str) -> bool:
        """True once a server's listing was screened."""
        return server in self._screenings

    def list_held(self) -> list[Held]:
        """All quarantined specs, also those that are no tools."""
        return [held for each in self._screenings.values() for held in each.held]

    def unready(self, name: str, token: AccessToken | None) -> Unready:
        """Reason why a tool that is not offered cannot be called, for the holder of a key."""
        is_granted = self.grants(token)
        for entry, reason in self._not_offered.get(name, ()):
            if is_granted(entry) and self.catalog.get(entry.spec.id) is None:
                return reason
        return "unknown"

    def held_names(self, text: str, token: AccessToken | None) -> list[str]:
        """Names of quarantined tools that share a word with a text, for the holder of a key.

        A name with a finding of the audit is left out, because a model reads it here.
        """
        words = frozenset(map(str.lower, LETTERS_OR_DIGITS.findall(text)))
        every = (pair for pairs in self._not_offered.values() for pair in pairs)
        quarantined = (entry for entry, reason in every if reason == "quarantined")
        held = filter(self.grants(token), quarantined)
        missed = (entry for entry in held if name_words(entry.spec.name) & words)
        hostile = {
            each.spec.id
            for each in self.list_held()
            if blocks((f for f in each.findings if f.place == "name"), strict=True)
        }
        shown = (each for each in missed if is_tool(each.spec) and each.spec.id not in hostile)
        return sorted({each.name for each in shown})

    def _unoffered_tools(self) -> dict[str, list[tuple[CatalogEntry, Unready]]]:
        """Tools that are not offered, by id and by name, each with a reason."""
        found: dict[str, list[tuple[CatalogEntry, Unready]]] = {}
        for server, each in self._screenings.items():
            withheld: list[tuple[ToolSpec, Unready]] = [
                *((held.spec, "quarantined") for held in each.held),
                *((spec, "disabled") for spec in filter(is_tool, each.served)),
            ]
            for spec, reason in withheld:
                if self.catalog.get(spec.id) is None:
                    offered, name = self._configs[server].as_offered(spec), provider_name(spec)
                    entry = CatalogEntry(name, offered, tool_payload(offered))
                    for known_as in {spec.id, name}:
                        found.setdefault(known_as, []).append((entry, reason))
        return found

    async def recall(self) -> None:
        """Offer the servers' listings of the last run."""
        try:
            for server, specs in (await self.work(self._read_listings)).items():
                if server in self._configs:
                    self._listings.setdefault(server, specs)
                else:
                    self._removed_servers.append(server)
            await self.review()
        finally:
            self.is_recalled.set()

    async def add(self, config: ServerConfig) -> None:
        """Wait for the tools of a server that was added to the configuration."""
        async with self._one_at_a_time:
            self._configs[config.name] = config
            self.pending[config.name] = PendingServer()

    async def remove(self, server: str) -> None:
        """Stop serving a server that was removed from the configuration."""
        async with self._one_at_a_time:
            # A cancelled review leaves the lock, but its thread still writes the server's tools.
            await self.wait_for_jobs()
            self._listings.pop(server, None)
            self.pending.pop(server, None)
            self._unindexed_servers.discard(server)
            await self._offer(server, Screening(), ())
            self._screenings = {k: v for k, v in self._screenings.items() if k != server}
            del self._configs[server]
            if self._crib is None:
                self._removed_servers.append(server)
            else:
                await self.work(self._forget, server)
        self._notify_change()

    async def open(self, crib: Crib) -> None:
        """Use this crib for searches from now on."""
        async with self._one_at_a_time:
            self._crib = crib
            for server in self._screenings:
                specs = [entry.spec for entry in self.catalog.of(server)]
                if not await self.work(self._has, server, specs):
                    await self._index(server, specs)
                self._end_pending(server)
            for server in self._removed_servers:
                await self.work(self._forget, server)
        self.is_open.set()
        self._notify_change()

    async def receive(
        self, server: str, tools: Sequence[Any], instructions: str, offers: Offers
    ) -> None:
        """Receive a server's unparsed listing and instructions.

        Offers of a kind that could not be listed stay: otherwise a server could undo a quarantine.
        """
        if len(offers) < len(OFFER_KINDS):
            await self.is_recalled.wait()
        if server not in self._configs:
            return
        specs = (*self._tool_specs(server, tools), *self._offer_specs(server, offers))
        if text := instructions.strip()[:MAX_SERVER_INSTRUCTIONS_CHARS]:
            key, name = server + INSTRUCTIONS_SUFFIX, f"{server} instructions"
            own = ToolSpec(id=key, name=name, server=server, description=text, enabled=False)
            specs = (*specs, own)
        if self._listings.get(server) == specs:
            return
        self._listings[server] = specs
        names = [spec.name for spec in filter(is_tool, specs)]
        for pattern in self._configs[server].tools.idle_patterns(names):
            self._report("warning", f"{server}: {pattern!r} in a list of its tools matches no tool")
        if server not in self.pending or self.pending[server].over.is_set():
            self.pending[server] = PendingServer()
        await self.review()
        await self.work(self._write_listing, server, specs)

    async def review(self) -> None:
        """Screen all listings, and offer what passes.

        Calls during a review share the next review.
        """
        self._reviews_asked += 1
        mine = self._reviews_asked
        async with self._one_at_a_time:
            if self._reviews_done >= mine:
                return
            newest = self._reviews_asked
            self._screened_listings = dict(self._listings)
            await self._serve(await self.work(self._screen, self._screened_listings))
            self._reviews_done = newest
        self._notify_change()

    async def _serve(self, screened: Mapping[str, Screening]) -> None:
        """Offer and index what passed; first remove what may no longer be served."""
        served = await self.work(self._with_overlays, screened)
        tools = {server: list(filter(is_tool, specs)) for server, specs in served.items()}
        self.catalog = await self.work(self.catalog.without_changed, tools)
        for server, each in screened.items():
            if each != self._screenings.get(server):
                await self._index(server, tools[server])
                await self._offer(server, each, served[server])
                self._report_screening(server, each)
            self._end_pending(server)

    async def _offer(self, server: str, screened: Screening, served: Sequence[ToolSpec]) -> None:
        """Replace what a server serves."""
        catalog = await self.work(self.catalog.with_listing, server, filter(is_tool, served))
        offers = await self.work(self.offers.with_listing, server, filterfalse(is_tool, served))
        # Replace both together: a template's quarantined resources must block reads at once.
        self.catalog, self.offers = catalog, offers
        self._screenings = {**self._screenings, server: screened}
        self.instructions.pop(server, None)
        for spec in screened.served:
            if spec.id == server + INSTRUCTIONS_SUFFIX:
                self.instructions[server] = spec.description
        self._not_offered = await self.work(self._unoffered_tools)
        self._notify_change()

    def _end_pending(self, server: str) -> None:
        """End the waiting for a server, if its last listing is in the index."""
        pending = self.pending.get(server)
        is_newest = self._listings[server] is self._screened_listings.get(server)
        if pending is None or self._crib is None or not is_newest:
            return
        pending.over.set()
        if server not in self._unindexed_servers and self.problem is None:
            del self.pending[server]

    def ready_event(self, server: str) -> asyncio.Event:
        """Event that is set once a server's tools are searchable, or waiting is of no use."""
        pending = self.pending.get(server)
        return self.is_open if pending is None else pending.over

    def give_up(self, server: str) -> None:
        """End the waiting for a server that does not answer."""
        if server in self.pending:
            self.pending[server].over.set()

    def _with_overlays(self, screened: Mapping[str, Screening]) -> dict[str, list[ToolSpec]]:
        return {
            server: [
                (config.as_offered if is_tool(spec) else config.overlay.on)(spec)
                for spec in each.served
            ]
            for server, each in screened.items()
            for config in (self._configs[server],)
        }

    def _screen(self, listed: Mapping[str, Specs]) -> dict[str, Screening]:
        try:
            screened = self._storage.approval.screen(listed, self._find_served)
        except ToolcribError as error:
            # Unscreened new specs are not served; specs that passed before still are.
            last, self.problem = self.problem, str(error)
            if last != self.problem:
                text = f"tools cannot be screened, so new ones are not served: {error}"
                self._report("error", text)
            before = {server: list(each.served) for server, each in self._screenings.items()}
            return {
                server: Screening(tuple(s for s in specs if s in before.get(server, ())))
                for server, specs in listed.items()
            }
        self.problem = None
        return screened

    def _find_served(self, tool_id: str) -> ToolSpec | None:
        """Served version of a tool; None while the index is not open."""
        if self._crib is not None:
            with suppress(UnknownToolError, StoreError):
                return self._crib.get_tool(tool_id)
        return None

    async def _index(self, server: str, specs: Sequence[ToolSpec]) -> None:
        """Index a server's tools, once the index is open."""
        if self._crib is None:
            return
        try:
            await self.work(self._replace, server, specs)
            self._unindexed_servers.discard(server)
        except StoreError as error:
            self._unindexed_servers.add(server)
            self._report(
                "error", f"{server}: its tools can be called, but not all are searchable: {error}"
            )

    def _has(self, server: str, specs: Sequence[ToolSpec]) -> bool:
        """True if the index has exactly these tools of a server."""
        where = And(Equals("server", server), Not(IS_SKILL))
        try:
            return is_current(self.crib.tools.store, specs, where)
        except StoreError:
            return False

    def _replace(self, server: str, specs: Sequence[ToolSpec]) -> None:
        """Replace a server's tools in the index. Skills belong to no server, and keep their ids."""
        of_name = And(Equals("server", server), IS_SKILL)
        taken = {skill.id: skill for skill in self.crib.list_tools(where=of_name)}
        found = {spec.id: spec for spec in specs} | taken
        if not found:
            gone = self.crib.list_tools(where=Equals("server", server))
            self.crib.remove_tools(*(tool.id for tool in gone))
            return
        with self._progress() as progress:
            self.crib.index_tools(
                list(found.values()), server=server, prune=True, progress=progress
            )
        for spec in specs:
            if spec.id in taken:
                text = f"{spec.name!r} can be called, not searched: a skill has the id {spec.id!r}"
                self._report("warning", f"{server}: {text}")

    def _tool_specs(self, server: str, tools: Sequence[Any]) -> Specs:
        """Specs of valid listed tools; the first of several with one name."""
        specs: dict[str, ToolSpec] = {}
        for tool, item in zip(tools, tool_specs(server, "tools", list(tools), server), strict=True):
            if isinstance(item, Refusal):
                self._report("warning", f"{server}: {item.place} is left out: {item.reason}")
            # MCP had tasks from 2025 to 2026.
            elif object_of(tool.get("execution")).get("taskSupport") == "required":
                text = f"{server}: {item.name!r} is left out: it can be called as a task only"
                self._report("warning", text)
            elif specs.setdefault(item.id, item) is not item:
                text = f"{server}: {item.name!r} is listed twice; the first one counts"
                self._report("warning", text)
        return tuple(specs.values())

    def _offer_specs(self, server: str, offers: Offers) -> Iterator[ToolSpec]:
        """Specs of valid prompts and resources."""
        last = self._listings.get(server, ())
        kept = [s for k in OFFER_KINDS if k not in offers for s in last if is_offer(s, k)]
        for item in {
            each.place if isinstance(each, Refusal) else each.id: each
            for each in (*kept, *offer_specs(server, offers))
        }.values():
            if isinstance(item, Refusal):
                self._report("warning", f"{server}: {item.place} is left out: {item.reason}")
            else:
                yield item

    def _report_screening(self, server: str, screened: Screening) -> None:
        served, held = len(self.catalog.of(server)), len(screened.held)
        text = f"{server}: {count_of(served, 'tool')}"
        text += f", {screened.locked:,} locked" if screened.locked else ""
        if held:
            place = shlex.quote(self._storage.location)
            text += f", {held:,} held back: see `toolcrib approve --list --store {place}`"
        self._report("warning" if held else "info", text)
        for each in screened.warnings[:MAX_REPORTED_WARNINGS]:
            doubt = f"{each.why} ({each.rule}, {each.place}): {each.excerpt}"
            self._report("warning", f"{each.tool} is served with a warning: {doubt}")
        if (more := len(screened.warnings) - MAX_REPORTED_WARNINGS) > 0:
            self._report("warning", f"{server}: {more:,} more; see `toolcrib audit`")

    async def follow_approvals(self, poll_s: float) -> None:
        """Review again whenever approvals have changed, checked every `poll_s`."""
        seen: object = None
        last_problem: str | None = None
        while True:
            try:
                # Read before the review, so that an approval during the review counts as a change.
                now = await asyncio.to_thread(self._storage.approval.state)
                if now != seen or self.problem:
                    await self.review()
                seen, last_problem = now, None
            except ToolcribError as error:
                if str(error) != last_problem:
                    logger.warning("approvals cannot be read: %s", error)
                last_problem = str(error)
            await asyncio.sleep(poll_s)

    # -- listings of the last run ------------------------------------------------------------

    def _read_listings(self) -> dict[str, Specs]:
        try:
            kept = list(self._storage.records_db.read(LISTINGS_NAMESPACE))
            return {
                entry.id: tuple(map(ToolSpec.model_validate, entry.body["tools"])) for entry in kept
            }
        except (StoreError, KeyError, TypeError, ValueError) as error:
            self._report("warning", f"the last listings of servers cannot be read: {error}")
            return {}

    def _write_listing(self, server: str, specs: Specs) -> None:
        tools = [spec.model_dump(mode="json", exclude_defaults=True) for spec in specs]
        try:
            self._storage.records_db.put(
                LISTINGS_NAMESPACE, DbRow(server, time.time(), {"tools": tools})
            )
        except StoreError as error:
            self._report("warning", f"{server}: its listing cannot be stored: {error}")

    def _forget(self, server: str) -> None:
        """Remove all records of a server that is no longer configured."""
        try:
            self._replace(server, ())
            self._storage.records_db.delete(LISTINGS_NAMESPACE, server)
        except StoreError as error:
            self._report("warning", f"{server}: its old records cannot be removed: {error}")
