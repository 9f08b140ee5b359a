"""Calibration: from scores to probabilities.

The confidence of an answer is the probability that any tool in reach answers the query
(`answerability`). Every ranked tool gets features from the scores alone, and a logistic regression,
fitted on labelled queries that can be answered, turns them into the probability that this tool is
right if any is; times the confidence, it is the tool's own. A calibration is kept beside the index
that it was made for.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolcrib.errors import CalibrationError
from toolcrib.numerics import Floats, sigmoid
from toolcrib.records.codec import in_words
from toolcrib.retrieval.fusion import Candidates, LegScores
from toolcrib.retrieval.legs import Head
from toolcrib.store.base import Store

logger = logging.getLogger(__name__)

FEATURES_VERSION = 2
"""Raise it when `features` changes: calibrations of another version are refused, but those of
version 1, which lack what was added at the end and so weigh it by 0."""

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

NO_TOOL_SCORE = 0.25
"""The fused score at which "no tool at all" is as good a guess: it competes in the shares, so
that a lonely weak candidate is not sure of itself. Chosen on development splits."""

SHARP_TEMPERATURE, SOFT_TEMPERATURE = 0.02, 0.04
"""Temperatures of the shares."""

RANKED_COMPETITORS = 20
"""Shares are among these many: what stands lower must not depend on how deep the legs looked."""

_CLIP = 1e-6
_DEFAULT = Path(__file__).with_name("calibration.json")


def features(scores: Sequence[float], legs: Sequence[LegScores], terms: int) -> Floats:
    """What is known of each candidate of one query: float64 [n, len(FEATURES)].

    `scores` are the fused ones in the order of the ranking, in [0, 1], and `terms` is how many
    words the query holds. A share is the logit of the candidate's part in a softmax over the
    first `RANKED_COMPETITORS` and "no tool"; `gap` is the distance to the first score. The `top`
    columns are of the query: the best cosine, the best BM25, and the best BM25 for each word.
    """
    fused = np.asarray(scores, dtype=np.float64)
    if not fused.size:
        return np.empty((0, len(FEATURES)))
    dense = np.array([leg.dense for leg in legs])
    lexical = np.array([leg.lexical for leg in legs])
    best_dense, best_lexical = dense[:RANKED_COMPETITORS].max(), lexical[:RANKED_COMPETITORS].max()
    ranks = np.arange(1, fused.size + 1)
    columns = (
        _share(fused, SHARP_TEMPERATURE),
        _share(fused, SOFT_TEMPERATURE),
        np.log(ranks),
        ranks == 1,
        fused[0] - fused,
        dense >= best_dense,
        (lexical >= best_lexical) & (lexical > 0),
        np.full(fused.size, best_dense),
        np.full(fused.size, 1 - math.exp(-best_lexical / LEXICAL_SCALE)),
        np.full(fused.size, min(MAX_TERM_BM25, best_lexical / max(1, terms))),
    )
    return np.column_stack(columns).astype(np.float64)


def probabilities(known: Floats, weights: Floats, offset: float) -> Floats:
    """The logistic function of the weighted `features`: float64 [n] in (0, 1).

    It never rises along the ranking: what stands lower is no more likely.
    """
    return np.minimum.accumulate(sigmoid(known @ weights + offset))


def _share(scores: Floats, temperature: float) -> Floats:
    top = max(float(scores.max()), NO_TOOL_SCORE)
    weights = np.exp((scores - top) / temperature)
    total = weights[:RANKED_COMPETITORS].sum() + np.exp((NO_TOOL_SCORE - top) / temperature)
    share = weights / total
    share = np.clip(share, _CLIP, 1 - _CLIP)
    return np.log(share / (1 - share))


# -- answerability --------------------------------------------------------------------------------

QUERY_FEATURES = ("top_meaning", "meaning_lead", "fused_lead", "top_lexical", "top_term")

LEAD_DEPTH_TOOLS = 20
"""The lead is over the last of so many; what stands lower must not depend on the depth."""

USUAL_DENSE_SCORE, USUAL_FUSED_SCORE = 0.24, 0.05
"""In place of what shorter lists lack: what stands there on public sets, and what lets registries
of fewer tools be doubted as often as those of more (benchmarks/small_registries.py)."""

LEXICAL_SCALE, MAX_TERM_BM25 = 100.0, 20.0
"""The BM25 score at which `top_lexical` is 0.63, and what a word of the query adds at most."""


def query_features(found: Candidates) -> Floats:
    """What is known of a query by its candidates: float64 [len(QUERY_FEATURES)].

    The best cosine, and how far it is above the 20th; the same for the fused score; the best
    BM25 score, and that for each of the query's words.
    """
    meaning = [_meaning(scores) for scores in found.scores.values()]
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


def _meaning(scores: LegScores) -> float:
    """The cosine of the tool, of its best example, or half of it the query's best clause."""
    clauses = scores.dense if scores.clauses is None else scores.clauses
    examples = scores.dense if scores.examples is None else scores.examples
    return max(scores.dense, examples, (scores.dense + clauses) / 2)


def _lead(scores: Collection[float], usual: float) -> float:
    first = sorted(scores, reverse=True)[:LEAD_DEPTH_TOOLS]
    return (first[0] if first else 0.0) - (first[-1] if len(first) == LEAD_DEPTH_TOOLS else usual)


