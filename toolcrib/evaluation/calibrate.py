"""Calibration: fits probabilities to labelled queries, and a head if there are enough examples.

Two regressions are fitted. The first, over the query features of `retrieval.calibration`, gives the
probability that any tool answers a query. It learns from unanswerable queries, and from queries
with hidden right tools. The second, over the features of ranked tools, gives the probability that a
tool is right, and learns from answerable queries.

For each, several fits compete in cross-validation: the current calibration, the same with slope and
offset fitted again (Platt 1999), all weights fitted again, and for the first also single features.
Among the fits with the best AUROC, the one with the least log loss wins. All figures and curves are
from held-out queries.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.crib import Crib
from toolcrib.errors import CalibrationError, EncoderError, QueryError, UnknownToolError
from toolcrib.evaluation.dataset import LabelledQuery, labels_digest
from toolcrib.evaluation.measures import Bools, gate_measures
from toolcrib.extras import import_extra, require_extra
from toolcrib.indexers.points import dense_text
from toolcrib.numerics import Floats, sigmoid
from toolcrib.retrieval.calibration import (
    FEATURES,
    QUERY_FEATURES,
    RAW_QUERY_FEATURES,
    AcceptanceCurve,
    Answerability,
    Calibration,
    Figures,
    default_calibration,
    differences,
    lexical_calibration,
    probabilities,
    usable_calibration,
)
from toolcrib.retrieval.gate import lowest_threshold
from toolcrib.retrieval.hybrid import Evidence
from toolcrib.retrieval.legs import Head, pack_head
from toolcrib.store.base import LegQuery, point_id
from toolcrib.store.filters import Filter, HasId, Not

HIDDEN_SHARE = 0.1
"""Total weight of queries with hidden tools, if no real query is unanswerable."""

SAME_PURPOSE_COSINE, MAX_SAME_TEXTS = 0.9, 20
"""Minimum cosine of the texts of tools with one purpose: if one is hidden, so are the others."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledEvidence:
    """Ranking of one query: features [n, f], and for each of the `n` tools whether it is right.

    `about`: float64 [q], features of the query. `lost`: number of needed tools that the ranking
    lacks. `hidden`: the query was repeated without its right tools and those like them, as an
    unanswerable query.
    """

    query: LabelledQuery
    features: Floats
    about: Floats
    right: NDArray[np.bool_]
    first_server: str
    lost: int
    weight: float = 1.0
    hidden: bool = False

    @property
    def first_is_right(self) -> bool:
        """True if the first tool answers the query."""
        return bool(self.right.size and self.right[0])

    @property
    def answerable(self) -> bool:
        """True if any tool in scope answers the query."""
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
    """Search every query, and answerable ones again with their right tools hidden.

    `by_examples`: with the head over the tools' examples. `words`: by the lexical leg alone.
    """
    hiding = _make_hiding_filter(crib)
    known = partial(crib.tools.retriever.evidence, head=head, by_examples=by_examples, words=words)
    found: list[LabelledEvidence] = []
    for done, query in enumerate(queries, start=1):
        reach = None if query.among is None else HasId(frozenset(map(point_id, query.among)))
        found += _query_evidence(known, query, reach)
        if query.answerable:
            hidden = _query_evidence(known, query, hiding(query))
            weight = HIDDEN_SHARE / (1 - HIDDEN_SHARE)
            found += [
                replace(one, right=np.zeros_like(one.right), lost=0, weight=weight, hidden=True)
                for one in hidden
            ]
        progress(done, len(queries))
    return found


def _query_evidence(
    evidence: Callable[..., Evidence], query: LabelledQuery, reach: Filter | None
) -> list[LabelledEvidence]:
    try:
        known = evidence(query.text, where=reach)
    except QueryError:
        return []
    if not known.tools:
        return []
    ids = [tool_id for tool_id, _ in known.tools]
    right = np.array([tool_id in query.relevant for tool_id in ids])
    lost = len(query.relevant.keys() - set(ids))
    return [LabelledEvidence(query, known.features, known.query, right, known.tools[0][1], lost)]


