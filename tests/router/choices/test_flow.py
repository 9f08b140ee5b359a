"""The next step of an agent's loop: truth tables of both modes."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.records.turns import CapabilitySelection
from toolcrib.router.choices.flow import LAST_STEPS, LoopState, NextNode, next_node
from toolcrib.router.recovery import ErrorClass
from toolcrib.router.settings import RecoverySettings

NEW = LoopState()
TASK = LoopState(task="mail the sales to Omar")
CHOSEN = replace(TASK, capabilities=("figures", "mail"))
PLANNED = replace(CHOSEN, plan=("figures", "mail", "respond"))
DONE = replace(PLANNED, step=3)


def failed(state: LoopState, error: ErrorClass, **counted: int) -> LoopState:
    return replace(state, error=error, failure="it broke", **counted)


PLAN_FIRST = [
    ("talk to a capability", replace(NEW, direct_chat="mail"), "direct_chat", "mail"),
    ("talk needs nothing else", replace(NEW, direct_chat=True), "direct_chat", ""),
    ("not even after an error", failed(replace(NEW, direct_chat=True), "fatal"), "direct_chat", ""),
    ("a new turn", NEW, "task", ""),
    ("a task", TASK, "capabilities", ""),
    ("none selected is a selection", replace(TASK, capabilities=()), "plan", ""),
    ("capabilities", CHOSEN, "plan", ""),
    ("a plan", PLANNED, "step", "figures"),
    ("its last step", replace(PLANNED, step=2), "step", "respond"),
    ("a plan that asks", replace(CHOSEN, plan=("clarify",)), "step", "clarify"),
    ("a plan that is done", DONE, "end", ""),
    ("a turn that is finished", replace(NEW, finished=True), "end", ""),
    ("a plan without an end", replace(CHOSEN, plan=("figures",)), "plan", ""),
    ("an empty plan", replace(CHOSEN, plan=()), "plan", ""),
    ("a planner that fails", CHOSEN.after_plan(()), "plan", ""),
    ("and fails again", CHOSEN.after_plan(()).after_plan(()), "error", ""),
    ("never a plan", replace(CHOSEN, replans=2), "error", ""),
    ("a planner that goes round", CHOSEN.after_plan(("figures", "mail") * 51), "plan", ""),
    ("a loop that goes round", replace(PLANNED, iterations=100), "error", ""),
    ("again a plan without an end", replace(CHOSEN, plan=("figures",), replans=1), "error", ""),
    ("may work later", failed(PLANNED, "retriable", attempts=1), "retry", "figures"),
    ("before there is a plan", failed(TASK, "retriable", attempts=1), "retry", ""),
    ("did not work later", failed(PLANNED, "retriable", attempts=3), "error", ""),
    ("others are needed", failed(PLANNED, "reclassify"), "capabilities", ""),
    ("others were tried", failed(PLANNED, "reclassify", reclassifications=1), "error", ""),
    ("another plan is needed", failed(PLANNED, "replan"), "plan", ""),
    ("another plan was tried", failed(PLANNED, "replan", replans=1), "error", ""),
    ("critical", failed(PLANNED, "critical"), "error", ""),
    ("fatal", failed(PLANNED, "fatal"), "abort", ""),
    ("an error comes before the task", failed(NEW, "critical"), "error", ""),
]

REACTIVE = [
    ("talk", replace(NEW, direct_chat=True), "direct_chat", ""),
    ("a new turn", NEW, "task", ""),
    ("a task", TASK, "capabilities", ""),
    ("capabilities", CHOSEN, "orchestrator", ""),
    ("a step was chosen", replace(CHOSEN, plan=("figures",)), "step", "figures"),
    ("it was done", replace(CHOSEN, plan=("figures",), step=1), "orchestrator", ""),
    ("may work later", failed(PLANNED, "retriable", attempts=2), "retry", "figures"),
    ("did not work later", failed(PLANNED, "retriable", attempts=3), "orchestrator", ""),
    ("others are needed", failed(PLANNED, "reclassify"), "orchestrator", ""),
    ("another plan", failed(PLANNED, "replan"), "orchestrator", ""),
    ("critical", failed(PLANNED, "critical"), "orchestrator", ""),
    ("fatal", failed(PLANNED, "fatal"), "abort", ""),
    ("finished", replace(NEW, finished=True), "end", ""),
    ("the last iteration", replace(CHOSEN, iterations=99), "orchestrator", ""),
    ("too many", replace(CHOSEN, iterations=100), "error", ""),
    ("too many, and retriable", failed(CHOSEN, "retriable", iterations=100), "error", ""),
    ("talk that is finished", replace(NEW, direct_chat=True, finished=True), "end", ""),
    ("talk without an end", replace(NEW, direct_chat=True, iterations=100), "direct_chat", ""),
    ("just finished", replace(CHOSEN, iterations=100, finished=True), "end", ""),
]


@pytest.mark.parametrize(("case", "state", "node", "step"), PLAN_FIRST)
def test_plan_first(case, state, node, step):
    found = next_node(state)
    assert (found.node, found.step) == (node, step), case
    assert found.reason


@pytest.mark.parametrize(("case", "state", "node", "step"), REACTIVE)
def test_reactive(case, state, node, step):
    found = next_node(state, "reactive")
    assert (found.node, found.step) == (node, step), case
    assert found.reason


def test_limits_are_settings():
    limits = RecoverySettings(max_attempts=1, reclassifications=2, replans=0)
    assert next_node(failed(PLANNED, "retriable", attempts=1), limits=limits).node == "error"
    again = failed(PLANNED, "reclassify", reclassifications=1)
    assert next_node(again, limits=limits).node == "capabilities"
    assert next_node(failed(PLANNED, "replan"), limits=limits).node == "error"


def test_a_plan_begins_anew_and_all_but_the_first_are_counted():
    first = failed(CHOSEN, "retriable", attempts=2).after_plan(PLANNED.plan)
    assert first == PLANNED
    second = failed(replace(first, step=1), "replan").after_plan(["clarify"])
    assert second == replace(CHOSEN, plan=("clarify",), replans=1)
    assert next_node(failed(second, "replan")).node == "error"


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ((), "the planner gave no plan"),
        (("figures",) * 101, "the plan has more than 100 steps"),
        (("figures",), "the plan ends in no answer and no question"),
    ],
)
def test_a_plan_of_no_use_says_why(plan, reason):
    once = CHOSEN.after_plan(plan)
    assert (next_node(once).reason, next_node(once.after_plan(plan)).reason) == (reason, reason)


def test_a_selection_begins_the_plan_anew():
    state = failed(replace(PLANNED, step=1), "reclassify")
    chosen = CapabilitySelection(("mail",), reclassifications=1)
    state = replace(state, **chosen.update)
    assert state == replace(TASK, capabilities=("mail",), reclassifications=1)
    assert next_node(state).node == "plan"


counts = st.integers(0, 101)
states = st.builds(
    LoopState,
    task=st.none() | st.just("x"),
    capabilities=st.none() | st.just(()) | st.just(("a",)),
    plan=st.none() | st.lists(st.sampled_from(["a", *LAST_STEPS]), max_size=3).map(tuple),
    step=st.integers(0, 4),
    direct_chat=st.booleans(),
    error=st.none() | st.sampled_from(get_args(ErrorClass)),
    attempts=counts,
    reclassifications=counts,
    replans=counts,
    iterations=counts,
    finished=st.booleans(),
)


@given(states, st.sampled_from(["plan_first", "reactive"]))
def test_every_state_has_a_next_step_and_it_never_changes(state, mode):
    found = next_node(state, mode)
    assert found == next_node(state, mode)
    assert found.node in get_args(NextNode)
    if found.node == "step":
        assert found.step == state.plan[state.step]
    if found.node == "retry":
        assert state.error == "retriable"
        assert state.attempts < RecoverySettings().max_attempts
