"""The threads that do what blocks, so that the event loop never does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["Pace", "Workers"]

Made = TypeVar("Made")

HURRY_S = 0.0005
"""A tenth of what Python has."""


class Pace:
    """How soon a searching thread hands the interpreter over when the event loop wants it.

    As Python has it, five milliseconds, since every switch costs: searches come to a tenth more.
    In a hurry while requests are turned away: they need not wait for those that are not.
    """

    def __init__(self) -> None:
        self._usual: float | None = None

    def hurry(self) -> None:
        """Hand it over sooner, until `calm`."""
        if self._usual is None:
            self._usual = sys.getswitchinterval()
            sys.setswitchinterval(HURRY_S)

    def calm(self) -> None:
        """Do as before."""
        if self._usual is not None:
            sys.setswitchinterval(self._usual)
            self._usual = None


class Workers:
    """A pool of threads for reading, and a smaller one for writing.

    Two, because writers of one namespace wait for each other: in one pool they would take all
    threads, and searches would wait with them.
    """

    def __init__(self, threads: int) -> None:
        self._reading = ThreadPoolExecutor(threads, "toolcrib-read")
        self._writing = ThreadPoolExecutor(max(1, threads // 2), "toolcrib-write")
        self._abandoned = 0

    @property
    def abandoned(self) -> int:
        """Pieces of work that go on though nobody waits for them any more."""
        return self._abandoned

    async def read(self, work: Callable[[], Made]) -> Made:
        """Do what only reads; raises what it raises."""
        return await self._run(self._reading, work)

    async def write(self, work: Callable[[], Made]) -> Made:
        """Do what may write; raises what it raises."""
        return await self._run(self._writing, work)

    def close(self) -> None:
        """Wait until all that was begun is done."""
        self._reading.shutdown()
        self._writing.shutdown()

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[[], Made]) -> Made:
        job = pool.submit(work)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            # Whoever waited has given up; what waits for a thread is dropped, the rest goes on.
            if not job.cancelled():
                self._abandon(job)
            raise

    def _abandon(self, job: Future[Made]) -> None:
        loop = asyncio.get_running_loop()

        def done(_job: Future[Made]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._finished)

        self._abandoned += 1
        job.add_done_callback(done)

    def _finished(self) -> None:
        self._abandoned -= 1