def _make_hiding_filter(crib: Crib) -> Callable[[LabelledQuery], Filter]:
    """Function from a query to a filter without its right tools, and tools with similar texts."""
    tools = crib.tools

    @cache
    def alike(tool_id: str) -> frozenset[int]:
        own = frozenset({point_id(tool_id)})
        try:
            [vector] = tools.dense.encode_documents([dense_text(tools.get(tool_id))])
        except (UnknownToolError, EncoderError):
            return own
        [near] = tools.store.search([LegQuery("dense", vector, MAX_SAME_TEXTS)])
        return own | {hit.id for hit in near if hit.score >= SAME_PURPOSE_COSINE}

    return lambda query: Not(HasId(frozenset[int]().union(*map(alike, query.relevant))))


# -- the head --------------------------------------------------------------------------------

MIN_HEAD_TOOL_EXAMPLES = 5
MIN_TOOLS_WITH_EXAMPLES_SHARE = 0.95
MIN_HEAD_TOOLS, MAX_HEAD_TOOLS = 2, 1000
"""A head is for registries in which 95 % of the tools have 5 examples or more."""

INVERSE_REGULARISATION = 10.0
"""For unit vectors scikit-learn's default of 1 is too strong."""


def fit_head(crib: Crib) -> Head | None:
    """Head for the tools of an index; None if too few have enough examples."""
    enabled = [tool for tool in crib.list_tools() if tool.enabled]
    tools = [tool for tool in enabled if len(tool.success_examples) >= MIN_HEAD_TOOL_EXAMPLES]
    tools.sort(key=attrgetter("id"))
    are_most = len(tools) >= MIN_TOOLS_WITH_EXAMPLES_SHARE * len(enabled)
    if not are_most or not MIN_HEAD_TOOLS <= len(tools) <= MAX_HEAD_TOOLS:
        return None
    linear = import_extra("sklearn.linear_model", "fitting a head", "eval")
    vectors = crib.tools.dense.encode_documents(
        [text for tool in tools for text in tool.success_examples]
    )
    labels = np.repeat(np.arange(len(tools)), [len(tool.success_examples) for tool in tools])
    model = linear.LogisticRegression(C=INVERSE_REGULARISATION, max_iter=500)
    model.fit(vectors, labels)
    weights, offsets = model.coef_, model.intercept_
    if weights.shape[0] == 1:  # scikit-learn gives one row for two classes
        weights, offsets = np.vstack([-weights, weights]), np.concatenate([-offsets, offsets])
    return pack_head([tool.id for tool in tools], weights, offsets)


THRESHOLD_GRID = tuple(round(step / 100, 2) for step in range(101))

MIN_TRUE_ACCEPTANCE = 0.97
"""Minimum share of answerable queries that the recommended threshold accepts."""

MAX_FALSE_ACCEPTANCE = 0.5
"""Largest share of the unanswerable queries that a threshold accepts without a warning."""

MIN_SERVER_QUERIES = 50
"""Minimum number of a server's queries for a curve of its own."""

MAX_NEEDED_PROBABILITIES = 2000
"""Maximum number of probabilities for the quantiles: more change no quantile."""

UNANSWERABLE_SHARE = 0.5
"""Total weight of unanswerable queries in the fit of features: most files have too few to matter.
The result is scaled back to their frequency, or to `HIDDEN_SHARE` if they are rarer, because people
mostly label queries for their own tools."""

MIN_UNANSWERABLE = 100
"""Minimum number of unanswerable queries for choosing features, if a choice is known."""

AUROC_TOLERANCE = 0.005
"""Differences of AUROC up to this are ignored."""

MIN_FALL = 0.01
"""Minimum decline of a figure that is reported as worse."""

MIN_SLOPE = 1e-3
"""Minimum slope: an order is neither reversed, nor replaced by equal probabilities."""

MIN_QUERIES = 30
"""Minimum number of labelled queries."""

MAX_RANKED_TOOLS = 10
"""Tools of each query that the fit uses."""

FIRST_WEIGHT = MAX_RANKED_TOOLS - 1
"""The first tool weighs as much as all others: most agents take it."""

