"""SQLite: one row a record, and questions in SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.router.log_conformance import DecisionLogContract
from tests.router.log_writer import entry
from toolcrib.errors import StoreDamagedError, StoreWriteError
from toolcrib.router.decision_log_db import SqliteLog


@pytest.fixture
def path(tmp_path):
    return tmp_path / "logs" / "decisions.db"


class TestSqliteLog(DecisionLogContract):
    """A table of records."""


def test_it_can_be_asked_in_sql_while_it_is_open(path):
    log = SqliteLog(path)
    log.write(entry("a", 3))
    log.write({"kind": "outcome", "decision": "a-3", "at": "now", "outcome": "failure"})
    asking = (
        "SELECT decision FROM records WHERE kind = 'outcome' "
        "AND json_extract(record, '$.outcome') = 'failure'"
    )
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(asking).fetchall() == [("a-3",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    log.close()


def test_reading_does_not_hold_up_writing(path):
    log = SqliteLog(path)
    for number in range(3):
        log.write(entry("a", number))
    reading = log.read()
    first = next(reading)
    log.write(entry("a", 3))
    assert [first["id"], *(record["id"] for record in reading)] == ["a-0", "a-1", "a-2"]
    log.close()


def test_a_file_that_is_no_database_is_left_as_it_is(path):
    path.parent.mkdir()
    path.write_text("These are notes, not a database.")
    log = SqliteLog(path)
    with pytest.raises(StoreWriteError, match="file is not a database"):
        log.write(entry("a", 1))
    with pytest.raises(StoreDamagedError, match="cannot be read: file is not a database"):
        list(log.read())
    assert path.read_text() == "These are notes, not a database."


def test_a_file_that_was_made_and_never_filled_is_empty(path):
    path.parent.mkdir()
    path.touch()
    log = SqliteLog(path)
    assert list(log.read()) == []
    log.write(entry("a", 1))
    assert len(list(log.read())) == 1
    log.close()
