"""Targets of speed, as data; each is judged by the figures of one run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the figure at `path`; it is promised at `size` tools, or at every size."""

    what: str
    path: tuple[str, ...]
    compare: str
    bound: float
    unit: str = ""
    size: int | None = None


TARGETS = (
    Target(
        "whole search, against encoding its query alone",
        ("toolcrib", "find_to_encode"),
        "<=",
        2.0,
        "times",
        10_000,
    ),
    Target(
        "qdrant-client local mode, against toolcrib's engine part",
        ("peers", "qdrant-client local mode", "times_toolcrib"),
        ">=",
        100.0,
        "times",
        10_000,
    ),
    Target(
        "engine part, against that of a tenth of the tools",
        ("toolcrib", "growth_tenfold"),
        "<=",
        3.0,
        "times",
        100_000,
    ),
    Target("Crib.open", ("processes", "open_s"), "<", 0.3, "s", 10_000),
    Target("import toolcrib", ("processes", "import_toolcrib_s"), "<", 0.2, "s"),
    Target("a cold `toolcrib search`", ("processes", "cold_search_s"), "<", 1.0, "s", 10_000),
    Target(
        "indexing rate, against the encoder alone",
        ("indexing", "to_encoder_alone"),
        ">=",
        0.9,
        "times",
    ),
    Target(
        "memory after 200 searches, at its peak",
        ("memory", "after_200_searches", "peak"),
        "<",
        1024.0,
        "MB",
        100_000,
    ),
)

SERVICE_TARGETS: Mapping[str, tuple[Target, ...]] = {
    "throughput": (
        Target(
            "sustained rate, against bare `find_tools` with the best number of threads",
            ("sustained_to_bare",),
            ">=",
            0.8,
            "times",
        ),
    ),
    "steady": (
        Target(
            "99th percentile at 70 % load, against the median", ("p99_to_p50",), "<", 3, "times"
        ),
    ),
    "overload": (
        Target("requests that were neither answered nor turned away", ("lost",), "<=", 0),
        Target("time to recovery", ("recovery_s",), "<=", 1, "s"),
    ),
    "soak": (
        Target("errors", ("errors",), "<=", 0),
        Target("growth of memory in the second half", ("growth_mb",), "<", 2, "MB"),
    ),
}


def judge(
    figures: Mapping[str, Any], targets: Sequence[Target], size: int | None = None
) -> list[dict[str, Any]]:
    """Every target with its figure; `met` is None without a figure, or at another size."""
    rows: list[dict[str, Any]] = []
    for target in targets:
        found: Any = figures
        for key in target.path:
            found = (found or {}).get(key)
        met = None
        if found is not None and target.size in (None, size):
            met = _COMPARE[target.compare](found, target.bound)
        rows.append(
            {
                "what": target.what,
                "target": f"{target.compare} {target.bound:g} {target.unit}".strip(),
                "promised_at": target.size,
                "measured": found,
                "unit": target.unit,
                "met": met,
            },
        )
    return rows