CALIBRATION_FOLDS = 5

_Model = tuple[NDArray[np.float64], float]
"""Weights and offset of a logistic regression."""

_Fit = Callable[[Sequence[LabelledEvidence]], _Model]

CALIBRATION_METHODS = ("default", "rescaled", "fitted")


@dataclass(frozen=True, slots=True)
class _FitResult:
    """One fit, and its probabilities of each query by a fit without the query."""

    method: str
    fit: _Fit
    unseen: list[Floats]

    def firsts(self, places: Sequence[int]) -> list[float]:
        """First probability of the queries in these places."""
        return [float(self.unseen[place][0]) for place in places]


def calibrate(
    evidence: Sequence[LabelledEvidence],
    identity: Mapping[str, Any],
    *,
    seed: int = 0,
    start: Calibration | None = None,
) -> Calibration:
    """Fit a calibration; `start` is the current one, which may remain the best.

    Raises:
        CalibrationError: fewer than `MIN_QUERIES` queries, or (nearly) all first tools right, or
            wrong.
    """
    shown = [one for one in evidence if not one.hidden]
    _require_enough(shown)
    folds = _folds(evidence, seed)
    any_way = _best_answerability_fit(evidence, folds, start)
    tool_way = _best_tool_fit(evidence, folds, start)
    confidence = any_way.firsts(range(len(evidence)))
    sure_of = {id(one): p for one, p in zip(evidence, confidence, strict=True)}
    unseen = [p * sure for p, sure in zip(tool_way.unseen, confidence, strict=True)]
    weights, offset = tool_way.fit(evidence)
    of_query, shift = any_way.fit(evidence)
    # Of a fit that keeps the order, folds with different offsets would show another order.
    order = confidence
    if start is not None and any_way.method != "fitted":
        order = [float(sigmoid(one.about @ start.answerability.weights)) for one in evidence]
    kept = _base_rate_evidence(evidence)
    curves = acceptance_curves(kept, [sure_of[id(one)] for one in kept])
    return Calibration(
        identity=dict(identity),
        method=max(any_way.method, tool_way.method, key=CALIBRATION_METHODS.index),
        weights=tuple(weights.tolist()),
        offset=offset,
        answerability=Answerability(weights=tuple(of_query.tolist()), offset=shift),
        threshold=recommended_threshold(curves[""]),
        server_thresholds=server_thresholds(kept, curves),
        curves=curves,
        needed=least_probabilities(evidence, unseen),
        seed=seed,
        data_digest=labels_digest(one.query for one in shown),
        queries=len(shown),
        figures=_figures(evidence, confidence, unseen, recommended_threshold(curves[""]), order),
    )


def _require_enough(shown: Sequence[LabelledEvidence]) -> None:
    if len(shown) < MIN_QUERIES:
        counted = "1 labelled query is" if len(shown) == 1 else f"{len(shown)} labelled queries are"
        raise CalibrationError(
            f"{counted} too few for a calibration; give at least {MIN_QUERIES}, better some hundred"
        )
    right = sum(one.first_is_right for one in shown)
    if right in {0, len(shown)}:
        which = "no" if right == 0 else "every"
        raise CalibrationError(
            f"{which} labelled query has a right tool on top, so there is nothing to learn; "
            "check that the labels name ids of this index"
        )


def _folds(evidence: Sequence[LabelledEvidence], seed: int) -> NDArray[np.int64]:
    """Fold of each query; a query and its repetition with hidden tools share one."""
    texts = sorted({one.query.text for one in evidence})
    shuffled = np.random.default_rng(seed).permutation(len(texts)) % CALIBRATION_FOLDS
    fold = dict(zip(texts, shuffled.tolist(), strict=True))
    return np.array([fold[one.query.text] for one in evidence])


