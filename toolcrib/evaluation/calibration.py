"""Fits calibrations: from labelled queries to probabilities that hold.

What is fitted is a logistic regression over the features of `retrieval.confidence`, one row a
ranked tool. With few queries a full fit would learn their accidents, so three ways compete in
cross-validation, and the one with the least log loss wins: the calibration that is there, the
same with slope and offset fitted anew (Platt 1999), and all weights fitted anew. Every figure
and every curve comes from queries that the fit in question had not seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.errors import CalibrationError
from toolcrib.evaluation.acceptance import (
    acceptance_curves,
    least_probabilities,
    recommended,
    server_thresholds,
)
from toolcrib.evaluation.evidence import LabelledEvidence
from toolcrib.extras import import_extra
from toolcrib.evaluation.gate_measures import gate_measures
from toolcrib.retrieval.confidence import Calibration, Figures, Floats, probabilities

__all__ = ["MIN_QUERIES", "calibrate"]

MIN_QUERIES = 30
"""Fewer labelled queries tell too little."""

ROWS = 10
"""Tools of each query that the fit looks at."""

FIRST_WEIGHT = ROWS - 1
"""The first tool counts as much as all others: its probability is the confidence."""

FOLDS = 5

Model = tuple[NDArray[np.float64], float]
"""Weights and offset of a logistic regression."""

Fit = Callable[[Sequence[LabelledEvidence]], Model]


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to calibrate, and the probabilities that it gave unseen queries."""

    method: str
    fit: Fit
    unseen: list[Floats]
    log_loss: float


def calibrate(
    evidence: Sequence[LabelledEvidence],
    identity: Mapping[str, Any],
    *,
    seed: int = 0,
    start: Calibration | None = None,
) -> Calibration:
    """Fit a calibration; `start` is the one in use, which may be all that is needed.

    Raises:
        CalibrationError: fewer than `MIN_QUERIES` queries, or (nearly) all first tools right,
            or wrong.
        MissingExtraError: scikit-learn is not installed.
    """
    shown = [one for one in evidence if not one.hidden]
    _require_enough(shown)
    folds = _folds(evidence, seed)
    ways = [_cross_validated("fitted", _fit_all, evidence, folds)]
    if start is not None:
        begun = (np.asarray(start.weights), start.offset)
        ways.append(_cross_validated("default", lambda _: begun, evidence, folds))
        ways.append(
            _cross_validated("rescaled", lambda some: _rescale(some, begun), evidence, folds),
        )
    best = min(ways, key=lambda way: way.log_loss)
    weights, offset = best.fit(evidence)
    curves = acceptance_curves(evidence, best.unseen)
    return Calibration(
        identity=dict(identity),
        method=best.method,
        weights=tuple(weights.tolist()),
        offset=offset,
        threshold=recommended(curves[""]),
        server_thresholds=server_thresholds(evidence, curves),
        curves=curves,
        needed=least_probabilities(evidence, best.unseen),
        seed=seed,
        data_digest=_digest(shown),
        queries=len(shown),
        figures=_figures(evidence, best),
    )


def _require_enough(shown: Sequence[LabelledEvidence]) -> None:
    if len(shown) < MIN_QUERIES:
        raise CalibrationError(
            f"{len(shown)} labelled queries are too few to calibrate by; give at least "
            f"{MIN_QUERIES}, some hundred are better",
        )
    right = sum(one.first_is_right for one in shown)
    if right in {0, len(shown)}:
        which = "no" if right == 0 else "every"
        raise CalibrationError(
            f"{which} labelled query has a right tool on top, so there is nothing to tell apart; "
            "check that the labels name ids of this index",
        )


def _folds(evidence: Sequence[LabelledEvidence], seed: int) -> NDArray[np.int64]:
    """A fold for each query; a query and its hidden twin share one."""
    texts = sorted({one.query.text for one in evidence})
    shuffled = np.random.default_rng(seed).permutation(len(texts)) % FOLDS
    fold = dict(zip(texts, shuffled.tolist(), strict=True))
    return np.array([fold[one.query.text] for one in evidence])


