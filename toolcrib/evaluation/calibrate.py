"""Calibration: from labelled queries to probabilities that hold, and a head where it pays.

What is fitted is a logistic regression over the features of `retrieval.calibration`, one row a
ranked tool. Several ways compete in cross-validation: the calibration that is there, the same
with slope and offset fitted anew (Platt 1999), all weights fitted anew, with unanswerable queries
as they are or weighing half, and queries put in order by whether they can be answered at all,
or by the best score of one leg. Of those that tell unanswerable queries as well as any of them
does, the one with the least log loss wins. Every figure and every curve comes from queries that
the fit in question had not seen.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.crib import Crib
from toolcrib.errors import CalibrationError, QueryError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.gate_measures import Bools, gate_measures
from toolcrib.evaluation.head import fit_head
from toolcrib.extras import import_extra
from toolcrib.retrieval.calibration import (
    FEATURES,
    AcceptanceCurve,
    Calibration,
    Figures,
    Floats,
    default_calibration,
    lexical_calibration,
    probabilities,
    usable_calibration,
)
from toolcrib.retrieval.legs import Head
from toolcrib.store.base import point_id
from toolcrib.store.filters import Filter, HasId, Not

__all__ = [
    "MIN_QUERIES",
    "LabelledEvidence",
    "Learned",
    "acceptance_curves",
    "calibrate",
    "figures_of",
    "gather_evidence",
    "learn",
    "least_probabilities",
    "recommended",
    "server_thresholds",
]


GRID = tuple(round(step / 100, 2) for step in range(101))

TRUE_ACCEPTANCE = 0.97
"""The recommended threshold turns away no more than 3 % of what could be answered."""

MIN_SERVER_QUERIES = 50
"""A server with fewer queries has no curve of its own."""

MAX_NEEDED = 2000
"""So many values tell the quantiles well enough; a calibration is kept small."""

HIDDEN_SHARE = 0.1
"""What queries whose tools were hidden weigh together, where no real unanswerable ones are."""

UNANSWERABLE_SHARE = 0.5
"""What unanswerable queries weigh together where a fit is to tell them; they are few in most
files, and would have no say. What comes out is brought back to how frequent they are."""

AS_GOOD = 0.005
"""So little less of AUROC is as good as the best."""

CLEARLY = 0.01
"""From here on a figure is said to be worse than before."""

SLOWEST = 1e-3
"""No order is turned round, or given up for one in which all queries are equal."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledEvidence:
    """One query's ranking: features [n, f] and whether each of its `n` tools is right.

    `lost` is how many needed tools the ranking lacks. `hidden`: the query was asked again with
    all its right tools out of reach, to see what an unanswerable one looks like.
    """

    query: LabelledQuery
    features: Floats
    right: NDArray[np.bool_]
    first_server: str
    lost: int
    weight: float = 1.0
    hidden: bool = False

    @property
    def first_is_right(self) -> bool:
        """Whether the first tool answers the query."""
        return bool(self.right.size and self.right[0])

    @property
    def answerable(self) -> bool:
        """Whether any tool in reach answers the query."""
        return self.query.answerable and not self.hidden


