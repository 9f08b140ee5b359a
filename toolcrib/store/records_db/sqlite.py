"""Records database in one SQLite file, which several processes use at once."""

from __future__ import annotations

import math
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolcrib.errors import StoreDamagedError, StoreError, StoreLockedError, StoreWriteError
from toolcrib.store.base import is_text
from toolcrib.store.records_db import DbRow, RecordsDb, body_text, read_row

BUSY_TIMEOUT_S = 10.0
_PAGE_RECORDS = 500
PRUNE_BATCH_RECORDS = 2000
"""Records removed at once; other processes can write between two batches."""

OWNER_ONLY_MODE = 0o600
APPLICATION_ID = 0x746F6F6C
FORMAT_VERSION = 1

SCHEMA = (
    """CREATE TABLE records (
      table_name TEXT NOT NULL,
      id TEXT NOT NULL,
      at REAL NOT NULL,
      body TEXT NOT NULL,
      PRIMARY KEY (table_name, id)
    )""",
    "CREATE INDEX in_order ON records (table_name, at, id)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)
HEADER = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
    "FROM pragma_application_id, pragma_user_version"
)
PUT = (
    "INSERT INTO records (table_name, id, at, body) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (table_name, id) DO UPDATE SET at = excluded.at, body = excluded.body"
)
DELETE = "DELETE FROM records WHERE table_name = ? AND id = ?"
PRUNE = (
    "DELETE FROM records WHERE rowid IN "
    "(SELECT rowid FROM records WHERE table_name = ? AND at < ? LIMIT ?)"
)
SELECT_ROWS = "SELECT id, at, body FROM records WHERE table_name = ? "
SELECT_ONE = SELECT_ROWS + "AND id = ?"
SELECT_NEWEST_BEFORE = SELECT_ROWS + "AND (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?"
SELECT_OLDEST_AFTER = SELECT_ROWS + "AND (at, id) > (?, ?) ORDER BY at, id LIMIT ?"
# Jumps from one table name to the next in the index, without reading the records between.
SELECT_TABLES = """
WITH RECURSIVE names (table_name) AS (
  SELECT min(table_name) FROM records
  UNION ALL
  SELECT (SELECT min(table_name) FROM records WHERE table_name > names.table_name)
  FROM names WHERE names.table_name IS NOT NULL
)
SELECT table_name FROM names WHERE table_name IS NOT NULL
"""


