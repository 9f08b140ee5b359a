"""What an agent is told to do after a failed call."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from toolcrib.errors import SettingsError
from toolcrib.router.recovery import RecoveryPolicy, RecoverySettings, Step, classify

STEADY = RecoverySettings(jitter=0.0)


def step(error, attempt=1, settings=STEADY, **how):
    return RecoveryPolicy(settings).next_step(error, attempt, **how)


def test_what_may_work_later_is_tried_again_and_waits_double_each_time():
    policy = RecoveryPolicy(RecoverySettings(max_attempts=5, jitter=0.0))
    steps = [policy.next_step(503, attempt) for attempt in range(1, 5)]
    assert [(taken.action, taken.after_s) for taken in steps] == [
        ("retry", 0.5), ("retry", 1.0), ("retry", 2.0), ("retry", 4.0),
    ]  # fmt: skip


def test_after_the_last_attempt_another_tool_is_called_if_there_is_one():
    assert step(503, 3).action == "alternate"
    assert step(503, 3, alternates=False).action == "stop"


@pytest.mark.parametrize(
    ("error", "action"),
    [(503, "retry"), (404, "reclassify"), (422, "replan"), (403, "stop")],
)
def test_each_class_has_its_step(error, action):
    assert step(error).action == action


@pytest.mark.parametrize("error", [404, 422])
def test_thinking_again_ends_too(error):
    assert step(error, 2).action != "alternate"
    assert step(error, 3).action == "alternate"
    assert step(error, 3, alternates=False).action == "stop"


def test_what_is_critical_stops_at_once_whatever_else_there_is():
    assert step(PermissionError("no"), 1) == Step(
        "stop", 0.0, "critical (PermissionError), attempt 1 of 3"
    )


def test_a_reason_names_the_rule_and_never_repeats_the_error():
    reason = step("Timed out with token sk-123").reason
    assert reason == "retriable (it says that it may work later), attempt 1 of 3"


def test_what_a_server_asks_is_waited_for_when_it_is_longer():
    assert step("overloaded, retry-after: 7").after_s == 7.0
    assert step("overloaded, retry-after: 0.1").after_s == 0.5


def test_nobody_waits_longer_than_the_cap():
    taken = step("rate limit, try again in 31 s")
    assert (taken.action, taken.after_s) == ("alternate", 0.0)
    assert taken.reason.endswith("a wait of 31 s is asked for, too long")
    assert step("rate limit, try again in 31 s", alternates=False).action == "stop"
    assert step(503, 400, RecoverySettings(max_attempts=5_000, jitter=0.0)).after_s == 30.0
    assert step(503, 4_000, RecoverySettings(max_attempts=5_000, jitter=0.0)).after_s == 30.0


@pytest.mark.parametrize("error", [TimeoutError(), 503, "connection reset by peer"])
def test_what_may_have_been_carried_out_is_not_done_twice(error):
    taken = step(error, repeatable=False)
    assert taken.action == "replan"
    assert taken.reason.endswith("it may have been carried out, and must not be twice")
    assert step(error, 3, repeatable=False).action == "stop"


def test_what_was_turned_away_can_be_repeated_even_so():
    assert step(429, repeatable=False).action == "retry"
    assert step("HTTP 429: slow down", repeatable=False).action == "retry"


def test_waits_of_equal_sources_are_equal_and_vary_by_the_share_of_jitter():
    def waits(seed):
        policy = RecoveryPolicy(RecoverySettings(jitter=0.1), Random(seed))
        return [policy.next_step(503, 1).after_s for _ in range(50)]

    assert waits(1) == waits(1) != waits(2)
    assert all(0.45 <= wait <= 0.55 for wait in waits(1))
    assert max(waits(1)) - min(waits(1)) > 0.05


def test_the_defaults_need_nothing():
    assert RecoveryPolicy().next_step(503, 1).action == "retry"


@pytest.mark.parametrize(
    "wrong", [{"max_attempts": 0}, {"factor": 0.5}, {"jitter": 2}, {"base_s": -1}, {"cap_s": "inf"}]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        TypeAdapter(RecoverySettings).validate_python(wrong)


def test_a_first_wait_above_the_longest_is_refused():
    with pytest.raises(SettingsError, match=r"recovery.base_s is 5, above recovery.cap_s \(1\)"):
        RecoverySettings(base_s=5, cap_s=1)


ERRORS = st.one_of(
    st.text(max_size=60),
    st.integers(),
    st.sampled_from([TimeoutError(), ValueError("x"), PermissionError(), KeyError("retry")]),
)


@given(error=ERRORS, attempt=st.integers(-3, 10**6), alternates=st.booleans())
def test_any_error_gets_a_step_and_a_wait_within_bounds(error, attempt, alternates):
    settings = RecoverySettings(max_attempts=10)
    policy = RecoveryPolicy(settings, Random(0))
    taken = policy.next_step(error, attempt, alternates=alternates)
    assert 0 <= taken.after_s <= settings.cap_s
    assert taken.after_s == 0 or taken.action == "retry"
    assert alternates or taken.action != "alternate"
    again = RecoveryPolicy(settings, Random(0)).next_step(error, attempt, alternates=alternates)
    assert again == taken


def test_the_class_alone_can_be_asked_for():
    assert classify(503) == "retriable"