def _cross_validate(
    fits: Sequence[tuple[str, _Fit]],
    predict: Callable[[LabelledEvidence, _Model], Floats],
    evidence: Sequence[LabelledEvidence],
    folds: NDArray[np.int64],
) -> list[_FitResult]:
    results: list[_FitResult] = []
    for method, fit in fits:
        unseen: list[Floats] = [np.empty(0)] * len(evidence)
        for fold in range(CALIBRATION_FOLDS):
            model = fit([one for one, at in zip(evidence, folds, strict=True) if at != fold])
            for place in np.flatnonzero(folds == fold).tolist():
                unseen[place] = predict(evidence[place], model)
        results.append(_FitResult(method, fit, unseen))
    return results


def _log_loss(predicted: Sequence[float], true: Bools, weight: Floats | None = None) -> float:
    p = np.clip(np.array(predicted), 1e-9, 1 - 1e-9)
    return float(np.average(-np.where(true, np.log(p), np.log(1 - p)), weights=weight))


# -- whether any tool answers ----------------------------------------------------------------------


def _best_answerability_fit(
    evidence: Sequence[LabelledEvidence], folds: NDArray[np.int64], start: Calibration | None
) -> _FitResult:
    fits: list[tuple[str, _Fit]] = []
    unanswerable = sum(not one.query.answerable for one in evidence)
    if start is None or unanswerable >= MIN_UNANSWERABLE:
        fits.append(("fitted", _fit_answerability))
        # Also fit without hidden tools, if real queries are unanswerable.
        fits.append(("fitted", lambda some: _fit_answerability(_base_rate_evidence(some))))
        fits += [("fitted", partial(_fit_order, order=one)) for one in np.eye(len(QUERY_FEATURES))]
    if start is not None:
        begun = np.asarray(start.answerability.weights)
        model = (begun, start.answerability.offset)
        fits.append(("default", lambda _: model))
        fits.append(("rescaled", partial(_fit_order, order=begun)))
    kept = set(map(id, _base_rate_evidence(evidence)))
    places = [place for place, one in enumerate(evidence) if id(one) in kept]
    some = [evidence[place] for place in places]
    able = np.array([one.answerable for one in some])
    weights = _balanced_weights(some, HIDDEN_SHARE)
    ways = _cross_validate(
        fits, lambda one, fit: np.atleast_1d(sigmoid(one.about @ fit[0] + fit[1])), evidence, folds
    )
    # The AUROC does not depend on which tools are right.
    measured = [gate_measures(np.array(way.firsts(places)), able, able) for way in ways]
    aurocs = [found.get("auroc", 0.0) for found in measured]
    if start is not None:
        # `rescaled` keeps the order of `default`: only the folds' different offsets disturb it.
        aurocs[-1] = aurocs[-2]
    least = max(aurocs) - AUROC_TOLERANCE
    best = [way for way, auroc in zip(ways, aurocs, strict=True) if auroc >= least]
    return min(best, key=lambda way: _log_loss(way.firsts(places), able, weights))


def _base_rate_evidence(evidence: Sequence[LabelledEvidence]) -> list[LabelledEvidence]:
    """Evidence for base rates: with hidden tools only if no query is unanswerable."""
    shown = [one for one in evidence if not one.hidden]
    return list(evidence) if all(one.answerable for one in shown) else shown


def _balanced_weights(evidence: Sequence[LabelledEvidence], share: float) -> Floats:
    """Weight of each query, such that unanswerable ones have at least this share."""
    weights = np.array([one.weight for one in evidence])
    able = np.array([one.answerable for one in evidence])
    rest = float(weights[~able].sum())
    if rest:
        weights[~able] *= max(1.0, share / (1 - share) * float(weights[able].sum()) / rest)
    return weights


def _fit_answerability(evidence: Sequence[LabelledEvidence]) -> _Model:
    """Fit all features with balanced weights, then rescale to the base rate."""
    able = np.array([one.answerable for one in evidence], dtype=np.float64)
    if able.min() == able.max():
        return _constant_model(evidence)
    about = np.vstack([one.about for one in evidence])
    order, _ = _regress(about, able, _balanced_weights(evidence, UNANSWERABLE_SHARE))
    return _fit_order(evidence, order=order)


