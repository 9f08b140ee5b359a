"""From log-odds to probabilities."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

__all__ = ["logistic", "softmax"]

FAR = 60.0
"""Beyond this the exponential says 0 or 1, and further out it overflows."""

Key = TypeVar("Key", bound=Hashable)


def logistic(odds: float) -> float:
    """The probability that has these log-odds."""
    return 1 / (1 + math.exp(-max(-FAR, min(FAR, odds))))


def softmax(odds: Mapping[Key, float]) -> dict[Key, float]:
    """The probabilities of things that exclude each other; they add up to 1."""
    top = max(odds.values())
    raised = {key: math.exp(value - top) for key, value in odds.items()}
    total = sum(raised.values())
    return {key: value / total for key, value in raised.items()}
