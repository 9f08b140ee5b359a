"""An evaluation as JSON, a contract: names and nesting stay, new names may join them."""

from __future__ import annotations

from typing import Any

from toolcrib.evaluation.results import Comparison, Evaluation, Interval, SetResult, SystemResult

__all__ = ["as_json"]

DIGITS = 5
"""After the point, for shares; milliseconds and tokens have fewer, p-values one more."""


def as_json(evaluation: Evaluation, *, per_query: bool = False) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers.

    `datasets` holds, by set and system, every measure as `mean`, `low` and `high`, gates as
    numbers (`auroc`), `latency_ms` (`p50`, `p99`), `prompt_tokens`, `tokens_saved`, `version`,
    and `against_first` (`difference`, `p`, `significant`), empty for the first system. `macro`
    holds means over sets and `macro_against_first` how they differ from the first system's,
    `sets` what was measured on, `settings` how. With `per_query`, that
    key holds every measure of every answerable query, by set, system and query id: with it two
    evaluations can be compared query by query.
    """
    sets = evaluation.sets
    exported: dict[str, Any] = {
        "datasets": {
            name: {system: _system(result) for system, result in one.systems.items()}
            for name, one in sets.items()
        },
        "macro": {
            system: {figure: round(value, DIGITS) for figure, value in figures.items()}
            for system, figures in evaluation.macro.items()
        },
        "macro_against_first": {
            system: {measure: _comparison(one) for measure, one in compared.items()}
            for system, compared in evaluation.macro_against_first.items()
        },
        "sets": {name: _set(one) for name, one in sets.items()},
        "settings": dict(evaluation.settings),
    }
    if per_query:
        exported["per_query"] = {
            name: {system: _queries(result) for system, result in one.systems.items()}
            for name, one in sets.items()
        }
    return exported


def _system(result: SystemResult) -> dict[str, Any]:
    return {
        **{measure: _interval(interval) for measure, interval in result.measures.items()},
        **{gate: round(value, DIGITS) for gate, value in result.gates.items()},
        "latency_ms": {name: round(ms, 3) for name, ms in result.latency_ms.items()},
        "prompt_tokens": round(result.prompt_tokens, 1),
        "tokens_saved": round(result.tokens_saved, DIGITS),
        "version": result.version,
        "against_first": {
            measure: _comparison(comparison) for measure, comparison in result.against_first.items()
        },
    }


def _interval(interval: Interval) -> dict[str, float]:
    return {
        "mean": round(interval.mean, DIGITS),
        "low": round(interval.low, DIGITS),
        "high": round(interval.high, DIGITS),
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "difference": round(comparison.difference, DIGITS),
        "p": round(comparison.p, DIGITS + 1),
        "significant": comparison.significant,
    }


def _set(one: SetResult) -> dict[str, Any]:
    return {
        "split": one.split,
        "tools": one.tools,
        "queries": one.queries,
        "unanswerable": one.unanswerable,
        "notes": list(one.notes),
        "warnings": list(one.warnings),
    }


def _queries(result: SystemResult) -> dict[str, dict[str, float]]:
    return {
        outcome.query.id: {
            measure: round(value, DIGITS) for measure, value in outcome.measures.items()
        }
        for outcome in result.outcomes
        if outcome.measures
    }
