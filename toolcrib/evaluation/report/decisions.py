"""Page about a log of decisions, in the look of the evaluation's report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from toolcrib.evaluation.decisions import DecisionSummary, Latency
from toolcrib.evaluation.report.page import fill
from toolcrib.evaluation.report.plots import latency_bars, reliability_plot
from toolcrib.evaluation.report.svg import LOOKS, Look, Plot, milliseconds, percent

ROUTES: dict[str, Look] = dict(
    zip(("tools", "knowledge", "both", "general", "none"), LOOKS, strict=False)
)
"""A route has one colour everywhere."""

JUDGES: dict[str, Look] = dict(zip(("tools", "knowledge", "route"), LOOKS, strict=False))

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
class TextTable:
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
    times = {name: (one.latency.p50, one.latency.p99) for name, one in summary.routes.items()}
    return fill(
        "decisions.html.jinja",
        lead=_lead(summary),
        rest=tuple(_rest(summary)),
        facts=_facts(summary),
        verdicts=_verdict_table(summary),
        taking=(latency_bars("Time per decision", times, ROUTES),),
        times=_latency_table(summary),
        knowing=(_reliability(summary),),
        rates=_rate_table(summary),
        degraded=_degraded_table(summary),
        interleaved=_preference_table(summary),
        usage=_usage_table(summary),
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


def _verdict_table(summary: DecisionSummary) -> TextTable:
    rows = (
        (asked, *(f"{counts.get(name, 0):,}" for name in ("accept", "fallback", "abstain")))
        for asked, counts in summary.verdicts.items()
        if counts
    )
    return TextTable(
        "Verdicts of turns that went there", ("Asked", "accept", "fallback", "abstain"), tuple(rows)
    )


def _latency_table(summary: DecisionSummary) -> TextTable:
    def row(name: str, count: int, latency: Latency) -> tuple[str, ...]:
        times = (latency.p50, latency.p95, latency.p99)
        share = percent(count / summary.decisions)
        return (name, f"{count:,}", share, *map(milliseconds, times))

    rows = [row(name, one.count, one.latency) for name, one in summary.routes.items()]
    if summary.latency is not None and len(rows) > 1:
        rows.append(row("all", summary.decisions, summary.latency))
    columns = ("Route", "Turns", "Share", "p50 ms", "p95 ms", "p99 ms")
    return TextTable("Milliseconds of a decision", columns, tuple(rows))


def _rate_table(summary: DecisionSummary) -> TextTable:
    rows = ((RATES[name], percent(one.value), f"{one.of:,}") for name, one in summary.rates.items())
    return TextTable("As far as feedback tells", ("What", "Share", "Decisions"), tuple(rows))


def _degraded_table(summary: DecisionSummary) -> TextTable:
    rows = (
        (stage, f"{count:,}", percent(count / summary.decisions))
        for stage, count in summary.degraded.items()
    )
    return TextTable("Decisions made without a stage", ("Stage", "Decisions", "Share"), tuple(rows))


def _preference_table(summary: DecisionSummary) -> TextTable:
    rows = (
        (
            name,
            *(f"{count:,}" for count in (one.wins, one.losses, one.ties)),
            "" if one.share is None else percent(one.share),
            f"{one.p:.2g}",
        )
        for name, one in summary.interleaved.items()
    )
    columns = ("Second ranking", "Wins", "Losses", "Ties", "Share", "p")
    return TextTable("Decisions where it gave more of the right tools", columns, tuple(rows))


def _usage_table(summary: DecisionSummary) -> TextTable:
    rows = (
        (
            one.use,
            one.model,
            *(f"{n:,}" for n in (one.calls, one.failed, one.input_tokens, one.output_tokens)),
            "" if one.cost is None else f"{one.cost:,.4f}",
        )
        for one in summary.usage
    )
    columns = ("Use", "Model", "Calls", "Failed", "Tokens in", "Tokens out", "Cost")
    return TextTable("What language models were asked", columns, tuple(rows))


def _reliability(summary: DecisionSummary) -> Plot:
    """How often decisions were right, by confidence."""
    bins = {name: summary.reliability[name].bins for name in JUDGES if name in summary.reliability}
    caption = (
        "How often the first tool, the first collection and the route were right, by confidence; "
        "on the dotted line as often as it says."
    )
    absent = "no decision with a confidence is known to be right or wrong"
    return reliability_plot(bins, JUDGES, caption, absent)
