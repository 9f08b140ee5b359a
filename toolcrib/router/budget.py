"""Time for a turn: what does not fit any more is left out, the cheapest loss first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from pydantic import Field

from toolcrib.clock import Clock
from toolcrib.errors import SettingsError

__all__ = ["STAGES", "Budget", "Costs", "Limits"]

STAGES = ("rerank", "entities", "follow_up", "context", "knowledge", "tools")
"""What a turn can do without, the cheapest loss first."""

LEARNING = 0.2
"""How much one more run moves what a stage is expected to cost."""

Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a turn may take.

    `total_ms` for the whole decision, `stage_ms` for single stages; None and absent are no
    limit. `max_tool_calls` and `tool_timeout_s` are what the agent is told to keep to.
    """

    total_ms: Milliseconds | None = None
    stage_ms: dict[str, Milliseconds] = field(default_factory=dict[str, float])
    max_tool_calls: Annotated[int, Field(ge=0)] = 5
    tool_timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.stage_ms) - set(STAGES)):
            raise SettingsError(
                f"limits.stage_ms: there is no stage {unknown[0]!r}; there are {', '.join(STAGES)}"
            )


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
        self._left_out: set[str] = set()
        self.took_ms: dict[str, float] = {}
        self.degraded: list[str] = []

    @property
    def spent_ms(self) -> float:
        """Milliseconds since the turn began."""
        return (self._clock() - self._start) * 1000

    @property
    def is_spent(self) -> bool:
        """Whether there was time for neither tools nor knowledge."""
        return {"tools", "knowledge"} <= self._left_out

    def admits(self, stage: str) -> bool:
        """Whether a stage still fits, beside those to come whose loss would be dearer."""
        cost = self._costs.of(stage)
        if cost > self._limits.stage_ms.get(stage, float("inf")):
            return False
        if self._total is None:
            return True
        left = self._total - self.spent_ms
        if left <= 0:
            return False
        for dearer in reversed(STAGES[STAGES.index(stage) + 1 :]):
            expected = self._costs.of(dearer)
            # What would not fit in any case keeps no time from the others.
            if dearer in self._waiting and expected <= left:
                left -= expected
        return cost <= left

    def admitted(self, stage: str) -> bool:
        """As `admits`, for a part of another stage: when it does not fit, that is noted."""
        self._waiting.discard(stage)
        if self.admits(stage):
            return True
        self._left_out.add(stage)
        self.degraded.append(stage)
        self._costs.forget(stage)
        return False

    def run(self, stage: str, work: Callable[[], Made], otherwise: Made) -> Made:
        """Do a stage's work if it still fits, else name it and give `otherwise`."""
        return self.timed(stage, work) if self.admitted(stage) else otherwise

    def skip(self, stage: str) -> None:
        """Say that a stage is not needed for this turn: nothing is kept free for it."""
        self._waiting.discard(stage)

    def timed(self, stage: str, work: Callable[[], Made]) -> Made:
        """Do what cannot be left out, and note what it took."""
        started = self._clock()
        try:
            return work()
        finally:
            took = (self._clock() - started) * 1000
            self.took_ms[stage] = self.took_ms.get(stage, 0.0) + took
            self._costs.learn(stage, took)
