"""From single answers to what a system is worth on a data set, beside others, and overall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from toolcrib.evaluation.gate_measures import gate_measures, verdict_measures
from toolcrib.evaluation.prompt import PromptTokens
from toolcrib.evaluation.results import Comparison, Interval, Outcome, SetResult, SystemResult
from toolcrib.evaluation.significance import (
    bootstrap_intervals,
    draws_for,
    holm,
    randomisation_tests,
)

__all__ = [
    "compare_with_first",
    "first_is_right",
    "leg_warnings",
    "macro_comparisons",
    "macro_means",
    "main_measure",
    "summarise",
]

Floats: TypeAlias = npt.NDArray[np.float64]

FUSED = ("toolcrib", "fusion")
LEGS = ("dense", "lexical")
"""Names of the systems that `leg_warnings` knows."""

OF_PROBABILITIES = {"ece", "brier"}


def first_is_right(outcome: Outcome) -> bool:
    """Whether the first returned tool is relevant, whatever a gate says."""
    ranked = outcome.answer.ranked
    return bool(ranked) and outcome.query.relevant.get(ranked[0].id, 0) > 0


def summarise(
    name: str, version: str, outcomes: Sequence[Outcome], prompt: PromptTokens, seed: int
) -> SystemResult:
    """Means with intervals, gates, latency and prompt tokens; compared with nothing yet.

    A system that was measured on no query has no latency, and one without answerable queries
    no measures.
    """
    ms = [outcome.ms for outcome in outcomes]
    tokens = float(np.mean([outcome.prompt_tokens for outcome in outcomes])) if outcomes else 0.0
    return SystemResult(
        name=name,
        version=version,
        measures=_intervals(outcomes, seed),
        latency_ms={f"p{q}": float(np.percentile(ms, q)) for q in (50, 99)} if ms else {},
        prompt_tokens=tokens,
        tokens_saved=prompt.saved(tokens),
        gates=_gates(outcomes),
        outcomes=tuple(outcomes),
    )


def _intervals(outcomes: Sequence[Outcome], seed: int) -> dict[str, Interval]:
    measured = [outcome.measures for outcome in outcomes if outcome.measures]
    if not measured:
        return {}
    values = np.array([list(of_query.values()) for of_query in measured])
    return dict(zip(measured[0], bootstrap_intervals(values, seed), strict=True))


def _gates(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Measures of the confidence; where a system that has one gives none, it is 0.

    A system without a confidence is judged by the score of its first tool, which can order
    queries as well, but is no probability: it has no calibration to measure.
    """
    correct = np.array([first_is_right(outcome) for outcome in outcomes], dtype=np.bool_)
    answerable = np.array([outcome.query.answerable for outcome in outcomes], dtype=np.bool_)
    confidences = [outcome.answer.confidence for outcome in outcomes]
    verdicts = [outcome.answer.verdict for outcome in outcomes]
    if any(confidence is not None for confidence in confidences):
        sure = np.array([confidence or 0.0 for confidence in confidences])
        gates = gate_measures(sure, correct, answerable)
    else:
        lowest = min((o.answer.ranked[0].score for o in outcomes if o.answer.ranked), default=0.0)
        tops = [o.answer.ranked[0].score if o.answer.ranked else lowest for o in outcomes]
        gates = gate_measures(np.array(tops), correct, answerable)
        gates = {name: value for name, value in gates.items() if name not in OF_PROBABILITIES}
    if any(verdicts):
        gates |= verdict_measures([verdict or "" for verdict in verdicts], correct)
    return gates


def compare_with_first(results: Mapping[str, SystemResult], seed: int) -> dict[str, SystemResult]:
    """Every system but the first with its comparisons, on the queries that both answered.

    P-values are Holm-corrected over all systems and measures.
    """
    if not results:
        return {}
    first, *others = results.values()
    pairs = {other.name: _paired(other, first) for other in others}
    tests = [(name, measure) for name, pair in pairs.items() for measure in pair]
    draws = draws_for(len(tests))
    p_values = [
        float(p)
        for pair in pairs.values()
        if pair
        for p in randomisation_tests(np.column_stack(list(pair.values())), seed, draws)
    ]
    against: dict[str, dict[str, Comparison]] = {name: {} for name in results}
    for (name, measure), p in zip(tests, holm(p_values), strict=True):
        against[name][measure] = Comparison(float(pairs[name][measure].mean()), p)
    return {name: replace(one, against_first=against[name]) for name, one in results.items()}


