"""Decision logs in a records database: what processes share, and what cannot be written."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import pytest

from tests.router.sample_decisions import MARCH, record, said
from tests.store import qdrant_over_http
from toolcrib.clock import ManualClock
from toolcrib.errors import StoreError, StoreLockedError
from toolcrib.router import decision_log_db
from toolcrib.router.decision_log import outcome_record
from toolcrib.router.decision_log_db import DatabaseLog, DecisionPruner
from toolcrib.store.records_db import DbRow
from toolcrib.store.records_db.qdrant import QdrantRecordsDb
from toolcrib.store.records_db.sqlite import SqliteRecordsDb

DAY_S = 86_400.0


@pytest.fixture(params=["sqlite", "server"])
def db(request, tmp_path):
    if request.param == "server":
        with (
            qdrant_over_http.running() as server,
            closing(QdrantRecordsDb.open(server.url)) as opened,
        ):
            yield opened
        return
    with closing(SqliteRecordsDb(tmp_path / "ledger.db", patience_s=0.05)) as opened:
        yield opened


@pytest.fixture
def log(db):
    with closing(opened(db)) as log:
        yield log


def pruner_of(db, **more) -> DecisionPruner:
    return DecisionPruner(db, DAY_S, now=lambda: MARCH, **more)


def opened(db, namespace="acme", *, text=False, pruner=None, **more) -> DatabaseLog:
    return DatabaseLog(db, namespace, text=text, pruner=pruner or pruner_of(db), **more)


def outcome(decision="d1", tool="mail/send", ended="failure", at=MARCH + 5):
    return outcome_record(decision, tool, ended, at=at)


def ids(records):
    return [each["id"] for each in records]


def test_a_log_that_was_never_written_to_is_empty(log, db):
    assert list(log.read()) == log.recent() == []
    assert log.find("d1") is None
    assert log.about("d1") == ([], [])
    assert log.failed_tools("d1") == ()
    log.close()
    assert db.tables() == []


def test_records_stand_on_the_shelves_of_their_namespace(log, db):
    log.write(record(id="d1"))
    log.write(said("d1", route="tools"))
    log.write(outcome())
    log.flush()
    assert db.tables() == ["decisions/acme", "feedback/acme", "outcomes/acme"]
    assert db.get("decisions/acme", "d1").body == record(id="d1")
    (kept,) = db.read("outcomes/acme")
    assert kept.id.startswith("d1:")
    assert kept.body == outcome()


def test_two_namespaces_know_nothing_of_each_other(log, db):
    log.write(record(id="d1"))
    other = opened(db, "other")
    log.flush()
    assert (other.find("d1"), list(other.read()), other.recent()) == (None, [], [])


def test_what_was_written_is_found_at_once_here_and_after_flushing_elsewhere(log, db):
    log.write(record(id="d1"))
    assert log.find("d1") == record(id="d1")
    assert opened(db).find("d1") == record(id="d1")
    assert log.find("d") is None


def test_reading_gives_decisions_oldest_first_each_before_what_was_said_of_it(log):
    for name, at in (("new", MARCH + 60), ("old", MARCH)):
        log.write(record(id=name, at=at))
    log.write(said("old", at=MARCH + 90, route="none"))
    log.write(said("new", at=MARCH + 70, route="tools"))
    read = [each.get("decision", each.get("id")) for each in log.read()]
    assert read == ["old", "old", "new", "new"]


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


def test_more_is_said_of_one_decision_than_fits_a_page(log, monkeypatch):
    monkeypatch.setattr(decision_log_db, "PAGE_ROWS", 4)
    log.write(record(id="d1"))
    tools = [f"t{number}" for number in range(9)]
    for tool in tools:
        log.write(outcome(tool=tool))
    assert [each["tool"] for each in log.about("d1").outcomes] == tools


def test_a_tool_has_failed_if_its_last_outcome_is_a_failure(log):
    log.write(record(id="d1"))
    log.write(record(id="d2"))
    for tool, ended in (("a", "failure"), ("b", "failure"), ("c", "success"), ("a", "success")):
        log.write(outcome(tool=tool, ended=ended))
    log.write(outcome(tool="c", ended="failure"))
    log.write(outcome("d2", tool="d"))
    assert log.failed_tools("d1") == ("b", "c")
    assert log.failed_tools("d3") == ()


def test_an_outcome_that_comes_before_its_decision_is_written_is_found(db, monkeypatch):
    """As when another process took the outcome: the decision still waits where it was made."""
    here, there = opened(db), opened(db)
    monkeypatch.setattr(decision_log_db, "WRITE_DELAY_S", 60)
    here.write(record(id="d1"))
    there.write(outcome(at=MARCH + 0.02))
    here.close()
    assert there.failed_tools("d1") == ("mail/send",)
    there.close()


def test_an_outcome_of_an_unknown_decision_is_kept(log):
    log.write(outcome("never made"))
    assert list(log.read()) == [outcome("never made")]


@pytest.mark.parametrize("text", [True, False])
def test_the_words_of_users_are_kept_only_when_asked_for(db, text):
    with closing(opened(db, text=text)) as log:
        log.write(record(id="d1", text=True))
        log.write(said("d1", route="tools", note="Ann's", text=True))
        assert ("text" in log.find("d1")) is text
        assert ("note" in log.about("d1").feedback[0]) is text


def test_what_is_older_than_is_kept_goes_now_and_then(db):
    clock = ManualClock()
    for name, at in (("old", MARCH - DAY_S - 1), ("young", MARCH - DAY_S + 1)):
        db.put("decisions/acme", DbRow(name, at, record(id=name, at=at)))
        db.put("outcomes/acme", DbRow(f"{name}:1", at, outcome(name)))
        db.put("outcomes/other", DbRow(f"{name}:1", at, outcome(name)))
        db.put("feedback/acme", DbRow(f"{name}:1", at, said(name, note="Ann's")))
        db.put("keys", DbRow(name, at, {}))
    pruner = pruner_of(db, clock=clock)
    with closing(opened(db, pruner=pruner)) as log:

        def write(name):
            log.write(record(id=name))
            log.flush()
            pruner.close()

        write("now")
        assert ids(log.recent()) == ["now", "young"]
        assert [entry.id for entry in db.read("outcomes/acme")] == ["young:1"]
        assert [entry.id for entry in db.read("feedback/acme")] == ["young:1"]
        # Nothing is written to the other namespace.
        assert [entry.id for entry in db.read("outcomes/other")] == ["young:1"]
        assert len(list(db.read("keys"))) == 2
        # Not at every write: only when some time has gone by.
        db.put("decisions/acme", DbRow("old", 0.0, {}))
        write("later")
        assert db.get("decisions/acme", "old") is not None
        clock.now += 3600
        write("much later")
        assert db.get("decisions/acme", "old") is None


def test_outcomes_alone_let_old_ones_go_too(db):
    old = MARCH - DAY_S - 1
    for table in ("outcomes/acme", "words/acme"):
        db.put(table, DbRow("old:1", old, {}))
    pruner = pruner_of(db)
    with closing(opened(db, pruner=pruner)) as log:
        log.write(outcome("new"))
        pruner.close()
        assert [entry.id for entry in db.read("words/acme")] == []
        assert [row.id.partition(":")[0] for row in db.read("outcomes/acme")] == ["new"]


# -- what cannot be written, for a while or for good ---------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def file_db(path):
    with closing(SqliteRecordsDb(path, patience_s=0.02)) as db:
        db.put("keys", DbRow("a", 0.0, {}))
        yield db


@pytest.fixture
def file_log(file_db):
    with closing(opened(file_db)) as log:
        yield log


@pytest.fixture
def busy(file_db, path):
    """Another process that is in the middle of a write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def test_decisions_that_wait_are_known_beside_those_that_are_written(file_log, path):
    file_log.write(record(id="d1", at=MARCH + 1))
    file_log.write(record(id="d3", at=MARCH + 3))
    file_log.write(said("d1", route="tools"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        file_log.write(record(id="d2", at=MARCH + 2))
        file_log.write(record(id="d4", at=MARCH + 4))
        assert file_log.find("d2") == record(id="d2", at=MARCH + 2)
        assert ids(file_log.recent()) == ["d4", "d3", "d2", "d1"]
        assert ids(file_log.recent(limit=2)) == ["d4", "d3"]
        assert ids(file_log.recent(limit=2, before="d3")) == ["d2", "d1"]
        assert ids(file_log.recent(before="d2")) == ["d1"]
        read = [each.get("id", "said") for each in file_log.read()]
        assert read == ["d1", "said", "d2", "d3", "d4"]
        assert file_log.about("d2") == ([], [])
    assert ids(file_log.recent()) == ["d4", "d3", "d2", "d1"]
    assert file_log.dropped_decisions == 0


def test_feedback_and_outcomes_say_so(file_log, busy):
    with pytest.raises(StoreLockedError):
        file_log.write(said("d1", route="tools"))
    with pytest.raises(StoreLockedError):
        file_log.write(outcome())


def test_closing_gives_up_what_cannot_be_written_and_counts_it(file_log, busy, caplog):
    file_log.write(record(id="d1"))
    file_log.write(record(id="d2"))
    file_log.close()
    assert file_log.dropped_decisions == 2
    assert "decisions were not logged, 2 so far: the log was closed" in caplog.text


def test_a_backlog_that_grows_too_long_is_cut_and_counted(path, busy, caplog):
    with closing(SqliteRecordsDb(path, patience_s=60)) as patient:
        log = opened(patient)
        for number in range(10_000):
            log.write(plain(number))
        # At most one full backlog is being written while another one waits.
        assert log.dropped_decisions >= 10_000 - 2 * 4096
        assert "the database is too slow" in caplog.text
        busy.execute("COMMIT")
        log.close()
        assert len(list(patient.read("decisions/acme"))) == 10_000 - log.dropped_decisions


def test_a_record_that_no_database_takes_costs_itself_alone(file_log, caplog):
    file_log.write(record(id="d1"))
    file_log.write({**record(id="d2"), "took_ms": {"total": float("nan")}})
    file_log.write(record(id="d3"))
    assert ids(file_log.recent()) == ["d3", "d1"]
    assert file_log.dropped_decisions == 1
    assert "the record 'd2' of 'decisions/acme' cannot be kept" in caplog.text


def test_old_records_that_cannot_be_removed_are_only_told_of(path, caplog):
    db = SqliteRecordsDb(path)
    db.close()
    pruner_of(db).prune()
    assert "old decisions could not be removed: the records database" in caplog.text


def plain(number: int) -> dict[str, object]:
    at = datetime.fromtimestamp(MARCH, UTC).isoformat()
    return {"kind": "decision", "id": f"{number:05}", "at": at}


# -- writing behind ----------------------------------------------------------------------------


class Bench:
    """Where rows are written: notes them, and fails when told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.failures: list[Exception] = []
        self.written = threading.Event()

    def __call__(self, rows: list[int]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(rows)
        self.written.set()


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def patient(monkeypatch):
    """Nothing is written unless it is asked for."""
    monkeypatch.setattr(decision_log_db, "WRITE_DELAY_S", 60)


def test_rows_are_written_soon_without_being_asked_for_and_again(bench):
    queue = decision_log_db.WriteBehind(bench)
    for number in range(2):
        bench.written.clear()
        assert queue.add(number)
        assert bench.written.wait(30)
    assert bench.batches == [[0], [1]]


@pytest.mark.usefixtures("patient")
def test_what_failed_stays_in_its_place_and_is_written_with_what_follows(bench):
    bench.failures = [StoreError("busy"), StoreError("still busy")]
    queue = decision_log_db.WriteBehind(bench)
    queue.add(1)
    with pytest.raises(StoreError, match=r"^busy"):
        queue.flush()
    queue.add(2)
    with pytest.raises(StoreError, match="still busy"):
        queue.flush()
    assert queue.waiting() == [1, 2]
    queue.flush()
    queue.flush()
    assert (bench.batches, queue.close()) == ([[1, 2]], 0)


def test_what_may_pass_is_tried_again_and_told_of_once(bench, caplog, monkeypatch):
    monkeypatch.setattr(decision_log_db, "WRITE_RETRY_S", 0.001)
    bench.failures = [StoreError("busy")] * 3
    decision_log_db.WriteBehind(bench).add(1)
    assert bench.written.wait(30)
    assert [record.message for record in caplog.records] == [
        "records cannot be written; the write will be retried"
    ]


def test_a_fault_costs_its_rows_and_not_those_that_follow(bench, caplog):
    bench.failures = [TypeError("a fault of ours")]
    queue = decision_log_db.WriteBehind(bench)
    queue.add(1)
    queue._timer.join(30)
    queue.add(2)
    assert bench.written.wait(30)
    assert bench.batches == [[2]]
    assert "a fault of ours" in caplog.text


@pytest.mark.usefixtures("patient")
def test_threads_add_at_once_and_nothing_is_lost_or_written_twice(bench):
    queue = decision_log_db.WriteBehind(bench)

    def add(start: int) -> None:
        for number in range(start, start + 500):
            assert queue.add(number)
            if number % 50 == 0:
                queue.flush()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(0, 2000, 500)))
    assert queue.close() == 0
    assert sorted(itertools.chain(*bench.batches)) == list(range(2000))
