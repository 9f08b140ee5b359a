"""The head: a linear classifier over tools that have many examples, such as a router's intents.

One example finds its neighbours; ten of them draw a border. Where nearly every tool has
examples, `calibrate` fits a multinomial logistic regression on their vectors, and its
log-probabilities join the score of every candidate (`FusionWeights.head`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from toolcrib.encoders.base import from_text, to_text
from toolcrib.encoders.base import FloatArray
from toolcrib.store.base import point_id

__all__ = ["Head", "pack"]


class Head(BaseModel):
    """A fitted head: `weights` are float16 [len(ids), dimensions] as base64, row by row."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ids: tuple[str, ...]
    dimensions: int
    weights: str
    offsets: tuple[float, ...]

    def log_probabilities(self, query: FloatArray, among: Iterable[int]) -> dict[int, float]:
        """The log-probability of each point in `among` that the head knows.

        `query`: float32 [d]. They add up to 1 over these points alone: a tool out of the
        caller's reach changes no other tool's probability.
        """
        rows = {point: self._rows[point] for point in among if point in self._rows}
        if not rows:
            return {}
        places = list(rows.values())
        logits = self._matrix[places] @ query + self._offsets[places]
        logits -= logits.max()
        logits -= np.log(np.exp(logits).sum())
        return dict(zip(rows, logits.tolist(), strict=True))

    @cached_property
    def _matrix(self) -> NDArray[np.float32]:
        return from_text(self.weights, self.dimensions)

    @cached_property
    def _offsets(self) -> NDArray[np.float32]:
        return np.asarray(self.offsets, dtype=np.float32)

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {point_id(tool_id): row for row, tool_id in enumerate(self.ids)}


def pack(ids: list[str], weights: FloatArray, offsets: FloatArray) -> Head:
    """A head of fitted weights: float [len(ids), d], and offsets: float [len(ids)]."""
    return Head(
        ids=tuple(ids),
        dimensions=weights.shape[1],
        weights=to_text(weights),
        offsets=tuple(round(float(value), 5) for value in offsets),
    )
