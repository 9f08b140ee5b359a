"""Head over examples: scores tools by the fit of a query to their examples.

The description of a tool is one more example. A head weighs three features: the density of the
examples around the query, the cosine of their mean, and that cosine corrected to separate similar
tools. It is fitted for one scope; tools outside change no score. Method and figures:
docs/explanation/confidence.md.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.caches import BoundedMap
from toolcrib.encoders.base import FloatArray
from toolcrib.numerics import Floats, fit_logistic, log_softmax, sigmoid, softmax
from toolcrib.retrieval.fusion import LegScores
from toolcrib.store.base import Store
from toolcrib.store.filters import Equals, Filter, all_of
from toolcrib.store.payload import ENRICHED_FIELD

MIN_TRUST_EXAMPLES, MIN_TRUST_TOOLS = 30, 2
"""Minimum numbers of examples and tools for fitting the trust in the head."""

MIN_TOOL_EXAMPLES, MIN_SHARE_OF_TOOLS = 5, 0.5
"""Half of the tools need at least five examples."""

EXAMPLE_KERNEL_WIDTH_COSINE = 0.03
"""A width of 0.05 is as good with 3 examples a tool, and worse with 100."""

CORRECTION_PENALTY, CORRECTION_STEP, CORRECTION_STEPS, CORRECTION_MOMENTUM = 3.0, 4.0, 8, 0.5
MAX_CORRECTED_CELLS = 4_000_000
"""Limit of examples times tools; a larger head has no correction, whose steps read all cells."""

MAX_LEFT_OUT_EXAMPLES, MAX_COSINES = 400, 8_000_000
"""Limits of the held-out examples, and of the cosines for them."""

UNANSWERABLE_WEIGHT = 0.1
"""Weight of queries without a right tool, as in a calibration without such queries."""

SHARE_WEIGHT = 0.6
"""Weight of the first tool's share among all tools in the confidence; the rest is for the trust."""

MAX_SCOPES = 16
"""Heads in the cache; an evicted scope fits its head again."""

RIDGE, MAX_NEWTON_STEPS, LOSS_TOLERANCE = 1e-3, 50, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ToolExamples:
    """Vectors of a tool: `rows` float32 [1 + n, d], the description first, and their mean."""

    rows: FloatArray
    mean: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ExampleHead:
    """Fitted head: `weights` float64 [3] of density, mean and correction.

    `corrections`: float32 [tools, d], indexed by `places`, or no rows. `trust`: slope and offset
    from the first tool's score to the log-odds that the tool is right. `plain_weight`: weight of
    the cosine of a tool without examples.
    """

    tools: Mapping[int, ToolExamples]
    corrections: FloatArray
    weights: Floats
    trust: tuple[float, float]
    plain_weight: float
    places: Mapping[int, int]

    def score_candidates(
        self, query: FloatArray, candidates: Mapping[int, LegScores]
    ) -> dict[int, LegScores]:
        """Candidates with `odds`, and with `head`, the log-probability among the candidates.

        `query`: float32 [d].
        """
        odds = np.array([scores.dense for scores in candidates.values()]) * self.plain_weight
        known = [(place, p) for place, p in enumerate(candidates) if p in self.tools]
        if known:
            places, points = zip(*known, strict=True)
            odds[list(places)] = self.odds(query, points)
        shares = log_softmax(odds)
        return {
            point: scores._replace(odds=each, head=share)
            for (point, scores), each, share in zip(
                candidates.items(), odds.tolist(), shares.tolist(), strict=True
            )
        }

    def odds(self, query: FloatArray, points: Sequence[int]) -> Floats:
        """Log-odds of tools that have examples: float64 [points]."""
        taught = [self.tools[point] for point in points]
        parts = [
            _densities(np.concatenate([each.rows for each in taught]) @ query, _first_rows(taught)),
            np.stack([each.mean for each in taught]) @ query,
        ]
        if len(self.corrections):
            parts.append(self.corrections[[self.places[point] for point in points]] @ query)
        return self.weights[: len(parts)] @ np.stack(parts)

    def probability(self, odds: float) -> float:
        """Probability that a tool of this score fits, independent of other tools."""
        slope, offset = self.trust
        return sigmoid(slope * odds + offset)

    def confidence(self, odds: float, log_share: float) -> float:
        """Probability that the first tool is right, from its log-odds and its log-probability.

        A query without a fitting tool has low odds, a query between two tools a low share: the
        logarithms of both probabilities are averaged.
        """
        trust = self.probability(odds)
        return trust ** (1 - SHARE_WEIGHT) * math.exp(SHARE_WEIGHT * log_share)


