"""Index of the gateway: what servers list, judged, offered, and kept to be found."""

from __future__ import annotations

import asyncio
import logging
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from toolcrib.access.lock_file import LockFile
from toolcrib.access.quarantine import Quarantine
from toolcrib.build import MEMORY
from toolcrib.crib import Crib
from toolcrib.errors import StoreError, ToolcribError, UnknownToolError
from toolcrib.gateway.catalog import CatalogEntry, ToolCatalog
from toolcrib.gateway.config import ServerConfig
from toolcrib.gateway.downstream import Reporter
from toolcrib.gateway.offers import MARK, is_offer, offer_specs
from toolcrib.gateway.upstream import OFFER_KINDS, OfferKind, Offers
from toolcrib.indexers.audit import audit_all, blocks
from toolcrib.indexers.readers.base import is_object
from toolcrib.indexers.readers.mcp import tool_specs
from toolcrib.indexers.writer import ListenerScope, unheard
from toolcrib.integrations.formats import provider_name
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.audit import Finding, Held
from toolcrib.records.reports import Unready
from toolcrib.settings import Settings
from toolcrib.store.filters import And, Equals, Filter
from toolcrib.store.payload import tool_payload
from toolcrib.store.records_db.base import DbRow, RecordsDb
from toolcrib.tenants import Tenants

__all__ = ["IS_SKILL", "OPENING", "Approval", "GatewayIndex", "Screening", "Storage", "StoreThread"]

IS_SKILL = Equals("kind", "skill")
"""What stands in the index too and is of no server, even where one is called as it is."""

OPENING = "The index of tools is still being opened. Search again in a moment."

LISTINGS = "listings/default"
"""What each server listed last: what is served before it is connected to again."""

INSTRUCTIONS = f"{MARK}instructions"
"""Ends the id under which what a server says of how to use it is judged, as a tool's text is."""

MAX_INSTRUCTIONS = 4_000

NEW = "new on a server that is known"
CHANGED = "changed since it was approved"
UNLOCKED = "its server was locked, and the lock file names it no more; restore that, or approve it"
DANGEROUS = "its text is dangerous to a model"

Specs: TypeAlias = tuple[ToolSpec, ...]

_Result = TypeVar("_Result")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Screening:
    """What may be served, what is held back until somebody approves it, how many it locked."""

    served: Specs = ()
    held: tuple[Held, ...] = ()
    locked: int = field(default=0, compare=False)


class Approval:
    """Approval of tools by the lock file, by hand, or by the audit at the first meeting.

    Of a server that was never met, what the audit lets pass is served and all is remembered;
    `locks` writes it into the lock file, too. From then on the server is known: what is not
    remembered with its very digest is held back. Of a server that is, or ever was, in the lock
    file only what stands there is served, whatever the audit says. All servers are looked at side
    by side: a tool may meddle with another server's. Without `audits` all is served.
    Safe for several threads.
    """

    def __init__(
        self, lock: LockFile, quarantine: Quarantine, *, locks: bool = False, audits: bool = True
    ) -> None:
        self._lock, self._quarantine, self._locks = lock, quarantine, locks
        self._audits = audits
        self._one_at_a_time = threading.Lock()
        self._held: dict[str, str] = {}

    def screen(self, listings: Mapping[str, Sequence[ToolSpec]]) -> dict[str, Screening]:
        """Judge all tools that the servers list.

        Raises:
            ToolcribError: lock file or records cannot be read.
        """
        with self._one_at_a_time:
            self._lock.read()
            if not self._audits:
                return {name: Screening(tuple(specs)) for name, specs in listings.items()}
            held_before = self._quarantine.list()
            found: dict[str, list[Finding]] = {}
            for finding in audit_all(spec for specs in listings.values() for spec in specs):
                found.setdefault(finding.tool, []).append(finding)
            locked = self._ever_locked()
            screened = {
                name: self._screened(name, specs, found, is_locked=name in locked)
                for name, specs in listings.items()
            }
            self._ever_locked()
            self._held = {h.tool_id: h.digest for one in screened.values() for h in one.held}
            for stale in held_before:
                is_ours = stale.server in listings and stale.spec.kind != "skill"
                if is_ours and stale.tool_id not in self._held:
                    # Somebody may have rejected it meanwhile.
                    with suppress(UnknownToolError):
                        self._quarantine.reject(stale.tool_id)
            return screened

    def _ever_locked(self) -> frozenset[str]:
        return self._quarantine.record_locked(str(self._lock.path.absolute()), self._lock.servers())

    def _screened(
        self,
        server: str,
        specs: Sequence[ToolSpec],
        found: Mapping[str, list[Finding]],
        *,
        is_locked: bool,
    ) -> Screening:
        locked = self._lock.read().get(server)
        unknown = NEW if locked is not None or not is_locked else UNLOCKED
        pins = (locked or {}) if is_locked else self._quarantine.first_digests(server)
        served: list[ToolSpec] = []
        held: list[Held] = []
        for spec in specs:
            findings = found.get(spec.id, [])
            pinned = None if pins is None else pins.get(spec.id)
            is_known = pins is None or spec.digest == pinned
            may_pass = is_known and (locked is not None or not blocks(findings))
            if may_pass or self._quarantine.approved_digest(spec.id) == spec.digest:
                served.append(spec)
            else:
                why = CHANGED if pinned else unknown
                if blocks(findings) and not is_locked:
                    why = DANGEROUS
                held.append(self._hold(spec, why, findings, pinned))
        if pins is None and specs:
            self._quarantine.keep_first_digests(server, specs)
        locks = self._locks and not is_locked and bool(served)
        if locks:
            self._lock.approve(served)
        return Screening(tuple(served), tuple(held), len(_tools(served)) if locks else 0)

    def _hold(self, spec: ToolSpec, why: str, findings: list[Finding], pinned: str | None) -> Held:
        known = self._quarantine.get(spec.id)
        if known is not None and (known.digest, known.reason) == (spec.digest, why):
            return known
        return self._quarantine.hold(spec, why, findings, was_digest=pinned)

    def state(self) -> tuple[object, ...]:
        """Something that is another thing when approvals may have changed; cheap to ask for."""
        written = None
        with suppress(OSError):
            stat = self._lock.path.stat()
            written = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        held = list(self._held.items())
        return written, tuple(
            each for each, d in held if self._quarantine.approved_digest(each) == d
        )


