"""Samples into figures: medians and tails, never means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

TAIL_FROM = 100
"""With fewer samples than this there is no 99th percentile worth the name."""


def median(values: Iterable[float]) -> float:
    """The median; NaN of nothing."""
    found = list(values)
    return float(np.median(found)) if found else float("nan")


def stats(values: Sequence[float]) -> dict[str, Any]:
    """Median, 99th percentile (where there are enough samples), largest, how many."""
    tail = float(np.percentile(values, 99)) if len(values) >= TAIL_FROM else None
    return {
        "median": rounded(median(values)),
        "p99": None if tail is None else rounded(tail),
        "max": rounded(max(values)),
        "samples": len(values),
    }


def median_ratio(above: Mapping[int, float], below: Mapping[int, float]) -> float:
    """Median of one set of times over another's, on the queries that both answered."""
    shared = above.keys() & below.keys()
    return median(above[at] for at in shared) / median(below[at] for at in shared)


def rounded(value: float) -> float:
    """Four significant digits: more would be a promise."""
    return float(f"{value:.4g}")
