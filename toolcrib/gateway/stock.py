"""The tools on offer and the index that finds them, kept in step with what the servers list."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from toolcrib.crib import Crib
from toolcrib.errors import StoreError, ToolcribError
from toolcrib.gateway.catalogue import Catalogue
from toolcrib.gateway.config import Overlay
from toolcrib.gateway.judging import Judgement
from toolcrib.gateway.news import Say
from toolcrib.gateway.terms import Backing
from toolcrib.indexers.readers.mcp import tool_specs
from toolcrib.indexers.writer import Listener
from toolcrib.records import Refusal, ToolSpec
from toolcrib.store.records_db.base import DbRow

__all__ = ["Stock"]

SHELF = "listings/default"
"""What each server listed last: what is served before it is connected to again."""

Specs: TypeAlias = tuple[ToolSpec, ...]

Result = TypeVar("Result")


class Stock:
    """Judges what servers list, offers what passes, and keeps the index equal to that.

    A tool that must not be served any more is off the `catalogue` before anything else happens;
    a new one is on it once it can be found. `moved` is called after every change. `problem` says
    why the last judging failed, None where it did not.
    """

    def __init__(
        self,
        overlays: Mapping[str, Overlay],
        backing: Backing,
        say: Say,
        moved: Callable[[], None],
    ) -> None:
        self.catalogue = Catalogue()
        self.is_open = asyncio.Event()
        self.problem: str | None = None
        self._overlays = overlays
        self._backing = backing
        self._say = say
        self._moved = moved
        self._crib: Crib | None = None
        self._listener: Listener | None = None
        self._listed: dict[str, Specs] = {}
        self._judgements: dict[str, Judgement] = {}
        self._asked = self._done = 0
        self._turns = asyncio.Lock()
        self._threads: set[asyncio.Task[Any]] = set()

    async def work(self, job: Callable[..., Result], *given: Any, **more: Any) -> Result:
        """Do something with index or ledger in a thread; `close` waits for it."""
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
        """The index, once it is open."""
        assert self._crib is not None
        return self._crib

    def knows(self, server: str) -> bool:
        """Whether the server's tools were ever listed."""
        return server in self._judgements

    async def open(self, crib: Crib, listener: Listener | None) -> None:
        """Find with this index from now on; offer what the servers listed last time."""
        remembered = await self.work(self._remembered)
        async with self._turns:
            self._crib, self._listener = crib, listener
            for server in self._judgements:
                await self._index(server)
        for server, specs in remembered.items():
            if server in self._overlays:
                self._listed.setdefault(server, specs)
            else:
                await self.work(self._forget, server)
        await self.review()
        self.is_open.set()
        self._moved()

    async def receive(self, server: str, tools: Sequence[Any]) -> None:
        """Take what a server lists, as it came."""
        specs = self._read(server, tools)
        if self._listed.get(server) == specs:
            return
        self._listed[server] = specs
        await self.review()
        await self.work(self._remember, server, specs)

    async def review(self) -> None:
        """Judge everything that is listed, and offer what passes.

        Whoever comes while this goes on is done together with the others who have come by then.
        """
        self._asked += 1
        mine = self._asked
        async with self._turns:
            if self._done >= mine:
                return
            newest, listed = self._asked, dict(self._listed)
            judged = await self.work(self._judged, listed)
            await self._serve(judged)
            self._done = newest
        self._moved()

    async def _serve(self, judged: Mapping[str, Judgement]) -> None:
        """Offer and index what has passed; what must not be served any more goes first."""
        offers = await self.work(self._overlaid, judged)
        self.catalogue = await self.work(self.catalogue.narrowed, offers)
        changed = [server for server in judged if judged[server] != self._judgements.get(server)]
        for server in changed:
            await self._index(server, offers[server])
        self.catalogue = await self.work(self.catalogue.replaced, offers)
        self._judgements = dict(judged)
        for server in changed:
            self._tell(server, judged[server])

    def _overlaid(self, judged: Mapping[str, Judgement]) -> dict[str, list[ToolSpec]]:
        return {
            server: [self._overlays[server].on(spec) for spec in judgement.served]
            for server, judgement in judged.items()
        }

    def _judged(self, listed: Mapping[str, Specs]) -> dict[str, Judgement]:
        try:
            judged = self._backing.judge.screen(listed)
        except ToolcribError as error:
            # What cannot be judged is not served; what was judged before still is.
            last, self.problem = self.problem, str(error)
            if last != self.problem:
                self._say("error", f"tools cannot be judged, so new ones are not served: {error}")
            before = {server: list(each.served) for server, each in self._judgements.items()}
            return {
                server: Judgement(tuple(s for s in specs if s in before.get(server, ())))
                for server, specs in listed.items()
            }
        self.problem = None
        return judged

    async def _index(self, server: str, specs: Sequence[ToolSpec] | None = None) -> None:
        """Make the index equal to what is offered of a server, where there is an index yet."""
        if self._crib is None:
            return
        if specs is None:
            specs = [offer.spec for offer in self.catalogue.of(server)]
        crib, listener = self._crib, self._listener
        try:
            await self.work(crib.index_tools, specs, server=server, prune=True, progress=listener)
        except StoreError as error:
            self._say("error", f"{server}: its tools can be called, but not all found: {error}")

    def _read(self, server: str, tools: Sequence[Any]) -> Specs:
        """What a server's list says, a wrong tool left out; of two of one name, the first."""
        specs: dict[str, ToolSpec] = {}
        for item in tool_specs(server, "tools", list(tools), server):
            if isinstance(item, Refusal):
                self._say("warning", f"{server}: {item.place} is left out: {item.reason}")
            elif specs.setdefault(item.id, item) is not item:
                self._say("warning", f"{server}: it lists {item.name!r} twice; the first is taken")
        return tuple(specs.values())

    def _tell(self, server: str, judged: Judgement) -> None:
        served, held = len(judged.served), len(judged.held)
        text = f"{server}: {served} tool{'' if served == 1 else 's'}"
        text += f", {judged.locked} locked" if judged.locked else ""
        if held:
            place = shlex.quote(self._backing.location)
            text += f", {held} held back: see `toolcrib approve --list --store {place}`"
        self._say("warning" if held else "info", text)

    # -- what is remembered ------------------------------------------------------------------

    def _remembered(self) -> dict[str, Specs]:
        try:
            kept = list(self._backing.ledger.read(SHELF))
            return {
                entry.id: tuple(map(ToolSpec.model_validate, entry.body["tools"])) for entry in kept
            }
        except (StoreError, KeyError, TypeError, ValueError) as error:
            self._say("warning", f"what servers listed last time cannot be read: {error}")
            return {}

    def _remember(self, server: str, specs: Specs) -> None:
        tools = [spec.model_dump(mode="json", exclude_defaults=True) for spec in specs]
        try:
            self._backing.ledger.put(SHELF, DbRow(server, time.time(), {"tools": tools}))
        except StoreError as error:
            self._say("warning", f"{server}: what it lists cannot be kept: {error}")

    def _forget(self, server: str) -> None:
        """A server that is no longer configured leaves nothing behind."""
        try:
            self.crib.index_tools((), server=server, prune=True)
            self._backing.ledger.delete(SHELF, server)
        except StoreError as error:
            self._say("warning", f"{server}: what is left of it stays: {error}")
