"""What toolcrib promises, as data; each line is judged by the figures of one run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["TARGETS", "judge"]

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
    unit: str
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


def judge(figures: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
    """Every target with what was measured; `met` is None where nothing is promised."""
    rows: list[dict[str, Any]] = []
    for target in TARGETS:
        found: Any = figures
        for key in target.path:
            found = (found or {}).get(key)
        met = None
        if found is not None and target.size in (None, size):
            met = _COMPARE[target.compare](found, target.bound)
        rows.append(
            {
                "what": target.what,
                "target": f"{target.compare} {target.bound:g} {target.unit}",
                "promised_at": target.size,
                "measured": found,
                "unit": target.unit,
                "met": met,
            },
        )
    return rows
