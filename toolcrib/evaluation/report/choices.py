"""Page about choices: accuracy, confusion and calibration of each set."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.evaluation.choices import NO_LABEL, ChoiceResult
from toolcrib.evaluation.report.page import fill
from toolcrib.evaluation.report.plots import reliability_plot
from toolcrib.evaluation.report.svg import LOOKS, Plot, percent
from toolcrib.evaluation.tables import choice_overview, confusion_table, label_table


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
        overview=choice_overview(results),
        chapters=[
            {
                "title": one.name,
                "plots": (_reliability(one),),
                "labels": label_table(one),
                "confusion": confusion_table(one),
            }
            for one in results
        ],
        nothing=NO_LABEL,
    )


def _reliability(one: ChoiceResult) -> Plot:
    bins = {} if one.calibration is None else {one.name: one.calibration.bins}
    caption = "How often a choice was right, by its probability."
    return reliability_plot(bins, {one.name: LOOKS[0]}, caption, "no choice had a probability")
