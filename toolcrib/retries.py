"""Retries: a call that is made again where that may help, without a word to screen or log."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import sleep
from typing import TypeVar

_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Retries:
    """Up to `attempts` calls; the pauses between them double from `first_s` to `longest_s`.

    Up to `spread_s` is added at random, so that not all callers come back at one moment.
    """

    attempts: int
    first_s: float
    longest_s: float
    spread_s: float

    def __call__(
        self, call: Callable[[], _Made], may_pass: Callable[[Exception], bool | float]
    ) -> _Made:
        """What the call gives, or its last failure.

        `may_pass` says of a failure whether to try again: True after the usual pause, a number
        after so many seconds.
        """
        for made in range(self.attempts - 1):
            try:
                return call()
            except Exception as failure:
                again = may_pass(failure)
                if again is False:
                    raise
                sleep(self._usual(made) if again is True else again)
        return call()

    async def awaited(
        self,
        call: Callable[[], Awaitable[_Made]],
        may_pass: Callable[[Exception], bool | float],
    ) -> _Made:
        """As when called, for a call that is awaited."""
        from asyncio import sleep as pause

        for made in range(self.attempts - 1):
            try:
                return await call()
            except Exception as failure:
                again = may_pass(failure)
                if again is False:
                    raise
                await pause(self._usual(made) if again is True else again)
        return await call()

    def _usual(self, made: int) -> float:
        spread = random.uniform(0, self.spread_s)  # noqa: S311 -- it is no secret
        return min(self.first_s * 2**made + spread, self.longest_s)
