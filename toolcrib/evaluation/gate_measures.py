"""Gate measures: does a confidence tell what can be answered, and is it a probability.

All functions take arrays of one length, one entry per query, unanswerable ones included:
`confidence` (float, higher means surer that something answers), `first` (the same, that the first
tool is right), `correct` (bool: it is) and `answerable` (bool: some tool is right). Queries of one
confidence cannot be told apart, so each counts with their mean: no result depends on the order of
the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from toolcrib.extras import import_extra
from toolcrib.numerics import Floats

Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GateMeasure:
    """Display of a gate measure: its title, and the choice of the best value, if any.

    `of_confidence`: only a system that gives a confidence has it; verdicts can be given without.
    """

    title: str
    best: Callable[[Sequence[float]], float] | None = None
    in_command: bool = False
    of_confidence: bool = True


GATES = {
    "auroc": GateMeasure("AUROC", max, in_command=True),
    "auprc": GateMeasure("AUPRC", max),
    "false_acceptance@95": GateMeasure("False acc. @95", min),
    "ece": GateMeasure("ECE", min, in_command=True),
    "ece_first": GateMeasure("ECE of the first", min),
    "brier": GateMeasure("Brier", min),
    "risk@80": GateMeasure("Risk @80", min),
    "correlation": GateMeasure("Correlation", max),
    "accepted": GateMeasure("Accepted", of_confidence=False),
    "accepted_precision": GateMeasure("Precision of accepted", max, of_confidence=False),
}
"""The gate measures that reports show, in their order."""

CONFIDENCE_GATES = {name for name, gate in GATES.items() if gate.of_confidence}

BINS = 15
TRUE_ACCEPTANCE = 0.95
COVERAGE = 0.8


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Mean confidence of some queries of about the same, and the share that was right."""

    confidence: float
    accuracy: float
    count: int


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """The share of wrong first tools (`risk`) when only the surest `coverage` are answered.

    Both float64 [queries], in [0, 1], by rising coverage.
    """

    coverage: Floats
    risk: Floats


def gate_measures(
    confidence: Floats, correct: Bools, answerable: Bools, first: Floats | None = None
) -> dict[str, float]:
    """Everything that a confidence can be judged by; empty without queries.

    Without `first`, the confidence is also what speaks of the first tool.

    - `auroc`, `auprc` (average precision): answerable against unanswerable queries, and
      `false_acceptance@95`: the share of unanswerable queries accepted at the highest threshold
      that accepts 95 % of the answerable ones. Absent unless there are both kinds.
    - `ece`: expected calibration error, 15 bins of equal mass (Naeini et al. 2015, Nixon et al.
      2019), and `brier`: mean squared error, of the confidence as the probability that any tool
      answers. `ece_first`: the same error of the first tool's probability; absent without one.
      Absent where these are no probabilities (outside [0, 1]).
    - `risk@80`: share of wrong first tools among the 80 % of all queries whose first is surest.
    - `correlation`: Pearson's, of `first` and `correct`. Absent where one does not vary.

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    if not len(confidence):
        return {}
    sure = confidence if first is None else first
    return (
        _separation(confidence, answerable)
        | _calibration(confidence, answerable)
        | _calibration_of_first(first, correct)
        | {"risk@80": _risk_at(COVERAGE, sure, correct)}
        | _correlation(sure, correct)
    )


def verdict_measures(verdicts: Sequence[str], correct: Bools) -> dict[str, float]:
    """Shares of verdicts (`accepted`, `fallback`, `abstained`), and `accepted_precision`.

    The latter is the share of accepted queries whose first tool is right, absent where none was
    accepted.
    """
    given = np.array(verdicts, dtype=np.str_)
    names = {"accepted": "accept", "fallback": "fallback", "abstained": "abstain"}
    shares = {name: float((given == verdict).mean()) for name, verdict in names.items()}
    accepted = given == "accept"
    if not accepted.any():
        return shares
    return shares | {"accepted_precision": float(correct[accepted].mean())}


def reliability_bins(
    confidence: Floats, correct: Bools, bins: int = BINS
) -> tuple[ReliabilityBin, ...]:
    """Up to `bins` bins of as equal a count as can be, by rising confidence."""
    order = np.argsort(confidence, kind="stable")
    success = _mean_among_equals(confidence, correct)
    parts = np.array_split(order, bins)
    return tuple(
        ReliabilityBin(float(confidence[part].mean()), float(success[part].mean()), len(part))
        for part in parts
        if len(part)
    )


def expected_error(bins: Sequence[ReliabilityBin]) -> float:
    """The expected calibration error: the mean distance of confidence and success."""
    gaps = sum(one.count * abs(one.confidence - one.accuracy) for one in bins)
    return gaps / sum(one.count for one in bins)


def risk_coverage(confidence: Floats, correct: Bools) -> RiskCoverage:
    """The curve of selective prediction (El-Yaniv and Wiener 2010), a point for every query."""
    order = np.argsort(-confidence, kind="stable")
    answered = np.arange(1, len(order) + 1)
    risk = np.cumsum(1.0 - _mean_among_equals(confidence, correct)[order]) / answered
    return RiskCoverage(answered / len(order), risk)


def _separation(confidence: Floats, answerable: Bools) -> dict[str, float]:
    if answerable.all() or not answerable.any():
        return {}
    sklearn = import_extra("sklearn.metrics", "evaluation", "eval")
    false_rate, true_rate, _ = sklearn.roc_curve(answerable, confidence, drop_intermediate=False)
    return {
        "auroc": float(sklearn.roc_auc_score(answerable, confidence)),
        "auprc": float(sklearn.average_precision_score(answerable, confidence)),
        "false_acceptance@95": float(false_rate[np.argmax(true_rate >= TRUE_ACCEPTANCE)]),
    }


def _calibration(confidence: Floats, correct: Bools) -> dict[str, float]:
    if confidence.min() < 0 or confidence.max() > 1:
        return {}
    error = expected_error(reliability_bins(confidence, correct))
    brier: Callable[..., float] = import_extra(
        "sklearn.metrics", "evaluation", "eval"
    ).brier_score_loss
    return {"ece": error, "brier": float(brier(correct, confidence, pos_label=1))}


def _calibration_of_first(first: Floats | None, correct: Bools) -> dict[str, float]:
    if first is None or first.min() < 0 or first.max() > 1:
        return {}
    return {"ece_first": expected_error(reliability_bins(first, correct))}


def _risk_at(coverage: float, confidence: Floats, correct: Bools) -> float:
    curve = risk_coverage(confidence, correct)
    return float(curve.risk[np.searchsorted(curve.coverage, coverage)])


def _correlation(confidence: Floats, correct: Bools) -> dict[str, float]:
    if np.ptp(confidence) == 0 or correct.all() or not correct.any():
        return {}
    return {"correlation": float(np.corrcoef(confidence, correct.astype(np.float64))[0, 1])}


def _mean_among_equals(confidence: Floats, correct: Bools) -> Floats:
    _, group = np.unique(confidence, return_inverse=True)
    return (np.bincount(group, weights=correct) / np.bincount(group))[group]
