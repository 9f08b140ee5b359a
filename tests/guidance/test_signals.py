"""Signals are numbers counted event by event; what is weighed of them is an alarm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.guidance.test_trajectory import EVENTS, call
from toolcrib.evaluation.trajectories import ALARMS
from toolcrib.guidance import TrajectoryBuilder, TrajectoryEvent, analyse
from toolcrib.guidance.signals import ALARM_WEIGHTS


def test_every_alarm_weighs_signals_that_there_are():
    counted = analyse([call()]).signals

    assert ALARM_WEIGHTS.keys() == ALARMS.keys()
    assert all(each.keys() <= counted.keys() for each in ALARM_WEIGHTS.values())


@settings(max_examples=40, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_signals_are_from_0_to_1_and_alarms_more_sure_than_not(events):
    found = analyse(events)

    assert all(0 <= each <= 1 for each in found.signals.values())
    assert all(0.5 <= each <= 1 for each in found.alarms.values())


def test_the_same_call_that_fails_three_times_is_a_loop_at_once():
    builder = TrajectoryBuilder()
    stands = ["doom_loop" in builder.add(call(error="no")).build().alarms for _ in range(3)]

    assert stands == [False, False, True]


def test_an_act_that_gets_on_and_a_new_request_begin_the_counts_anew():
    looked = [call("read_file", f"text {n}", path=f"file {n}") for n in (0, 1, 2, 0, 1, 2)]
    act = call("edit_file", "ok", path="file 3", new="a line")
    request = TrajectoryEvent(type="prompt", text="Now list the invoices of our suppliers")

    assert analyse(looked).signals["rereads"] > 0
    assert analyse([*looked, act]).signals["rereads"] == 0
    assert analyse([*looked, request]).signals["rereads"] == 0


def test_an_answer_to_a_question_of_the_agent_is_no_new_request():
    asked = [
        each
        for n in range(3)
        for each in (
            call("ask_user", "asked", question=f"Which of the dates would you like, {n}?"),
            TrajectoryEvent(type="prompt", text=f"the {n} of August as said before, thank you"),
        )
    ]
    assert analyse(asked).signals["asks>=3"] == 1


def test_a_question_whose_answer_tells_something_is_none_too_many():
    told = ["power green, DSL blinking", "an hour or so", "customer number 40-1182"]
    asked = [call("ask_customer", answer, question="Which?") for answer in told]
    known = [call("ask_customer", told[0], question=f"Which, {n}?") for n in range(4)]

    assert analyse(asked).signals["asks"] == 0
    assert analyse(known).signals["asks>=3"] == 1


@pytest.mark.parametrize(
    ("answers", "gets_on"),
    [(("310 rows", "12 rows", "0 rows"), True), (("310 rows", "310 rows", "309 rows"), False)],
)
def test_a_check_that_is_answered_as_never_before_begins_the_counts_anew(answers, gets_on):
    rules = ("of the age", "of the town", "of the street")
    events = [
        each
        for rule, answer in zip(rules, answers, strict=True)
        for each in (
            call("todo_write", "saved", items=["a", rule]),
            call("apply", "saved", rule=f"drop the rows {rule}"),
            call("read_rows", answer, table="x"),
        )
    ]
    assert (analyse(events).signals["plans"] == 0) == gets_on


def test_numbers_that_are_nearly_the_same_make_no_other_round():
    def turned(*degrees: float) -> dict[str, float]:
        calls = [call("heating_get", f"now {each}, target 18", room="study") for each in degrees]
        return analyse(calls).signals

    assert turned(19.2, 19.1, 19.2, 19.1)["turns>=1.5"] == 1
    assert turned(19.2, 20.1, 21.5, 23.4)["turns>=1.5"] == 0


@pytest.mark.parametrize(
    ("request_", "is_order", "is_question"),
    [
        ("Rename the lead score column of the Lisbon office", True, False),
        ("which of the Lisbon suppliers was late in autumn?", False, True),
        ("the quarterly figures of the Lisbon office, autumn", False, False),
    ],
)
def test_an_order_is_undone_while_things_are_only_looked_at(request_, is_order, is_question):
    prompt = TrajectoryEvent(type="prompt", text=request_)
    found = analyse([prompt, *(call("read_file", f"text {n}", path=f"f{n}") for n in range(4))])

    assert (found.signals["undone"] > 0) == is_order
    assert found.signals["asks_for"] == is_question


@pytest.mark.parametrize(
    "work",
    [
        [call("get_customer", f"lives in town {n}", id=n) for n in range(5)],
        [call("get_plan", f"costs {n} a month", of=f"p{n}") for n in range(5)],
        [call("update_user", "ok", id=n, mail=f"u{n}@example.org") for n in range(5)],
        [call("confirm_booking", "ok", slot=n) for n in range(5)],
        [call("todo_done", "ok", id=n) for n in range(5)],
    ],
)
def test_work_on_customers_users_and_plans_is_neither_question_nor_plan(work):
    found = analyse(work)

    assert found.signals["asks"] == found.signals["plans"] == 0
    assert "stall" not in found.alarms


@pytest.mark.parametrize(
    ("signal", "made"),
    [
        ("asks", call("ask_customer", "sent", question="which date?")),
        ("asks", call("human_input", "sent", text="which date?")),
        ("plans", call("todo_write", "ok", items=["read the file", "edit it"])),
        ("plans", call("write_file", "ok", path="plan.md", content="first read the file")),
        ("plans", call("think", "ok", thought="first")),
    ],
)
def test_who_asks_somebody_or_writes_a_plan_is_counted(signal, made):
    assert analyse([made]).signals[signal] > 0
