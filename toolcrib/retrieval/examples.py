"""Head over examples: how well a query fits the examples of each tool, fitted on these alone.

A tool is its examples and, as one more, its description. Three things are known of a query: how
dense they lie around it (a kernel density on the unit sphere), how near it is to their mean, and
the same with a linear correction, which pushes neighbouring tools apart: a few steps of multinomial
logistic regression with a fixed bound of its curvature (Boehning 1992). What each of the three
counts is told by leaving examples out, one at a time, or by halves for the correction: where they
are of no help to one another, it is 0.

Everything is fitted for one scope, on what is in it: what is beyond changes no score.
"""

from __future__ import annotations

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

__all__ = ["ExampleHead", "ExampleHeads", "Taught", "few", "fit"]

"""Of either precision."""

MIN_EXAMPLES, MIN_TOOLS = 30, 2
"""Fewer tell nothing of how far they can be trusted."""

EACH, SHARE = 5, 0.5
"""At least half of the tools need five examples: where most had two, the head put the right tool
first less often (toollinkos 73.0 % instead of 75.2 %), and was far from sure of it."""

WIDTH = 0.03
"""Of the kernel, in cosines; 0.05 is as good with 3 examples a tool, and worse with 100."""

PENALTY, STEP, STEPS, MOMENTUM = 3.0, 4.0, 8, 0.5
MOST_CELLS = 4_000_000
"""Examples times tools, beyond which there is no correction: a step goes through all of them."""

LEFT_OUT, MOST_COSINES = 400, 8_000_000
"""Examples that are left out, and cosines that are made for it."""

UNANSWERABLE = 0.1
"""What queries without a right tool weigh, as in a calibration that knows of none."""

SCOPES = 16
"""Heads that are kept; a scope's next query fits it again."""

RIDGE, ROUNDS, SETTLED = 1e-3, 50, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """A tool with examples: `rows` float32 [1 + n, d], its description first, and their mean."""

    rows: FloatArray
    mean: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ExampleHead:
    """A head that was fitted: `weights` float64 [3] of density, mean and correction.

    `corrections`: float32 [tools, d], by their `places`, or no rows. `trust`: slope and offset
    that make the first tool's log-odds those of its being right. `untaught`: what the cosine of
    a tool without examples counts.
    """

    tools: Mapping[int, Taught]
    corrections: FloatArray
    weights: Floats
    trust: tuple[float, float]
    untaught: float
    places: Mapping[int, int]

    def judged(
        self, query: FloatArray, candidates: Mapping[int, LegScores]
    ) -> dict[int, LegScores]:
        """The candidates with `odds` and `head`, their log-probability among one another.

        `query`: float32 [d].
        """
        odds = np.array([scores.dense for scores in candidates.values()]) * self.untaught
        known = [(place, p) for place, p in enumerate(candidates) if p in self.tools]
        if known:
            places, points = zip(*known, strict=True)
            odds[list(places)] = self.odds(query, points)
        told = log_softmax(odds)
        return {
            point: scores._replace(odds=each, head=share)
            for (point, scores), each, share in zip(
                candidates.items(), odds.tolist(), told.tolist(), strict=True
            )
        }

    def odds(self, query: FloatArray, points: Sequence[int]) -> Floats:
        """The log-odds of tools that have examples: float64 [points]."""
        taught = [self.tools[point] for point in points]
        parts = [
            _densities(np.concatenate([each.rows for each in taught]) @ query, _starts(taught)),
            np.stack([each.mean for each in taught]) @ query,
        ]
        if len(self.corrections):
            parts.append(self.corrections[[self.places[point] for point in points]] @ query)
        return self.weights[: len(parts)] @ np.stack(parts)

    def probability(self, odds: float) -> float:
        """How likely the first tool is right, by its log-odds."""
        slope, offset = self.trust
        return sigmoid(slope * odds + offset)


FEW_WEIGHTS, FEW_TRUST = (5.0, 15.0), (0.58, -2.65)
"""Of heads over few examples, fitted on 480 choices between 2 to 8 labels drawn from four public
sets, with none to eight examples each: on 480 others the shares were 0.5 points from success (ECE),
and 95.0 % right. The trust tells labels that fit from none, the latter being a tenth."""