def _cross_validated(
    method: str,
    fit: Fit,
    evidence: Sequence[LabelledEvidence],
    folds: NDArray[np.int64],
) -> _Way:
    unseen: list[Floats] = [np.empty(0)] * len(evidence)
    for fold in range(FOLDS):
        held_back = np.flatnonzero(folds == fold).tolist()
        weights, offset = fit([one for one, at in zip(evidence, folds, strict=True) if at != fold])
        for place in held_back:
            unseen[place] = probabilities(evidence[place].features, weights, offset)
    return _Way(method, fit, unseen, _log_loss(evidence, unseen))


def _log_loss(evidence: Sequence[LabelledEvidence], unseen: Sequence[Floats]) -> float:
    p = np.array([float(row[0]) for row in unseen])
    right = np.array([one.first_is_right for one in evidence])
    weight = np.array([one.weight for one in evidence])
    p = np.clip(p, 1e-9, 1 - 1e-9)
    losses = -np.where(right, np.log(p), np.log(1 - p))
    return float(np.average(losses, weights=weight))


def _rows(evidence: Sequence[LabelledEvidence]) -> tuple[Floats, Floats, Floats]:
    """Features, labels and weights of the first tools of every query."""
    known = np.vstack([one.features[:ROWS] for one in evidence])
    right = np.concatenate([one.right[:ROWS] for one in evidence]).astype(np.float64)
    weights = np.concatenate(
        [
            one.weight * np.where(np.arange(min(ROWS, len(one.right))) == 0, FIRST_WEIGHT, 1.0)
            for one in evidence
        ],
    )
    return known, right, weights * len(weights) / weights.sum()


def _fit_all(evidence: Sequence[LabelledEvidence]) -> Model:
    known, right, weights = _rows(evidence)
    return _regress(known, right, weights)


def _rescale(evidence: Sequence[LabelledEvidence], start: Model) -> Model:
    known, right, weights = _rows(evidence)
    logits = (known @ start[0] + start[1])[:, None]
    slope, offset = _regress(logits, right, weights)
    # A slope below zero would turn the ranking round; no data is worth that.
    rate = max(float(slope[0]), 0.0)
    return start[0] * rate, start[1] * rate + offset


def _regress(known: Floats, right: Floats, weights: Floats) -> Model:
    """Logistic regression on standardised features, with the scale folded back into weights."""
    linear = import_extra("sklearn.linear_model", "fitting a calibration", "eval")
    if right.min() == right.max():
        raise CalibrationError(
            "too few labelled queries have right tools, or too few have wrong ones, to tell apart; "
            "give more queries",
        )
    centre, scale = known.mean(axis=0), known.std(axis=0)
    scale[scale == 0] = 1.0
    model = linear.LogisticRegression(solver="newton-cholesky")
    model.fit((known - centre) / scale, right, sample_weight=weights)
    folded = model.coef_[0] / scale
    return folded, float(model.intercept_[0] - folded @ centre)


def _figures(evidence: Sequence[LabelledEvidence], way: _Way) -> Figures:
    """What the winner is worth on real queries that it had not seen."""
    natural = [pair for pair in zip(evidence, way.unseen, strict=True) if not pair[0].hidden]
    measured = gate_measures(
        np.array([float(p[0]) for _, p in natural]),
        np.array([one.first_is_right for one, _ in natural]),
        np.array([one.query.answerable for one, _ in natural]),
    )
    return Figures(
        ece=measured["ece"],
        log_loss=way.log_loss,
        auroc=measured.get("auroc"),
        queries=len(natural),
    )


def _digest(shown: Sequence[LabelledEvidence]) -> str:
    rows = sorted((one.query.text, sorted(one.query.relevant)) for one in shown)
    return hashlib.blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest()
