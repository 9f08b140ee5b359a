"""Budget: the milliseconds of a turn, and which of its stages still fit into them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TypeVar

from toolcrib.clock import Clock
from toolcrib.router.settings import STAGES, Limits

SPARE = 0.05
"""Of the time that is left, what is kept for handing the answer over."""

LEARNING = 0.2
"""How much one more run moves what a stage is expected to cost."""


_Made = TypeVar("_Made")


class Costs:
    """What each stage is expected to cost, learnt from what it took; for several threads."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}
        self._lock = threading.Lock()

    def of(self, stage: str) -> float:
        """Expected milliseconds; 0 for a stage that never ran: it is given its chance."""
        return self._known.get(stage, 0.0)

    def learn(self, stage: str, took_ms: float) -> None:
        """Take one more run into account."""
        with self._lock:
            before = self._known.get(stage)
            moved = took_ms if before is None else before + LEARNING * (took_ms - before)
            self._known[stage] = moved

    def forget(self, stage: str) -> None:
        """Expect a little less of a stage that was left out, so that it gets another chance."""
        with self._lock:
            if stage in self._known:
                self._known[stage] *= 1 - LEARNING


class Budget:
    """The time of one turn, by the injected clock."""

    def __init__(
        self, limits: Limits, costs: Costs, clock: Clock, total_ms: float | None = None
    ) -> None:
        self._limits = limits
        self._total = limits.total_ms if total_ms is None else total_ms
        self._costs = costs
        self._clock = clock
        self._start = clock()
        self._waiting: set[str] = set(STAGES)
        self.took_ms: dict[str, float] = {}
        self.degraded: list[str] = []

    @property
    def spent_ms(self) -> float:
        """Milliseconds since the turn began."""
        return (self._clock() - self._start) * 1000

    def left_ms(self, stage: str) -> float:
        """Milliseconds that a stage may take that others are not waited for meanwhile."""
        left = self._limits.stage_ms.get(stage, math.inf)
        if self._total is not None:
            left = min(left, (self._total - self.spent_ms) * (1 - SPARE))
        return max(0.0, left)

    def admits(self, stage: str) -> bool:
        """Whether a stage still fits, beside those to come whose loss would be dearer."""
        has_time = self._total is None or self._total > self.spent_ms
        return has_time and self._costs.of(stage) <= self.room_ms(stage)

    def room_ms(self, stage: str) -> float:
        """What a stage may take, beside those to come whose loss would be dearer."""
        limit = self._limits.stage_ms.get(stage, float("inf"))
        if self._total is None:
            return limit
        left = max(0.0, self._total - self.spent_ms)
        for dearer in reversed(STAGES[STAGES.index(stage) + 1 :]):
            expected = self._costs.of(dearer)
            # What would not fit in any case keeps no time from the others.
            if dearer in self._waiting and expected <= left:
                left -= expected
        return min(left, limit)

    def admitted(self, stage: str) -> bool:
        """As `admits`, for a part of another stage: when it does not fit, that is noted."""
        self._waiting.discard(stage)
        if self.admits(stage):
            return True
        self.degraded.append(stage)
        self._costs.forget(stage)
        return False

    def run(self, stage: str, work: Callable[[], _Made], otherwise: _Made) -> _Made:
        """Do a stage's work if it still fits, else name it and give `otherwise`."""
        return self.timed(stage, work) if self.admitted(stage) else otherwise

    def skip(self, stage: str) -> None:
        """Say that a stage is not needed for this turn: nothing is kept free for it."""
        self._waiting.discard(stage)

    def timed(self, stage: str, work: Callable[[], _Made]) -> _Made:
        """Do what cannot be left out, and note what it took."""
        started, before = self._clock(), sum(self.took_ms.values())
        try:
            return work()
        finally:
            # What other stages took within is theirs.
            within = sum(self.took_ms.values()) - before
            self._note(stage, (self._clock() - started) * 1000 - within)

    def took(self, stage: str, took_ms: float) -> None:
        """Note what a part of another stage took."""
        if took_ms:
            self._note(stage, took_ms)

    def _note(self, stage: str, took_ms: float) -> None:
        self.took_ms[stage] = self.took_ms.get(stage, 0.0) + took_ms
        self._costs.learn(stage, took_ms)