class Answerability(BaseModel):
    """A fitted logistic regression over `QUERY_FEATURES`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: tuple[float, ...] = Field(
        min_length=len(QUERY_FEATURES), max_length=len(QUERY_FEATURES)
    )
    offset: float

    def probability(self, known: Floats) -> float:
        """How likely any tool answers, in (0, 1); `known`: float64 [features]."""
        return sigmoid(float(known @ np.asarray(self.weights) + self.offset))


# -- calibration ----------------------------------------------------------------------------------


class AcceptanceCurve(BaseModel):
    """What accepting from each threshold on would have meant for the labelled queries.

    `thresholds` ascend in [0, 1]. `precision` is the share of accepted queries whose first tool
    was right, `true_acceptance` that of answerable queries which were accepted, and
    `false_acceptance` that of unanswerable ones (None where there were none).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    queries: int
    thresholds: tuple[float, ...]
    precision: tuple[float, ...]
    true_acceptance: tuple[float, ...]
    false_acceptance: tuple[float, ...] | None = None


class Figures(BaseModel):
    """What a calibration is worth on queries that it was not fitted on.

    `ece`, `log_loss` and `auroc` are of the confidence: whether anything answers; `ece_first` is
    of the first tool's probability. `false_acceptance` is the share of unanswerable queries
    accepted where 95 % of the answerable ones are, `coverage` the share of all that is accepted
    from the threshold on, and `precision` how much of that has a right first tool.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ece: float
    log_loss: float
    ece_first: float | None = None
    auroc: float | None = None
    false_acceptance: float | None = None
    coverage: float | None = None
    precision: float | None = None
    queries: int = 0


class Calibration(BaseModel):
    """A fitted mapping, and all that tells whether it still holds.

    `identity` names the models and settings whose scores it maps. `method` is how it came
    about: `default`, `rescaled` (the default's slope and offset fitted anew) or `fitted`.
    `weights` and `offset` give a tool's probability if any answers, and `answerability` that any
    does. An earlier version had none: a tool's probability was that of all, and the first one's
    the confidence.
    `threshold` is the recommended one, `server_thresholds` those of servers that had queries
    enough for their own. `curves` by server; "" is over all. `needed` are, ascending, the least
    probabilities that any needed tool had in each answerable labelled query (0 for one that was
    not found).
    `head` is the classifier that was fitted first, and on whose scores all else rests.
    `by_examples`: whether the scores had a head over the tools' examples in them. `lexical` is the
    calibration of answers by words alone, where the encoder fails.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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

        `known`: the `features` of the candidates.
        """
        return self.answerability.probability(query) if len(known) else None

    def probabilities(self, known: Floats, confidence: float | None) -> Floats:
        """Probability of each candidate, from its `features`: float64 [n], at most `confidence`."""
        given_any = probabilities(known, np.asarray(self.weights), self.offset)
        return given_any * (confidence or 0.0)

    def mismatch(self, identity: Mapping[str, Any]) -> str:
        """In what the models and settings in use differ; empty when the calibration holds."""
        return differences(self.identity, identity)


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """In what two identities differ, in words; empty when they are equal."""
    return "; ".join(
        f"{key} {found.get(key)!r}, now {wanted.get(key)!r}"
        for key in sorted({*found, *wanted})
        if found.get(key) != wanted.get(key)
    )


def read_calibration(fields: Mapping[str, Any], where: str) -> Calibration:
    """A calibration as it was stored.

    Raises:
        CalibrationError: something is missing, or another version wrote it.
    """
    try:
        return Calibration.model_validate(fields)
    except ValidationError as error:
        raise CalibrationError(
            f"{where}: {in_words(error)}; run `toolcrib calibrate` again"
        ) from error


@cache
def default_calibration() -> Calibration:
    """The calibration that ships with the package, fitted on public development splits."""
    return Calibration.model_validate_json(_DEFAULT.read_bytes())


CALIBRATION_KEY = "calibration"
"""Where it stands in the store's small document."""


def load_calibration(store: Store, identity: Mapping[str, Any]) -> Calibration | None:
    """The index's own calibration, or the shipped one where it has none and that one holds.

    Raises:
        CalibrationError: the own one cannot be read, or was made for other models or settings
            than those of `identity`.
    """
    fields = store.read_meta().get(CALIBRATION_KEY)
    if fields is None:
        shipped = default_calibration()
        return None if shipped.mismatch(identity) else shipped
    own = read_calibration(fields, "the calibration of this index")
    _require_match(own, identity)
    return own


def lexical_calibration(own: Calibration | None, identity: Mapping[str, Any]) -> Calibration | None:
    """What judges words alone: the calibration's own part, or the shipped one where it holds.

    Which encoder it is that fails makes no difference.
    """
    if own is not None and own.lexical is not None:
        return own.lexical
    shipped = default_calibration()
    if differences({**shipped.identity, "dense": None}, {**identity, "dense": None}):
        return None
    return shipped.lexical


def usable_calibration(store: Store, identity: Mapping[str, Any]) -> Calibration | None:
    """As `load_calibration`; instead of raising it warns, and there is none."""
    try:
        return load_calibration(store, identity)
    except CalibrationError as error:
        logger.warning("%s; answers have no confidence until then", error)
        return None


def save_calibration(
    store: Store, identity: Mapping[str, Any], calibration: Calibration | None
) -> None:
    """Keep a calibration beside the index; None removes what is kept there.

    Raises:
        CalibrationError: it was made for other models or settings than those of `identity`.
        StoreError: the store refused.
    """
    if calibration is not None:
        _require_match(calibration, identity)
    meta = {key: value for key, value in store.read_meta().items() if key != CALIBRATION_KEY}
    kept = {} if calibration is None else {CALIBRATION_KEY: calibration.model_dump(mode="json")}
    store.write_meta(meta | kept)


def _require_match(calibration: Calibration, identity: Mapping[str, Any]) -> None:
    if differing := calibration.mismatch(identity):
        raise CalibrationError(
            f"the calibration was made with {differing}; run `toolcrib calibrate` again"
        )
