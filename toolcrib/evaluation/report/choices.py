"""Page about choices: accuracy, what was taken for what, and calibration of each set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolcrib.evaluation.choices import NOTHING, ChoiceResult
from toolcrib.evaluation.report.decisions import TextTable
from toolcrib.evaluation.report.page import fill
from toolcrib.evaluation.report.plots import reliability_plot
from toolcrib.evaluation.report.svg import LOOKS, Plot, percent


@dataclass(frozen=True, slots=True)
class _Chapter:
    """What is shown of one set."""

    title: str
    plots: tuple[Plot, ...]
    labels: TextTable
    confusion: TextTable


def render_choices(kind: str, results: Sequence[ChoiceResult]) -> str:
    """The results as an HTML document that asks nothing of the network.

    `kind`: what was chosen, as in `questions`.

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    turns = sum(one.turns for one in results)
    right = sum(one.turns - len(one.wrong) for one in results)
    return fill(
        "choices.html.jinja",
        lead=f"{percent(right / turns)} of {turns:,} turns are given the right {kind}.",
        overview=_overview(results),
        chapters=[
            _Chapter(one.name, (_reliability(one),), _labels(one), confusion_table(one))
            for one in results
        ],
        nothing=NOTHING,
    )


def _overview(results: Sequence[ChoiceResult]) -> TextTable:
    rows = (
        (
            one.name,
            f"{one.turns:,}",
            percent(one.accuracy),
            percent(one.f1),
            "" if one.calibration is None else f"{one.calibration.ece:.3f}",
            "" if one.brier is None else f"{one.brier:.3f}",
            f"{max(one.degraded.values(), default=0):,}",
        )
        for one in results
    )
    columns = ("Set", "Turns", "Accuracy", "F1", "ECE", "Brier", "Degraded")
    return TextTable("Sets of labelled turns", columns, tuple(rows))


def _labels(one: ChoiceResult) -> TextTable:
    rows = (
        (label, f"{told.turns:,}", _share(told.precision), _share(told.recall))
        for label, told in one.labels.items()
    )
    return TextTable("Label by label", ("Label", "Turns", "Precision", "Recall"), tuple(rows))


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)


def confusion_table(one: ChoiceResult) -> TextTable:
    """Counts by right label (rows) and chosen label (columns); blank for none."""
    chosen = sorted({label for row in one.confusion.values() for label in row})
    rows = (
        (right, *(f"{row[label]:,}" if label in row else "" for label in chosen))
        for right, row in one.confusion.items()
    )
    return TextTable("Chosen in its place", ("right \\ chosen", *chosen), tuple(rows))


def _reliability(one: ChoiceResult) -> Plot:
    bins = {} if one.calibration is None else {one.name: one.calibration.bins}
    caption = "How often a choice was right, by its probability."
    return reliability_plot(bins, {one.name: LOOKS[0]}, caption, "no choice had a probability")
