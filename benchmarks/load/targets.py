"""What the service promises, as data, in the shape of `speed.targets`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["judge"]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the figure `name` of a part."""

    what: str
    name: str
    compare: str
    bound: float
    unit: str = ""


TARGETS: Mapping[str, tuple[Target, ...]] = {
    "throughput": (
        Target(
            "sustained rate, against bare `find_tools` with the best number of threads",
            "sustained_to_bare",
            ">=",
            0.8,
            "times",
        ),
    ),
    "steady": (
        Target("99th percentile at 70 % load, against the median", "p99_to_p50", "<", 3, "times"),
    ),
    "overload": (
        Target("requests that were neither answered nor turned away", "lost", "<=", 0),
        Target("time to recovery", "recovery_s", "<=", 1, "s"),
    ),
    "soak": (
        Target("errors", "errors", "<=", 0),
        Target("growth of memory in the second half", "growth_mb", "<", 2, "MB"),
    ),
}


def judge(part: str, figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every target of a part with what was measured, as `speed.report` shows it."""
    return [
        {
            "what": target.what,
            "target": f"{target.compare} {target.bound:g} {target.unit}".strip(),
            "measured": (found := figures.get(target.name)),
            "unit": target.unit,
            "met": found is not None and _COMPARE[target.compare](found, target.bound),
        }
        for target in TARGETS[part]
    ]