def gather_evidence(
    crib: Crib,
    queries: Sequence[LabelledQuery],
    *,
    head: Head | None = None,
    by_examples: bool = False,
    words: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[LabelledEvidence]:
    """Ask every query; where all are answerable, also with their right tools hidden.

    `by_examples`: with the head of the tools' examples. With `words`, by words alone.

    Raises:
        StoreError: the store does not answer.
    """
    asked = partial(_asked, crib, head=head, by_examples=by_examples, words=words)
    hide = all(query.answerable for query in queries)
    found: list[LabelledEvidence] = []
    for done, query in enumerate(queries, start=1):
        found += asked(query, weight=1.0, hidden=False)
        if hide:
            weight = HIDDEN_SHARE / (1 - HIDDEN_SHARE)
            found += asked(query, weight=weight, hidden=True)
        progress(done, len(queries))
    return found


def _asked(
    crib: Crib,
    query: LabelledQuery,
    *,
    head: Head | None,
    by_examples: bool,
    words: bool,
    weight: float,
    hidden: bool,
) -> list[LabelledEvidence]:
    reach = _reach(query, hidden=hidden)
    try:
        known = crib.tools.evidence(
            query.text, where=reach, head=head, by_examples=by_examples, words=words
        )
    except QueryError:
        return []
    if not known.tools:
        return []
    relevant = set[str]() if hidden else set(query.relevant)
    ids = [tool_id for tool_id, _ in known.tools]
    right = np.array([tool_id in relevant for tool_id in ids])
    lost = len(relevant - set(ids))
    return [LabelledEvidence(query, known.features, right, known.tools[0][1], lost, weight, hidden)]


def _reach(query: LabelledQuery, *, hidden: bool) -> Filter | None:
    if hidden:
        return Not(HasId(frozenset(map(point_id, query.relevant))))
    if query.among is not None:
        return HasId(frozenset(map(point_id, query.among)))
    return None


MIN_QUERIES = 30
"""Fewer labelled queries tell too little."""

ROWS = 10
"""Tools of each query that the fit looks at."""

FIRST_WEIGHT = ROWS - 1
"""The first tool counts as much as all others: its probability is the confidence."""

FOLDS = 5

_Model = tuple[NDArray[np.float64], float]
"""Weights and offset of a logistic regression."""

_Fit = Callable[[Sequence[LabelledEvidence]], _Model]


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to calibrate, and the probabilities that it gave unseen queries."""

    method: str
    fit: _Fit
    unseen: list[Floats]
    log_loss: float
    auroc: float


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
    fits: list[_Fit] = [_fit_all, _fit_weighed, _fit_answerable]
    fits += [partial(_fit_best, FEATURES.index(name)) for name in ("top_dense", "top_lexical")]
    ways = [_cross_validated("fitted", fit, evidence, folds) for fit in fits]
    if start is not None:
        begun = (np.asarray(start.weights), start.offset)
        ways.append(_cross_validated("default", lambda _: begun, evidence, folds))
        ways.append(
            _cross_validated("rescaled", lambda some: _rescale(some, begun), evidence, folds),
        )
    least = max(way.auroc for way in ways) - AS_GOOD
    best = min((way for way in ways if way.auroc >= least), key=lambda way: way.log_loss)
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
        figures=_figures(evidence, best.unseen, recommended(curves[""])),
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
    """A fold for each query; a query and the same one with its tools hidden share one."""
    texts = sorted({one.query.text for one in evidence})
    shuffled = np.random.default_rng(seed).permutation(len(texts)) % FOLDS
    fold = dict(zip(texts, shuffled.tolist(), strict=True))
    return np.array([fold[one.query.text] for one in evidence])


def _cross_validated(
    method: str,
    fit: _Fit,
    evidence: Sequence[LabelledEvidence],
    folds: NDArray[np.int64],
) -> _Way:
    unseen: list[Floats] = [np.empty(0)] * len(evidence)
    for fold in range(FOLDS):
        held_back = np.flatnonzero(folds == fold).tolist()
        weights, offset = fit([one for one, at in zip(evidence, folds, strict=True) if at != fold])
        for place in held_back:
            unseen[place] = probabilities(evidence[place].features, weights, offset)
    return _Way(method, fit, unseen, _log_loss(evidence, unseen), _auroc(evidence, unseen))


def _auroc(evidence: Sequence[LabelledEvidence], unseen: Sequence[Floats]) -> float:
    """How well unanswerable queries are told; 0 where none is known, as for every way alike."""
    shown = [pair for pair in zip(evidence, unseen, strict=True) if not pair[0].hidden]
    return _measured(shown).get("auroc", 0.0)


def _measured(shown: Sequence[tuple[LabelledEvidence, Floats]]) -> dict[str, float]:
    return gate_measures(
        np.array([float(p[0]) for _, p in shown]),
        np.array([one.first_is_right for one, _ in shown]),
        np.array([one.query.answerable for one, _ in shown]),
    )


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


def _fit_all(evidence: Sequence[LabelledEvidence]) -> _Model:
    known, right, weights = _rows(evidence)
    return _regress(known, right, weights)


def _fit_weighed(evidence: Sequence[LabelledEvidence]) -> _Model:
    """All weights, as if half of the queries were unanswerable, and then as they are."""
    weights = _weighed(evidence)
    heavier = [replace(one, weight=w) for one, w in zip(evidence, weights.tolist(), strict=True)]
    return _rescale(evidence, _fit_all(heavier))


def _weighed(evidence: Sequence[LabelledEvidence]) -> Floats:
    weights = np.array([one.weight for one in evidence])
    able = np.array([one.answerable for one in evidence])
    rest = float(weights[~able].sum())
    if rest:
        share = UNANSWERABLE_SHARE / (1 - UNANSWERABLE_SHARE)
        weights[~able] *= max(1.0, share * float(weights[able].sum()) / rest)
    return weights


def _fit_answerable(evidence: Sequence[LabelledEvidence]) -> _Model:
    """Queries in the order of how likely anything answers them."""
    able = np.array([one.answerable for one in evidence], dtype=np.float64)
    if able.min() == able.max():
        return _fit_all(evidence)
    firsts = np.vstack([one.features[0] for one in evidence])
    order, _ = _regress(firsts, able, _weighed(evidence))
    return _fit_order(evidence, order)


def _fit_best(column: int, evidence: Sequence[LabelledEvidence]) -> _Model:
    """Queries in the order of one feature, as the best cosine is."""
    return _fit_order(evidence, np.eye(len(FEATURES))[column])


OF_RANK = tuple(FEATURES.index(name) for name in ("log_rank", "is_first", "gap"))
"""Features that the first tools of all queries have in common."""


def _fit_order(evidence: Sequence[LabelledEvidence], order: Floats) -> _Model:
    """The probabilities of tools where those of the first ones are to rise with `order`."""
    known, right, weights = _rows(evidence)
    columns = np.column_stack([known @ order, known[:, OF_RANK]])
    found, offset = _regress(columns, right, weights)
    model = order * max(float(found[0]), SLOWEST)
    model[list(OF_RANK)] += found[1:]
    return model, offset


def _rescale(evidence: Sequence[LabelledEvidence], start: _Model) -> _Model:
    known, right, weights = _rows(evidence)
    logits = (known @ start[0] + start[1])[:, None]
    slope, offset = _regress(logits, right, weights)
    # A slope below zero would turn the ranking round; no data is worth that.
    rate = max(float(slope[0]), 0.0)
    return start[0] * rate, start[1] * rate + offset


def _regress(known: Floats, right: Floats, weights: Floats) -> _Model:
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


def _figures(
    evidence: Sequence[LabelledEvidence], unseen: Sequence[Floats], threshold: float
) -> Figures:
    """What probabilities are worth on real queries that had no part in them."""
    shown = [pair for pair in zip(evidence, unseen, strict=True) if not pair[0].hidden]
    measured = _measured(shown)
    accepted = [one.first_is_right for one, p in shown if p[0] >= threshold]
    return Figures(
        ece=measured["ece"],
        log_loss=_log_loss(evidence, unseen),
        auroc=measured.get("auroc"),
        false_acceptance=measured.get("false_acceptance@95"),
        coverage=len(accepted) / len(shown),
        precision=sum(accepted) / len(accepted) if accepted else None,
        queries=len(shown),
    )


def figures_of(calibration: Calibration, evidence: Sequence[LabelledEvidence]) -> Figures:
    """What a calibration is worth on queries that had no part in it."""
    told = [calibration.probabilities(one.features) for one in evidence]
    return _figures(evidence, told, calibration.threshold)


def _digest(shown: Sequence[LabelledEvidence]) -> str:
    rows = sorted((one.query.text, sorted(one.query.relevant)) for one in shown)
    return hashlib.blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest()


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


@dataclass(frozen=True, slots=True)
class Learned:
    """A calibration that was fitted, and what the one in use is worth on the same queries."""

    calibration: Calibration
    before: Figures | None

    @property
    def falls(self) -> tuple[str, ...]:
        """What is clearly worse than before."""
        if self.before is None:
            return ()
        old, new = self.before, self.calibration.figures
        pairs = {
            "auroc": (new.auroc, old.auroc),
            "false_acceptance": (old.false_acceptance, new.false_acceptance),
            "ece": (old.ece, new.ece),
        }
        return tuple(
            name
            for name, (less, more) in pairs.items()
            if less is not None and more is not None and more - less > CLEARLY
        )


def learn(
    crib: Crib,
    queries: Sequence[LabelledQuery],
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Learned:
    """Fit a calibration to the tools of an index; it is neither used nor kept by this.

    The head is fitted on the tools' examples and the calibration on the queries, so the queries
    must not be those examples. Where too few tools have enough for a head of its own, the scores
    have that of the examples in them which every search has.

    Raises:
        CalibrationError: the queries tell too little.
        MissingExtraError: scikit-learn is not installed.
    """
    total = 2 * len(queries)
    head = fit_head(crib)
    by_examples = head is None
    evidence = gather_evidence(
        crib,
        queries,
        head=head,
        by_examples=by_examples,
        progress=lambda done, _: progress(done, total),
    )
    identity = crib.tools.calibration_fingerprint()
    start = default_calibration()
    # A head changes all scores: what was fitted without it is nothing to start from. Nor is the
    # index's own calibration, which may have been fitted on these very queries.
    plain = by_examples and crib.tools.example_head() is None
    holds = plain and not start.mismatch(identity)
    fitted = calibrate(evidence, identity, seed=seed, start=start if holds else None)
    by_words = gather_evidence(
        crib, queries, words=True, progress=lambda done, _: progress(len(queries) + done, total)
    )
    lexical = lexical_calibration(None, identity)
    with suppress(CalibrationError):
        lexical = calibrate(by_words, identity, seed=seed, start=lexical)
    made = fitted.model_copy(update={"head": head, "by_examples": by_examples, "lexical": lexical})
    return Learned(made, _in_use(crib, queries, evidence, made))


def _in_use(
    crib: Crib,
    queries: Sequence[LabelledQuery],
    evidence: Sequence[LabelledEvidence],
    made: Calibration,
) -> Figures | None:
    """What the calibration in use is worth; one that saw these queries is taken at its word."""
    current = usable_calibration(crib.tools.store, crib.tools.calibration_fingerprint())
    if current is None or current.data_digest == made.data_digest:
        return current and current.figures
    by_examples = current.by_examples or current is default_calibration()
    if (current.head, by_examples) != (made.head, made.by_examples):
        evidence = gather_evidence(crib, queries, head=current.head, by_examples=by_examples)
    return figures_of(current, evidence)
