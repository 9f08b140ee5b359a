"""Runs: what agents called and what they called next orders a step, each key by its share."""

from __future__ import annotations

from itertools import count

import pytest

from tests.router.conftest import free_of_models
from toolcrib import Crib, ToolSpec, Turn
from toolcrib.clock import DAY_S
from toolcrib.learning.runs import MAX_RUN_CALLS, MIN_RUNS, Run, tool_use
from toolcrib.router.decision_log import JsonLinesLog
from toolcrib.store.base import point_id

READ, WRITE, SEND = "files/read", "files/write", "mail/send"
TOOLS = [
    ToolSpec(name="read", server="files", description="Read the file."),
    ToolSpec(name="write", server="files", description="Write the file."),
    ToolSpec(name="send", server="mail", description="Send the file."),
    ToolSpec(name="sign", server="mail", description="Sign the file."),
]
NUMBERS = count()
NOW = 400 * DAY_S
FIRST, THEN = point_id(READ), point_id(SEND)


@pytest.fixture
def crib(tmp_path, settings):
    with Crib.open(tmp_path, settings=settings) as opened:
        opened.index_tools(TOOLS)
        yield opened


def report(crib, *tools, runs=MIN_RUNS, by=None, name="run"):
    for number in range(runs):
        for tool in tools:
            turn = Turn(text="do what is needed", metadata={"session": f"{name} {number}"})
            decision = crib.turns.route(turn, by=by)
            crib.report_outcome(decision.id, tool, "success")


def step(crib, **options):
    found = crib.find_tools("the file", task="the file", explain=True, **options)
    return {hit.id: hit for hit in found.tools}


def runs_of(*tools, by="", number=MIN_RUNS, days=0.0):
    return [Run(f"{next(NUMBERS)}", NOW - days * DAY_S, by, tools) for _ in range(number)]


# -- counts --------------------------------------------------------------------------------------


def test_use_is_the_share_of_runs_that_called_a_tool_or_called_it_next():
    use = tool_use([*runs_of(READ, SEND), *runs_of(READ, WRITE, READ, number=3 * MIN_RUNS)], NOW)
    assert use.called[FIRST] == 1
    assert use.called[THEN] == pytest.approx(0.5)
    assert use.beside[THEN] == {FIRST: 1}
    assert use.beside[FIRST][THEN] == pytest.approx(0.5)
    assert use.after[FIRST][THEN] == pytest.approx(0.25)
    assert THEN not in use.after


def test_few_runs_or_old_ones_tell_nothing():
    assert tool_use(runs_of(READ, number=MIN_RUNS - 1), NOW) is None
    assert tool_use(runs_of(READ, number=9 * MIN_RUNS, days=91), NOW) is None
    faded = tool_use([*runs_of(READ, days=90), *runs_of(READ, SEND, number=10)], NOW)
    assert faded.after[FIRST][THEN] == pytest.approx(0.5)


def test_one_key_moves_what_is_learned_by_no_more_than_its_share():
    honest = [each for key in "abcdefghi" for each in runs_of(READ, WRITE, by=key, number=10)]
    wrong = runs_of(READ, SEND, by="wrong", number=10)
    before, after = tool_use(honest, NOW), tool_use([*honest, *wrong], NOW)
    assert before.after[FIRST].get(THEN, 0) == 0
    assert after.after[FIRST][THEN] <= 0.1
    assert after.called[THEN] ** 2 <= 0.1
    assert after.beside[FIRST][THEN] ** 2 <= 0.1
    often = tool_use([*honest, *runs_of("mail/sign", SEND, by="wrong", number=10)], NOW)
    assert often.after[point_id("mail/sign")][THEN] <= 0.1


# -- a crib --------------------------------------------------------------------------------------


def test_reported_runs_order_the_next_step_also_after_a_restart(crib, tmp_path, settings):
    assert "use" not in step(crib)[SEND].legs
    report(crib, READ, SEND)
    crib.replay_learning()
    assert next(iter(step(crib, called=[READ]))) == SEND
    assert step(crib, called=[READ])[SEND].legs["use"] > step(crib)[WRITE].legs["use"]
    assert crib.learning_status().runs == MIN_RUNS
    crib.close()
    with Crib.open(tmp_path, settings=settings) as again:
        assert next(iter(step(again, called=[READ]))) == SEND