FEW_SHOT_WEIGHTS, FEW_SHOT_TRUST = (5.0, 15.0), (0.58, -2.65)
"""Parameters of heads over few examples, fitted on choices from four public sets."""


def fit_few_shot(rows: Sequence[FloatArray]) -> ExampleHead:
    """Head over labels with few examples, its weights fixed; `rows`: float32 [n, d] a label."""
    tools = {label: ToolExamples(each, _unit(each.sum(axis=0))) for label, each in enumerate(rows)}
    none = np.empty((0, rows[0].shape[1]), dtype=np.float32)
    weights = np.array(FEW_SHOT_WEIGHTS)
    return ExampleHead(tools, none, weights, FEW_SHOT_TRUST, float(weights.sum()), {})


class ExampleHeads:
    """Heads of a store's tools, each fitted for the first query of a scope.

    Examples are read from the store once, and again after `forget`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[int, ToolExamples | None] = {}
        self._heads: BoundedMap[Filter | None, ExampleHead | None] = BoundedMap(MAX_SCOPES)
        self._lock = threading.Lock()

    def forget(self, points: Sequence[int] | None = None) -> None:
        """Drop the cached examples of these tools, or of all tools for None."""
        with self._lock:
            self._heads.clear()
            for point in list(self._read) if points is None else points:
                self._read.pop(point, None)

    def head(self, scope: Filter | None) -> ExampleHead | None:
        """Head of the tools in a scope; None if they have too few examples."""
        with self._lock:
            if scope not in self._heads:
                taught = self._tools_in(scope)
                known = {point: each for point, each in taught.items() if each is not None}
                enough = sum(len(each.rows) > MIN_TOOL_EXAMPLES for each in known.values())
                self._heads[scope] = (
                    fit(known) if enough >= MIN_SHARE_OF_TOOLS * len(taught) else None
                )
            return self._heads[scope]

    def _tools_in(self, scope: Filter | None) -> dict[int, ToolExamples | None]:
        """Tools in a scope by point; None for a tool without examples."""
        where = all_of(Equals("enabled", value=True), scope)
        found = {each.id: each.payload for each in self._store.scroll(where, (ENRICHED_FIELD,))}
        unread = [point for point in found if point not in self._read]
        # Generated examples do not show how reliable a head is.
        authored = [point for point in unread if found[point].get(ENRICHED_FIELD) != "writer"]
        examples = self._store.vectors(authored, "examples")
        descriptions = self._store.vectors(list(examples), "dense")
        for point in unread:
            self._read[point] = None
            if point in descriptions:
                rows = np.concatenate([descriptions[point][np.newaxis], examples[point]])
                self._read[point] = ToolExamples(rows, _unit(rows.sum(axis=0)))
        return {point: self._read[point] for point in sorted(found)}


def fit(tools: Mapping[int, ToolExamples]) -> ExampleHead | None:
    """Fit a head over tools by point; None if there are too few examples."""
    taught = list(tools.values())
    counts = np.array([len(each.rows) - 1 for each in taught])
    if len(taught) < MIN_TRUST_TOOLS or counts.sum() < MIN_TRUST_EXAMPLES:
        return None
    rows = np.concatenate([each.rows for each in taught])
    means = np.stack([each.mean for each in taught])
    owners = np.repeat(np.arange(len(taught)), counts)
    places = np.delete(np.arange(len(rows)), _first_rows(taught))
    most = max(50, min(MAX_LEFT_OUT_EXAMPLES, MAX_COSINES // len(rows)))
    chosen = np.unique(np.linspace(0, len(owners) - 1, most).astype(np.int64))
    own = owners[chosen]

    cosines = rows[places[chosen]] @ rows.T
    cosines[np.arange(len(chosen)), places[chosen]] = -1.0
    near = _held_out_cosines(taught, means, rows[places[chosen]], own)
    known = [_densities(cosines, _first_rows(taught)), near]
    corrections, scale = np.empty((0, rows.shape[1]), dtype=np.float32), 0.0
    if len(owners) * len(taught) <= MAX_CORRECTED_CELLS:
        scale = float(_fit_weights([near], own)[0])
        start = np.float32(scale) * _held_out_cosines(taught, means, rows[places], owners)
        known.append(_cross_fitted_odds(rows[places], owners, start)[chosen])
        corrections = np.float32(scale) * means + _fit_corrections(rows[places], owners, start)
    weights = _fit_weights(known, own)
    plain_weight = float(weights @ [1.0, 1.0, scale][: len(weights)])
    odds = np.tensordot(weights, np.stack(known), axes=1)
    numbers = {point: number for number, point in enumerate(tools)}
    return ExampleHead(tools, corrections, weights, _fit_trust(odds, own), plain_weight, numbers)


def _first_rows(taught: Sequence[ToolExamples]) -> NDArray[np.int64]:
    """First row of each tool in the matrix of all rows."""
    return np.cumsum([0, *(len(each.rows) for each in taught[:-1])])


def _densities(cosines: FloatArray, starts: NDArray[np.int64]) -> FloatArray:
    """Log of each tool's sum of kernels, in cosines: [..., tools] from [..., rows]."""
    sizes = np.diff(np.append(starts, cosines.shape[-1]))
    top = np.maximum.reduceat(cosines, starts, axis=-1)
    kernels = np.exp((cosines - np.repeat(top, sizes, axis=-1)) / EXAMPLE_KERNEL_WIDTH_COSINE)
    dense = top + EXAMPLE_KERNEL_WIDTH_COSINE * np.log(np.add.reduceat(kernels, starts, axis=-1))
    return dense.astype(np.float32)


