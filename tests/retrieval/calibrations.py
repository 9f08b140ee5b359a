"""Calibrations made by hand, whose every answer can be told beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from toolcrib.retrieval.calibration import (
    FEATURES,
    QUERY_FEATURES,
    AcceptanceCurve,
    Answerability,
    Calibration,
    Figures,
)

__all__ = ["CURVE", "EASY", "calibration", "flat", "logit"]

CURVE = AcceptanceCurve(
    queries=100,
    thresholds=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    precision=(0.5, 0.8, 0.7, 0.9, 0.95, 1.0),
    true_acceptance=(1.0, 0.99, 0.95, 0.8, 0.5, 0.0),
    false_acceptance=(1.0, 0.5, 0.25, 0.1, 0.05, 0.0),
)
"""Precision falls once on its way up, between 0.2 and 0.4."""

EASY = AcceptanceCurve(
    queries=60,
    thresholds=(0.0, 0.5, 1.0),
    precision=(0.9, 0.95, 1.0),
    true_acceptance=(1.0, 0.9, 0.0),
    false_acceptance=(0.2, 0.05, 0.0),
)
"""A server whose first tool is nearly always right."""


def logit(probability: float) -> float:
    """What the logistic function maps to the probability."""
    return math.log(probability / (1 - probability))


CERTAIN_LOGIT = 30.0
"""A log-odds whose probability is 1 but for rounding."""

BY_COSINE = Answerability(
    weights=tuple(float(name == "top_meaning") for name in QUERY_FEATURES), offset=0.0
)
"""A confidence from 0.5 to 0.73, by the best cosine."""


def calibration(identity: Mapping[str, Any], **fields: Any) -> Calibration:
    """A calibration of `CURVE`: confident by the best cosine, and of tools by their shares."""
    weights = {"share_sharp": 0.5, "share_soft": 0.5}
    given: dict[str, Any] = {
        "identity": dict(identity),
        "method": "fitted",
        "weights": tuple(weights.get(name, 0.0) for name in FEATURES),
        "offset": 0.0,
        "answerability": BY_COSINE,
        "threshold": 0.5,
        "curves": {"": CURVE},
        "needed": tuple(rank / 20 for rank in range(1, 20)),
        "seed": 0,
        "data_digest": "by hand",
        "queries": 100,
        "figures": Figures(ece=0.01, log_loss=0.3, auroc=0.9, queries=100),
    }
    return Calibration(**given | fields)


def flat(identity: Mapping[str, Any], probability: float, **fields: Any) -> Calibration:
    """A calibration that gives answer and tools this probability, whatever the query."""
    nothing = (0.0,) * len(FEATURES)
    able = Answerability(weights=(0.0,) * len(QUERY_FEATURES), offset=logit(probability))
    return calibration(
        identity, weights=nothing, offset=CERTAIN_LOGIT, answerability=able, **fields
    )
