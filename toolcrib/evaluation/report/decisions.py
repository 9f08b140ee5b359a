"""Page about a log of decisions, in the look of the evaluation's report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from toolcrib.evaluation.decisions import DecisionSummary, Latency
from toolcrib.evaluation.report.page import fill
from toolcrib.evaluation.report.plots import decades, reliability_of
from toolcrib.evaluation.report.svg import (
    BAR,
    LOOKS,
    WIDTH,
    Axis,
    Bar,
    Drawing,
    Look,
    Plot,
    Stroke,
    bar_chart,
    milliseconds,
    percent,
    round_steps,
)

ROUTES: dict[str, Look] = dict(
    zip(("tools", "knowledge", "both", "general", "none"), LOOKS, strict=False)
)
"""A route has one colour everywhere."""

VERDICTS = {"accept": Look("right"), "fallback": LOOKS[4], "abstain": Look("nothing")}
JUDGES: dict[str, Look] = dict(zip(("tools", "knowledge", "route"), LOOKS, strict=False))

TICKS = 5
DAY_S = 24 * 3600
YEAR_S = 365 * DAY_S
TICK_STEPS_S = (
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360)),
    *(DAY_S * days for days in (1, 2, 3, 7, 14, 28, 56, 91, 182, 365, 730, 1826, 3652, 36525)),
)

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
        return (name, f"{count:,}", *map(milliseconds, times))

    rows = [row(name, one.count, one.latency) for name, one in summary.routes.items()]
    if summary.latency is not None and len(rows) > 1:
        rows.append(row("all", summary.decisions, summary.latency))
    columns = ("Route", "Turns", "p50 ms", "p95 ms", "p99 ms")
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


def route_mix(summary: DecisionSummary) -> Plot:
    """How many turns went each way."""
    title = "Routes"
    if not summary.routes:
        return Plot(title, absent="there is no decision")
    bars = [
        Bar(
            name,
            f"{one.count:,} · {percent(one.count / summary.decisions)}",
            ROUTES[name],
            [Stroke(0, one.count, ROUTES[name].colour)],
        )
        for name, one in summary.routes.items()
    ]
    top = max(one.count for one in summary.routes.values())
    ticks = {at: f"{at:,.0f}" for at in round_steps(0, top, least=1)}
    drawing = bar_chart(title, bars, Axis(0, top, 0, 1), ticks)
    return Plot(title, "Turns by where they went.", drawing)


def route_latency(summary: DecisionSummary) -> Plot:
    """Milliseconds of a decision by route, from the median over p95 to p99, on a log scale."""
    title = "Time per decision"
    timed = {name: one.latency for name, one in summary.routes.items() if one.latency.p50 > 0}
    if not timed:
        return Plot(title, absent="no decision was timed")
    bars = [
        Bar(
            name,
            f"{milliseconds(one.p50)} · {milliseconds(one.p99)} ms",
            ROUTES[name],
            [
                Stroke(one.p50, one.p99, ROUTES[name].colour, 2),
                Stroke(one.p50, one.p95, ROUTES[name].colour, BAR),
            ],
            tick=one.p50,
        )
        for name, one in timed.items()
    ]
    axis, ticks = decades([ms for one in timed.values() for ms in (one.p50, one.p99)])
    caption = (
        "From the median (the tick) to p95, the thin line on to p99; in figures, the first and "
        "the last. Logarithmic scale."
    )
    return Plot(title, caption, bar_chart(title, bars, axis, ticks))


def verdicts_over_time(summary: DecisionSummary) -> Plot:
    """What the gate made of the turns of each period, one on top of the other."""
    title = "Verdicts over time"
    shown = {
        name: [period.verdicts.get(name, 0) for period in summary.periods]
        for name in VERDICTS
        if any(name in period.verdicts for period in summary.periods)
    }
    if not shown:
        return Plot(title, absent="no turn went to tools or passages")
    starts = [int(datetime.fromisoformat(one.start).timestamp()) for one in summary.periods]
    labels = {name: f"{name} {sum(counts):,}" for name, counts in shown.items()}
    drawing = Drawing(250, f"{title}: {'; '.join(labels.values())}")
    right = WIDTH - 10 - 6.3 * max(map(len, labels.values()))
    x = Axis(starts[0], starts[-1] + summary.step_s, 36, right)
    top = max(map(sum, zip(*shown.values(), strict=True)))
    y = Axis(0, top, 223, 13)
    counted = round_steps(0, top, least=1)
    drawing.grid(y, counted, across=(36, right), upright=False)
    for count in counted:
        drawing.text(31, y.place(count), f"{count:,.0f}", "muted", "end", 9.8)
    below, ends = [0] * len(starts), list[tuple[float, str, Look]]()
    for name, counts in shown.items():
        for start, base, count in zip(starts, below, counts, strict=True):
            left, over = x.place(start), x.place(start + 0.86 * summary.step_s)
            drawing.box(left, y.place(base + count), over, y.place(base), VERDICTS[name].colour)
        ends.append((y.place(below[-1] + counts[-1] / 2), labels[name], VERDICTS[name]))
        below = [base + count for base, count in zip(below, counts, strict=True)]
    drawing.beside(right + 8, ends, (13, 223))
    drawing.below(x, _time_ticks(starts[0], starts[-1] + summary.step_s), 223)
    step = _spoken(summary.step_s)
    return Plot(
        title, f"Turns that went to tools or passages, every {step}; times are UTC.", drawing
    )


def reliability_plot(summary: DecisionSummary) -> Plot:
    """How often decisions were right, by how sure they were."""
    title = "Is the confidence a probability?"
    shown = {name: summary.reliability[name] for name in JUDGES if name in summary.reliability}
    if not shown:
        return Plot(
            title, absent="of no decision with a confidence it is known whether it was right"
        )
    said = "; ".join(f"{name} {one.ece:.3f}, {one.count:,} judged" for name, one in shown.items())
    caption = (
        "How often the first tool, the first collection and the route were right, by confidence; "
        "on the dotted line as often as it says. Beside the names, the expected calibration "
        "error (ECE)."
    )
    label = f"{title} Expected calibration error: {said}"
    bins = {name: one.bins for name, one in shown.items()}
    return Plot(title, caption, reliability_of(label, bins, JUDGES))


def _time_ticks(start: int, end: int) -> dict[float, str]:
    """At most `TICKS` moments from `start` to `end` (Unix time), and their names."""
    length = end - start
    every = next((t for t in TICK_STEPS_S if length / t <= TICKS), TICK_STEPS_S[-1])
    form = "%b %Y" if every > YEAR_S / 2 else "%-d %b" if every >= DAY_S else "%H:%M"
    return {
        tick: f"{datetime.fromtimestamp(tick, UTC):{form}}"
        for tick in range(-(-start // every) * every, end, every)
    }


def _spoken(step_s: int) -> str:
    units = (("day", DAY_S), ("hour", 3600), ("minute", 60))
    unit, seconds = next((unit, s) for unit, s in units if step_s >= s)
    count = step_s // seconds
    return unit if count == 1 else f"{count} {unit}s"