def _held_out_cosines(
    taught: Sequence[ToolExamples],
    means: FloatArray,
    examples: FloatArray,
    owners: NDArray[np.int64],
) -> FloatArray:
    """Cosines of examples and tools' means, the own mean without the example: [examples, tools]."""
    found = examples @ means.T
    sums = np.stack([each.rows.sum(axis=0) for each in taught])
    rest = _unit(sums[owners] - examples)
    found[np.arange(len(owners)), owners] = np.einsum("nd,nd->n", rest, examples)
    return found


def _cross_fitted_odds(
    examples: FloatArray, owners: NDArray[np.int64], start: FloatArray
) -> FloatArray:
    """Log-odds of examples, each corrected by the other half of the examples: [examples, tools]."""
    unseen = start.copy()
    half = np.arange(len(owners)) % 2 == 0
    for seen in (half, ~half):
        corrections = _fit_corrections(examples[seen], owners[seen], start[seen])
        unseen[~seen] += examples[~seen] @ corrections.T
    return unseen


def _fit_corrections(
    examples: FloatArray, owners: NDArray[np.int64], start: FloatArray
) -> FloatArray:
    """Fit corrections, float32 [tools, d], to initial log-odds `start` [examples, tools]."""
    wanted = np.zeros_like(start)
    wanted[np.arange(len(owners)), owners] = 1.0
    penalty = CORRECTION_PENALTY * np.eye(examples.shape[1], dtype=np.float32)
    inverse = np.linalg.inv(examples.T @ examples + penalty)
    corrections = pace = np.zeros((examples.shape[1], start.shape[1]), dtype=np.float32)
    for _ in range(CORRECTION_STEPS):
        missing = wanted - softmax(start + examples @ corrections)
        pace = CORRECTION_STEP * (inverse @ (examples.T @ missing)) + CORRECTION_MOMENTUM * pace
        corrections = corrections + pace
    return np.ascontiguousarray(corrections.T, dtype=np.float32)


