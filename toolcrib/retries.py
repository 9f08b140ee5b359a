"""Retries: repeats a failed call after a growing pause; prints and logs nothing."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import sleep
from typing import TypeVar

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Retries:
    """Up to `attempts` calls; the pause doubles from `first_pause_s` to `max_pause_s`.

    Up to `jitter_s` is added at random, so that callers do not all return at one moment.
    """

    attempts: int
    first_pause_s: float
    max_pause_s: float
    jitter_s: float

    def __call__(
        self, call: Callable[[], _Result], decide: Callable[[Exception], bool | float]
    ) -> _Result:
        """Result of the first call that succeeds; the last failure is raised.

        `decide` says of a failure: no retry (False), after the usual pause (True), or after so
        many seconds.
        """
        for made in range(self.attempts - 1):
            try:
                return call()
            except Exception as failure:
                if (again := decide(failure)) is False:
                    raise
                sleep(self._pause_s(made) if again is True else again)
        return call()

    async def call_async(
        self,
        call: Callable[[], Awaitable[_Result]],
        decide: Callable[[Exception], bool | float],
    ) -> _Result:
        """As `__call__`, for an asynchronous call."""
        from asyncio import sleep as pause

        for made in range(self.attempts - 1):
            try:
                return await call()
            except Exception as failure:
                if (again := decide(failure)) is False:
                    raise
                await pause(self._pause_s(made) if again is True else again)
        return await call()

    def _pause_s(self, made: int) -> float:
        spread = random.uniform(0, self.jitter_s)  # noqa: S311 -- it is no secret
        return min(self.first_pause_s * 2**made + spread, self.max_pause_s)
