"""A log in an SQLite file, which can be asked questions in SQL."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from toolcrib.errors import StoreDamagedError, StoreWriteError

__all__ = ["SqliteLog"]

PATIENCE_S = 1.0
"""How long another process's write is waited for."""

OWNER_ONLY = 0o600

SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS records (
  number INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  decision TEXT NOT NULL,
  at TEXT NOT NULL,
  record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_decision ON records (decision, kind);
"""

INSERT = "INSERT INTO records (kind, decision, at, record) VALUES (?, ?, ?, ?)"
ALL = "SELECT record FROM records ORDER BY number"
ONE = (
    "SELECT record FROM records WHERE decision = ? AND kind = 'decision' "
    "ORDER BY number DESC LIMIT 1"
)


class SqliteLog:
    """One record a row of the table `records`, the record itself as JSON in its last column.

    For several threads and processes. What was written survives the process; a power cut may
    take the last moments. The file grows without a bound, can be read by its owner alone, and is
    made with its folder at the first write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record of JSON values that has `kind`, `at`, and `id` or `decision`.

        Raises:
            StoreWriteError: the disk refuses, or the file is no such log.
        """
        whose = record["id"] if record["kind"] == "decision" else record["decision"]
        row = (record["kind"], whose, record["at"], json.dumps(dict(record)))
        try:
            with self._writing:
                self._connected().execute(INSERT, row)
        except (sqlite3.Error, OSError) as error:
            raise StoreWriteError(
                f"the log {self._path} cannot be written to ({error}); make room, or name another "
                "file as telemetry.path",
            ) from error

    def read(self) -> Iterator[Mapping[str, Any]]:
        """Every record, oldest first.

        Raises:
            StoreDamagedError: the file is no such log.
        """
        return self._select(ALL)

    def find(self, decision_id: str) -> Mapping[str, Any] | None:
        """The decision of this id, None where there is none.

        Raises:
            StoreDamagedError: the file is no such log.
        """
        return next(self._select(ONE, decision_id), None)

    def close(self) -> None:
        """Let go of the file."""
        with self._writing:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=OWNER_ONLY)
            self._connection = _opened(self._path)
        return self._connection

    def _select(self, query: str, *values: str) -> Iterator[Mapping[str, Any]]:
        if not self._path.exists() or not self._path.stat().st_size:
            return
        # A connection of its own, so that a long reading holds up no writer.
        uri = f"{self._path.absolute().as_uri()}?mode=rw"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE_S)) as connection:
                for (record,) in connection.execute(query, values):
                    yield json.loads(record)
        except sqlite3.Error as error:
            raise StoreDamagedError(f"the log {self._path} cannot be read: {error}") from error


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.executescript(SCHEMA)
    except sqlite3.Error:
        connection.close()
        raise
    return connection
