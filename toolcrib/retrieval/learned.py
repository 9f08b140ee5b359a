"""Learned examples: how far requests that tools answered before lift them in a ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolcrib.encoders.base import FloatArray

__all__ = ["JUDGED", "REACH", "LearnedTools"]

REACH = 200
"""Only the first so many of a ranking are lifted: use orders what fits, it finds nothing new."""

JUDGED = 0.5
"""How much of a lift counts when it is judged how well a tool fits: with all of it confidences are
too high, with none too low (expected calibration error 0.12, 0.08 and 0.17 on one set, 0.09 where
nothing was learned)."""

SHARE = 0.8
WIDTH = 0.1
NOTHING = 0.5
"""The share of the way to 1 that a tool is lifted whose examples alone are like the query; the
difference of cosines that makes one example e times as telling as another; and the cosine at
which an example tells as much as all that was never asked. Chosen on the train and development
splits of six public sets (benchmarks/learning.py)."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedTools:
    """Examples of tools, by point.

    `places`: of a point, its place among the tools; `strengths`: float [tools], how far each is
    believed, 0 to 1: one that is not believed takes its part from others, and lifts nothing;
    `vectors`: float32 [examples, d]; `owners`: int [examples], the
    tool of each.
    """

    places: Mapping[int, int]
    strengths: FloatArray
    vectors: FloatArray
    owners: np.ndarray[tuple[int], np.dtype[np.int64]]

    @classmethod
    def of(cls, tools: Mapping[int, tuple[float, FloatArray]]) -> LearnedTools:
        """Of each point how far it is believed, and its examples: float32 [n, d]; at least one."""
        counts = [len(vectors) for _, vectors in tools.values()]
        return cls(
            places={point: place for place, point in enumerate(tools)},
            strengths=np.array([strength for strength, _ in tools.values()], dtype=np.float32),
            vectors=np.concatenate([vectors for _, vectors in tools.values()]),
            owners=np.repeat(np.arange(len(counts)), counts),
        )

    def lifts(self, scores: Mapping[int, float], query: FloatArray) -> dict[int, float]:
        """What is added to the scores of those of the first `REACH` candidates that have examples.

        `scores` are in [0, 1], and so are the sums; `query`: float32 [d]. What counts is the
        share of a tool's examples in what all candidates' examples tell about the query (a kernel
        estimate), so that an example is worth little where many others are as near. What is no
        candidate, as it is out of the caller's reach, changes nothing.
        """
        known = {point: self.places[point] for point in scores if point in self.places}
        if len(scores) > REACH:
            first = set(sorted(scores, key=lambda point: (-scores[point], point))[:REACH])
            known = {point: place for point, place in known.items() if point in first}
        if not known:
            return {}
        told = np.exp((self.vectors @ query - NOTHING) / WIDTH)
        rows = list(known.values())
        by_tool = np.bincount(self.owners, told, minlength=len(self.places))[rows]
        lifts = SHARE * self.strengths[rows] * by_tool / (1.0 + by_tool.sum())
        return {
            point: (1 - scores[point]) * lift
            for point, lift in zip(known, lifts.tolist(), strict=True)
            if lift > 0
        }
