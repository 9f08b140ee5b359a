"""A trajectory is taken in event by event; what it shows is read at any time, and costs little."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib import Turn
from toolcrib.guidance import TrajectoryBuilder, TrajectoryEvent, analyse


def test_counts_are_of_everything_and_calls_of_the_window():
    builder = TrajectoryBuilder(window=3)
    builder.prompt_executed("mend it", at=0.0)
    for number in range(5):
        builder.tool_invoked(name="a", parameters={"n": number}, result=number, at=float(number))
    for path in ("/x/one.py", "/y/z/one.py"):
        builder.tool_invoked(name="b", success=False, error=f"no {path}, line 712", at=9.0)
    found = builder.search_asked("a tool", at=10.5).build()

    assert (found.turn_count, found.tool_call_count, found.error_count) == (1, 7, 2)
    assert (found.consecutive_errors, found.unique_tools_used, found.search_count) == (2, 2, 1)
    assert (found.duration, found.failed_tools) == (10.5, {"b"})
    assert [each.tool_name for each in found.recent_tool_calls(9)] == ["a", "b", "b"]
    assert [each.parameters for each in found.recent_tool_calls(3)[:1]] == [{"n": 4}]
    assert [each.message for each in found.recent_errors(1)] == ["no /y/z/one.py, line 712"]
    assert found.recent_tool_calls(0) == found.recent_errors(-1) == ()
    assert found.patterns() == {}
    with pytest.raises(AttributeError):
        found.turn_count = 3


@pytest.mark.parametrize(
    ("given", "success"),
    [
        ({"result": "a row"}, True),
        ({"result": '{"error": "no such row"}'}, False),
        ({"result": '{"error": "no such row"}', "success": True}, False),
        ({"success": False}, False),
        ({"error": "refused"}, False),
        ({}, True),
    ],
    ids=str,
)
def test_success_is_read_from_flag_error_and_text(given, success):
    by_event = analyse([{"name": "get", **given}])
    by_call = TrajectoryBuilder().tool_invoked(name="get", **given).build()

    assert by_event.calls[0].success is by_call.calls[0].success is success


def test_thoughts_end_no_streak_and_searches_neither():
    failed = [{"name": name, "error": "no"} for name in "ab"]
    between = [{"name": "think", "result": "hm"}, {"type": "search", "text": "a tool"}]

    assert analyse([failed[0], *between, failed[1]]).consecutive_errors == 2
    assert analyse([*failed, {"name": "c", "result": "x"}]).consecutive_errors == 0


def test_the_goal_of_a_call_is_the_last_message_or_search_before_it():
    builder = TrajectoryBuilder().prompt_executed("write to Ana")
    builder.tool_invoked(name="mail").search_asked("send a parcel").tool_invoked(name="post")
    builder.prompt_executed("  ").tool_invoked(name="post")

    goals = [each.moment.goal for each in builder.build().calls]
    assert goals == ["write to Ana", "send a parcel", "send a parcel"]


@pytest.mark.slow
def test_memory_stays_as_it_is():
    builder = TrajectoryBuilder()
    words = " ".join(f"word#x{n}" for n in range(900))

    tracemalloc.start()
    try:
        for number in range(600):
            name, given_ = f"get_{number % 7}", {"n": number, "body": "y" * 9_000}
            result = words.replace("#", str(number))
            builder.search_asked(f"thing {number}", found=(name,), at=number)
            builder.tool_invoked(name=name, parameters=given_, result=result, at=number)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 4_000_000
    assert all(len(each.message) <= 4_000 for each in builder.build().calls)


EVENTS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b_get"]),
        "result": st.sampled_from(["", "x", "running"]),
        "error": st.sampled_from([None, None, "boom 1"]),
        "parameters": st.sampled_from([{"q": q} for q in (1, "one", None, ["two"])]),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_more_errors_are_never_less(events):
    found, more = analyse(events), analyse([*events, {"name": "a", "error": "boom"}])

    assert more.error_count == found.error_count + 1
    assert more.consecutive_errors == found.consecutive_errors + 1
    assert more.calls_without_progress == found.calls_without_progress + 1


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"tool": "mail/read", "ok": False}, {"name": "mail/read", "success": False}),
        (
            {"name": "x", "args": {"a": 1}, "error": "no"},
            {"parameters": {"a": 1}, "success": False},
        ),
        ({"name": "x", "success": None}, {"type": "tool", "success": None}),
        ({"role": "user", "content": "hi"}, {"type": "prompt", "name": "", "success": None}),
        ({"role": "assistant", "content": "hi"}, {"type": "other"}),
        ({"role": "tool", "tool_call_id": "1", "content": "hi"}, {"type": "other"}),
        ({"type": "search", "query": "fax"}, {"type": "search", "text": "fax"}),
        ({"type": "tool", "name": 5}, {"type": "other", "name": ""}),
        ({"anything": [1]}, {"type": "other", "name": ""}),
        (
            {"type": "tool", "tool": "x", "arguments": {"a": 1}},
            {"name": "x", "parameters": {"a": 1}},
        ),
        (
            {"type": "function_call", "name": "x", "arguments": '{"a": 1}', "error": "no"},
            {"type": "tool", "name": "x", "parameters": {"a": 1}, "success": False},
        ),
        ({"name": "x", "arguments": ""}, {"parameters": {}}),
        ({"name": "x", "parameters": None}, {"name": "x", "parameters": {}}),
        ({"name": "x", "arguments": '{"a": N'}, {"parameters": {"arguments": '{"a": N'}}),
        ({"name": "x", "args": [1]}, {"name": "x", "parameters": {"arguments": [1]}}),
        ({"type": "tool", "name": "x", "error": {"code": 1}}, {"success": False}),
        ({"type": "tool", "name": "x", "at": "1970-01-01T00:01:00Z"}, {"name": "x", "at": 60.0}),
    ],
    ids=str,
)
def test_a_turn_takes_events_of_any_shape_and_loses_nothing(given, read):
    turn = Turn(text="x", trajectory=(given,))
    (event,) = turn.trajectory

    assert {key: getattr(event, key) for key in read} == read
    assert event == TrajectoryEvent.model_validate(given)
    assert Turn.model_validate(turn.model_dump(exclude_defaults=True)) == turn
    assert analyse(turn.trajectory).patterns() == {}


class Unsayable:
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "event",
    [
        {"parameters": {1: 2, "a": 3, "b": {1: 2, "a": Unsayable()}}},
        {"parameters": ["no mapping"]},
        {"error": ValueError("boom"), "success": False},
        {"error": Unsayable(), "result": Unsayable()},
        {"name": None, "at": float("nan")},
    ],
    ids=["parameters", "no-mapping", "error", "unsayable", "name"],
)
def test_no_call_can_break_the_caller(event):
    found = TrajectoryBuilder().tool_invoked(**{"name": "a", **event}).build()

    assert found.tool_call_count == 1
    assert found.error_count == ("error" in event)


def test_what_was_taken_in_is_a_copy_of_its_first_part():
    given_ = {"to": "ana", "body": "x" * 90_000, "all": [1]}
    builder = TrajectoryBuilder().tool_invoked(name="mail", parameters=given_)
    (kept,) = builder.build().calls
    given_["all"].append(given_.pop("to"))

    assert (kept.parameters["to"], kept.parameters["all"]) == ("ana", "[1]")
    assert len(kept.parameters["body"]) < 2_000


def test_time_begins_with_the_first_that_is_known_and_never_goes_back():
    events = [{"name": "a"}, *({"name": "b", "at": at} for at in (1.7e9, 1.7e9 + 5, 1.7e9 + 2))]
    found = analyse(events)

    assert found.duration == 5
    assert [call.moment.at for call in found.calls[2:]] == [1.7e9 + 5] * 2
    assert not any(call.moment.has_waited for call in found.calls)
