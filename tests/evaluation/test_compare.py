"""Before and after: a fall counts when it is deep enough and more than chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toolcrib.errors import SourceError
from toolcrib.evaluation.significance import (
    UnpairedQueries,
    changed_tools,
    find_falls,
    missing_measures,
    unpaired_queries,
)

GOOD = [0.9, 0.8, 1.0, 0.7] * 10


def _exported(
    values: list[float], measure: str = "ndcg@10", width: float = 0.05, *, per_query: bool = True
) -> dict[str, Any]:
    mean = float(np.mean(values))
    interval = {"mean": mean, "low": mean - width, "high": mean + width}
    figures = {measure: interval, "auroc": 0.5, "latency_ms": {"p50": 1, "p99": 2}}
    exported: dict[str, Any] = {"datasets": {"office": {"toolcrib": figures}}}
    if per_query:
        queries = {f"q{n}": {measure: value} for n, value in enumerate(values)}
        exported["per_query"] = {"office": {"toolcrib": queries}}
    return exported


def _less(by: float) -> list[float]:
    return [value - by for value in GOOD]


def test_a_consistent_fall_beyond_the_allowed_one_is_found():
    (fall,) = find_falls(_exported(GOOD), _exported(_less(0.03)), max_drop=0.01)
    assert (fall.data_set, fall.system, fall.measure) == ("office", "toolcrib", "ndcg@10")
    assert fall.drop == pytest.approx(0.03)
    assert fall.p is not None
    assert fall.p < 0.05


def test_a_fall_within_what_is_allowed_passes_however_significant():
    assert find_falls(_exported(GOOD), _exported(_less(0.005)), max_drop=0.01) == ()


def test_a_fall_by_chance_passes_however_deep():
    noise = [value - (1.0 if n == 0 else -0.01) for n, value in enumerate(GOOD)]
    assert np.mean(GOOD) - np.mean(noise) > 0.01
    assert find_falls(_exported(GOOD), _exported(noise), max_drop=0.01) == ()


def test_a_rise_is_no_fall_unless_less_is_better():
    assert find_falls(_exported(_less(0.1)), _exported(GOOD), max_drop=0.01) == ()
    counts = "forbidden@5"
    (fall,) = find_falls(_exported(_less(0.1), counts), _exported(GOOD, counts), max_drop=0.01)
    assert fall.drop == pytest.approx(0.1)
    assert find_falls(_exported(GOOD, counts), _exported(_less(0.1), counts), max_drop=0.01) == ()


def test_without_single_queries_intervals_must_not_overlap():
    before = _exported(GOOD, per_query=False)
    (fall,) = find_falls(before, _exported(_less(0.2)), max_drop=0.01)
    assert fall.p is None
    assert fall.drop == pytest.approx(0.2)
    assert find_falls(before, _exported(_less(0.08)), max_drop=0.01) == ()


def test_queries_that_only_one_evaluation_has_say_nothing():
    # The new queries are all failed, the old ones answered as before.
    assert find_falls(_exported(GOOD), _exported([*GOOD, *[0.0] * 40]), max_drop=0.01) == ()


def test_queries_that_only_one_evaluation_has_are_counted():
    after = _exported([*GOOD, *[0.0] * 40])
    assert unpaired_queries(_exported(GOOD), after) == (UnpairedQueries("office", 0, 40),)
    assert unpaired_queries(_exported(GOOD), _exported(_less(0.03))) == ()
    assert unpaired_queries(_exported(GOOD, per_query=False), after) == ()


def test_the_deepest_fall_comes_first():
    before, after = _exported(GOOD), _exported(_less(0.05))
    for exported, values in ((before, GOOD), (after, _less(0.2))):
        other = _exported(values)
        exported["datasets"]["shop"] = other["datasets"]["office"]
        exported["per_query"]["shop"] = other["per_query"]["office"]
    assert [fall.data_set for fall in find_falls(before, after, 0.01)] == ["shop", "office"]


def test_what_depends_on_the_depth_is_not_compared_over_two_depths():
    def of_depth(values: list[float], depth: str) -> dict[str, Any]:
        return _exported(values, "returned_precision") | {"settings": {"depth": depth}}

    low = _less(0.3)
    both = _exported(GOOD)["datasets"]["office"]["toolcrib"]
    before, after = of_depth(GOOD, "5"), of_depth(low, "10")
    for each in (before, after):
        each["datasets"]["office"]["toolcrib"] |= both
    assert find_falls(before, after, max_drop=0.0) == ()
    assert missing_measures(before, after) == ("office / toolcrib / returned_precision of 5 tools",)
    same = find_falls(of_depth(GOOD, "5"), of_depth(low, "5"), max_drop=0.0)
    assert [fall.measure for fall in same] == ["returned_precision"]


def test_what_is_not_measured_any_more_is_named():
    after = _exported(GOOD, "mrr")
    assert missing_measures(_exported(GOOD), after) == ("office / toolcrib / ndcg@10",)
    assert missing_measures(after, after) == ()


def test_evaluations_with_nothing_in_common_are_an_error():
    with pytest.raises(SourceError, match="also in `before`"):
        find_falls(_exported(GOOD), _exported(GOOD, "mrr"), 0.01)


def test_two_splits_of_a_set_are_not_compared():
    before, after = _exported(GOOD), _exported(_less(0.2))
    before["sets"], after["sets"] = {"office": {"split": "test"}}, {"office": {"split": "dev"}}
    with pytest.raises(SourceError, match="split 'dev', but `before` on 'test'"):
        find_falls(before, after, 0.01)
    after["sets"]["office"]["split"] = "test"
    assert find_falls(before, after, 0.01)


@pytest.mark.parametrize("wrong", [{}, {"datasets": []}, {"datasets": {"a": 1}}, []])
def test_what_is_no_evaluation_is_refused_by_name(wrong: Any):
    with pytest.raises(SourceError, match="after: datasets: "):
        find_falls(_exported(GOOD), wrong, 0.01)


def test_another_number_of_tools_is_told_and_an_unknown_one_is_not():
    small, large = ({**_exported(GOOD), "sets": {"office": {"tools": n}}} for n in (5, 9))
    assert changed_tools(small, large) == {"office": (5, 9)}
    assert changed_tools(small, small) == changed_tools(_exported(GOOD), large) == {}