def _fit_order(evidence: Sequence[LabelledEvidence], *, order: Floats) -> _Model:
    """Fit slope and offset of probabilities that increase with `order`."""
    counted = _base_rate_evidence(evidence)
    able = np.array([one.answerable for one in counted], dtype=np.float64)
    if able.min() == able.max():
        return _constant_model(evidence)
    values = np.array([one.about @ order for one in counted])[:, None]
    slope, offset = _regress(values, able, _balanced_weights(counted, HIDDEN_SHARE))
    rate = max(float(slope[0]), MIN_SLOPE)
    return order * rate, offset


def _constant_model(evidence: Sequence[LabelledEvidence]) -> _Model:
    """Model of one probability for all queries, by the rule of succession."""
    able = sum(one.answerable for one in evidence)
    odds = (able + 1) / (len(evidence) - able + 1)
    return np.zeros(len(QUERY_FEATURES)), math.log(odds)


# -- which tool is right, if any is ----------------------------------------------------------------


def _best_tool_fit(
    evidence: Sequence[LabelledEvidence], folds: NDArray[np.int64], start: Calibration | None
) -> _FitResult:
    fits: list[tuple[str, _Fit]] = [("fitted", _fit_tools)]
    if start is not None:
        begun = (np.asarray(start.weights), start.offset)
        fits.append(("default", lambda _: begun))
        fits.append(("rescaled", lambda some: _rescale(some, begun)))
    able = [place for place, one in enumerate(evidence) if one.answerable]
    right = np.array([evidence[place].first_is_right for place in able])
    ways = _cross_validate(
        fits, lambda one, model: probabilities(one.features, *model), evidence, folds
    )
    return min(ways, key=lambda way: _log_loss(way.firsts(able), right))


def _fit_tools(evidence: Sequence[LabelledEvidence]) -> _Model:
    """Fit all weights but those of `RAW_QUERY_FEATURES`."""
    known, right, weights = _training_rows(evidence)
    return _regress(known * [name not in RAW_QUERY_FEATURES for name in FEATURES], right, weights)


def _training_rows(evidence: Sequence[LabelledEvidence]) -> tuple[Floats, Floats, Floats]:
    """Features, labels and weights of the first tools of every answerable query."""
    able = [one for one in evidence if one.answerable]
    known = np.vstack([one.features[:MAX_RANKED_TOOLS] for one in able])
    right = np.concatenate([one.right[:MAX_RANKED_TOOLS] for one in able]).astype(np.float64)
    by_rank = np.array([FIRST_WEIGHT, *[1.0] * (MAX_RANKED_TOOLS - 1)])
    weights = np.concatenate([one.weight * by_rank[: len(one.right)] for one in able])
    return known, right, weights


def _rescale(evidence: Sequence[LabelledEvidence], start: _Model) -> _Model:
    known, right, weights = _training_rows(evidence)
    logits = (known @ start[0] + start[1])[:, None]
    slope, offset = _regress(logits, right, weights)
    # A negative slope would reverse the ranking.
    rate = max(float(slope[0]), 0.0)
    return start[0] * rate, start[1] * rate + offset


def _regress(known: Floats, right: Floats, weights: Floats) -> _Model:
    """Logistic regression on standardised features, with the scale folded back into weights."""
    linear = import_extra("sklearn.linear_model", "fitting a calibration", "eval")
    if right.min() == right.max():
        raise CalibrationError(
            "too few labelled queries have right tools, or too few have wrong ones; give more "
            "queries"
        )
    centre, scale = known.mean(axis=0), known.std(axis=0)
    scale[scale == 0] = 1.0
    model = linear.LogisticRegression(solver="newton-cholesky")
    # Scale the weights: against the penalty each query counts as one.
    weights = weights * len(weights) / weights.sum()
    model.fit((known - centre) / scale, right, sample_weight=weights)
    folded = model.coef_[0] / scale
    return folded, float(model.intercept_[0] - folded @ centre)


# -- what it is worth ------------------------------------------------------------------------------


