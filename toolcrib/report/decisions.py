"""Pages about a decision log and about choices, in the style of the evaluation's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from toolcrib.evaluation.choices import NO_LABEL, ChoiceResult
from toolcrib.evaluation.decisions import DecisionSummary
from toolcrib.evaluation.tables import (
    choice_overview,
    confusion_table,
    decision_tables,
    label_table,
)
from toolcrib.report.charts import (
    LOOKS,
    Look,
    Plot,
    latency_bars,
    milliseconds,
    percent,
    reliability_plot,
)
from toolcrib.report.page import fill
from toolcrib.text import count_of

ROUTE_LOOKS: dict[str, Look] = dict(
    zip(("tools", "knowledge", "both", "general", "none"), LOOKS, strict=False)
)
"""A route has one colour everywhere."""

CONFIDENCE_LOOKS: dict[str, Look] = dict(zip(("tools", "knowledge", "route"), LOOKS, strict=False))

ROUTE_TEXTS = {
    "tools": "to tools",
    "knowledge": "to passages",
    "both": "to tools and passages",
    "general": "to the general tool",
    "none": "nowhere",
}


def render_decisions(summary: DecisionSummary) -> str:
    """Page about a decision log as an HTML document."""
    times = {name: (one.latency.p50, one.latency.p99) for name, one in summary.routes.items()}
    return fill(
        "decisions.html.jinja",
        lead=_lead(summary),
        rest=tuple(_rest(summary)),
        facts=_facts(summary),
        taking=(latency_bars("Time per decision", times, ROUTE_LOOKS),),
        knowing=(_reliability(summary),),
        **decision_tables(summary),
    )


def _lead(summary: DecisionSummary) -> str:
    if summary.latency is None:
        return "The log has no decisions."
    most, one = next(iter(summary.routes.items()))
    share = percent(one.count / summary.decisions)
    counted = count_of(summary.decisions, "decision")
    return (
        f"{counted}: {share} of the turns go {ROUTE_TEXTS[most]}, and half are decided within "
        f"{milliseconds(summary.latency.p50)} ms."
    )


def _rest(summary: DecisionSummary) -> Iterator[str]:
    rates = summary.rates
    if "route" in rates:
        rate = rates["route"]
        yield f"Of the judged turns ({rate.of:,}), {percent(rate.value)} had the right route."
    if {"tool_precision", "tool_recall"} <= rates.keys():
        precision, recall = rates["tool_precision"], rates["tool_recall"]
        yield (
            f"{percent(recall.value)} of the right tools were returned, and "
            f"{percent(precision.value)} of those returned were right."
        )
    if summary.decisions and not summary.feedback:
        yield "No decision has feedback or outcomes, so the accuracy is unknown."
    if summary.degraded:
        stage, count = next(iter(summary.degraded.items()))
        yield f"The stage that failed or was late most often is {stage}, {count:,} times."


def _facts(summary: DecisionSummary) -> str:
    if not summary.decisions:
        return "no decisions"
    since, until = map(datetime.fromisoformat, (summary.since, summary.until))
    times = f"{since:%Y-%m-%d %H:%M} – {until:%Y-%m-%d %H:%M}"
    left_out = f" · unreadable records left out: {summary.unreadable:,}" * bool(summary.unreadable)
    return f"{times} UTC · feedback or outcomes of {summary.feedback:,}{left_out}"


def _reliability(summary: DecisionSummary) -> Plot:
    bins = {
        name: summary.reliability[name].bins
        for name in CONFIDENCE_LOOKS
        if name in summary.reliability
    }
    caption = (
        "Share of right first tools, first collections and routes, by confidence; the dotted line "
        "is perfect."
    )
    absent = "no decision with a confidence is known to be right or wrong"
    return reliability_plot(bins, CONFIDENCE_LOOKS, caption, absent)


def render_choices(kind: str, results: Sequence[ChoiceResult]) -> str:
    """Page about choices as an HTML document; `kind`: what was chosen, such as `questions`."""
    turns = sum(one.turns for one in results)
    right = sum(one.turns - len(one.wrong) for one in results)
    return fill(
        "choices.html.jinja",
        lead=f"{percent(right / turns)} of {turns:,} turns are given the right {kind}.",
        overview=choice_overview(results),
        chapters=[
            {
                "title": one.name,
                "plots": (_choice_reliability(one),),
                "labels": label_table(one),
                "confusion": confusion_table(one),
            }
            for one in results
        ],
        nothing=NO_LABEL,
    )


def _choice_reliability(one: ChoiceResult) -> Plot:
    bins = {} if one.calibration is None else {one.name: one.calibration.bins}
    caption = "Share of right choices, by their probability."
    return reliability_plot(bins, {one.name: LOOKS[0]}, caption, "no choice had a probability")
