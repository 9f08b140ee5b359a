"""Comparison of two evaluations: what fell after a change by more than chance would have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from toolcrib.errors import SourceError
from toolcrib.evaluation.measures import lower_is_better
from toolcrib.evaluation.significance import draws_for, holm, randomisation_tests

SEED = 0
ALPHA = 0.05

_Key: TypeAlias = tuple[str, str, str]
"""Set, system, measure."""

_Pair: TypeAlias = tuple[list[float], list[float]]
"""A measure before and after, of the same queries in the same order."""


@dataclass(frozen=True, slots=True)
class Fall:
    """A measure that is significantly worse than it was.

    `before` and `after` are means over the queries that both evaluations have, or the reported
    means where they do not say query by query; then `p` is absent, and the intervals do not
    overlap.
    """

    data_set: str
    system: str
    measure: str
    before: float
    after: float
    p: float | None = None

    @property
    def drop(self) -> float:
        """By how much it is worse: positive for every fall."""
        fall = self.before - self.after
        return -fall if lower_is_better(self.measure) else fall


def compare(
    before: Mapping[str, Any], after: Mapping[str, Any], max_drop: float
) -> tuple[Fall, ...]:
    """Every measure that fell by more than `max_drop`, significantly, deepest first.

    Both are what `export.as_json` gives. Where both hold `per_query`, a fall must pass a paired
    randomisation test (p < 0.05, Holm-corrected over the systems and measures of a set);
    elsewhere the two intervals must not overlap. Gates, latency and tokens have neither and are
    not compared.

    Raises:
        SourceError: one of the two is no evaluation, or they have no measure in common.
    """
    old, new = _measures(before, "before"), _measures(after, "after")
    common = [key for key in old if key in new]
    if not common:
        raise SourceError("after", "datasets", "no set, system and measure is also in `before`")
    falls: list[Fall] = []
    for data_set in dict.fromkeys(key[0] for key in common):
        pairs = {key: _paired_values(key, before, after) for key in common if key[0] == data_set}
        falls += _significant_falls({key: pair for key, pair in pairs.items() if pair})
        falls += _disjoint_falls([key for key, pair in pairs.items() if not pair], old, new)
    return tuple(sorted((f for f in falls if f.drop > max_drop), key=lambda f: -f.drop))


def missing(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Measures that `after` lacks, as `set / system / measure`.

    Raises:
        SourceError: one of the two is no evaluation.
    """
    old, new = _measures(before, "before"), _measures(after, "after")
    return tuple(" / ".join(key) for key in old if key not in new)


def _measures(exported: Mapping[str, Any], source: str) -> dict[_Key, Mapping[str, float]]:
    """Everything with a mean and an interval."""
    try:
        return {
            (data_set, system, measure): value
            for data_set, systems in exported["datasets"].items()
            for system, figures in systems.items()
            for measure, value in figures.items()
            if isinstance(value, dict) and {"mean", "low", "high"} <= value.keys()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            source,
            "datasets",
            "not the JSON of an evaluation; write one with `toolcrib eval --json`",
        ) from error


def _paired_values(key: _Key, before: Mapping[str, Any], after: Mapping[str, Any]) -> _Pair | None:
    """The measure of the queries that both have; nothing where there are none."""
    old, new = _values(key, before), _values(key, after)
    common = [query for query in old if query in new]
    return ([old[q] for q in common], [new[q] for q in common]) if common else None


def _values(key: _Key, exported: Mapping[str, Any]) -> dict[str, float]:
    data_set, system, measure = key
    queries: dict[str, Any] = exported.get("per_query", {}).get(data_set, {}).get(system, {})
    return {query: values[measure] for query, values in queries.items() if measure in values}


def _significant_falls(pairs: Mapping[_Key, _Pair]) -> Iterator[Fall]:
    draws = draws_for(len(pairs))
    differences = [np.subtract(new, old)[:, None] for old, new in pairs.values()]
    p_values = holm([float(randomisation_tests(d, SEED, draws)[0]) for d in differences])
    for (key, (old, new)), p in zip(pairs.items(), p_values, strict=True):
        if p < ALPHA:
            yield Fall(*key, float(np.mean(old)), float(np.mean(new)), p)


def _disjoint_falls(
    keys: list[_Key],
    old: Mapping[_Key, Mapping[str, float]],
    new: Mapping[_Key, Mapping[str, float]],
) -> Iterator[Fall]:
    for key in keys:
        if old[key]["low"] > new[key]["high"] or old[key]["high"] < new[key]["low"]:
            yield Fall(*key, old[key]["mean"], new[key]["mean"])