def few(rows: Sequence[FloatArray]) -> ExampleHead:
    """A head over labels with too few examples to be fitted on: `rows` float32 [n, d] of each."""
    tools = {label: Taught(each, _unit(each.sum(axis=0))) for label, each in enumerate(rows)}
    none = np.empty((0, rows[0].shape[1]), dtype=np.float32)
    weights = np.array(FEW_WEIGHTS)
    return ExampleHead(tools, none, weights, FEW_TRUST, float(weights.sum()), {})


class ExampleHeads:
    """The heads of a store's tools, each fitted when a scope's first query needs it.

    Examples are read from the store once, and again when `forget` names their tools.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[int, Taught | None] = {}
        self._heads: BoundedMap[Filter | None, ExampleHead | None] = BoundedMap(SCOPES)
        self._lock = threading.Lock()

    def forget(self, points: Sequence[int] | None = None) -> None:
        """Take no example of these tools for known any more; None: of any tool."""
        with self._lock:
            self._heads.clear()
            if points is None:
                self._read = {}
            for point in points or ():
                self._read.pop(point, None)

    def head(self, scope: Filter | None) -> ExampleHead | None:
        """The head of the tools in a scope; None where they have too few examples.

        Raises:
            StoreError: the store does not answer.
        """
        with self._lock:
            if scope not in self._heads:
                taught = self._taught(scope)
                known = {point: each for point, each in taught.items() if each is not None}
                enough = sum(len(each.rows) > EACH for each in known.values())
                self._heads[scope] = fit(known) if enough >= SHARE * len(taught) else None
            return self._heads[scope]

    def _taught(self, scope: Filter | None) -> dict[int, Taught | None]:
        """The tools in a scope, None for those without examples."""
        where = all_of(Equals("enabled", value=True), scope)
        found = {each.id: each.payload for each in self._store.scroll(where, (ENRICHED_FIELD,))}
        unread = [point for point in found if point not in self._read]
        # What was written for a tool is no evidence of how sure one may be of it.
        asked = [point for point in unread if found[point].get(ENRICHED_FIELD) != "writer"]
        examples = self._store.vectors(asked, "examples")
        descriptions = self._store.vectors(list(examples), "dense")
        for point in unread:
            self._read[point] = None
            if point in descriptions:
                rows = np.concatenate([descriptions[point][np.newaxis], examples[point]])
                self._read[point] = Taught(rows, _unit(rows.sum(axis=0)))
        return {point: self._read[point] for point in sorted(found)}


def fit(tools: Mapping[int, Taught]) -> ExampleHead | None:
    """A head over these tools, by their point ids; None where there are too few examples."""
    taught = list(tools.values())
    counts = np.array([len(each.rows) - 1 for each in taught])
    if len(taught) < MIN_TOOLS or counts.sum() < MIN_EXAMPLES:
        return None
    rows = np.concatenate([each.rows for each in taught])
    means = np.stack([each.mean for each in taught])
    owners = np.repeat(np.arange(len(taught)), counts)
    places = np.delete(np.arange(len(rows)), _starts(taught))
    most = max(50, min(LEFT_OUT, MOST_COSINES // len(rows)))
    chosen = np.unique(np.linspace(0, len(owners) - 1, most).astype(np.int64))
    own = owners[chosen]

    cosines = rows[places[chosen]] @ rows.T
    cosines[np.arange(len(chosen)), places[chosen]] = -1.0
    near = _near(taught, means, rows[places[chosen]], own)
    known = [_densities(cosines, _starts(taught)), near]
    corrections, scale = np.empty((0, rows.shape[1]), dtype=np.float32), 0.0
    if len(owners) * len(taught) <= MOST_CELLS:
        scale = float(_weigh([near], own)[0])
        start = np.float32(scale) * _near(taught, means, rows[places], owners)
        known.append(_halves(rows[places], owners, start)[chosen])
        corrections = np.float32(scale) * means + _correct(rows[places], owners, start)
    weights = _weigh(known, own)
    untaught = float(weights @ [1.0, 1.0, scale][: len(weights)])
    odds = np.tensordot(weights, np.stack(known), axes=1)
    numbers = {point: number for number, point in enumerate(tools)}
    return ExampleHead(tools, corrections, weights, _trust(odds, own), untaught, numbers)


def _starts(taught: Sequence[Taught]) -> NDArray[np.int64]:
    """Where each tool's rows begin when all are one matrix."""
    return np.cumsum([0, *(len(each.rows) for each in taught[:-1])])


