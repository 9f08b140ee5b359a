"""What a log of decisions tells: where turns go, how fast, how often right, how honestly sure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from toolcrib.evaluation.decision_log import LoggedDecision, labelled_queries, read_decisions
from toolcrib.evaluation.decision_success import (
    asked_knowledge,
    asked_tools,
    knowledge_right,
    route_right,
    tools_right,
    values,
)
from toolcrib.evaluation.gate_measures import BINS, ReliabilityBin, reliability_bins

__all__ = [
    "DecisionSummary",
    "Latency",
    "Period",
    "Rate",
    "Reliability",
    "RouteSummary",
    "labelled_queries",
    "summarise",
]

LEAST_IN_BIN = 20
"""A share of fewer decisions says little."""

HOUR_S, DAY_S = 3600, 24 * 3600
PERIODS = 40
STEPS_S = (60, 300, 900, HOUR_S, 4 * HOUR_S, DAY_S, 7 * DAY_S, 28 * DAY_S, 91 * DAY_S)
"""The log is cut into the shortest of these that make at most `PERIODS`."""

BEST_VERDICT = ("accept", "fallback", "abstain")


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds a decision: the median, and what 95 and 99 of 100 stay below."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class RouteSummary:
    """The turns that went one way."""

    count: int
    latency: Latency


@dataclass(frozen=True, slots=True)
class Rate:
    """A mean in [0, 1] over `of` decisions."""

    value: float
    of: int


@dataclass(frozen=True, slots=True)
class Reliability:
    """Confidence against success: bins of about equal count, and their mean distance (ECE)."""

    bins: tuple[ReliabilityBin, ...]
    ece: float
    count: int


@dataclass(frozen=True, slots=True)
class Period:
    """What was decided from `start` (ISO, UTC) on, for one step: turns by verdict and by route."""

    start: str
    verdicts: Mapping[str, int]
    routes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """A log in figures.

    `since` and `until` are ISO times, empty without decisions. `feedback` counts the decisions
    of which something was said or reported, `unreadable` records that were left out.
    `rates` where known: `route`, `intent`, `domain` and `knowledge` (the first collection) are
    shares of right ones, `tool_precision` of right tools among the returned, `tool_recall` of
    returned ones among the right, `success` of decisions. `reliability` by whose confidence:
    `route`, `tools`, `knowledge`. `verdicts` by `tools` and `knowledge`, of turns that went
    there. `periods` of `step_s` seconds, without empty ones.
    """

    decisions: int
    feedback: int
    unreadable: int
    since: str
    until: str
    latency: Latency | None
    routes: Mapping[str, RouteSummary]
    rates: Mapping[str, Rate]
    reliability: Mapping[str, Reliability]
    verdicts: Mapping[str, Mapping[str, int]]
    degraded: Mapping[str, int]
    step_s: int
    periods: tuple[Period, ...]


def summarise(records: Iterable[Mapping[str, Any]]) -> DecisionSummary:
    """Measure the decisions of a log; mappings come most frequent first."""
    content = read_decisions(records)
    made = content.decisions
    step = _step(made)
    return DecisionSummary(
        decisions=len(made),
        feedback=sum(one.feedback is not None or bool(one.outcomes) for one in made),
        unreadable=content.unreadable,
        since=_iso(made[0].row.at) if made else "",
        until=_iso(made[-1].row.at) if made else "",
        latency=_latency(made) if made else None,
        routes=_routes(made),
        rates=_rates(made),
        reliability=_reliabilities(made),
        verdicts={
            "tools": _counts(one.row.tools.verdict for one in made if asked_tools(one)),
            "knowledge": _counts(one.row.knowledge.verdict for one in made if asked_knowledge(one)),
        },
        degraded=_counts(stage for one in made for stage in dict.fromkeys(one.row.degraded)),
        step_s=step,
        periods=_periods(made, step),
    )


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _latency(made: Sequence[LoggedDecision]) -> Latency:
    p50, p95, p99 = np.percentile([one.ms for one in made], (50, 95, 99)).tolist()
    return Latency(p50, p95, p99)


def _routes(made: Sequence[LoggedDecision]) -> dict[str, RouteSummary]:
    found: dict[str, RouteSummary] = {}
    for kind, count in _counts(one.row.route.kind for one in made).items():
        found[kind] = RouteSummary(count, _latency([m for m in made if m.row.route.kind == kind]))
    return found


def _rates(made: Sequence[LoggedDecision]) -> dict[str, Rate]:
    known: dict[str, list[float]] = {}
    for one in made:
        for name, value in values(one).items():
            known.setdefault(name, []).append(value)
    order = ("success", "route", "intent", "domain", "tool_precision", "tool_recall", "knowledge")
    return {
        name: Rate(float(np.mean(known[name])), len(known[name])) for name in order if name in known
    }


def _reliabilities(made: Sequence[LoggedDecision]) -> dict[str, Reliability]:
    judges: dict[str, Callable[[LoggedDecision], tuple[float | None, bool | None]]] = {
        "route": lambda one: (one.row.route.confidence, route_right(one)),
        "tools": lambda one: (one.row.tools.confidence, tools_right(one)),
        "knowledge": lambda one: (one.row.knowledge.confidence, knowledge_right(one)),
    }
    found: dict[str, Reliability] = {}
    for name, judge in judges.items():
        known = [
            (sure, right) for sure, right in map(judge, made) if not (sure is None or right is None)
        ]
        if known:
            found[name] = _reliability(known)
    return found


def _reliability(known: Sequence[tuple[float, bool]]) -> Reliability:
    confidence, correct = (np.array(column) for column in zip(*known, strict=True))
    count = len(known)
    bins = reliability_bins(confidence, correct, max(1, min(BINS, count // LEAST_IN_BIN)))
    gaps = sum(one.count * abs(one.confidence - one.accuracy) for one in bins)
    return Reliability(bins, gaps / count, count)


def _step(made: Sequence[LoggedDecision]) -> int:
    span = (made[-1].row.at - made[0].row.at).total_seconds() if made else 0.0
    return next((step for step in STEPS_S if span / step < PERIODS), STEPS_S[-1])


def _periods(made: Sequence[LoggedDecision], step: int) -> tuple[Period, ...]:
    by_start: dict[int, list[LoggedDecision]] = {}
    for one in made:
        by_start.setdefault(int(one.row.at.timestamp() // step) * step, []).append(one)
    return tuple(
        Period(
            _iso(datetime.fromtimestamp(start, UTC)),
            _counts(verdict for one in its if (verdict := _verdict(one))),
            _counts(one.row.route.kind for one in its),
        )
        for start, its in by_start.items()
    )


def _verdict(one: LoggedDecision) -> str:
    """The best verdict of what was asked; empty for a turn that needs neither."""
    tools = {one.row.tools.verdict} if asked_tools(one) else set[str]()
    knowledge = {one.row.knowledge.verdict} if asked_knowledge(one) else set[str]()
    return next((verdict for verdict in BEST_VERDICT if verdict in tools | knowledge), "")


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")
