"""Calibration: maps scores to probabilities.

The confidence of an answer is the probability that any tool in scope answers the query
(answerability). A logistic regression estimates it from features of all candidates.
docs/explanation/confidence.md lists rejected features. A second regression, fitted on answerable
queries, estimates the probability that a tool is right if any is; times the confidence, this is the
tool's probability. A calibration is stored with its index.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError

from toolcrib.errors import CalibrationError
from toolcrib.numerics import Floats, sigmoid
from toolcrib.records.codec import FrozenModel, in_words
from toolcrib.retrieval.fusion import Candidates, LegScores
from toolcrib.retrieval.legs import Head
from toolcrib.store.base import Store

logger = logging.getLogger(__name__)

FEATURES_VERSION = 2
"""Version of `features`; an increase after a change invalidates older calibrations."""

FEATURES = (
    "share_sharp",
    "share_soft",
    "log_rank",
    "is_first",
    "gap",
    "best_dense",
    "best_lexical",
    "top_dense",
    "top_lexical",
    "top_term",
)
RAW_QUERY_FEATURES = FEATURES[-3:]
"""Scores of the query itself: their weights fit labelled sentences, and misjudge other queries."""

NO_TOOL_SCORE = 0.25
"""Fused score of "no tool" in the softmax, so that a lone weak candidate gets no high share. Chosen
on development splits."""

SHARP_TEMPERATURE, SOFT_TEMPERATURE = 0.02, 0.04
"""Temperatures of the shares."""

_TEMPERATURES = np.array([[SHARP_TEMPERATURE], [SOFT_TEMPERATURE]])

RANKED_COMPETITORS = 20
"""Candidates in the softmax; a fixed number, so that the depth of the legs changes no share."""

_CLIP = 1e-6
_DEFAULT = Path(__file__).with_name("calibration.json")


def features(scores: Sequence[float], legs: Sequence[LegScores], terms: int) -> Floats:
    """Features of each candidate of one query: float64 [n, len(FEATURES)].

    `scores`: fused, in the order of the ranking, in [0, 1]. `terms`: words of the query. A share is
    the logit of the candidate's part in a softmax over the first `RANKED_COMPETITORS` and "no
    tool"; `gap` is the distance to the first score. The `top` columns describe the query: the best
    cosine, the best BM25, and the best BM25 for each word.
    """
    fused = np.asarray(scores, dtype=np.float64)
    if not fused.size:
        return np.empty((0, len(FEATURES)))
    dense = np.array([leg.dense for leg in legs])
    lexical = np.array([leg.lexical for leg in legs])
    best_dense, best_lexical = dense[:RANKED_COMPETITORS].max(), lexical[:RANKED_COMPETITORS].max()
    ranks = np.arange(1, fused.size + 1)
    columns = (
        *_shares(fused),
        np.log(ranks),
        ranks == 1,
        fused[0] - fused,
        dense >= best_dense,
        (lexical >= best_lexical) & (lexical > 0),
        best_dense,
        1 - math.exp(-best_lexical / LEXICAL_SCALE),
        min(MAX_TERM_BM25, best_lexical / max(1, terms)),
    )
    # Filling an empty table takes half the time of stacking columns.
    table = np.empty((fused.size, len(columns)))
    for place, column in enumerate(columns):
        table[:, place] = column
    return table


def probabilities(known: Floats, weights: Floats, offset: float) -> Floats:
    """Logistic function of weighted `features`: float64 [n] in (0, 1), falling with the rank."""
    return np.minimum.accumulate(sigmoid(known @ weights + offset))


def _shares(scores: Floats) -> Floats:
    """Logits of the sharp and of the soft share of each candidate: float64 [2, n]."""
    top = max(float(scores.max()), NO_TOOL_SCORE)
    weights = np.exp((np.concatenate(([NO_TOOL_SCORE], scores)) - top) / _TEMPERATURES)
    total = weights[:, : RANKED_COMPETITORS + 1].sum(axis=1, keepdims=True)
    share = np.minimum(np.maximum(weights[:, 1:] / total, _CLIP), 1 - _CLIP)
    return np.log(share / (1 - share))


# -- answerability --------------------------------------------------------------------------------

QUERY_FEATURES = ("top_meaning", "meaning_lead", "fused_lead", "top_lexical", "top_term")

LEAD_DEPTH_TOOLS = 20
"""Rank whose score a lead is measured against."""

USUAL_DENSE_SCORE, USUAL_FUSED_SCORE = 0.24, 0.05
"""Scores at that rank for shorter lists: the usual scores on public sets, chosen so that small
registries abstain as often as large ones (benchmarks/small_registries.py)."""

LEXICAL_SCALE, MAX_TERM_BM25 = 100.0, 20.0
"""BM25 score at which `top_lexical` is 0.63, and limit of `top_term`."""


def query_features(found: Candidates) -> Floats:
    """Features of a query from its candidates: float64 [len(QUERY_FEATURES)].

    The best cosine and its lead, the lead of the best fused score, the best BM25 score, and the
    best BM25 score for each word of the query.
    """
    meaning = [_dense_score(scores) for scores in found.scores.values()]
    fused = [-place.deficit for place in found.ranking]
    lexical = max((scores.lexical for scores in found.scores.values()), default=0.0)
    return np.array(
        [
            max(meaning, default=0.0),
            _lead(meaning, USUAL_DENSE_SCORE),
            _lead(fused, USUAL_FUSED_SCORE),
            1 - math.exp(-lexical / LEXICAL_SCALE),
            min(MAX_TERM_BM25, lexical / max(1, found.terms)),
        ]
    )


def _dense_score(scores: LegScores) -> float:
    """Best cosine of the tool: itself, its best example, or the mean with the best clause."""
    clauses = scores.dense if scores.clauses is None else scores.clauses
    examples = scores.dense if scores.examples is None else scores.examples
    return max(scores.dense, examples, (scores.dense + clauses) / 2)


def _lead(scores: Collection[float], usual: float) -> float:
    first = sorted(scores, reverse=True)[:LEAD_DEPTH_TOOLS]
    return (first[0] if first else 0.0) - (first[-1] if len(first) == LEAD_DEPTH_TOOLS else usual)


class Answerability(FrozenModel):
    """Fitted logistic regression over `QUERY_FEATURES`."""

    weights: tuple[float, ...] = Field(
        min_length=len(QUERY_FEATURES), max_length=len(QUERY_FEATURES)
    )
    offset: float

    def probability(self, known: Floats) -> float:
        """Probability that any tool answers, in (0, 1); `known`: float64 [features]."""
        return sigmoid(float(known @ np.asarray(self.weights) + self.offset))


# -- calibration ----------------------------------------------------------------------------------


class AcceptanceCurve(FrozenModel):
    """Precision and acceptance of the labelled queries at each threshold.

    `thresholds` ascend in [0, 1]. `precision`: share of accepted queries with a right first tool.
    `true_acceptance`: share of answerable queries that are accepted. `false_acceptance`: share of
    unanswerable queries that are accepted; None without such queries.
    """

    queries: int
    thresholds: tuple[float, ...]
    precision: tuple[float, ...]
    true_acceptance: tuple[float, ...]
    false_acceptance: tuple[float, ...] | None = None


class Figures(FrozenModel):
    """Quality of a calibration on held-out queries.

    `ece`, `log_loss` and `auroc` are of the confidence, `ece_first` of the first tool's
    probability. `false_acceptance`: share of unanswerable queries accepted at the threshold that
    accepts 95 % of the answerable ones. `coverage`: share of queries accepted at the threshold.
    `precision`: share of accepted queries with a right first tool.
    """

    ece: float
    log_loss: float
    ece_first: float | None = None
    auroc: float | None = None
    false_acceptance: float | None = None
    coverage: float | None = None
    precision: float | None = None
    queries: int = 0


class Calibration(FrozenModel):
    """Fitted calibration, with the models and settings of its fit.

    `identity`: these models and settings. `method`: `default`, `rescaled` (the default with slope
    and offset fitted again) or `fitted`. `weights` and `offset` give a tool's probability if any
    tool answers; `answerability` gives the probability that any does. `threshold` is recommended;
    `server_thresholds`: for servers with enough queries. `curves` by server; "" is for all servers.
    `needed`: for each answerable labelled query the lowest probability of a needed tool, ascending,
    and 0 for a tool that was not found. `head`: classifier that gave scores in the fit.
    `by_examples`: a head over examples gave scores. `lexical`: calibration of the lexical leg
    alone.
    """

    identity: dict[str, Any]
    method: str
    weights: tuple[float, ...] = Field(min_length=len(FEATURES), max_length=len(FEATURES))
    offset: float
    answerability: Answerability
    threshold: float = Field(ge=0, le=1)
    server_thresholds: dict[str, float] = Field(default_factory=dict[str, float])
    curves: dict[str, AcceptanceCurve]
    needed: tuple[float, ...]
    seed: int
    data_digest: str
    queries: int
    figures: Figures
    head: Head | None = None
    by_examples: bool = False
    lexical: Calibration | None = None

    def confidence(self, known: Floats, query: Floats) -> float | None:
        """Probability that any tool answers, from `query_features`; None without candidates.

        `known`: `features` of the candidates.
        """
        return self.answerability.probability(query) if len(known) else None

    def probabilities(self, known: Floats, confidence: float | None) -> Floats:
        """Probability of each candidate, from its `features`: float64 [n], at most `confidence`."""
        given_any = probabilities(known, np.asarray(self.weights), self.offset)
        return given_any * (confidence or 0.0)


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Differences of two identities, in words; empty if equal."""
    return "; ".join(
        f"{key} {found.get(key)!r}, now {wanted.get(key)!r}"
        for key in sorted({*found, *wanted})
        if found.get(key) != wanted.get(key)
    )