def _figures(
    evidence: Sequence[LabelledEvidence],
    confidence: Sequence[float],
    unseen: Sequence[Floats],
    threshold: float,
    order: Sequence[float],
) -> Figures:
    """Figures of probabilities on real held-out queries; `order` ranks the queries."""
    shown = [
        (one, sure, float(p[0]))
        for one, sure, p in zip(evidence, confidence, unseen, strict=True)
        if not one.hidden
    ]
    ranks = [rank for one, rank in zip(evidence, order, strict=True) if not one.hidden]
    answerable = np.array([one.answerable for one, _, _ in shown])
    measured = gate_measures(
        np.array([sure for _, sure, _ in shown]),
        np.array([one.first_is_right for one, _, _ in shown]),
        answerable,
        np.array([p for _, _, p in shown]),
    )
    ranked = gate_measures(np.array(ranks), answerable, answerable)
    accepted = [one.first_is_right for one, sure, _ in shown if sure >= threshold]
    return Figures(
        ece=measured["ece"],
        ece_first=measured["ece_first"],
        log_loss=_log_loss([sure for _, sure, _ in shown], answerable),
        auroc=ranked.get("auroc"),
        false_acceptance=ranked.get("false_acceptance@95"),
        coverage=len(accepted) / len(shown),
        precision=sum(accepted) / len(accepted) if accepted else None,
        queries=len(shown),
    )


def figures_of(calibration: Calibration, evidence: Sequence[LabelledEvidence]) -> Figures:
    """Figures of a calibration on held-out queries."""
    confidence = [calibration.confidence(one.features, one.about) or 0.0 for one in evidence]
    predicted = [
        calibration.probabilities(one.features, sure)
        for one, sure in zip(evidence, confidence, strict=True)
    ]
    return _figures(evidence, confidence, predicted, calibration.threshold, confidence)


def acceptance_curves(
    evidence: Sequence[LabelledEvidence], confidence: Sequence[float]
) -> dict[str, AcceptanceCurve]:
    """Curve over all queries under "", and one for each server with enough queries."""
    pairs = list(zip(evidence, confidence, strict=True))
    counts = Counter(one.first_server for one in evidence if one.first_server)
    servers = [server for server, count in sorted(counts.items()) if count >= MIN_SERVER_QUERIES]
    return {"": _curve(pairs)} | {
        server: _curve([pair for pair in pairs if pair[0].first_server == server])
        for server in servers
    }


def _curve(pairs: Sequence[tuple[LabelledEvidence, float]]) -> AcceptanceCurve:
    confidence = np.array([p for _, p in pairs])
    weight = np.array([one.weight for one, _ in pairs])
    right = np.array([one.first_is_right for one, _ in pairs])
    answerable = np.array([one.answerable for one, _ in pairs])
    accepted = [confidence >= threshold for threshold in THRESHOLD_GRID]

    def share(of: Bools, among: Bools) -> float:
        total = float((weight * among).sum())
        return round(float((weight * of * among).sum()) / total, 6) if total else 1.0

    negatives = ~answerable
    return AcceptanceCurve(
        queries=len(pairs),
        thresholds=THRESHOLD_GRID,
        precision=tuple(share(right, taken) for taken in accepted),
        true_acceptance=tuple(share(taken, answerable) for taken in accepted),
        false_acceptance=tuple(share(taken, negatives) for taken in accepted)
        if negatives.any()
        else None,
    )


def server_thresholds(
    evidence: Sequence[LabelledEvidence], curves: Mapping[str, AcceptanceCurve]
) -> dict[str, float]:
    """Recommended threshold of each server whose tools came first for answerable queries."""
    counts = Counter(one.first_server for one in evidence if one.answerable)
    return {
        server: recommended_threshold(curve)
        for server, curve in curves.items()
        if server and counts[server] >= MIN_SERVER_QUERIES
    }


def recommended_threshold(curve: AcceptanceCurve) -> float:
    """Highest threshold that accepts `MIN_TRUE_ACCEPTANCE` of the answerable queries."""
    accepted = zip(curve.thresholds, curve.true_acceptance, strict=True)
    return max((least for least, share in accepted if share >= MIN_TRUE_ACCEPTANCE), default=0.0)


