"""Workers: threads for what blocks, whose turns go round among tenants, and among a tenant's keys.

One request may bring work for minutes, one key any number of requests. A queue in the order of
arrival would make all others wait for them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

__all__ = ["SERVICE", "Owner", "Shares", "Workers"]

_Made = TypeVar("_Made")

CONVERSIONS = 2
"""Documents that are converted at once, none of them of the same tenant: each may take much."""

LOOK_S = 0.2
"""How often work that gave way looks whether it is to end."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose work something is: a tenant's, by one of its keys."""

    namespace: str = ""
    key_id: str = ""


SERVICE = Owner()
"""The service itself, and who has not been recognised yet."""

_Turn: TypeAlias = asyncio.Future[None] | Future[None]


@dataclass(slots=True)
class _Tenant:
    """A tenant's work in a pool: how much of it is begun, what gave way, and what waits."""

    begun: int = 0
    paused: deque[_Turn] = field(default_factory=deque["_Turn"])
    waiting: dict[str, deque[_Turn]] = field(default_factory=dict[str, "deque[_Turn]"])

    def next(self, most: int) -> _Turn | None:
        """What is to go on, with at most so much of it begun."""
        if self.paused:
            return self.paused.popleft()
        while self.waiting and self.begun < most:
            key_id, turns = next(iter(self.waiting.items()))
            del self.waiting[key_id]
            turn = turns.popleft()
            if turns:
                self.waiting[key_id] = turns
            if not turn.cancelled():
                self.begun += 1
                return turn
        return None


class _Pool:
    """Threads for one kind of work; for one event loop.

    At most `threads` pieces of work are done at once, `per_tenant` of one tenant.
    """

    def __init__(self, name: str, threads: int, *, per_tenant: int, paused: int = 0) -> None:
        self._executor = ThreadPoolExecutor(threads + paused, f"toolcrib-{name}")
        self._free = threads
        self._per_tenant = per_tenant
        self._tenants: dict[str, _Tenant] = {}
        self._closing = False
        self.abandoned = 0

    async def run(self, owner: Owner, work: Callable[[], _Made]) -> _Made:
        """Do something when its turn has come; raises what it raises."""
        loop = asyncio.get_running_loop()
        await self._turn(owner)
        job = self._executor.submit(work)

        def done(_job: Future[_Made]) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._end, owner.namespace)

        job.add_done_callback(done)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            # Whoever waited has given up; what has not begun is dropped, the rest goes on.
            if not job.done():
                self._abandon(loop, job)
            raise

    def give_way(self, owner: Owner) -> None:
        """Let other tenants who wait go first; called by work of this pool, from its thread."""
        if self._closing or not any(
            name != owner.namespace and tenant.waiting
            for name, tenant in list(self._tenants.items())
        ):
            return
        turn: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._pause, owner.namespace, turn)
        while not (turn.done() or self._closing):
            with suppress(TimeoutError):
                turn.result(LOOK_S)

    def close(self) -> None:
        """Wait until all that was begun is done."""
        self._closing = True
        self._executor.shutdown()

    async def _turn(self, owner: Owner) -> None:
        self._loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = self._loop.create_future()
        tenant = self._tenants.setdefault(owner.namespace, _Tenant())
        tenant.waiting.setdefault(owner.key_id, deque()).append(turn)
        self._go_on()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._end(owner.namespace)
            raise

    def _pause(self, namespace: str, turn: _Turn) -> None:
        self._free += 1
        # Behind all others.
        tenant = self._tenants[namespace] = self._tenants.pop(namespace)
        tenant.paused.append(turn)
        self._go_on()

    def _end(self, namespace: str) -> None:
        self._free += 1
        self._tenants[namespace].begun -= 1
        self._go_on()

    def _go_on(self) -> None:
        """Give every free thread to the tenant whose turn is next."""
        for name, tenant in list(self._tenants.items()):
            if not self._free:
                return
            if turn := tenant.next(self._per_tenant):
                self._tenants[name] = self._tenants.pop(name)
                self._free -= 1
                turn.set_result(None)
            elif not tenant.begun:
                del self._tenants[name]

    def _abandon(self, loop: asyncio.AbstractEventLoop, job: Future[_Made]) -> None:
        def finished() -> None:
            self.abandoned -= 1

        def done(_job: Future[_Made]) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finished)

        self.abandoned += 1
        job.add_done_callback(done)


class Workers:
    """A pool of threads for reading, a smaller one for writing, and one for converting documents.

    Apart, because neither a write nor a document may keep searches waiting. One write of a
    tenant is done at a time. `abandoned` are pieces of work that go on though nobody waits for
    them any more.
    """

    def __init__(self, threads: int, places: int = 64) -> None:
        self._reading = _Pool("read", threads, per_tenant=threads)
        self._writing = _Pool("write", max(1, threads // 2), per_tenant=1, paused=places)
        self._converting = _Pool("convert", CONVERSIONS, per_tenant=1)

    @property
    def abandoned(self) -> int:
        """How many pieces of work nobody waits for."""
        return sum(each.abandoned for each in self._pools)

    @property
    def _pools(self) -> tuple[_Pool, ...]:
        return self._reading, self._writing, self._converting

    async def read(self, work: Callable[[], _Made], owner: Owner = SERVICE) -> _Made:
        """Do what only reads; raises what it raises."""
        return await self._reading.run(owner, work)

    async def write(self, work: Callable[[], _Made], owner: Owner = SERVICE) -> _Made:
        """Do what may write; raises what it raises."""
        return await self._writing.run(owner, work)

    async def convert(self, work: Callable[[], _Made], owner: Owner = SERVICE) -> _Made:
        """Do what waits for the conversion of a document; raises what it raises."""
        return await self._converting.run(owner, work)

    def give_way(self, owner: Owner) -> None:
        """Within a write, let the writes of other tenants go first."""
        self._writing.give_way(owner)

    def close(self) -> None:
        """Wait until all that was begun is done."""
        for each in self._pools:
            each.close()


class Shares:
    """Who holds how much of something limited, such as places or bytes.

    A tenant may hold a `share` of what all others leave: alone most of it, beside others less,
    and there is always some left for who comes next (a dynamic threshold, after Choudhury and
    Hahne, 1998). Of what its tenant may hold, a key may likewise, so that no key of a tenant
    takes all from another.
    """

    def __init__(self, total: int, share: float) -> None:
        self._total = total
        self._share = share
        self._held: dict[str | Owner, int] = {}
        self._all = 0

    def has_room(self, owner: Owner, amount: int) -> bool:
        """Whether so much more is there, and within the shares of who holds something already."""
        if self._all + amount > self._total:
            return False
        free = self._total - self._all
        for each in (owner.namespace, owner):
            own = self._held.get(each, 0)
            most = math.ceil(self._share * (free + own))
            if own and own + amount > most:
                return False
            free = most - own
        return True

    def take(self, owner: Owner, amount: int) -> None:
        """Let it hold so much more, or less where that is negative."""
        self._all += amount
        for each in (owner, owner.namespace):
            self._held[each] = self._held.get(each, 0) + amount
            if not self._held[each]:
                del self._held[each]
