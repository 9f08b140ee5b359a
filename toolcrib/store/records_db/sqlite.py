"""Records database in one SQLite file, which several processes use at once."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from toolcrib.errors import StoreDamagedError, StoreError, StoreLockedError, StoreWriteError
from toolcrib.store.base import is_text
from toolcrib.store.records_db.base import DbRow, RecordsDb, body_text, read_row

PATIENCE_S = 10.0
PAGE = 500
PRUNED_AT_ONCE = 2000
"""Between which other processes write."""

OWNER_ONLY = 0o600
APPLICATION = 0x746F6F6C
VERSION = 1

# The names on the disk are older than ours: a table of the database is a `shelf` of `entries`.
SCHEMA = (
    """CREATE TABLE entries (
      shelf TEXT NOT NULL,
      id TEXT NOT NULL,
      at REAL NOT NULL,
      body TEXT NOT NULL,
      PRIMARY KEY (shelf, id)
    )""",
    "CREATE INDEX in_order ON entries (shelf, at, id)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
HEADER = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
    "FROM pragma_application_id, pragma_user_version"
)
PUT = (
    "INSERT INTO entries (shelf, id, at, body) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (shelf, id) DO UPDATE SET at = excluded.at, body = excluded.body"
)
DELETE = "DELETE FROM entries WHERE shelf = ? AND id = ?"
PRUNE = (
    "DELETE FROM entries WHERE rowid IN "
    "(SELECT rowid FROM entries WHERE shelf = ? AND at < ? LIMIT ?)"
)
SELECT = "SELECT id, at, body FROM entries WHERE shelf = ? "
ONE = SELECT + "AND id = ?"
NEWEST = SELECT + "ORDER BY at DESC, id DESC LIMIT ?"
NEWEST_BEFORE = SELECT + "AND (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?"
OLDEST = SELECT + "ORDER BY at, id LIMIT ?"
OLDEST_AFTER = SELECT + "AND (at, id) > (?, ?) ORDER BY at, id LIMIT ?"
# From one name to the next along the index, past all that the table holds.
TABLES = """
WITH RECURSIVE names (shelf) AS (
  SELECT min(shelf) FROM entries WHERE shelf >= ?
  UNION ALL
  SELECT (SELECT min(shelf) FROM entries WHERE shelf > names.shelf)
  FROM names WHERE names.shelf IS NOT NULL
)
SELECT shelf FROM names WHERE shelf IS NOT NULL
"""


class SqliteRecordsDb(RecordsDb):
    """A `RecordsDb` in a file; for several threads and processes.

    What was acknowledged survives the process and, unless `synchronous` is `NORMAL`, a power
    cut. The file can be read by its owner alone, and is made with its folder at the first write;
    a missing one holds nothing. `patience_s`: how long another process's write is waited for.
    `on_close` is called once.
    """

    def __init__(
        self,
        path: Path,
        *,
        patience_s: float = PATIENCE_S,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._path = path
        self._patience_s = patience_s
        self._synchronous = synchronous
        self._on_close = on_close
        self._closed = False
        self._idle: list[sqlite3.Connection] = []
        # Across processes whoever wakes first writes next; threads take turns.
        self._writing = threading.Lock()

    def put(self, table: str, row: DbRow) -> None:
        """Write a record, or replace the one of the same id; durable when this returns.

        Raises:
            StoreWriteError: the disk refuses.
            StoreLockedError: another process has been writing all the time.
            StoreDamagedError: the file is no records database.
            StoreError: the record is not fit to be kept.
        """
        self.put_all(table, [row])

    def put_all(self, table: str, rows: Sequence[DbRow]) -> None:
        values = [(table, row.id, row.at, body_text(table, row)) for row in rows]
        if not values:
            return
        with self._writing, self._lent(making=True) as connection:
            assert connection is not None
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(PUT, values)
            connection.execute("COMMIT")

    def get(self, table: str, row_id: str) -> DbRow | None:
        return next(iter(self._select(ONE, table, row_id)), None)

    def delete(self, table: str, row_id: str) -> bool:
        return bool(self._remove(DELETE, table, row_id))

    def newest(
        self, table: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[DbRow]:
        limit = max(limit, 0)
        if before is None:
            return self._select(NEWEST, table, limit)
        return self._select(NEWEST_BEFORE, table, *before, limit)

    def read(self, table: str) -> Iterator[DbRow]:
        page = self._select(OLDEST, table, PAGE)
        while page:
            yield from page
            page = self._select(OLDEST_AFTER, table, page[-1].at, page[-1].id, PAGE)

    def prune(self, table: str, *, before: float) -> int:
        removed = 0
        while gone := self._remove(PRUNE, table, before, PRUNED_AT_ONCE):
            removed += gone
        return removed

    def tables(self, prefix: str = "") -> list[str]:
        return [name for (name,) in self._rows(TABLES, prefix) if name.startswith(prefix)]

    def close(self) -> None:
        """Close the file, once requests that run have ended; a second call does nothing."""
        self._closed = True
        self._close_idle()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def _remove(self, statement: str, *values: Any) -> int:
        with self._writing, self._lent(making=False) as connection:
            if connection is None or not _can_be_there(values):
                return 0
            return connection.execute(statement, values).rowcount

    def _select(self, query: str, *values: Any) -> list[DbRow]:
        place = str(self._path)
        return [read_row(*row, place=place) for row in self._rows(query, *values)]

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._lent(making=False) as connection:
            if connection is None or not _can_be_there(values):
                return []
            return connection.execute(query, values).fetchall()

    # -- connections -----------------------------------------------------------------------

    @contextmanager
    def _lent(self, *, making: bool) -> Generator[sqlite3.Connection | None]:
        """A connection for one thread; None where nothing was ever written and none is made."""
        if self._closed:
            raise StoreError(f"the records database {self._path} is closed")
        connection = None
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._opened(making=making)
            yield connection
        except BaseException as error:
            # This undoes what was begun, and whoever comes next has a sound one.
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error | OSError):
                raise self._explained(error) from error
            raise
        if connection is not None:
            self._idle.append(connection)
        if self._closed:
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _opened(self, *, making: bool) -> sqlite3.Connection | None:
        if making:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=OWNER_ONLY)
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
            if self._is_ready(connection, making=making):
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def _is_ready(self, connection: sqlite3.Connection, *, making: bool) -> bool:
        """Say whether the file is a records database; an empty one is made into one."""
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        if not self._is_ours(connection) and not making:
            return False
        self._use_wal(connection)
        if making:
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have made it meanwhile.
            if not self._is_ours(connection):
                for statement in SCHEMA:
                    connection.execute(statement)
            connection.execute("COMMIT")
        return True

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        # Two that do this at once are told "busy" without any waiting.
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

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """Say whether a file has our tables; an error for a file of something else."""
        application, version, tables = connection.execute(HEADER).fetchone()
        if application == APPLICATION and version != VERSION:
            raise StoreDamagedError(
                f"the records database {self._path} has format {version}, and this toolcrib reads "
                f"{VERSION}: use the version that wrote it"
            )
        if application != APPLICATION and tables:
            raise StoreDamagedError(f"{self._path} is a database of something else: move it away")
        return application == APPLICATION

    def _explained(self, error: sqlite3.Error | OSError) -> StoreError:
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


def _can_be_there(values: tuple[Any, ...]) -> bool:
    """Say whether a record can have these ids."""
    return is_text(*(value for value in values if isinstance(value, str)))


def _code(error: sqlite3.Error | OSError) -> int:
    """SQLite's primary code: the lowest byte of an extended one; 0 where there is none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
