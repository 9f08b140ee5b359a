"""Budget: the time limit of a turn, and the stages that still fit into it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TypeVar

from toolcrib.clock import Clock
from toolcrib.router.settings import STAGES, Limits

ANSWER_TIME_SHARE = 0.05
"""Share of the remaining time that is reserved for building the answer."""

LAST_RUN_WEIGHT = 0.2
"""Weight of the last run in the moving average of a stage's cost."""

_Result = TypeVar("_Result")


class Costs:
    """Expected cost of each stage, averaged over its runs; thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}
        self._lock = threading.Lock()

    def expected_ms(self, stage: str) -> float:
        """Expected milliseconds of a stage; 0 for a stage that never ran, so that it runs once."""
        return self._known.get(stage, 0.0)

    def add_run(self, stage: str, took_ms: float) -> None:
        """Add a run to the moving average."""
        with self._lock:
            before = self._known.get(stage)
            moved = took_ms if before is None else before + LAST_RUN_WEIGHT * (took_ms - before)
            self._known[stage] = moved

    def decay(self, stage: str) -> None:
        """Lower the cost of a skipped stage, so that a later turn tries it again."""
        with self._lock:
            if stage in self._known:
                self._known[stage] *= 1 - LAST_RUN_WEIGHT


class Budget:
    """Time of one turn, measured by the injected clock."""

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
        """Milliseconds that a stage may take while other stages run in parallel."""
        left = self._limits.stage_ms.get(stage, math.inf)
        if self._total is not None:
            left = min(left, (self._total - self.spent_ms) * (1 - ANSWER_TIME_SHARE))
        return max(0.0, left)

    def has_room(self, stage: str) -> bool:
        """True if a stage fits beside the more important later stages."""
        has_time = self._total is None or self._total > self.spent_ms
        return has_time and self._costs.expected_ms(stage) <= self.room_ms(stage)

    def room_ms(self, stage: str) -> float:
        """Milliseconds that a stage may take if the more important later stages are to run."""
        limit = self._limits.stage_ms.get(stage, math.inf)
        if self._total is None:
            return limit
        left = max(0.0, self._total - self.spent_ms)
        for other in reversed(STAGES[STAGES.index(stage) + 1 :]):
            expected = self._costs.expected_ms(other)
            # A stage that does not fit in any case reserves no time.
            if other in self._waiting and expected <= left:
                left -= expected
        return min(left, limit)

    def admit(self, stage: str) -> bool:
        """Return `has_room`, and mark a stage that does not fit as degraded."""
        self._waiting.discard(stage)
        if self.has_room(stage):
            return True
        self.degraded.append(stage)
        self._costs.decay(stage)
        return False

    def run(self, stage: str, work: Callable[[], _Result], otherwise: _Result) -> _Result:
        """Run a stage if it fits; otherwise return `otherwise`."""
        return self.measure(stage, work) if self.admit(stage) else otherwise

    def skip(self, stage: str) -> None:
        """Reserve no time for a stage that this turn does not need."""
        self._waiting.discard(stage)

    def measure(self, stage: str, work: Callable[[], _Result]) -> _Result:
        """Run a stage that cannot be skipped, and record its time."""
        started, before = self._clock(), sum(self.took_ms.values())
        try:
            return work()
        finally:
            # Time of nested stages counts for those alone.
            within = sum(self.took_ms.values()) - before
            self._note(stage, (self._clock() - started) * 1000 - within)

    def record(self, stage: str, took_ms: float) -> None:
        """Record the time of a stage that ran within another stage."""
        if took_ms:
            self._note(stage, took_ms)

    def _note(self, stage: str, took_ms: float) -> None:
        self.took_ms[stage] = self.took_ms.get(stage, 0.0) + took_ms
        self._costs.add_run(stage, took_ms)
