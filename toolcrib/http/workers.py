"""Worker threads, scheduled round-robin by tenant, then by key.

One request may take minutes, and one key may send many requests. In order of arrival all others
would wait for them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

_Result = TypeVar("_Result")

MAX_CONVERSIONS = 2
"""Concurrent conversions of documents, one of each tenant: each may take much memory and time."""

PAUSE_POLL_S = 0.2
"""Period at which paused work checks whether the pool is closing."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of work: a tenant, and one of its keys."""

    namespace: str = ""
    key_id: str = ""


SERVICE_OWNER = Owner()
"""Owner of the service's own work, and of requests before authentication."""

_Turn: TypeAlias = asyncio.Future[None] | Future[None]


@dataclass(slots=True)
class _Tenant:
    """Work of a tenant in a pool: unfinished jobs, paused turns, and waiting turns by key."""

    begun_jobs: int = 0
    paused_turns: deque[_Turn] = field(default_factory=deque["_Turn"])
    waiting: dict[str, deque[_Turn]] = field(default_factory=dict[str, "deque[_Turn]"])

    def next(self, max_begun: int) -> _Turn | None:
        """Next turn to run, with at most `max_begun` unfinished jobs; None without one."""
        if self.paused_turns:
            return self.paused_turns.popleft()
        while self.waiting and self.begun_jobs < max_begun:
            key_id, turns = next(iter(self.waiting.items()))
            del self.waiting[key_id]
            turn = turns.popleft()
            if turns:
                self.waiting[key_id] = turns
            if not turn.cancelled():
                self.begun_jobs += 1
                return turn
        return None


class _Pool:
    """Threads for one kind of work; for one event loop.

    At most `threads` jobs run at once, `per_tenant` of one tenant. `abandoned_jobs`: unfinished
    jobs without a waiting request.
    """

    def __init__(self, name: str, threads: int, *, per_tenant: int, paused: int = 0) -> None:
        self._executor = ThreadPoolExecutor(threads + paused, f"toolcrib-{name}")
        self._free = threads
        self._per_tenant = per_tenant
        self._tenants: dict[str, _Tenant] = {}
        self._closing = False
        self.abandoned_jobs = set[Future[Any]]()

    async def run(self, work: Callable[[], _Result], owner: Owner = SERVICE_OWNER) -> _Result:
        """Run work in its turn; raises the work's error."""
        await self._turn(owner)
        job = self._executor.submit(work)

        def end_job(_job: Future[_Result]) -> None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._end, owner.namespace)

        job.add_done_callback(end_job)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            # The request was cancelled, and with it the job if it has not begun.
            self.abandoned_jobs.add(job)
            job.add_done_callback(self.abandoned_jobs.discard)
            raise

    def give_way(self, owner: Owner) -> None:
        """Let waiting tenants go first; called by work of this pool, from its thread."""
        if self._closing or not any(
            name != owner.namespace and tenant.waiting
            for name, tenant in list(self._tenants.items())
        ):
            return
        turn: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._pause, owner.namespace, turn)
        while not (turn.done() or self._closing):
            with suppress(TimeoutError):
                turn.result(PAUSE_POLL_S)

    def close(self) -> None:
        self._closing = True
        self._executor.shutdown()

    async def _turn(self, owner: Owner) -> None:
        self._loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = self._loop.create_future()
        tenant = self._tenants.setdefault(owner.namespace, _Tenant())
        tenant.waiting.setdefault(owner.key_id, deque()).append(turn)
        self._dispatch()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._end(owner.namespace)
            raise

    def _pause(self, namespace: str, turn: _Turn) -> None:
        self._free += 1
        # Move the tenant to the end.
        tenant = self._tenants[namespace] = self._tenants.pop(namespace)
        tenant.paused_turns.append(turn)
        self._dispatch()

    def _end(self, namespace: str) -> None:
        self._free += 1
        self._tenants[namespace].begun_jobs -= 1
        self._dispatch()

    def _dispatch(self) -> None:
        """Give each free thread to the next tenant."""
        for name, tenant in list(self._tenants.items()):
            if not self._free:
                return
            if turn := tenant.next(self._per_tenant):
                self._tenants[name] = self._tenants.pop(name)
                self._free -= 1
                turn.set_result(None)
            elif not tenant.begun_jobs:
                del self._tenants[name]


class Workers:
    """Thread pools for reading, writing, and converting documents.

    The pools are separate, so that searches wait neither for a write nor for a document. A tenant
    has one write at a time; `give_way` lets writes of other tenants go first.
    """

    def __init__(self, threads: int, places: int = 64) -> None:
        reading = _Pool("read", threads, per_tenant=threads)
        writing = _Pool("write", max(1, threads // 2), per_tenant=1, paused=places)
        converting = _Pool("convert", MAX_CONVERSIONS, per_tenant=1)
        self._pools = reading, writing, converting
        self.read, self.write, self.convert = reading.run, writing.run, converting.run
        self.give_way = writing.give_way

    @property
    def abandoned_jobs(self) -> int:
        """Number of jobs without a waiting request."""
        return sum(len(each.abandoned_jobs) for each in self._pools)

    def close(self) -> None:
        """Wait until all running work is done."""
        for each in self._pools:
            each.close()


class Shares:
    """Shares of owners in a limited resource, such as places or bytes.

    A tenant may hold a `share` of what others leave free: most of it if alone, less beside others,
    so that a new tenant always gets some (a dynamic threshold, after Choudhury and Hahne, 1998).
    Within its tenant's limit a key has the same rule, so that it leaves some to other keys.
    """

    def __init__(self, total: int, share: float) -> None:
        self._total = total
        self._share = share
        self._amounts: dict[str | Owner, int] = {}
        self._all = 0

    def has_room(self, owner: Owner, amount: int) -> bool:
        """True if the amount is free, and within the shares of an owner with a share already."""
        if self._all + amount > self._total:
            return False
        free = self._total - self._all
        for each in (owner.namespace, owner):
            own = self._amounts.get(each, 0)
            bound = math.ceil(self._share * (free + own))
            if own and own + amount > bound:
                return False
            free = bound - own
        return True

    def take(self, owner: Owner, amount: int) -> None:
        """Add an amount to an owner's share; a negative amount releases."""
        self._all += amount
        for each in (owner, owner.namespace):
            self._amounts[each] = self._amounts.get(each, 0) + amount
            if not self._amounts[each]:
                del self._amounts[each]
