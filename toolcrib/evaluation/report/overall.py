"""All data sets as if they were one, and which colour each system wears."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from toolcrib.evaluation.report.canvas import LOOKS, OTHER, Look
from toolcrib.evaluation.results import Evaluation, Interval, SetResult, SystemResult
from toolcrib.evaluation.summary import main_measure

__all__ = ["best_first", "looks_of", "main_measure_of", "overall"]


def overall(evaluation: Evaluation) -> SetResult:
    """The macro averages in the form of a data set, with the outcomes of all sets together.

    The interval of a macro mean takes the sets as independent: half its width is the root of the
    sum of their squared half widths, over the number of sets. A system's means are over the sets
    that it was measured on.
    """
    sets = list(evaluation.sets.values())
    if len(sets) == 1:
        return sets[0]
    names = dict.fromkeys(name for one in sets for name in one.systems)
    return SetResult(
        name="All data sets",
        split=", ".join(dict.fromkeys(one.split for one in sets)),
        tools=sum(one.tools for one in sets),
        queries=sum(one.queries for one in sets),
        unanswerable=sum(one.unanswerable for one in sets),
        systems={name: _together(name, sets, evaluation.macro.get(name, {})) for name in names},
        warnings=tuple(f"{one.name}: {warning}" for one in sets for warning in one.warnings),
    )


def _together(name: str, sets: Sequence[SetResult], macro: Mapping[str, float]) -> SystemResult:
    parts = [one.systems[name] for one in sets if name in one.systems]
    measured = [part for part in parts if part.outcomes]
    measures = dict.fromkeys(measure for part in parts for measure in part.measures)
    gates = dict.fromkeys(gate for part in parts for gate in part.gates)
    quantiles = dict.fromkeys(quantile for part in measured for quantile in part.latency_ms)
    return SystemResult(
        name=name,
        version=parts[0].version,
        measures={m: _macro_interval(macro[m], m, parts) for m in measures if m in macro},
        latency_ms={
            q: float(np.mean([part.latency_ms[q] for part in measured if q in part.latency_ms]))
            for q in quantiles
        },
        prompt_tokens=macro.get("prompt_tokens", 0.0),
        tokens_saved=macro.get("tokens_saved", 0.0),
        gates={gate: macro[gate] for gate in gates if gate in macro},
        outcomes=tuple(outcome for part in parts for outcome in part.outcomes),
    )


def _macro_interval(mean: float, measure: str, parts: Sequence[SystemResult]) -> Interval:
    intervals = [part.measures[measure] for part in parts if measure in part.measures]
    halves = [(interval.high - interval.low) / 2 for interval in intervals]
    half = math.sqrt(sum(h * h for h in halves)) / len(halves)
    return Interval(mean, mean - half, mean + half)


def main_measure_of(one: SetResult) -> str:
    """What systems are ranked by: nDCG@10 where there is any; empty where nothing was measured."""
    return main_measure({m: 0 for system in one.systems.values() for m in system.measures})


def best_first(one: SetResult) -> list[SystemResult]:
    """The systems by falling main measure, those without it last; among equals, as given."""
    name = main_measure_of(one)
    return sorted(
        one.systems.values(),
        key=lambda s: -s.measures[name].mean if name in s.measures else math.inf,
    )


def looks_of(one: SetResult) -> dict[str, Look]:
    """Colours for the first system and the best of the others, as far as there are any."""
    first = next(iter(one.systems), None)
    others = [system.name for system in best_first(one) if system.name != first]
    ordered = ([] if first is None else [first]) + others
    return {
        name: LOOKS[place] if place < len(LOOKS) else OTHER for place, name in enumerate(ordered)
    }