def test_a_run_unlike_the_others_is_not_ordered_by_them(crib):
    report(crib, WRITE, SEND)
    crib.replay_learning()
    alike, other = step(crib, called=[WRITE]), step(crib, called=["mail/sign"])
    first = step(crib)[SEND].legs["use"]
    assert other[SEND].legs["use"] < first < alike[SEND].legs["use"]


def test_the_status_shows_what_agents_call_and_what_next_unless_a_setting_is_off(crib, tmp_path):
    report(crib, READ, SEND)
    report(crib, READ, name="other")
    crib.replay_learning()
    first, second = crib.learning_status().used
    assert (first.tool, first.runs) == (READ, pytest.approx(1))
    assert first.next == {SEND: pytest.approx(0.5)}
    assert (second.tool, second.runs, second.next) == (SEND, pytest.approx(0.5), {})
    assert "use" in step(crib, called=[READ])[SEND].legs
    crib.close()
    off = free_of_models(learning={"enabled": True, "runs": False}, durability="system")
    with Crib.open(tmp_path, settings=off) as again:
        status = again.learning_status()
        assert (status.used, status.orders_steps, status.runs) == ((), False, 2 * MIN_RUNS)
        assert "use" not in step(again, called=[READ])[SEND].legs


def test_failures_and_unknown_decisions_are_not_counted(crib, caplog):
    decision = crib.route("do what is needed")
    crib.report_outcome(decision.id, READ, "failure")
    assert not caplog.records
    crib.report_outcome("never made", READ, "success")
    assert "never made" in caplog.text
    assert crib.turns.learner.runs.read() == []
    for tool in (READ, READ, SEND):
        crib.report_outcome(decision.id, tool, "success")
    [run] = crib.turns.learner.runs.read()
    assert run.tools == (READ, SEND)


def test_a_long_run_keeps_its_last_calls(crib):
    decision = crib.route("do what is needed")
    for number in range(MAX_RUN_CALLS + 2):
        crib.turns.learner.runs.record(decision.id, f"tool {number}", NOW)
    [run] = crib.turns.learner.runs.read()
    assert (len(run.tools), run.tools[0]) == (MAX_RUN_CALLS, "tool 2")


@pytest.mark.parametrize("what", ["day", "ana", SEND])
def test_what_a_day_a_key_or_a_tool_taught_is_taken_back(crib, what):
    report(crib, READ, SEND, by="ana")
    crib.replay_learning()
    assert step(crib)[SEND].legs["use"] > 0
    crib.undo_learning(crib.turns.learner.runs.read()[0].day if what == "day" else what)
    assert step(crib)[SEND].legs.get("use", 0) <= 0
    assert crib.learning_status().runs == (MIN_RUNS if what == SEND else 0)


def test_a_run_of_a_removed_tool_alone_goes_with_it(crib):
    decision = crib.route("do what is needed")
    crib.report_outcome(decision.id, READ, "success")
    crib.undo_learning(SEND)
    assert crib.learning_status().runs == 1
    crib.undo_learning(READ)
    assert crib.learning_status().runs == 0


def test_learning_that_is_switched_off_changes_no_step(crib):
    plain = step(crib)
    report(crib, READ, SEND)
    crib.switch_learning(on=False)
    assert step(crib) == plain


def test_the_runs_of_a_log_count_once(crib, tmp_path, settings):
    log = tmp_path / "log.jsonl"
    with Crib.open(":memory:", settings=settings, log=JsonLinesLog(log)) as other:
        other.index_tools(TOOLS)
        report(other, READ, SEND, runs=2)
        records = [*other.turns._log.read()]
    crib.turns.learner.read_log(records)
    assert {run.tools for run in crib.turns.learner.runs.read()} <= {(READ, SEND), (READ,), (SEND,)}
