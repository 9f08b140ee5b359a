"""The page about a log of decisions, in the look of the evaluation's report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from toolcrib.evaluation.decisions import DecisionSummary, Latency
from toolcrib.evaluation.report.canvas import percent
from toolcrib.evaluation.report.decision_plots import (
    reliability_plot,
    route_latency,
    route_mix,
    verdicts_over_time,
)
from toolcrib.evaluation.report.plots import milliseconds
from toolcrib.evaluation.report.template import fill

__all__ = ["RATES", "render_decisions"]

RATES = {
    "success": "Decisions that led to success",
    "route": "Right routes",
    "intent": "Right intents",
    "domain": "Right domains",
    "tool_precision": "Right tools among the returned",
    "tool_recall": "Returned tools among the right",
    "knowledge": "Right first collections",
}

WAY = {
    "tools": "to tools",
    "knowledge": "to passages",
    "both": "to tools and passages",
    "general": "to the general tool",
    "none": "nowhere",
}


@dataclass(frozen=True, slots=True)
class _Table:
    """Texts: what the columns are called, and rows that begin with their name."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def render_decisions(summary: DecisionSummary) -> str:
    """The log as an HTML document that asks nothing of the network.

    The same summary gives the same text; it is light or dark as the reader's system is.

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    return fill(
        "decisions.html.jinja",
        lead=_lead(summary),
        rest=tuple(_rest(summary)),
        facts=_facts(summary),
        going=(route_mix(summary), verdicts_over_time(summary)),
        verdicts=_verdict_table(summary),
        taking=(route_latency(summary),),
        times=_latency_table(summary),
        knowing=(reliability_plot(summary),),
        rates=_rate_table(summary),
        degraded=_degraded_table(summary),
    )


def _lead(summary: DecisionSummary) -> str:
    if summary.latency is None:
        return "Nothing was decided."
    most, one = next(iter(summary.routes.items()))
    share = percent(one.count / summary.decisions)
    counted = f"{summary.decisions:,} decision{'s' * (summary.decisions != 1)}"
    return (
        f"{counted}: {share} of the turns go {WAY[most]}, and half are decided within "
        f"{milliseconds(summary.latency.p50)} ms."
    )


def _rest(summary: DecisionSummary) -> Iterator[str]:
    rates = summary.rates
    if "route" in rates:
        rate = rates["route"]
        yield f"Of the judged turns ({rate.of:,}), {percent(rate.value)} went the right way."
    if {"tool_precision", "tool_recall"} <= rates.keys():
        precision, recall = rates["tool_precision"], rates["tool_recall"]
        yield (
            f"{percent(recall.value)} of the right tools were returned, and "
            f"{percent(precision.value)} of those returned were right."
        )
    if summary.decisions and not summary.feedback:
        yield "Nothing was said or reported of any of them, so nobody knows which were right."
    if summary.degraded:
        stage, count = next(iter(summary.degraded.items()))
        yield f"The stage that failed or was late most often is {stage}, {count:,} times."


def _facts(summary: DecisionSummary) -> str:
    if not summary.decisions:
        return "no decisions"
    times = " – ".join(
        f"{datetime.fromisoformat(t):%Y-%m-%d %H:%M}" for t in (summary.since, summary.until)
    )
    left_out = f" · unreadable records left out: {summary.unreadable:,}" * bool(summary.unreadable)
    return f"{times} UTC · feedback or outcomes of {summary.feedback:,}{left_out}"


def _verdict_table(summary: DecisionSummary) -> _Table:
    rows = (
        (asked, *(f"{counts.get(name, 0):,}" for name in ("accept", "fallback", "abstain")))
        for asked, counts in summary.verdicts.items()
        if counts
    )
    return _Table(
        "Verdicts of turns that went there", ("Asked", "accept", "fallback", "abstain"), tuple(rows)
    )


def _latency_table(summary: DecisionSummary) -> _Table:
    def row(name: str, count: int, latency: Latency) -> tuple[str, ...]:
        times = (latency.p50, latency.p95, latency.p99)
        return (name, f"{count:,}", *map(milliseconds, times))

    rows = [row(name, one.count, one.latency) for name, one in summary.routes.items()]
    if summary.latency is not None and len(rows) > 1:
        rows.append(row("all", summary.decisions, summary.latency))
    columns = ("Route", "Turns", "p50 ms", "p95 ms", "p99 ms")
    return _Table("Milliseconds of a decision", columns, tuple(rows))


def _rate_table(summary: DecisionSummary) -> _Table:
    rows = ((RATES[name], percent(one.value), f"{one.of:,}") for name, one in summary.rates.items())
    return _Table("As far as feedback tells", ("What", "Share", "Decisions"), tuple(rows))


def _degraded_table(summary: DecisionSummary) -> _Table:
    rows = (
        (stage, f"{count:,}", percent(count / summary.decisions))
        for stage, count in summary.degraded.items()
    )
    return _Table("Decisions made without a stage", ("Stage", "Decisions", "Share"), tuple(rows))
