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
    """Up to `attempts` calls; the pauses between them double from `first_s` to `longest_s`.

    Up to `spread_s` is added at random, so that callers do not return all at one moment.
    """

    attempts: int
    first_s: float
    longest_s: float
    spread_s: float

    def __call__(
        self, call: Callable[[], _Result], may_pass: Callable[[Exception], bool | float]
    ) -> _Result:
        """Result of the first call that succeeds; the last failure is raised.

        `may_pass` decides on a retry after a failure: True for the usual pause, a number for a
        pause of so many seconds.
        """
        for made in range(self.attempts - 1):
            try:
                return call()
            except Exception as failure:
                again = may_pass(failure)
                if again is False:
                    raise
                sleep(self._pause_s(made) if again is True else again)
        return call()

    async def call_async(
        self,
        call: Callable[[], Awaitable[_Result]],
        may_pass: Callable[[Exception], bool | float],
    ) -> _Result:
        """Result as of `__call__`, for a call that is awaited."""
        from asyncio import sleep as pause

        for made in range(self.attempts - 1):
            try:
                return await call()
            except Exception as failure:
                again = may_pass(failure)
                if again is False:
                    raise
                await pause(self._pause_s(made) if again is True else again)
        return await call()

    def _pause_s(self, made: int) -> float:
        spread = random.uniform(0, self.spread_s)  # noqa: S311 -- it is no secret
        return min(self.first_s * 2**made + spread, self.longest_s)
