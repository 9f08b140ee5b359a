"""A log in a ledger that cannot be written to, for a while or for good."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from tests.router.sample_decisions import MARCH, record, said
from tests.router.test_ledger_log import ids, opened, outcome
from toolcrib.errors import StoreLockedError
from toolcrib.store.records_db.base import DbRow
from toolcrib.store.records_db.sqlite import SqliteRecordsDb


@pytest.fixture
def log(ledger):
    with closing(opened(ledger)) as log:
        yield log


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    with closing(SqliteRecordsDb(path, patience_s=0.02)) as ledger:
        ledger.put("keys", DbRow("a", 0.0, {}))
        yield ledger


@pytest.fixture
def busy(ledger, path):
    """Another process that is in the middle of a write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def test_decisions_wait_until_it_can_be(log, busy):
    log.write(record(id="d1"))
    with pytest.raises(StoreLockedError):
        log.flush()
    log.write(record(id="d2"))
    busy.execute("COMMIT")
    assert (ids(log.recent()), log.dropped) == (["d2", "d1"], 0)


def test_decisions_that_wait_are_known_beside_those_that_are_written(log, path):
    log.write(record(id="d1", at=MARCH + 1))
    log.write(record(id="d3", at=MARCH + 3))
    log.write(said("d1", route="tools"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        log.write(record(id="d2", at=MARCH + 2))
        log.write(record(id="d4", at=MARCH + 4))
        assert log.find("d2") == record(id="d2", at=MARCH + 2)
        assert ids(log.recent()) == ["d4", "d3", "d2", "d1"]
        assert ids(log.recent(limit=2)) == ["d4", "d3"]
        assert ids(log.recent(limit=2, before="d3")) == ["d2", "d1"]
        assert ids(log.recent(before="d2")) == ["d1"]
        assert [each.get("id", "said") for each in log.read()] == ["d1", "said", "d2", "d3", "d4"]
        assert log.about("d2") == ([], [])
    assert ids(log.recent()) == ["d4", "d3", "d2", "d1"]
    assert log.dropped == 0


def test_feedback_and_outcomes_say_so(log, busy):
    with pytest.raises(StoreLockedError):
        log.write(said("d1", route="tools"))
    with pytest.raises(StoreLockedError):
        log.write(outcome())


def test_closing_gives_up_what_cannot_be_written_and_counts_it(log, busy, caplog):
    log.write(record(id="d1"))
    log.write(record(id="d2"))
    log.close()
    assert log.dropped == 2
    assert "decisions were not logged, 2 until now: the log was closed" in caplog.text


def test_a_backlog_that_grows_too_long_is_cut_and_counted(path, busy, caplog):
    with closing(SqliteRecordsDb(path, patience_s=60)) as patient:
        log = opened(patient)
        for number in range(10_000):
            log.write(plain(number))
        # At most one full backlog is being written while another one waits.
        assert log.dropped >= 10_000 - 2 * 4096
        assert "the ledger does not keep up" in caplog.text
        busy.execute("COMMIT")
        log.close()
        assert len(list(patient.read("decisions/acme"))) == 10_000 - log.dropped


def test_a_record_that_no_ledger_takes_costs_itself_alone(log, caplog):
    log.write(record(id="d1"))
    log.write({**record(id="d2"), "took_ms": {"total": float("nan")}})
    log.write(record(id="d3"))
    assert ids(log.recent()) == ["d3", "d1"]
    assert log.dropped == 1
    assert "the record 'd2' of 'decisions/acme' cannot be kept" in caplog.text


def test_old_records_that_cannot_be_removed_are_only_told_of(path, caplog):
    ledger = SqliteRecordsDb(path)
    log = opened(ledger)
    ledger.close()
    log._prune()
    assert "old decisions could not be removed: the ledger" in caplog.text


def plain(number: int) -> dict[str, object]:
    at = datetime.fromtimestamp(MARCH, UTC).isoformat()
    return {"kind": "decision", "id": f"{number:05}", "at": at}