def _paired(system: SystemResult, other: SystemResult) -> dict[str, Floats]:
    """`system` less `other` in each measure, query by query."""
    theirs = {outcome.query.id: outcome.measures for outcome in other.outcomes}
    both = [
        (outcome.measures, theirs[outcome.query.id])
        for outcome in system.outcomes
        if outcome.measures and outcome.query.id in theirs
    ]
    if not both:
        return {}
    return {
        measure: np.array([mine[measure] - its[measure] for mine, its in both])
        for measure in both[0][0]
        if measure in both[0][1]
    }


def leg_warnings(results: Mapping[str, SystemResult], seed: int) -> tuple[str, ...]:
    """Where a fusion is significantly below one of its own legs in nDCG@10.

    Where 10 is not among the cut-offs, the largest stands in. Holm-corrected over the pairs.
    """
    tested: list[tuple[str, str, str, Floats]] = []
    for fused in FUSED:
        for leg in LEGS:
            if fused in results and leg in results:
                pair = _paired(results[fused], results[leg])
                name = main_measure(pair)
                tested += [(fused, leg, name, pair[name])] if name else []
    p_values = holm([float(randomisation_tests(d[:, None], seed)[0]) for *_, d in tested])
    return tuple(
        f"{fused} is below its own leg {leg!r} in {name} "
        f"({difference.mean():+.3f}, p = {comparison.p:.4f}): its weights do not fit this set"
        for (fused, leg, name, difference), p in zip(tested, p_values, strict=True)
        if (comparison := Comparison(float(difference.mean()), p)).significant
        and comparison.difference < 0
    )


def main_measure(measures: Mapping[str, object]) -> str:
    """`ndcg@10`, or nDCG at the largest cut-off that there is; empty when there is none."""
    cutoffs = [int(name.removeprefix("ndcg@")) for name in measures if name.startswith("ndcg@")]
    if not cutoffs:
        return ""
    return "ndcg@10" if "ndcg@10" in measures else f"ndcg@{max(cutoffs)}"


def macro_means(sets: Mapping[str, SetResult]) -> dict[str, dict[str, float]]:
    """The unweighted mean of every figure of every system, over the sets that have it.

    Besides measures and gates: `latency_p50_ms`, `prompt_tokens`, `tokens_saved`.
    """
    collected: dict[str, dict[str, list[float]]] = {}
    for one in sets.values():
        for name, system in one.systems.items():
            figures = collected.setdefault(name, {})
            for figure, value in _figures(system).items():
                figures.setdefault(figure, []).append(value)
    return {
        name: {figure: float(np.mean(values)) for figure, values in figures.items()}
        for name, figures in collected.items()
    }


def _figures(system: SystemResult) -> dict[str, float]:
    if not system.outcomes:
        return {}
    means = {measure: interval.mean for measure, interval in system.measures.items()}
    costs = {
        "latency_p50_ms": system.latency_ms["p50"],
        "prompt_tokens": system.prompt_tokens,
        "tokens_saved": system.tokens_saved,
    }
    return means | dict(system.gates) | costs


def macro_comparisons(sets: Mapping[str, SetResult], seed: int) -> dict[str, dict[str, Comparison]]:
    """How each system's means over sets differ from the first one's, by measure.

    The test is the paired one of a single set, over the queries of all: each weighs as one of
    its set's, so that every set counts the same. Holm-corrected over systems and measures.
    """
    first = next((next(iter(one.systems)) for one in sets.values() if one.systems), "")
    others = {name: None for one in sets.values() for name in one.systems if name != first}
    weighted = {name: _weighted(sets, name, first) for name in others}
    tests = [(name, measure) for name, columns in weighted.items() for measure in columns]
    draws = draws_for(len(tests))
    p_values = [
        float(p)
        for columns in weighted.values()
        if columns
        for p in randomisation_tests(np.column_stack(list(columns.values())), seed, draws)
    ]
    found: dict[str, dict[str, Comparison]] = {name: {} for name in others}
    for (name, measure), p in zip(tests, holm(p_values), strict=True):
        found[name][measure] = Comparison(float(weighted[name][measure].sum()), p)
    return found


def _weighted(sets: Mapping[str, SetResult], name: str, first: str) -> dict[str, Floats]:
    """Differences of all queries, weighted so that each measure's sum is the macro difference."""
    pairs = [
        _paired(one.systems[name], one.systems[first])
        for one in sets.values()
        if name in one.systems and first in one.systems
    ]
    pairs = [pair for pair in pairs if pair]
    measures = [m for m in (pairs[0] if pairs else {}) if all(m in pair for pair in pairs)]
    return {
        measure: np.concatenate([pair[measure] / len(pair[measure]) for pair in pairs]) / len(pairs)
        for measure in measures
    }
