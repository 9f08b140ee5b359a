"""Tables of summaries, for commands and pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolcrib.evaluation.choices import ChoiceResult
from toolcrib.evaluation.decisions import VERDICTS, DecisionSummary, RouteSummary, Share


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of texts that begin with their name; `columns` name the cells."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


RATES = {
    "success": "Decisions that led to success",
    "route": "Right routes",
    "intent": "Right intents",
    "domain": "Right domains",
    "tool_precision": "Right tools among the returned",
    "tool_recall": "Returned tools among the right",
    "knowledge": "Right first collections",
}
MAX_CALLED_TOOLS = 20
"""Most called tools in a table; a last row has all others."""


def _table(caption: str, columns: Iterable[str], rows: Iterable[Sequence[str]]) -> TextTable:
    return TextTable(caption, tuple(columns), tuple(map(tuple, rows)))


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def decision_tables(summary: DecisionSummary) -> dict[str, TextTable]:
    """All tables of a decision log, by name; a table of unknown figures has no rows."""
    verdicts = (
        (part, *(f"{counts.get(name, 0):,}" for name in VERDICTS))
        for part, counts in summary.verdicts.items()
        if counts
    )
    rates = ((RATES[n], _share(one.value), f"{one.of:,}") for n, one in summary.rates.items())
    sure = ((n, f"{one.ece:.3f}", f"{one.count:,}") for n, one in summary.reliability.items())
    degraded = (
        (stage, f"{n:,}", _share(n / summary.decisions)) for stage, n in summary.degraded.items()
    )
    preferences = (
        (
            name,
            *(f"{count:,}" for count in (one.wins, one.losses, one.ties)),
            _share(one.share),
            f"{one.p:.2g}",
        )
        for name, one in summary.interleaved.items()
    )
    usage = (
        (
            one.use,
            one.model,
            *(f"{n:,}" for n in (one.calls, one.failed, one.input_tokens, one.output_tokens)),
            "" if one.cost is None else f"{one.cost:,.4f}",
        )
        for one in summary.usage
    )
    calls = ((tool, f"{one.of:,}", _share(one.value)) for tool, one in _calls(summary))
    times = ("Turns", "Share", "p50 ms", "p95 ms", "p99 ms")
    interleaved = ("Second ranking", "Wins", "Losses", "Ties", "Share", "p")
    tokens = ("Use", "Model", "Calls", "Failed", "Tokens in", "Tokens out", "Cost")
    return {
        "routes": _table("Turns and their time by route", ("Route", *times), _routes(summary)),
        "verdicts": _table("Verdicts of turns that went there", ("Verdict", *VERDICTS), verdicts),
        "rates": _table("Shares by feedback", ("Feedback", "Share", "Decisions"), rates),
        "confidence": _table("Calibration", ("Confidence of", "ECE", "Decisions"), sure),
        "degraded": _table(
            "Decisions made without a stage", ("Stage", "Decisions", "Share"), degraded
        ),
        "interleaved": _table(
            "Decisions where the second ranking gave more of the right tools",
            interleaved,
            preferences,
        ),
        "calls": _table("Calls of tools", ("Tool", "Calls", "Succeeded"), calls),
        "usage": _table("Calls of language models", tokens, usage),
    }


def _calls(summary: DecisionSummary) -> Iterable[tuple[str, Share]]:
    """Calls of the most called tools, and of all other tools together."""
    calls = list(summary.calls.items())
    yield from calls[:MAX_CALLED_TOOLS]
    if others := [one for _, one in calls[MAX_CALLED_TOOLS:]]:
        total = sum(one.of for one in others)
        share = sum(one.value * one.of for one in others) / total
        yield f"{len(others):,} other tools", Share(share, total)


def _routes(summary: DecisionSummary) -> Iterable[tuple[str, ...]]:
    routes = dict(summary.routes)
    if summary.latency is not None and len(routes) > 1:
        routes["all"] = RouteSummary(summary.decisions, summary.latency)
    for name, one in routes.items():
        times = (f"{ms:.2f}" for ms in (one.latency.p50, one.latency.p95, one.latency.p99))
        yield (name, f"{one.count:,}", _share(one.count / summary.decisions), *times)


def choice_overview(results: Sequence[ChoiceResult]) -> TextTable:
    """Accuracy and calibration, a row for each set."""
    rows = (
        (
            one.name,
            f"{one.turns:,}",
            _share(one.accuracy),
            _share(one.f1),
            "" if one.calibration is None else f"{one.calibration.ece:.3f}",
            "" if one.brier is None else f"{one.brier:.3f}",
            f"{max(one.degraded.values(), default=0):,}",
        )
        for one in results
    )
    columns = ("Set", "Turns", "Accuracy", "F1", "ECE", "Brier", "Degraded")
    return _table("Sets of labelled turns", columns, rows)


def label_table(result: ChoiceResult) -> TextTable:
    """Precision and recall of each label."""
    rows = (
        (label, f"{one.turns:,}", _share(one.precision), _share(one.recall))
        for label, one in result.labels.items()
    )
    return _table("Label by label", ("Label", "Turns", "Precision", "Recall"), rows)


def confusion_table(result: ChoiceResult) -> TextTable:
    """Counts by right label (rows) and chosen label (columns); blank for none."""
    chosen = sorted({label for row in result.confusion.values() for label in row})
    rows = (
        (right, *(f"{row[label]:,}" if label in row else "" for label in chosen))
        for right, row in result.confusion.items()
    )
    return _table("Chosen in its place", ("right \\ chosen", *chosen), rows)
