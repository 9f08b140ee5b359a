"""Numerics: the logistic function, the softmax and the logistic fit."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

LOG_ODDS_BOUND = 30.0
"""Bound of log-odds: larger values would claim a certainty that no data supports."""

FIT_MAX_ROUNDS = 50
FIT_MIN_STEP = 1e-9

Floats = NDArray[np.float64]

_Key = TypeVar("_Key", bound=Hashable)
_Float = TypeVar("_Float", bound=np.floating[Any])


@overload
def sigmoid(log_odds: float) -> float: ...


@overload
def sigmoid(log_odds: NDArray[_Float]) -> NDArray[_Float]: ...


def sigmoid(log_odds: float | NDArray[Any]) -> float | NDArray[Any]:
    """Probability that has these log-odds, in (0, 1); an array keeps its shape and dtype."""
    if isinstance(log_odds, np.ndarray):
        return 1 / (1 + np.exp(-np.clip(log_odds, -LOG_ODDS_BOUND, LOG_ODDS_BOUND)))
    return 1 / (1 + math.exp(-max(-LOG_ODDS_BOUND, min(LOG_ODDS_BOUND, log_odds))))


def softmax(logits: NDArray[_Float]) -> NDArray[_Float]:
    """Probabilities over the last axis, each row adding up to 1; shape and dtype stay."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def log_softmax(logits: NDArray[_Float]) -> NDArray[_Float]:
    """Logarithms of the probabilities over the last axis."""
    centred = logits - logits.max(axis=-1, keepdims=True)
    return centred - np.log(np.exp(centred).sum(axis=-1, keepdims=True))


def exclusive_probabilities(log_odds: Mapping[_Key, float]) -> dict[_Key, float]:
    """Probabilities of alternatives that exclude each other: a softmax by key."""
    top = max(log_odds.values())
    raised = {key: math.exp(value - top) for key, value in log_odds.items()}
    total = sum(raised.values())
    return {key: value / total for key, value in raised.items()}


def fit_logistic(
    inputs: Floats, labels: NDArray[Any], *, ridge: float, sample_weights: Floats | None = None
) -> Floats:
    """Weights of a logistic regression with an L2 penalty, by Newton's method: float64 [f].

    `inputs`: float64 [n, f], with a column of ones where an offset is wanted; `labels`: bool or
    0 and 1 [n]; `ridge`: the penalty of each weight; `sample_weights`: float64 [n], default all 1.
    """
    weighting = np.ones(len(inputs)) if sample_weights is None else sample_weights
    penalty = ridge * np.eye(inputs.shape[1])
    weights = np.zeros(inputs.shape[1])
    for _ in range(FIT_MAX_ROUNDS):
        likely = sigmoid(inputs @ weights)
        slope = inputs.T @ (weighting * (labels - likely)) - penalty @ weights
        spread = weighting * likely * (1 - likely)
        step = np.linalg.solve((inputs.T * spread) @ inputs + penalty, slope)
        weights = weights + step
        if np.abs(step).max() < FIT_MIN_STEP:
            break
    return weights
