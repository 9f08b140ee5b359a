"""From unseen probabilities to what a gate and a set need: curves, a threshold, least values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolcrib.evaluation.evidence import LabelledEvidence
from toolcrib.retrieval.calibration import AcceptanceCurve, Floats

__all__ = ["acceptance_curves", "least_probabilities", "recommended", "server_thresholds"]

Bools: TypeAlias = NDArray[np.bool_]

GRID = tuple(round(step / 100, 2) for step in range(101))

TRUE_ACCEPTANCE = 0.97
"""The recommended threshold turns away no more than 3 % of what could be answered."""

MIN_SERVER_QUERIES = 50
"""A server with fewer queries has no curve of its own."""

MAX_NEEDED = 2000
"""So many values tell the quantiles well enough; a calibration is kept small."""


def acceptance_curves(
    evidence: Sequence[LabelledEvidence],
    unseen: Sequence[Floats],
) -> dict[str, AcceptanceCurve]:
    """A curve over all queries under "", and one for each server with queries enough."""
    first = [float(p[0]) if p.size else 0.0 for p in unseen]
    pairs = list(zip(evidence, first, strict=True))
    counts = Counter(one.first_server for one in evidence if one.first_server)
    groups = {"": pairs}
    for server, count in sorted(counts.items()):
        if count >= MIN_SERVER_QUERIES:
            groups[server] = [pair for pair in pairs if pair[0].first_server == server]
    return {server: _curve(group) for server, group in groups.items()}


def _curve(pairs: Sequence[tuple[LabelledEvidence, float]]) -> AcceptanceCurve:
    confidence = np.array([p for _, p in pairs])
    weight = np.array([one.weight for one, _ in pairs])
    right = np.array([one.first_is_right for one, _ in pairs])
    answerable = np.array([one.answerable for one, _ in pairs])
    accepted = [confidence >= threshold for threshold in GRID]

    def share(of: Bools, among: Bools) -> float:
        total = float((weight * among).sum())
        return round(float((weight * of * among).sum()) / total, 6) if total else 1.0

    negatives = ~answerable
    return AcceptanceCurve(
        queries=len(pairs),
        thresholds=GRID,
        precision=tuple(share(right, taken) for taken in accepted),
        true_acceptance=tuple(share(taken, answerable) for taken in accepted),
        false_acceptance=tuple(share(taken, negatives) for taken in accepted)
        if negatives.any()
        else None,
    )


def server_thresholds(
    evidence: Sequence[LabelledEvidence],
    curves: Mapping[str, AcceptanceCurve],
) -> dict[str, float]:
    """The recommended threshold of each server whose tools came first for answerable queries."""
    counts = Counter(one.first_server for one in evidence if one.answerable)
    return {
        server: recommended(curve)
        for server, curve in curves.items()
        if server and counts[server] >= MIN_SERVER_QUERIES
    }


def recommended(curve: AcceptanceCurve) -> float:
    """The highest threshold that still accepts `TRUE_ACCEPTANCE` of the answerable queries."""
    fitting = [
        threshold
        for threshold, accepted in zip(curve.thresholds, curve.true_acceptance, strict=True)
        if accepted >= TRUE_ACCEPTANCE
    ]
    return max(fitting, default=0.0)


def least_probabilities(
    evidence: Sequence[LabelledEvidence],
    unseen: Sequence[Floats],
) -> tuple[float, ...]:
    """For each answerable query the least probability of a needed tool, ascending; 0 if lost."""
    least: list[float] = sorted(
        0.0 if one.lost else float(p[one.right].min())
        for one, p in zip(evidence, unseen, strict=True)
        if one.answerable
    )
    if len(least) > MAX_NEEDED:
        places = np.linspace(0, len(least) - 1, MAX_NEEDED).round().astype(int)
        least = [least[place] for place in places]
    return tuple(round(value, 6) for value in least)