@dataclass(frozen=True, slots=True)
class Storage:
    """Where the index is, the small records beside it, and who approves tools."""

    location: str
    records_db: RecordsDb
    approval: Approval


class StoreThread:
    """The thread that opens the store and closes it: a folder's lock is its opener's own."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "toolcrib-store")
        self._opened: asyncio.Future[Tenants] | None = None

    async def open(
        self, location: str, settings: Settings, report: Reporter, progress: ListenerScope = unheard
    ) -> Crib:
        """Open the index at a location; it is made of what servers list, so memory will do.

        Raises:
            StoreError: not even memory can be used.
        """

        def opened() -> Tenants:
            with progress() as listener:
                try:
                    return Tenants.open(location, settings=settings, progress=listener)
                except StoreError as error:
                    if location == MEMORY:
                        raise
                    report("warning", f"the index is kept in memory, for this run alone: {error}")
                    return Tenants.open(MEMORY, settings=settings, progress=listener)

        self._opened = asyncio.get_running_loop().run_in_executor(self._thread, opened)
        return (await asyncio.shield(self._opened)).crib()

    async def close(self) -> None:
        """Close it, also where it is only being opened; a second call does nothing."""
        opened, self._opened = self._opened, None
        if opened is not None:
            with suppress(ToolcribError):
                close = (await opened).close
                await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown(wait=False)


@dataclass(frozen=True, slots=True)
class PendingServer:
    """Server whose tools of now cannot be found yet: since when, by the monotonic clock.

    `over` is set once waiting any longer is of no use.
    """

    since: float = field(default_factory=time.monotonic)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class GatewayIndex:
    """Judges what servers list, offers what passes, and keeps the index equal to that.

    A tool that must not be served any more is off the `catalog` before anything else happens;
    a new one is on it once it can be found, server by server. Until then the server is `pending`,
    as is one that has not listed its tools. `offers` are prompts and resources, by kind, since a
    name is no other's where the kinds are not the same. `instructions`
    are what servers say of how to use them, as far as it passes. `changed` is called after every
    change. `problem` says why the last judging failed, None where it did not.
    """

    def __init__(
        self,
        configs: Mapping[str, ServerConfig],
        storage: Storage,
        report: Reporter,
        changed: Callable[[], None],
        progress: ListenerScope,
    ) -> None:
        self.catalog = ToolCatalog()
        self.pending = {server: PendingServer() for server in configs}
        self.offers: dict[OfferKind, ToolCatalog] = {k: ToolCatalog() for k in OFFER_KINDS}
        self.instructions: dict[str, str] = {}
        self.is_open, self.is_recalled = asyncio.Event(), asyncio.Event()
        self.problem: str | None = None
        self._configs, self._storage = configs, storage
        self._report, self._changed, self._progress = report, changed, progress
        self._crib: Crib | None = None
        self._listed: dict[str, Specs] = {}
        self._reviewed: Mapping[str, Specs] = {}
        self._screened: dict[str, Screening] = {}
        self._unindexed: set[str] = set()
        self._not_offered: dict[str, list[tuple[CatalogEntry, Unready]]] = {}
        self._gone: list[str] = []
        self._asked = self._done = 0
        self._one_at_a_time = asyncio.Lock()
        self._threads: set[asyncio.Task[Any]] = set()

    async def work(self, job: Callable[..., _Result], *given: Any, **more: Any) -> _Result:
        """Do something with index or records in a thread; `close` waits for it."""
        thread = asyncio.create_task(asyncio.to_thread(job, *given, **more))
        self._threads.add(thread)
        thread.add_done_callback(self._threads.discard)
        return await asyncio.shield(thread)

    async def close(self) -> None:
        """Wait until nobody is at the index any more: it must not be closed under their hands."""
        if self._threads:
            await asyncio.wait(self._threads)

    @property
    def crib(self) -> Crib:
        """The crib, once it is open."""
        assert self._crib is not None
        return self._crib

    @property
    def held(self) -> int:
        """How many tools are held back."""
        return sum(len(each.held) for each in self._screened.values())

    def knows(self, server: str) -> bool:
        """Whether the server's tools were ever listed."""
        return server in self._screened

    def held_specs(self) -> Iterator[ToolSpec]:
        """All that is held back, tools or not."""
        return (held.spec for each in self._screened.values() for held in each.held)

    def unready(self, name: str, where: Filter | None) -> Unready:
        """Why a tool that is not on offer cannot be called, for a caller within a filter."""
        for entry, reason in self._not_offered.get(name, ()):
            if self.catalog.get(entry.spec.id) is None and entry.fits(where):
                return reason
        return "unknown"

    def _back(self) -> dict[str, list[tuple[CatalogEntry, Unready]]]:
        """The tools that are not on offer, by id and by name, each with why."""
        found: dict[str, list[tuple[CatalogEntry, Unready]]] = {}
        for server, each in self._screened.items():
            back: list[tuple[ToolSpec, Unready]] = [
                *((held.spec, "quarantined") for held in each.held),
                *((spec, "disabled") for spec in _tools(each.served)),
            ]
            for spec, reason in back:
                if self.catalog.get(spec.id) is None:
                    offered, name = self._configs[server].offered(spec), provider_name(spec)
                    entry = CatalogEntry(name, offered, tool_payload(offered))
                    for known_as in {spec.id, name}:
                        found.setdefault(known_as, []).append((entry, reason))
        return found

    async def recall(self) -> None:
        """Offer what the servers listed last time."""
        try:
            for server, specs in (await self.work(self._remembered)).items():
                if server in self._configs:
                    self._listed.setdefault(server, specs)
                else:
                    self._gone.append(server)
            await self.review()
        finally:
            self.is_recalled.set()

    async def open(self, crib: Crib) -> None:
        """Find with this crib from now on."""
        async with self._one_at_a_time:
            self._crib = crib
            for server in self._screened:
                await self._index(server, [entry.spec for entry in self.catalog.of(server)])
                self._settle(server)
            for server in self._gone:
                await self.work(self._forget, server)
        self.is_open.set()
        self._changed()

    async def receive(
        self, server: str, tools: Sequence[Any], instructions: str, offers: Offers
    ) -> None:
        """Take what a server lists and says of how to use it, as it came.

        Of offers that it could not list the last ones stay: else it could lift what is held back.
        """
        if len(offers) < len(OFFER_KINDS):
            await self.is_recalled.wait()
        specs = (*self._read(server, tools), *self._offered(server, offers))
        if text := instructions.strip()[:MAX_INSTRUCTIONS]:
            specs = (*specs, _instructions(server, text))
        if self._listed.get(server) == specs:
            return
        self._listed[server] = specs
        if server not in self.pending or self.pending[server].over.is_set():
            self.pending[server] = PendingServer()
        await self.review()
        await self.work(self._remember, server, specs)

    async def review(self) -> None:
        """Judge everything that is listed, and offer what passes.

        Whoever comes while this goes on is done together with the others who have come by then.
        """
        self._asked += 1
        mine = self._asked
        async with self._one_at_a_time:
            if self._done >= mine:
                return
            newest = self._asked
            self._reviewed = dict(self._listed)
            await self._serve(await self.work(self._judged, self._reviewed))
            self._done = newest
        self._changed()

    async def _serve(self, screened: Mapping[str, Screening]) -> None:
        """Offer and index what has passed; what must not be served any more goes first."""
        served = await self.work(self._overlaid, screened)
        tools = {server: _tools(specs) for server, specs in served.items()}
        self.catalog = await self.work(self.catalog.narrowed, tools)
        for server, each in screened.items():
            if each != self._screened.get(server):
                await self._index(server, tools[server])
                await self._offer(server, each, served[server])
                self._tell(server, each)
            self._settle(server)

    async def _offer(self, server: str, screened: Screening, served: Sequence[ToolSpec]) -> None:
        """Put what a server may serve in place of what it served before."""
        catalog = await self.work(self.catalog.replaced, {server: _tools(served)})
        offers = await self.work(self._offers_of, {server: served})
        # At once: a template must not be offered without what is held back of its resources.
        self.catalog, self.offers = catalog, offers
        self._screened = {**self._screened, server: screened}
        self.instructions.pop(server, None)
        told = filter(_is_instructions, screened.served)
        self.instructions.update((spec.server, spec.description) for spec in told)
        self._not_offered = await self.work(self._back)
        self._changed()

    def _settle(self, server: str) -> None:
        """End the waiting for a server, where there is an index of what it listed last."""
        pending = self.pending.get(server)
        is_newest = self._listed[server] is self._reviewed.get(server)
        if pending is None or self._crib is None or not is_newest:
            return
        pending.over.set()
        if server not in self._unindexed and self.problem is None:
            del self.pending[server]

    def arrival(self, server: str) -> asyncio.Event:
        """Event that is set once a server's tools can be found, or waiting is of no use."""
        pending = self.pending.get(server)
        return self.is_open if pending is None else pending.over

    def give_up(self, server: str) -> None:
        """Keep nobody waiting for a server that does not answer."""
        if server in self.pending:
            self.pending[server].over.set()

    def _offers_of(self, served: Mapping[str, Sequence[ToolSpec]]) -> dict[OfferKind, ToolCatalog]:
        """What is no tool of all that is served, by kind."""
        return {
            kind: catalog.replaced(
                {name: [s for s in specs if is_offer(s, kind)] for name, specs in served.items()}
            )
            for kind, catalog in self.offers.items()
        }

    def _overlaid(self, screened: Mapping[str, Screening]) -> dict[str, list[ToolSpec]]:
        return {
            server: [
                (config.offered if _is_tool(spec) else config.overlay.on)(spec)
                for spec in each.served
            ]
            for server, each in screened.items()
            for config in (self._configs[server],)
        }

    def _judged(self, listed: Mapping[str, Specs]) -> dict[str, Screening]:
        try:
            screened = self._storage.approval.screen(listed)
        except ToolcribError as error:
            # What cannot be judged is not served; what was judged before still is.
            last, self.problem = self.problem, str(error)
            if last != self.problem:
                self._report(
                    "error", f"tools cannot be judged, so new ones are not served: {error}"
                )
            before = {server: list(each.served) for server, each in self._screened.items()}
            return {
                server: Screening(tuple(s for s in specs if s in before.get(server, ())))
                for server, specs in listed.items()
            }
        self.problem = None
        return screened

    async def _index(self, server: str, specs: Sequence[ToolSpec]) -> None:
        """Make the index equal to what is offered of a server, where there is an index yet."""
        if self._crib is None:
            return
        try:
            await self.work(self._replace, server, specs)
            self._unindexed.discard(server)
        except StoreError as error:
            self._unindexed.add(server)
            self._report("error", f"{server}: its tools can be called, but not all found: {error}")

    def _replace(self, server: str, specs: Sequence[ToolSpec]) -> None:
        """Let these be all tools of a server in the index; a skill is of none, and keeps its id."""
        of_name = And(Equals("server", server), IS_SKILL)
        taken = {skill.id: skill for skill in self.crib.list_tools(where=of_name)}
        found = {spec.id: spec for spec in specs} | taken
        with self._progress() as progress:
            self.crib.index_tools(
                list(found.values()), server=server, prune=True, progress=progress
            )
        for spec in specs:
            if spec.id in taken:
                text = f"{spec.name!r} can be called, but not found: a skill has the id {spec.id!r}"
                self._report("warning", f"{server}: {text}")

    def _read(self, server: str, tools: Sequence[Any]) -> Specs:
        """What a server's list says, a wrong tool left out; of two of one name, the first."""
        specs: dict[str, ToolSpec] = {}
        for tool, item in zip(tools, tool_specs(server, "tools", list(tools), server), strict=True):
            if isinstance(item, Refusal):
                self._report("warning", f"{server}: {item.place} is left out: {item.reason}")
            elif _needs_a_task(tool):
                text = f"{server}: {item.name!r} is left out: it can be called as a task only"
                self._report("warning", text)
            elif specs.setdefault(item.id, item) is not item:
                text = f"{server}: it lists {item.name!r} twice; the first is taken"
                self._report("warning", text)
        return tuple(specs.values())

    def _offered(self, server: str, offers: Offers) -> Iterator[ToolSpec]:
        """Prompts and resources, as they are judged; what cannot be is left out."""
        last = self._listed.get(server, ())
        kept = [s for k in OFFER_KINDS if k not in offers for s in last if is_offer(s, k)]
        for item in {
            each.place if isinstance(each, Refusal) else each.id: each
            for each in (*kept, *offer_specs(server, offers))
        }.values():
            if isinstance(item, Refusal):
                self._report("warning", f"{server}: {item.place} is left out: {item.reason}")
            else:
                yield item

    def _tell(self, server: str, screened: Screening) -> None:
        served, held = len(self.catalog.of(server)), len(screened.held)
        text = f"{server}: {served} tool{'' if served == 1 else 's'}"
        text += f", {screened.locked} locked" if screened.locked else ""
        if held:
            place = shlex.quote(self._storage.location)
            text += f", {held} held back: see `toolcrib approve --list --store {place}`"
        self._report("warning" if held else "info", text)

    async def follow_approvals(self, poll_s: float) -> None:
        """Look now and then whether somebody has approved something."""
        seen: object = None
        told: str | None = None
        while True:
            try:
                # Looked at before the review: what is approved in the midst of it is seen then.
                now = await asyncio.to_thread(self._storage.approval.state)
                if now != seen or self.problem:
                    await self.review()
                seen, told = now, None
            except ToolcribError as error:
                if str(error) != told:
                    logger.warning("approvals cannot be read: %s", error)
                told = str(error)
            await asyncio.sleep(poll_s)

    # -- what is remembered ------------------------------------------------------------------

    def _remembered(self) -> dict[str, Specs]:
        try:
            kept = list(self._storage.records_db.read(LISTINGS))
            return {
                entry.id: tuple(map(ToolSpec.model_validate, entry.body["tools"])) for entry in kept
            }
        except (StoreError, KeyError, TypeError, ValueError) as error:
            self._report("warning", f"what servers listed last time cannot be read: {error}")
            return {}

    def _remember(self, server: str, specs: Specs) -> None:
        tools = [spec.model_dump(mode="json", exclude_defaults=True) for spec in specs]
        try:
            self._storage.records_db.put(LISTINGS, DbRow(server, time.time(), {"tools": tools}))
        except StoreError as error:
            self._report("warning", f"{server}: what it lists cannot be kept: {error}")

    def _forget(self, server: str) -> None:
        """A server that is no longer configured leaves nothing behind."""
        try:
            self._replace(server, ())
            self._storage.records_db.delete(LISTINGS, server)
        except StoreError as error:
            self._report("warning", f"{server}: what is left of it stays: {error}")


# -- what a server says of how to use it --------------------------------------------------------


def _instructions(server: str, text: str) -> ToolSpec:
    """Instructions as they are judged: what is done with tools' texts is done with them."""
    name = f"{server} instructions"
    return ToolSpec(
        id=server + INSTRUCTIONS, name=name, server=server, description=text, enabled=False
    )


def _is_instructions(spec: ToolSpec) -> bool:
    return spec.id == spec.server + INSTRUCTIONS


def _tools(specs: Sequence[ToolSpec]) -> list[ToolSpec]:
    return [spec for spec in specs if _is_tool(spec)]


def _is_tool(spec: ToolSpec) -> bool:
    return not spec.id.startswith(spec.server + MARK)


def _needs_a_task(tool: Any) -> bool:
    """Whether a tool can only be called as a task, which the protocol had from 2025 to 2026."""
    execution = tool.get("execution")
    return is_object(execution) and execution.get("taskSupport") == "required"