class SqliteRecordsDb(RecordsDb):
    """A `RecordsDb` in a file; for several threads and processes.

    Acknowledged writes survive the end of the process and a power failure. Only the owner can read
    the file. The first write makes it, with its folder; without the file there are no records.
    `patience_s`: longest wait for another process's write. `on_close` is called once.
    """

    def __init__(
        self,
        path: Path,
        *,
        patience_s: float = BUSY_TIMEOUT_S,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._path = path
        self._patience_s = patience_s
        self._on_close = on_close
        self._closed = False
        self._idle: list[sqlite3.Connection] = []
        # SQLite serialises processes; this lock serialises the threads of one process.
        self._writing = threading.Lock()

    def put_all(self, table: str, rows: Sequence[DbRow]) -> None:
        values = [(table, row.id, row.at, body_text(table, row)) for row in rows]
        if not values:
            return
        with self._writing, self._connection(may_create=True) as connection:
            assert connection is not None
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(PUT, values)
            connection.execute("COMMIT")

    def get(self, table: str, row_id: str) -> DbRow | None:
        return next(iter(self._select(SELECT_ONE, table, row_id)), None)

    def delete(self, table: str, row_id: str) -> bool:
        return bool(self._remove(DELETE, table, row_id))

    def newest(
        self, table: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[DbRow]:
        end = before or (math.inf, "")
        return self._select(SELECT_NEWEST_BEFORE, table, *end, max(limit, 0))

    def read(self, table: str) -> Iterator[DbRow]:
        last = (-math.inf, "")
        while page := self._select(SELECT_OLDEST_AFTER, table, *last, _PAGE_RECORDS):
            yield from page
            last = page[-1].at, page[-1].id

    def prune(self, table: str, *, before: float) -> int:
        removed = 0
        while gone := self._remove(PRUNE, table, before, PRUNE_BATCH_RECORDS):
            removed += gone
        # Database and log would hold removed records until others are written over them.
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)")
        return removed

    def tables(self) -> list[str]:
        return [name for (name,) in self._rows(SELECT_TABLES)]

    def close(self) -> None:
        """Close the file after running requests have ended; a second call does nothing."""
        self._closed = True
        self._close_idle()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def _remove(self, statement: str, *values: Any) -> int:
        with self._writing, self._connection(may_create=False) as connection:
            if connection is None or not _are_valid(values):
                return 0
            return connection.execute(statement, values).rowcount

    def _select(self, query: str, *values: Any) -> list[DbRow]:
        place = str(self._path)
        return [read_row(*row, place=place) for row in self._rows(query, *values)]

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._connection(may_create=False) as connection:
            if connection is None or not _are_valid(values):
                return []
            return connection.execute(query, values).fetchall()

    # -- connections -----------------------------------------------------------------------

    @contextmanager
    def _connection(self, *, may_create: bool) -> Generator[sqlite3.Connection | None]:
        """A connection for one thread; None without a file, unless `may_create`."""
        if self._closed:
            raise StoreError(f"the records database {self._path} is closed")
        connection = None
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect(may_create=may_create)
            yield connection
        except BaseException as error:
            # Closing rolls back, so that no thread gets a connection with an open transaction.
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error | OSError):
                raise self._store_error(error) from error
            raise
        if connection is not None:
            self._idle.append(connection)
        if self._closed:
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _connect(self, *, may_create: bool) -> sqlite3.Connection | None:
        if may_create:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=OWNER_ONLY_MODE)
        elif not self._path.exists():
            return None
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=self._patience_s,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if self._is_ready(connection, may_create=may_create):
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def _is_ready(self, connection: sqlite3.Connection, *, may_create: bool) -> bool:
        """True if the file is a records database, or an empty file that was made one."""
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        if not self._has_our_tables(connection) and not may_create:
            return False
        self._use_wal(connection)
        if may_create:
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have made the tables meanwhile.
            if not self._has_our_tables(connection):
                for statement in SCHEMA:
                    connection.execute(statement)
            connection.execute("COMMIT")
        return True

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        # SQLite fails the second of two simultaneous connections without waiting.
        until = time.monotonic() + self._patience_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(random.uniform(0.001, 0.01))  # noqa: S311
            else:
                return

    def _has_our_tables(self, connection: sqlite3.Connection) -> bool:
        """True if a file has our tables, False if it is empty; else an error."""
        application, version, tables = connection.execute(HEADER).fetchone()
        if application == APPLICATION_ID and version != FORMAT_VERSION:
            raise StoreDamagedError(
                f"the records database {self._path} has format {version}, and this toolcrib reads "
                f"{FORMAT_VERSION}: use the version that wrote it"
            )
        if application != APPLICATION_ID and tables:
            raise StoreDamagedError(f"{self._path} is another program's database: move it away")
        return application == APPLICATION_ID

    def _store_error(self, error: sqlite3.Error | OSError) -> StoreError:
        code, database = _code(error), f"the records database {self._path}"
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return StoreDamagedError(
                f"{database} cannot be read ({error}): restore a backup, or move it away and make "
                "the keys again"
            )
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreLockedError(
                f"{database} is being written to by another process ({error}): try again"
            )
        return StoreWriteError(
            f"{database} cannot be used ({error}): make room on its disk, or give this user the "
            "right to write there"
        )


def _are_valid(values: tuple[Any, ...]) -> bool:
    """True if a record can have these values as ids."""
    return is_text(*(value for value in values if isinstance(value, str)))


def _code(error: sqlite3.Error | OSError) -> int:
    """SQLite's primary error code: the lowest byte of the extended code; 0 without a code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
