"""Means, comparisons and warnings, from outcomes made by hand."""

from __future__ import annotations

import pytest

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.prompt import PromptTokens
from toolcrib.evaluation.results import Outcome, SetResult, SystemResult
from toolcrib.evaluation.summary import (
    compare_with_first,
    first_is_right,
    leg_warnings,
    macro_comparisons,
    main_measure,
    summarise,
)
from toolcrib.evaluation.systems.protocol import Answer, Ranked

PROMPT = PromptTokens([])


def _result(name: str, values: list[float], measure: str = "ndcg@10") -> SystemResult:
    outcomes = [
        Outcome(LabelledQuery(str(n), "?"), Answer(()), float(n), 0, {measure: value})
        for n, value in enumerate(values)
    ]
    return summarise(name, "1", outcomes, PROMPT, seed=0)


def _results(**values: list[float]) -> dict[str, SystemResult]:
    return {name: _result(name, given) for name, given in values.items()}


GOOD, BAD = [0.9, 0.8, 1.0, 0.7] * 10, [0.4, 0.5, 0.6, 0.3] * 10


def test_latency_is_given_as_percentiles_of_single_searches():
    result = _result("a", [1.0] * 101)
    assert result.latency_ms == {"p50": 50, "p99": 99}


def test_a_consistent_difference_is_significant_and_noise_is_not():
    noisy = [value + (0.1 if n % 2 else -0.1) for n, value in enumerate(GOOD)]
    against = compare_with_first(_results(first=GOOD, bad=BAD, noisy=noisy), seed=0)
    assert against["bad"].against_first["ndcg@10"].difference == pytest.approx(-0.4)
    assert against["bad"].against_first["ndcg@10"].significant
    assert not against["noisy"].against_first["ndcg@10"].significant


def test_more_systems_make_each_p_value_larger():
    alone = compare_with_first(_results(first=GOOD, bad=BAD), seed=0)["bad"]
    among = compare_with_first(_results(first=GOOD, bad=BAD, also=BAD, too=BAD), seed=0)["bad"]
    ratio = among.against_first["ndcg@10"].p / alone.against_first["ndcg@10"].p
    assert ratio == pytest.approx(3)


def test_the_report_warns_where_fusion_is_below_its_own_leg():
    (warning,) = leg_warnings(_results(toolcrib=BAD, lexical=GOOD, dense=BAD), seed=0)
    assert warning.startswith("toolcrib is below its own leg 'lexical' in ndcg@10 (-0.400, p = ")


def test_nothing_is_warned_of_where_fusion_is_ahead_or_a_baseline_is():
    assert leg_warnings(_results(fusion=GOOD, lexical=BAD, dense=GOOD), seed=0) == ()
    assert leg_warnings(_results(toolcrib=BAD, bm25s=GOOD), seed=0) == ()


def test_the_main_measure_is_ndcg_at_ten_or_at_the_largest_cutoff():
    assert main_measure({"ndcg@1": 0, "ndcg@10": 0, "ndcg@50": 0}) == "ndcg@10"
    assert main_measure({"ndcg@1": 0, "ndcg@5": 0, "mrr": 0}) == "ndcg@5"
    assert main_measure({}) == ""


def test_the_first_tool_is_right_if_its_grade_is_positive():
    query = LabelledQuery("q", "?", relevant={"a": 1, "b": 0})
    firsts = {
        tool: first_is_right(Outcome(query, Answer((Ranked(tool, 1),)), 0, 0)) for tool in "abc"
    }
    assert firsts == {"a": True, "b": False, "c": False}
    assert not first_is_right(Outcome(query, Answer(()), 0, 0))


def _set(**values: list[float]) -> SetResult:
    queries = len(next(iter(values.values())))
    return SetResult("set", "test", 1, queries, 0, _results(**values))


def test_over_sets_every_set_counts_the_same_whatever_its_size():
    sets = {
        "large": _set(first=[0.5] * 90, other=[0.6] * 90),
        "small": _set(first=[0.9] * 10, other=[0.4] * 10),
    }
    compared = macro_comparisons(sets, seed=0)["other"]["ndcg@10"]
    assert compared.difference == pytest.approx((0.1 - 0.5) / 2)
    assert compared.significant


def test_over_sets_a_gain_on_one_and_a_like_loss_on_another_are_nothing():
    noisy = [0.5 + 0.3 * (-1) ** n for n in range(40)]
    sets = {
        "one": _set(first=[0.5] * 40, other=noisy),
        "two": _set(first=noisy, other=[0.5] * 40),
    }
    assert not macro_comparisons(sets, seed=0)["other"]["ndcg@10"].significant


def test_a_measure_that_a_set_lacks_is_not_compared_over_sets():
    one = _set(first=GOOD, other=BAD)
    other = SetResult(
        "b", "test", 1, 40, 0, {n: _result(n, GOOD, "mrr") for n in ("first", "other")}
    )
    assert macro_comparisons({"a": one, "b": other}, seed=0) == {"other": {}}
