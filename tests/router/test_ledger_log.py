"""A log in a ledger: what several processes of a service know of decisions."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.router.sample_decisions import MARCH, record, said
from tests.store import qdrant_over_http
from toolcrib.clock import ManualClock
from toolcrib.router.decision_log_db import DatabaseLog
from toolcrib.router.decision_log import DecisionLog, FailureLog, outcome_record
from toolcrib.store.ledger import Entry
from toolcrib.store.ledger_server import ServerLedger
from toolcrib.store.ledger_sqlite import SqliteLedger

DAY_S = 86_400.0

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning")


@pytest.fixture(params=["sqlite", "server"])
def ledger(request, tmp_path):
    if request.param == "server":
        with (
            qdrant_over_http.running() as server,
            closing(ServerLedger.open(server.url)) as opened,
        ):
            yield opened
        return
    with closing(SqliteLedger(tmp_path / "ledger.db", patience_s=0.05)) as opened:
        yield opened


@pytest.fixture
def log(ledger):
    with closing(opened(ledger)) as log:
        yield log


def opened(ledger, namespace="acme", *, text=False, keep_s=DAY_S, **more) -> DatabaseLog:
    return DatabaseLog(ledger, namespace, text=text, keep_s=keep_s, now=lambda: MARCH, **more)


def outcome(decision="d1", tool="mail/send", ended="failure", at=MARCH + 5):
    return outcome_record(decision, tool, ended, at=at)


def ids(records):
    return [each["id"] for each in records]


def test_it_is_a_log_of_decisions_that_knows_what_failed(log):
    typed: DecisionLog = log
    assert isinstance(typed, FailureLog)


def test_a_log_that_was_never_written_to_is_empty(log, ledger):
    assert list(log.read()) == log.recent() == []
    assert log.find("d1") is None
    assert log.about("d1") == ([], [])
    assert log.failed("d1") == ()
    log.close()
    assert ledger.shelves() == []


def test_records_stand_on_the_shelves_of_their_namespace(log, ledger):
    log.write(record(id="d1"))
    log.write(said("d1", route="tools"))
    log.write(outcome())
    log.flush()
    assert ledger.shelves() == ["decisions/acme", "feedback/acme", "outcomes/acme"]
    assert ledger.get("decisions/acme", "d1").body == record(id="d1")
    (kept,) = ledger.read("outcomes/acme")
    assert kept.id.startswith("d1:")
    assert kept.body == outcome()


def test_two_namespaces_know_nothing_of_each_other(log, ledger):
    log.write(record(id="d1"))
    other = opened(ledger, "other")
    log.flush()
    assert (other.find("d1"), list(other.read()), other.recent()) == (None, [], [])


def test_what_was_written_is_found_at_once_here_and_after_flushing_elsewhere(log, ledger):
    log.write(record(id="d1"))
    assert log.find("d1") == record(id="d1")
    assert opened(ledger).find("d1") == record(id="d1")
    assert log.find("d") is None


def test_reading_gives_decisions_oldest_first_each_before_what_was_said_of_it(log):
    for name, at in (("new", MARCH + 60), ("old", MARCH)):
        log.write(record(id=name, at=at))
    log.write(said("old", at=MARCH + 90, route="none"))
    log.write(said("new", at=MARCH + 70, route="tools"))
    assert [each.get("decision", each.get("id")) for each in log.read()] == [
        "old",
        "old",
        "new",
        "new",
    ]


def test_recent_decisions_come_newest_first_page_by_page(log):
    for number in range(7):
        log.write(record(id=f"d{number}", at=MARCH + number // 2))
    assert ids(log.recent(3)) == ["d6", "d5", "d4"]
    assert ids(log.recent(3, before="d4")) == ["d3", "d2", "d1"]
    assert ids(log.recent(3, before="d1")) == ["d0"]
    assert log.recent(3, before="d0") == []
    assert log.recent(3, before="no longer there") == []


def test_what_was_said_of_a_decision_comes_in_the_order_in_which_it_was_said(log):
    for name in ("d1", "d11", "d2"):
        log.write(record(id=name))
    for number in range(5):
        log.write(said("d1", route="tools", intent=f"{number}"))
        log.write(said("d2", route="tools"))
    log.write(outcome())
    log.write(outcome("d11"))
    feedback, outcomes = log.about("d1")
    assert [each["intent"] for each in feedback] == list("01234")
    assert outcomes == [outcome()]
    assert len(log.about("d2").feedback) == 5
    assert log.about("d3") == ([], [])


def test_what_was_said_of_others_before_and_after_is_no_part_of_it(log):
    for number, name in enumerate(("d1", "d2", "d3")):
        log.write(record(id=name, at=MARCH + 60 * number))
        log.write(outcome(name, tool=name))
    assert [log.failed(name) for name in ("d1", "d2", "d3")] == [("d1",), ("d2",), ("d3",)]


def test_more_is_said_of_one_decision_than_fits_a_page(log):
    log.write(record(id="d1"))
    for number in range(450):
        log.write(outcome(tool=f"t{number:03}"))
    assert [each["tool"] for each in log.about("d1").outcomes] == [
        f"t{number:03}" for number in range(450)
    ]


def test_a_tool_has_failed_if_its_last_outcome_is_a_failure(log):
    log.write(record(id="d1"))
    log.write(record(id="d2"))
    for tool, ended in (("a", "failure"), ("b", "failure"), ("c", "success"), ("a", "success")):
        log.write(outcome(tool=tool, ended=ended))
    log.write(outcome(tool="c", ended="failure"))
    log.write(outcome("d2", tool="d"))
    assert log.failed("d1") == ("b", "c")
    assert log.failed("d3") == ()


def test_an_outcome_that_comes_before_its_decision_is_written_is_found(ledger):
    """As when another process took the outcome: the decision still waits where it was made."""
    here, there = opened(ledger), opened(ledger)
    here._backlog._pause_s = 60
    here.write(record(id="d1"))
    there.write(outcome(at=MARCH + 0.02))
    here.close()
    assert there.failed("d1") == ("mail/send",)
    there.close()


def test_an_outcome_of_an_unknown_decision_is_kept(log):
    log.write(outcome("never made"))
    assert list(log.read()) == [outcome("never made")]


@pytest.mark.parametrize("text", [True, False])
def test_the_words_of_users_are_kept_only_when_asked_for(ledger, text):
    with closing(opened(ledger, text=text)) as log:
        log.write(record(id="d1", text=True))
        log.write(said("d1", route="tools", note="Ann's", text=True))
        assert ("text" in log.find("d1")) is text
        assert ("note" in log.about("d1").feedback[0]) is text


def test_who_asked_is_kept(log):
    log.write({**record(id="d1"), "by": "a1b2"})
    assert log.find("d1")["by"] == "a1b2"


def test_what_is_older_than_is_kept_goes_now_and_then(ledger):
    clock = ManualClock()
    for name, at in (("old", MARCH - DAY_S - 1), ("young", MARCH - DAY_S + 1)):
        ledger.put("decisions/acme", Entry(name, at, record(id=name, at=at)))
        ledger.put("outcomes/acme", Entry(f"{name}:1", at, outcome(name)))
        ledger.put("outcomes/other", Entry(f"{name}:1", at, outcome(name)))
    with closing(opened(ledger, clock=clock)) as log:
        log.write(record(id="now"))
        log.close()
        assert ids(log.recent()) == ["now", "young"]
        assert [entry.id for entry in ledger.read("outcomes/acme")] == ["young:1"]
        assert len(list(ledger.read("outcomes/other"))) == 2
        # Not at every write: only when some time has gone by.
        ledger.put("decisions/acme", Entry("old", 0.0, {}))
        log.write(record(id="later"))
        log.close()
        assert ledger.get("decisions/acme", "old") is not None
        clock.now += 3600
        log.write(record(id="much later"))
        log.close()
        assert ledger.get("decisions/acme", "old") is None


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y"]), st.booleans())))
def test_of_any_outcomes_the_last_of_each_tool_counts(tmp_path_factory, told):
    path = tmp_path_factory.mktemp("log") / "ledger.db"
    with closing(SqliteLedger(path)) as ledger, closing(opened(ledger)) as log:
        for name in "abc":
            log.write(record(id=name))
        last: dict[tuple[str, str], bool] = {}
        for name, tool, is_failure in told:
            log.write(outcome(name, tool, "failure" if is_failure else "success"))
            last[name, tool] = is_failure
        for name in "abc":
            expected = {tool for (whose, tool), failed in last.items() if whose == name and failed}
            assert set(log.failed(name)) == expected
            assert len(log.about(name).outcomes) == sum(whose == name for whose, _, _ in told)
