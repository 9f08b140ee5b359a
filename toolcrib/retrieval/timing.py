"""A stopwatch for the stages of one answer."""

from __future__ import annotations

from toolcrib.clock import Clock

__all__ = ["Stopwatch"]


class Stopwatch:
    """Collects milliseconds a stage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = self._last = clock()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """End a stage: what has passed since the last lap is its time."""
        now = self._clock()
        self._laps[stage] = self._laps.get(stage, 0.0) + (now - self._last) * 1000
        self._last = now

    def result(self) -> dict[str, float]:
        """Milliseconds of every stage, and their `total`."""
        return {**self._laps, "total": (self._last - self._start) * 1000}
