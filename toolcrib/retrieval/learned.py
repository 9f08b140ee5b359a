"""Learned examples: how far requests that tools answered before lift them in a ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolcrib.encoders.base import FloatArray
from toolcrib.retrieval.steps import ToolUse

MAX_LIFTED_TOOLS = 200
"""First tools of a ranking that are lifted: use orders what fits, and finds no further tool."""

MAX_LIFT_SHARE, KERNEL_WIDTH_COSINE, UNKNOWN_REQUEST_COSINE = 0.8, 0.1, 0.5
"""Chosen on the train and development splits of six public sets (benchmarks/learning.py): the
share of the way to a score of 1 that a tool is lifted if no other tool's examples are like the
query; the difference of cosines by which an example counts e times as much; the cosine at which
an example counts as much as all unseen requests together."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedTools:
    """Learned examples of tools, by point.

    `places`: index of each point among the tools. `strengths`: float [tools] in [0, 1], the trust
    in each tool's examples; with 0 they lift nothing, and still take their part from other tools.
    `vectors`: float32 [examples, d]. `owners`: int [examples], the tool of each example.
    """

    places: Mapping[int, int]
    strengths: FloatArray
    vectors: FloatArray
    owners: np.ndarray[tuple[int], np.dtype[np.int64]]

    @classmethod
    def of(cls, tools: Mapping[int, tuple[float, FloatArray]]) -> LearnedTools:
        """Collect strength and examples, float32 [n, d], of each point; at least one point."""
        counts = [len(vectors) for _, vectors in tools.values()]
        return cls(
            places={point: place for place, point in enumerate(tools)},
            strengths=np.array([strength for strength, _ in tools.values()], dtype=np.float32),
            vectors=np.concatenate([vectors for _, vectors in tools.values()]),
            owners=np.repeat(np.arange(len(counts)), counts),
        )

    def lifts(self, scores: Mapping[int, float], query: FloatArray) -> dict[int, float]:
        """Lifts of the first `MAX_LIFTED_TOOLS` candidates that have examples, by point.

        `scores` are in [0, 1], and so are their sums with the lifts; `query`: float32 [d]. A lift
        grows with the tool's share of the kernel sum of all candidates' examples, so that an
        example counts little beside many near ones. Tools that are no candidates change nothing.
        """
        known = {point: self.places[point] for point in scores if point in self.places}
        if len(scores) > MAX_LIFTED_TOOLS:
            first = set(
                sorted(scores, key=lambda point: (-scores[point], point))[:MAX_LIFTED_TOOLS]
            )
            known = {point: place for point, place in known.items() if point in first}
        if not known:
            return {}
        kernels = np.exp((self.vectors @ query - UNKNOWN_REQUEST_COSINE) / KERNEL_WIDTH_COSINE)
        rows = list(known.values())
        by_tool = np.bincount(self.owners, kernels, minlength=len(self.places))[rows]
        lifts = MAX_LIFT_SHARE * self.strengths[rows] * by_tool / (1.0 + by_tool.sum())
        return {
            point: (1 - scores[point]) * lift
            for point, lift in zip(known, lifts.tolist(), strict=True)
            if lift > 0
        }


@dataclass(frozen=True, slots=True)
class LearnedFromUse:
    """Learned from use: examples of tools for every search, and other runs' calls for steps."""

    examples: LearnedTools | None = None
    use: ToolUse | None = None


NOTHING_LEARNED = LearnedFromUse()
