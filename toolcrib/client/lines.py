"""The lines to a service: calls go over them, for threads and for event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from toolcrib.client.calls import Call, Steps
from toolcrib.client.faults import FailedError
from toolcrib.client.wire import Wire, wait
from toolcrib.errors import ServiceError, ToolcribError

__all__ = ["AsyncLine", "Line"]

Answer = TypeVar("Answer")

CLOSED = "this crib is closed; make another one"


class Line:
    """Sends calls and waits for their answers. Safe for several threads."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._caller = wire.caller()
        self._pool: Any = None
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, call: Call[Answer]) -> Answer:
        """Make a call, more than once where that does no harm and may help.

        Raises:
            ToolcribError: what the service raised; `ServiceError` and those below it where it
                did not answer, or not as it should.
        """
        request, pool = self._wire.request(call), self._opened()
        again = partial(wait, repeatable=call.repeatable)
        try:
            return self._caller(again, self._try, pool, call, request)
        except FailedError as failed:
            raise failed.error from failed.__cause__

    def run(self, steps: Steps[Answer]) -> Answer:
        """Make the calls of a piece of work, one after the other."""
        step: Callable[[], Call[Any]] = partial(next, steps)
        while True:
            try:
                call = step()
            except StopIteration as end:
                return end.value
            try:
                step = partial(steps.send, self.ask(call))
            except ToolcribError as error:
                step = partial(steps.throw, error)

    def close(self) -> None:
        """Let go of all connections; a second call does nothing."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _opened(self) -> Any:
        with self._lock:
            if self._closed:
                raise ServiceError(CLOSED)
            if self._pool is None:
                self._pool = self._wire.pool()
            return self._pool

    def _try(self, pool: Any, call: Call[Answer], request: dict[str, Any]) -> Answer:
        with self._wire.attempt() as incoming:
            with pool.stream(**request) as response:
                for piece in response.iter_bytes():
                    incoming.take(piece)
            reply = incoming.reply(response.status_code, response.headers)
        return self._wire.answer(call, reply)


class AsyncLine:
    """Sends calls and awaits their answers, from any event loop, each with its own connections."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._caller = wire.async_caller()
        self._pools: dict[asyncio.AbstractEventLoop, Any] = {}
        self._lock = threading.Lock()
        self._closed = False

    async def ask(self, call: Call[Answer]) -> Answer:
        """As `Line.ask`."""
        request, pool = self._wire.request(call), self._opened()
        again = partial(wait, repeatable=call.repeatable)
        try:
            return await self._caller(again, self._try, pool, call, request)
        except FailedError as failed:
            raise failed.error from failed.__cause__

    async def run(self, steps: Steps[Answer]) -> Answer:
        """As `Line.run`."""
        step: Callable[[], Call[Any]] = partial(next, steps)
        while True:
            try:
                call = step()
            except StopIteration as end:
                return end.value
            try:
                step = partial(steps.send, await self.ask(call))
            except ToolcribError as error:
                step = partial(steps.throw, error)

    async def aclose(self) -> None:
        """Let go of all connections; a second call does nothing."""
        mine = asyncio.get_running_loop()
        for loop, pool in self._taken():
            if loop is mine:
                await pool.aclose()
            else:
                _close_elsewhere(loop, pool)

    def close(self) -> None:
        """As `aclose`, where nothing can be awaited: connections go as soon as their loop runs."""
        for loop, pool in self._taken():
            _close_elsewhere(loop, pool)

    def _taken(self) -> list[tuple[asyncio.AbstractEventLoop, Any]]:
        with self._lock:
            self._closed = True
            pools, self._pools = self._pools, {}
        return list(pools.items())

    def _opened(self) -> Any:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._closed:
                raise ServiceError(CLOSED)
            if loop not in self._pools:
                self._pools = {each: p for each, p in self._pools.items() if not each.is_closed()}
                self._pools[loop] = self._wire.async_pool()
            return self._pools[loop]

    async def _try(self, pool: Any, call: Call[Answer], request: dict[str, Any]) -> Answer:
        with self._wire.attempt() as incoming:
            async with pool.stream(**request) as response:
                async for piece in response.aiter_bytes():
                    incoming.take(piece)
            reply = incoming.reply(response.status_code, response.headers)
        return self._wire.answer(call, reply)


def _close_elsewhere(loop: asyncio.AbstractEventLoop, pool: Any) -> None:
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(pool.aclose(), loop)