def _fit_weights(known: Sequence[FloatArray], own: NDArray[np.int64]) -> Floats:
    """Fit weights >= 0 of the features `known`, each [n, tools], to the right tools `own`.

    Conditional logit by Newton's method; features of negative weight are removed.
    """
    scales = np.array([float(each.std()) or 1.0 for each in known])
    stacked = np.stack([each / s for each, s in zip(known, scales, strict=True)], axis=-1)
    right = stacked[np.arange(len(own)), own]
    kept = list(range(len(known)))
    while kept:
        found = _newton(stacked[..., kept], right[:, kept])
        if found.min() >= 0:
            weights = np.zeros(len(known))
            weights[kept] = found
            return weights / scales
        kept.pop(int(found.argmin()))
    return np.zeros(len(known))


def _newton(stacked: NDArray[Any], right: NDArray[Any]) -> Floats:
    """Fit weights, float64 [f], to `right` [n, f] among `stacked` [n, c, f]."""
    features: int = stacked.shape[-1]
    weights: Floats = np.zeros(features, dtype=np.float64)
    loss, step = _loss(stacked, right, weights)
    for _ in range(MAX_NEWTON_STEPS):
        trial: Floats = weights + step
        found, following = _loss(stacked, right, trial)
        if found > loss + LOSS_TOLERANCE:
            step /= 2
            continue
        gain, weights, loss, step = loss - found, trial, found, following
        if gain < LOSS_TOLERANCE:
            break
    return weights


def _loss(stacked: NDArray[Any], right: NDArray[Any], weights: Floats) -> tuple[float, Floats]:
    """Mean log loss of weights, penalised, and Newton's step from them."""
    odds: NDArray[Any] = np.einsum("ncf,f->nc", stacked, weights)
    shares = softmax(odds)
    means: NDArray[Any] = np.einsum("nc,ncf->nf", shares, stacked)
    squares: NDArray[Any] = np.einsum("nc,ncf,ncg->fg", shares, stacked, stacked)
    curve: Floats = (squares - means.T @ means) / len(right) + RIDGE * np.eye(len(weights))
    slope: Floats = (right - means).mean(axis=0) - RIDGE * weights
    top: NDArray[Any] = odds.max(axis=1)
    totals: NDArray[Any] = top + np.log(np.exp(odds - top[:, np.newaxis]).sum(axis=1))
    loss = float(np.mean(totals - right @ weights)) + RIDGE * float(weights @ weights) / 2
    return loss, np.linalg.solve(curve, slope).astype(np.float64)


def _fit_trust(odds: Floats, own: NDArray[np.int64]) -> tuple[float, float]:
    """Fit slope and offset from the first tool's score to the log-odds that the tool is right.

    Every example is a query twice: without itself, and with its tool out of scope.
    """
    right = odds.argmax(axis=1) == own
    hidden = odds.copy()
    hidden[np.arange(len(own)), own] = -np.inf
    tops = np.concatenate([odds.max(axis=1), hidden.max(axis=1)])
    labels = np.concatenate([right, np.zeros_like(right)])
    weights = np.repeat([1 - UNANSWERABLE_WEIGHT, UNANSWERABLE_WEIGHT], len(own))
    centre, scale = tops.mean(), tops.std() or 1.0
    inputs = np.stack([(tops - centre) / scale, np.ones_like(tops)], axis=1)
    found = fit_logistic(inputs, labels, ridge=RIDGE, sample_weights=weights)
    rate = max(float(found[0]), 0.0) / scale
    return rate, float(found[1]) - rate * float(centre)


def _unit(rows: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.maximum(lengths, np.finfo(np.float32).tiny)
