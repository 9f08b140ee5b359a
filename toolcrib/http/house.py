"""What all endpoints work with."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from weakref import WeakSet

from toolcrib.http.callers import Door, Rates
from toolcrib.http.readiness import Readiness
from toolcrib.http.workers import Pace, Workers
from toolcrib.namespaces import Namespaces
from toolcrib.router.decision_log_db import DatabaseLog
from toolcrib.settings import Settings
from toolcrib.telemetry import Telemetry

__all__ = ["House"]

STRIPES = 64
"""Locks for all namespaces: a few share one, as there is no end to their names."""


@dataclass(slots=True)
class House:
    """The service inside: one for the life of a process.

    `under_way` counts requests that are worked on or wait; while `draining` no new one is taken.
    """

    namespaces: Namespaces
    settings: Settings
    workers: Workers
    door: Door
    rates: Rates
    telemetry: Telemetry
    readiness: Readiness
    under_way: int = 0
    draining: bool = False
    pace: Pace = field(default_factory=Pace)
    logs: WeakSet[DatabaseLog] = field(default_factory=WeakSet[DatabaseLog])
    _writing: tuple[threading.Lock, ...] = field(
        default_factory=lambda: tuple(threading.Lock() for _ in range(STRIPES))
    )

    def dropped(self) -> int:
        """How many decisions the logs that are open could not keep."""
        return sum(log.dropped for log in list(self.logs))

    def writing(self, namespace: str) -> threading.Lock:
        """What is held while a namespace is looked at and then written to."""
        return self._writing[hash(namespace) % STRIPES]
