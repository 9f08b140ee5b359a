"""The SQLite file of a ledger: made when first written to, shared by threads and processes."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolcrib.errors import StoreDamagedError, StoreError, StoreLockedError, StoreWriteError

__all__ = ["LedgerFile"]

OWNER_ONLY = 0o600
APPLICATION = 0x746F6F6C
VERSION = 1

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


class LedgerFile:
    """Lends connections, each to one thread at a time.

    `patience_s`: how long another process's write is waited for.
    """

    def __init__(self, path: Path, patience_s: float) -> None:
        self.path = path
        self._patience_s = patience_s
        self._closed = False
        self._idle: list[sqlite3.Connection] = []

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """A transaction: all of the block is durable when it ends, or nothing of it is there.

        Raises:
            StoreWriteError: the disk refuses.
            StoreLockedError: another process has been writing all the time.
            StoreDamagedError: the file is no ledger.
        """
        with self._lent(making=True) as connection:
            assert connection is not None
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def existing(self) -> Generator[sqlite3.Connection | None]:
        """A connection for statements that stand alone; None where nothing was ever written.

        Raises:
            StoreError: as `writing`.
        """
        with self._lent(making=False) as connection:
            yield connection

    def close(self) -> None:
        """Let go of the file; what is lent is closed when it comes back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _lent(self, *, making: bool) -> Generator[sqlite3.Connection | None]:
        if self._closed:
            raise StoreError(f"the ledger {self.path} is closed")
        connection = None
        try:
            connection = self._borrowed(making=making)
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
            self.close()

    def _borrowed(self, *, making: bool) -> sqlite3.Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return self._opened(making=making)

    def _opened(self, *, making: bool) -> sqlite3.Connection | None:
        if making:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=OWNER_ONLY)
        elif not self.path.exists():
            return None
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",
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
        """Whether it is a ledger, or was made one just now."""
        connection.execute("PRAGMA synchronous = FULL")
        if not self._is_ledger(connection) and not making:
            return False
        self._use_wal(connection)
        if making:
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have made it meanwhile.
            if not self._is_ledger(connection):
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

    def _is_ledger(self, connection: sqlite3.Connection) -> bool:
        """False for an empty file; an error for a full one that is no ledger."""
        application, version, tables = connection.execute(HEADER).fetchone()
        if application == APPLICATION and version != VERSION:
            raise StoreDamagedError(
                f"the ledger {self.path} has format {version}, and this toolcrib reads "
                f"{VERSION}: use the version that wrote it",
            )
        if application != APPLICATION and tables:
            raise StoreDamagedError(
                f"{self.path} is a database of something else: move it away",
            )
        return application == APPLICATION

    def _explained(self, error: sqlite3.Error | OSError) -> StoreError:
        code = _code(error)
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return StoreDamagedError(
                f"the ledger {self.path} cannot be read ({error}): restore a backup, or move it "
                "away and make the keys again",
            )
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreLockedError(
                f"the ledger {self.path} is being written to by another process ({error}): try "
                "again",
            )
        return StoreWriteError(
            f"the ledger {self.path} cannot be used ({error}): make room on its disk, or give "
            "this user the right to write there",
        )


def _code(error: sqlite3.Error | OSError) -> int:
    """SQLite's primary code: the lowest byte of an extended one; 0 where there is none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
