"""The injected clock, so that timings can be tested without waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

DAY_S = 86_400

Clock: TypeAlias = Callable[[], float]
"""Monotonic time in seconds, since an arbitrary start."""


class SystemClock:
    """The machine's monotonic clock."""

    def __call__(self) -> float:
        """Seconds since an arbitrary start, never going back."""
        return time.perf_counter()


class ManualClock:
    """A clock that moves only by `now` and `step`; `step` is added at every reading."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        """The current reading, in seconds."""
        self.now += self.step
        return self.now
