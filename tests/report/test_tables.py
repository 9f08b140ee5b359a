"""All sets as one, colours, and the sentence at the head of the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.measures import measure_title
from toolcrib.evaluation.results import (
    Comparison,
    Evaluation,
    Interval,
    QueryResult,
    SetResult,
    SystemResult,
)
from toolcrib.evaluation.systems.base import Answer
from toolcrib.report.charts import GREYED_LOOK, LOOKS
from toolcrib.report.page import (
    best_first,
    gate_table,
    headline,
    leaderboard,
    looks_of,
    overall,
)

NDCG = "ndcg@10"


def system(
    name: str, mean: float, half: float = 0.02, p: float | None = None, **more
) -> SystemResult:
    against = {} if p is None else {NDCG: Comparison(mean - 0.8, p)}
    return SystemResult(
        name,
        f"{name} 1.0",
        {NDCG: Interval(mean, mean - half, mean + half)},
        {"p50": 2.0, "p99": 4.0},
        300.0,
        0.97,
        against_first=against,
        **more,
    )


def one_set(name: str, *systems: SystemResult) -> SetResult:
    return SetResult(name, "test", 50, 100, 0, {s.name: s for s in systems})


def evaluated(
    *sets: SetResult, macro: dict[str, float] | None = None, p: float | None = None
) -> Evaluation:
    """Sets, means over them, and the chance of each difference from the first system."""
    _, *others = sets[0].systems
    against = {name: {NDCG: Comparison(-0.1, p)} if p is not None else {} for name in others}
    means = {name: {NDCG: mean} for name, mean in (macro or {}).items()}
    by_name = {one.name: one for one in sets}
    return Evaluation(by_name, means, macro_against_first=against)


TWO = evaluated(
    one_set("a", system("ours", 0.8, 0.03), system("theirs", 0.6, 0.04, p=0.001)),
    one_set("b", system("ours", 0.8, 0.04), system("theirs", 0.9, 0.03, p=0.4)),
    macro={"ours": 0.8, "theirs": 0.75},
    p=0.02,
)


def test_the_interval_of_a_macro_mean_adds_the_sets_as_independent():
    interval = overall(TWO).systems["ours"].measures[NDCG]
    assert (interval.low, interval.mean, interval.high) == pytest.approx((0.775, 0.8, 0.825))


def test_overall_latency_is_the_mean_over_the_sets_where_the_system_answered_anything():
    asked = (QueryResult(LabelledQuery("q", "hello"), Answer(()), 1.0, 0),)
    quick = replace(system("ours", 0.8, outcomes=asked), latency_ms={"p50": 1.0, "p99": 3.0})
    slow = replace(quick, latency_ms={"p50": 2.0, "p99": 9.0})
    evaluation = evaluated(
        one_set("a", quick), one_set("b", slow), one_set("c", system("ours", 0.8))
    )
    assert overall(evaluation).systems["ours"].latency_ms == {"p50": 1.5, "p99": 6.0}


def test_systems_are_ranked_and_those_without_measures_come_last():
    silent = replace(system("silent", 0.0), measures={})
    ranked = best_first(one_set("a", silent, system("low", 0.2), system("high", 0.9)))
    assert [s.name for s in ranked] == ["high", "low", "silent"]


def test_the_first_system_has_the_first_colour_and_the_worst_of_many_are_greyed():
    many = one_set("a", *(system(f"s{n}", n / 10) for n in range(8)))
    looks = looks_of(many)
    assert looks["s0"] is LOOKS[0]
    assert looks["s7"] is LOOKS[1]
    assert looks["s1"] is looks["s2"] is GREYED_LOOK


def test_the_headline_names_the_best_over_all_sets_and_where_it_is_significant():
    said = list(headline(TWO, overall(TWO)))
    assert said[0] == "ours has the highest nDCG@10 over 2 data sets: 0.800, 0.050 ahead of theirs."
    assert said[1] == "The difference to theirs is significant (p = 0.0200)."


@pytest.mark.parametrize(
    ("p", "sentence"),
    [
        (0.0004, "The difference to theirs is significant (p = 0.0004)."),
        (0.31, "The difference to theirs may be chance (p = 0.31)."),
    ],
)
def test_the_headline_of_one_set_says_whether_chance_explains_the_lead(p: float, sentence: str):
    evaluation = evaluated(one_set("a", system("ours", 0.8), system("theirs", 0.7)), p=p)
    assert list(headline(evaluation, overall(evaluation)))[1] == sentence


def test_the_headline_does_not_hide_that_the_first_system_was_beaten():
    evaluation = evaluated(one_set("a", system("ours", 0.8), system("theirs", 0.9)), p=0.01)
    said = list(headline(evaluation, overall(evaluation)))
    assert said[0] == "theirs has the highest nDCG@10 on a: 0.900, 0.100 ahead of ours."
    assert said[1].startswith("ours is number 2 of 2. The difference to theirs is significant")


def test_a_stage_of_toolcrib_is_compared_with_the_best_baseline():
    stages = system("toolcrib", 0.9), system("fusion", 0.85), system("bm25s", 0.8)
    evaluation = evaluated(one_set("a", *stages), p=0.001)
    said = list(headline(evaluation, overall(evaluation)))
    assert said[0].endswith("0.100 ahead of bm25s, the best baseline.")
    assert said[1] == "The difference to bm25s is significant (p = 0.0010)."


def test_a_lead_that_cannot_be_written_is_none():
    evaluation = evaluated(one_set("a", system("ours", 0.8), system("theirs", 0.7999)))
    lead = next(headline(evaluation, overall(evaluation)))
    assert lead == "ours has the highest nDCG@10 on a: 0.800, level with theirs."


def test_a_set_in_which_nothing_has_an_answer_is_not_ranked():
    evaluation = evaluated(one_set("a", replace(system("ours", 0.8), measures={})))
    said = list(headline(evaluation, overall(evaluation)))
    assert said[0].startswith("No query here has an answer")


def test_a_system_without_a_rival_is_only_described():
    evaluation = evaluated(one_set("a", system("ours", 0.8)))
    assert next(headline(evaluation, overall(evaluation))) == "ours reaches nDCG@10 0.800 on a."


def test_the_leaderboard_marks_the_best_and_what_differs_from_the_first():
    one = one_set("a", system("ours", 0.8), system("theirs", 0.7, p=0.001))
    table = leaderboard(one, evaluated(one), looks_of(one))
    best, other = (row.cells[0] for row in table.rows)
    assert (best.text, best.interval, best.best, best.mark) == ("0.800", "0.780–0.820", True, "")
    assert (other.best, other.mark) == (False, "▼")
    assert other.comparison == "significantly worse than ours, p = 0.0010"


def test_over_all_sets_a_mark_counts_them():
    whole = overall(TWO)
    table = leaderboard(whole, TWO, looks_of(whole))
    assert table.rows[1].cells[0].mark == "▼1"
    assert "worse on 1 of 2 sets" in table.rows[1].cells[0].comparison


def test_fewer_forbidden_tools_are_better():
    def returning(name: str, forbidden: float) -> SystemResult:
        interval = Interval(forbidden, forbidden, forbidden)
        made = system(name, 0.5)
        return replace(made, measures={**made.measures, "forbidden@10": interval})

    one = one_set("a", returning("careless", 2.0), returning("careful", 0.5))
    rows = {row.name: row for row in leaderboard(one, evaluated(one), looks_of(one)).rows}
    assert rows["careful"].cells[1].best
    assert not rows["careless"].cells[1].best


def test_the_best_gate_is_the_highest_or_the_lowest_as_its_measure_has_it():
    one = one_set(
        "a",
        system("ours", 0.8, gates={"auroc": 0.9, "ece": 0.04}),
        system("theirs", 0.7, gates={"auroc": 0.8, "ece": 0.02}),
        system("mute", 0.6),
    )
    ours, theirs = gate_table(one, looks_of(one)).rows
    assert [cell.best for cell in ours.cells] == [True, False]
    assert [cell.best for cell in theirs.cells] == [False, True]


def test_measures_are_written_as_people_write_them():
    assert [measure_title(m) for m in ("ndcg@5", "mrr", "returned_precision")] == [
        "nDCG@5",
        "MRR",
        "returned precision",
    ]