def refusing_threshold(curve: AcceptanceCurve, threshold: float) -> tuple[float, float] | None:
    """Lowest threshold that rejects half of the unanswerable queries, and its true acceptance.

    None if `threshold` rejects half of them, or none is known.
    """
    if curve.false_acceptance is None:
        return None
    refused = tuple(1 - share for share in curve.false_acceptance)
    found = lowest_threshold(curve, refused, 1 - MAX_FALSE_ACCEPTANCE)
    accepted = dict(zip(curve.thresholds, curve.true_acceptance, strict=True))
    return (found, accepted[found]) if found > threshold else None


def least_probabilities(
    evidence: Sequence[LabelledEvidence], unseen: Sequence[Floats]
) -> tuple[float, ...]:
    """Lowest probability of a needed tool for each answerable query, ascending; 0 if missing."""
    least: list[float] = sorted(
        0.0 if one.lost else float(p[one.right].min())
        for one, p in zip(evidence, unseen, strict=True)
        if one.answerable
    )
    if len(least) > MAX_NEEDED_PROBABILITIES:
        places = np.linspace(0, len(least) - 1, MAX_NEEDED_PROBABILITIES).round().astype(int)
        least = [least[place] for place in places]
    return tuple(round(value, 6) for value in least)


@dataclass(frozen=True, slots=True)
class CalibrationFit:
    """New calibration, and the figures of the current one on the same queries."""

    calibration: Calibration
    before: Figures | None

    @property
    def falls(self) -> tuple[str, ...]:
        """Names of figures that are clearly worse than before."""
        if self.before is None:
            return ()
        old, new = self.before, self.calibration.figures
        pairs = {
            "auroc": (new.auroc, old.auroc),
            "false_acceptance": (old.false_acceptance, new.false_acceptance),
            "ece": (old.ece, new.ece),
            "ece_first": (old.ece_first, new.ece_first),
        }
        return tuple(
            name
            for name, (less, more) in pairs.items()
            if less is not None and more is not None and more - less > MIN_FALL
        )


def learn(
    crib: Crib,
    queries: Sequence[LabelledQuery],
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> CalibrationFit:
    """Fit a calibration to the tools of an index; neither use nor store the calibration.

    The head is fitted on the tools' examples and the calibration on the queries, so the queries
    must not be those examples. If too few tools have enough examples for such a head, the scores
    contain the head over examples of every search.

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    # Queries may take minutes; the fit, after them, is what needs the extra.
    require_extra("sklearn", "fitting a calibration", "eval")
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
    # A head changes all scores, so a calibration without it is no start. Neither is the index's
    # own, which may have been fitted on these queries.
    plain = by_examples and crib.tools.example_head() is None
    holds = plain and not differences(start.identity, identity)
    fitted = calibrate(evidence, identity, seed=seed, start=start if holds else None)
    by_words = gather_evidence(
        crib, queries, words=True, progress=lambda done, _: progress(len(queries) + done, total)
    )
    lexical = lexical_calibration(None, identity)
    try:
        lexical = calibrate(by_words, identity, seed=seed, start=lexical)
    except CalibrationError:
        # The shipped calibration stays, with figures on these queries.
        if lexical is not None and any(not one.hidden for one in by_words):
            lexical = lexical.model_copy(update={"figures": figures_of(lexical, by_words)})
    made = fitted.model_copy(update={"head": head, "by_examples": by_examples, "lexical": lexical})
    return CalibrationFit(made, _current_figures(crib, queries, evidence, made))


def _current_figures(
    crib: Crib,
    queries: Sequence[LabelledQuery],
    evidence: Sequence[LabelledEvidence],
    made: Calibration,
) -> Figures | None:
    """Figures of the current calibration; one fitted on these queries keeps its own."""
    current = usable_calibration(crib.tools.store, crib.tools.calibration_fingerprint())
    if current is None or current.data_digest == made.data_digest:
        return current and current.figures
    by_examples = current.by_examples or current is default_calibration()
    if (current.head, by_examples) != (made.head, made.by_examples):
        evidence = gather_evidence(crib, queries, head=current.head, by_examples=by_examples)
    return figures_of(current, evidence)