def _densities(cosines: FloatArray, starts: NDArray[np.int64]) -> FloatArray:
    """The log of each tool's sum of kernels, in cosines: of [..., rows], [..., tools]."""
    sizes = np.diff(np.append(starts, cosines.shape[-1]))
    top = np.maximum.reduceat(cosines, starts, axis=-1)
    kernels = np.exp((cosines - np.repeat(top, sizes, axis=-1)) / WIDTH)
    dense = top + WIDTH * np.log(np.add.reduceat(kernels, starts, axis=-1))
    return dense.astype(np.float32)


def _near(
    taught: Sequence[Taught], means: FloatArray, examples: FloatArray, owners: NDArray[np.int64]
) -> FloatArray:
    """The cosines of examples and tools' means, of their own without them: [examples, tools]."""
    found = examples @ means.T
    sums = np.stack([each.rows.sum(axis=0) for each in taught])
    rest = _unit(sums[owners] - examples)
    found[np.arange(len(owners)), owners] = np.einsum("nd,nd->n", rest, examples)
    return found


def _halves(examples: FloatArray, owners: NDArray[np.int64], start: FloatArray) -> FloatArray:
    """The log-odds of each example, [examples, tools], corrected by the other half of them all."""
    unseen = start.copy()
    half = np.arange(len(owners)) % 2 == 0
    for seen in (half, ~half):
        corrections = _correct(examples[seen], owners[seen], start[seen])
        unseen[~seen] += examples[~seen] @ corrections.T
    return unseen


def _correct(examples: FloatArray, owners: NDArray[np.int64], start: FloatArray) -> FloatArray:
    """Corrections, float32 [tools, d]; `start`: log-odds to begin with, [examples, tools]."""
    wanted = np.zeros_like(start)
    wanted[np.arange(len(owners)), owners] = 1.0
    penalty = PENALTY * np.eye(examples.shape[1], dtype=np.float32)
    inverse = np.linalg.inv(examples.T @ examples + penalty)
    corrections = pace = np.zeros((examples.shape[1], start.shape[1]), dtype=np.float32)
    for _ in range(STEPS):
        missing = wanted - softmax(start + examples @ corrections)
        pace = STEP * (inverse @ (examples.T @ missing)) + MOMENTUM * pace
        corrections = corrections + pace
    return np.ascontiguousarray(corrections.T, dtype=np.float32)


def _weigh(known: Sequence[FloatArray], own: NDArray[np.int64]) -> Floats:
    """What each of `known`, [n, tools], counts for the tool `own`: none less than 0.

    Conditional logit by Newton's method; whatever would count against itself is left out.
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
    """The weights, float64 [f], under which `right` [n, f] is likeliest of `stacked` [n, c, f]."""
    features: int = stacked.shape[-1]
    weights: Floats = np.zeros(features, dtype=np.float64)
    loss, step = _loss(stacked, right, weights)
    for _ in range(ROUNDS):
        trial: Floats = weights + step
        found, following = _loss(stacked, right, trial)
        if found > loss + SETTLED:
            step /= 2
            continue
        gain, weights, loss, step = loss - found, trial, found, following
        if gain < SETTLED:
            break
    return weights


def _loss(stacked: NDArray[Any], right: NDArray[Any], weights: Floats) -> tuple[float, Floats]:
    """The mean log loss of weights, penalised, and Newton's step from them."""
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


def _trust(odds: Floats, own: NDArray[np.int64]) -> tuple[float, float]:
    """Slope and offset from the first tool's log-odds to those of its being right.

    Every example is asked twice: without itself, and with its tool out of reach.
    """
    right = odds.argmax(axis=1) == own
    hidden = odds.copy()
    hidden[np.arange(len(own)), own] = -np.inf
    tops = np.concatenate([odds.max(axis=1), hidden.max(axis=1)])
    labels = np.concatenate([right, np.zeros_like(right)])
    weights = np.repeat([1 - UNANSWERABLE, UNANSWERABLE], len(own))
    centre, scale = tops.mean(), tops.std() or 1.0
    inputs = np.stack([(tops - centre) / scale, np.ones_like(tops)], axis=1)
    found = fit_logistic(inputs, labels, ridge=RIDGE, sample_weights=weights)
    rate = max(float(found[0]), 0.0) / scale
    return rate, float(found[1]) - rate * float(centre)


def _unit(rows: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.maximum(lengths, np.finfo(np.float32).tiny)
