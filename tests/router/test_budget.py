"""Time for a turn: the cheapest losses are taken first, and are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.clock import ManualClock
from toolcrib.errors import SettingsError
from toolcrib.router.budget import LAST_RUN_WEIGHT, Budget, Costs
from toolcrib.router.settings import STAGES, Limits

COSTS = {
    "interleave": 50.0,
    "llm": 400.0,
    "rerank": 90.0,
    "entities": 5.0,
    "follow_up": 10.0,
    "context": 4.0,
    "knowledge": 20.0,
    "tools": 30.0,
}


class Turn:
    """A budget over known costs, on a clock that every stage moves by what it costs."""

    def __init__(self, total_ms=None, stage_ms=None, costs=COSTS):
        self.clock = ManualClock()
        self.takes_ms = costs
        self.costs = Costs()
        for stage, ms in costs.items():
            self.costs.add_run(stage, ms)
        limits = Limits(total_ms=total_ms, stage_ms=stage_ms or {})
        self.budget = Budget(limits, self.costs, self.clock)

    def run(self, stage, takes_ms=None):
        def work():
            self.pass_by(self.takes_ms[stage] if takes_ms is None else takes_ms)
            return "done"

        return self.budget.run(stage, work, "left out")

    def pass_by(self, ms):
        self.clock.now += ms / 1000

    def run_all(self, stages=STAGES):
        return {stage for stage in stages if self.run(stage) == "done"}


def test_without_limits_everything_is_done_and_timed():
    turn = Turn()
    assert turn.run_all() == set(STAGES)
    assert turn.budget.took_ms == pytest.approx(COSTS)
    assert turn.budget.degraded == []
    assert turn.budget.spent_ms == pytest.approx(sum(COSTS.values()))


@pytest.mark.parametrize(
    ("total_ms", "kept"),
    [
        (609.5, STAGES),
        (608.5, STAGES[1:]),
        (558.5, ("interleave", *STAGES[2:])),
        (208.5, STAGES[2:]),
        (159.5, STAGES[2:]),
        (158.5, ("interleave", *STAGES[3:])),
        (118.5, STAGES[3:]),
        (69.5, STAGES[3:]),
        (68.5, STAGES[4:]),
        (63.5, ("entities", *STAGES[5:])),
        (54.5, STAGES[5:]),
    ],
)
def test_the_less_time_there_is_the_more_is_left_out_cheapest_loss_first(total_ms, kept):
    turn = Turn(total_ms)
    assert turn.run_all() == set(kept)
    assert turn.budget.degraded == [stage for stage in STAGES if stage not in kept]
    assert turn.budget.spent_ms <= total_ms


def test_what_cannot_fit_in_any_case_keeps_no_time_from_the_others():
    turn = Turn(49.5)
    assert turn.run_all(("knowledge", "tools", "context")) == {"tools", "context"}


def test_what_was_not_needed_keeps_no_time_from_the_others():
    turn = Turn(12.0)
    assert not turn.budget.has_room("follow_up")
    for stage in ("context", "knowledge", "tools"):
        turn.budget.skip(stage)
    assert turn.run("follow_up") == "done"
    assert turn.budget.degraded == []


def test_a_stage_has_a_limit_of_its_own_whatever_the_whole_may_take():
    turn = Turn(stage_ms={"knowledge": 19.0, "tools": 30.0})
    assert turn.run_all() == set(STAGES) - {"knowledge"}
    assert turn.budget.degraded == ["knowledge"]


def test_what_one_stage_takes_within_another_is_its_own():
    turn = Turn(costs={})

    def find():
        turn.pass_by(1.0)
        turn.run("interleave", 2.0)
        turn.pass_by(4.0)
        turn.budget.record("llm", 4.0)

    turn.budget.measure("tools", find)
    assert turn.budget.took_ms == pytest.approx({"tools": 1.0, "interleave": 2.0, "llm": 4.0})
    assert turn.costs.expected_ms("tools") == pytest.approx(1.0)


def test_what_cannot_be_left_out_is_timed_though_it_fails():
    turn = Turn()

    def fail():
        turn.pass_by(7.0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        turn.budget.measure("encode", fail)
    assert turn.budget.took_ms == pytest.approx({"encode": 7.0})
    assert turn.costs.expected_ms("encode") == pytest.approx(7.0)


def test_a_cost_is_first_what_was_taken_and_then_moves_slowly():
    costs = Costs()
    assert costs.expected_ms("tools") == 0.0
    costs.add_run("tools", 10.0)
    assert costs.expected_ms("tools") == 10.0
    costs.add_run("tools", 110.0)
    assert costs.expected_ms("tools") == 10.0 + LAST_RUN_WEIGHT * 100.0


def test_what_is_left_out_again_and_again_is_tried_again_some_day():
    turn = Turn(costs={"tools": 90.0})
    limits = Limits(total_ms=50.0)
    done = [Budget(limits, turn.costs, turn.clock).run("tools", lambda: 1, 0) for _ in range(10)]
    assert done[0] == 0
    assert 1 in done


some_costs = st.fixed_dictionaries({stage: st.floats(0.1, 100) for stage in STAGES})


@given(costs=some_costs, total_ms=st.floats(1, 700))
def test_what_costs_what_is_expected_never_takes_longer_than_allowed(costs, total_ms):
    turn = Turn(total_ms, costs=costs)
    turn.run_all()
    assert turn.budget.spent_ms <= total_ms + 1e-6
    assert set(turn.budget.degraded) | turn.budget.took_ms.keys() == set(STAGES)


@given(costs=some_costs, total_ms=st.floats(1, 700))
def test_nothing_is_left_out_for_the_sake_of_what_is_a_cheaper_loss(costs, total_ms):
    turn = Turn(total_ms, costs=costs)
    turn.run_all()
    for stage in turn.budget.degraded:
        dearer = STAGES[STAGES.index(stage) + 1 :]
        spent_on_cheaper = sum(ms for each, ms in turn.budget.took_ms.items() if each not in dearer)
        assert spent_on_cheaper + costs[stage] + sum(costs[each] for each in dearer) > total_ms


def test_an_unknown_stage_is_refused_with_those_that_there_are():
    with pytest.raises(SettingsError, match=f"no stage 'thinking'; there are {', '.join(STAGES)}"):
        Limits(stage_ms={"thinking": 5.0})