@cache
def default_calibration() -> Calibration:
    """Calibration that ships with the package, fitted on public development splits."""
    return Calibration.model_validate_json(_DEFAULT.read_bytes())


CALIBRATION_KEY = "calibration"
"""Key of the calibration in the store's metadata."""


def load_calibration(store: Store, identity: Mapping[str, Any]) -> Calibration | None:
    """Load the index's own calibration, or the shipped one if its identity matches.

    Raises:
        CalibrationError: the own calibration cannot be read, or its models or settings differ from
            `identity`.
    """
    fields = store.read_meta().get(CALIBRATION_KEY)
    if fields is None:
        shipped = default_calibration()
        return None if differences(shipped.identity, identity) else shipped
    try:
        own = Calibration.model_validate(fields)
    except ValidationError as error:
        raise CalibrationError(
            f"the calibration of this index: {in_words(error)}; run `toolcrib calibrate` again"
        ) from error
    _require_match(own, identity)
    return own


def lexical_calibration(own: Calibration | None, identity: Mapping[str, Any]) -> Calibration | None:
    """Calibration of the lexical leg: part of the own one, or shipped if its identity matches.

    The encoder is not compared: it has failed.
    """
    if own is not None and own.lexical is not None:
        return own.lexical
    shipped = default_calibration()
    if differences({**shipped.identity, "dense": None}, {**identity, "dense": None}):
        return None
    return shipped.lexical


def usable_calibration(store: Store, identity: Mapping[str, Any]) -> Calibration | None:
    """Load with `load_calibration`; an error becomes a warning and None."""
    try:
        return load_calibration(store, identity)
    except CalibrationError as error:
        logger.warning("%s; answers have no confidence until then", error)
        return None


def save_calibration(
    store: Store, identity: Mapping[str, Any], calibration: Calibration | None
) -> None:
    """Store a calibration with the index; None deletes the stored one.

    Raises:
        CalibrationError: its models or settings differ from `identity`.
    """
    if calibration is not None:
        _require_match(calibration, identity)
    kept = None if calibration is None else calibration.model_dump(mode="json")
    store.write_meta({CALIBRATION_KEY: kept})


def _require_match(calibration: Calibration, identity: Mapping[str, Any]) -> None:
    if differing := differences(calibration.identity, identity):
        raise CalibrationError(
            f"the calibration was made with {differing}; run `toolcrib calibrate` again"
        )
