"""Cache of decisions: the nearest earlier turn's, where all else that counts is the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from toolcrib.clock import Clock
from toolcrib.encoders.base import FloatArray
from toolcrib.records import AgentDecision

__all__ = ["DecisionCache"]


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    vector: FloatArray
    decision: AgentDecision
    until: float


class DecisionCache:
    """Keeps `size` decisions for `ttl_s` seconds; for several threads.

    A turn gets that of another if its vector, float32 [dimensions] of length 1, is as near as
    `similarity` and their keys are the same: evidence, what was said before, scope, versions.
    """

    def __init__(self, clock: Clock, *, size: int, ttl_s: float, similarity: float) -> None:
        self._clock = clock
        self._size, self._ttl_s, self._similarity = size, ttl_s, similarity
        self._kept: OrderedDict[Hashable, list[_Entry]] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, vector: FloatArray) -> AgentDecision | None:
        """The decision of the nearest turn; None where none is near enough, or all are old."""
        now = self._clock()
        with self._lock:
            entries = [each for each in self._kept.get(key, ()) if each.until > now]
        if not entries:
            return None
        near = np.stack([each.vector for each in entries]) @ vector
        best = int(np.argmax(near))
        return entries[best].decision if near[best] >= self._similarity else None

    def put(self, key: Hashable, vector: FloatArray, decision: AgentDecision) -> None:
        """Keep a decision; the keys that were used longest ago make room for it."""
        entry = _Entry(np.array(vector, copy=True), decision, self._clock() + self._ttl_s)
        with self._lock:
            now = self._clock()
            known = self._kept.pop(key, [])
            fresh = [each for each in known if each.until > now]
            self._kept[key] = kept = [*fresh, entry][-self._size :]
            self._count += len(kept) - len(known)
            while self._count > self._size:
                oldest = next(iter(self._kept))
                entries = self._kept[oldest]
                entries.pop(0)
                self._count -= 1
                if not entries:
                    del self._kept[oldest]
