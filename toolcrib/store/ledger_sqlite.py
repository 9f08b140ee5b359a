"""A ledger in one SQLite file, which several processes use at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from toolcrib.store.ledger import Entry
from toolcrib.store.ledger_file import LedgerFile
from toolcrib.store.ledger_text import body_text, is_text, read_entry

__all__ = ["SqliteLedger"]

PATIENCE_S = 10.0
PAGE = 500
PRUNED_AT_ONCE = 2000
"""Between which other processes write."""

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
# From one name to the next along the index, past all that stands on the shelf.
SHELVES = """
WITH RECURSIVE names (shelf) AS (
  SELECT min(shelf) FROM entries WHERE shelf >= ?
  UNION ALL
  SELECT (SELECT min(shelf) FROM entries WHERE shelf > names.shelf)
  FROM names WHERE names.shelf IS NOT NULL
)
SELECT shelf FROM names WHERE shelf IS NOT NULL
"""


class SqliteLedger:
    """A `Ledger` in a file; for several threads and processes.

    What was acknowledged survives the process and a power cut. The file can be read by its owner
    alone, and is made with its folder at the first write; a missing one holds nothing.
    `patience_s`: how long another process's write is waited for. `on_close` is called once.
    """

    def __init__(
        self,
        path: Path,
        *,
        patience_s: float = PATIENCE_S,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._file = LedgerFile(path, patience_s)
        self._on_close = on_close
        # Across processes whoever wakes first writes next; threads take turns.
        self._writing = threading.Lock()

    def put(self, shelf: str, entry: Entry) -> None:
        """Write a record, or replace the one of the same id; durable when this returns.

        Raises:
            StoreWriteError: the disk refuses.
            StoreLockedError: another process has been writing all the time.
            StoreDamagedError: the file is no ledger.
            StoreError: the record is not fit to be kept.
        """
        self.put_all(shelf, [entry])

    def put_all(self, shelf: str, entries: Sequence[Entry]) -> None:
        """Write records, all of them or none; durable when this returns.

        Raises:
            StoreError: as `put`.
        """
        rows = [(shelf, entry.id, entry.at, body_text(shelf, entry)) for entry in entries]
        if rows:
            with self._writing, self._file.writing() as connection:
                connection.executemany(PUT, rows)

    def get(self, shelf: str, entry_id: str) -> Entry | None:
        """The record with this id, None where there is none.

        Raises:
            StoreDamagedError: the file is no ledger.
        """
        return next(iter(self._select(ONE, shelf, entry_id)), None)

    def delete(self, shelf: str, entry_id: str) -> bool:
        """Remove a record; whether there was one. Durable when this returns."""
        return bool(self._remove(DELETE, shelf, entry_id))

    def newest(
        self, shelf: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[Entry]:
        """The last records, newest first; with `before`, only those ordered before that pair."""
        limit = max(limit, 0)
        if before is None:
            return self._select(NEWEST, shelf, limit)
        return self._select(NEWEST_BEFORE, shelf, *before, limit)

    def read(self, shelf: str) -> Iterator[Entry]:
        """Every record of a shelf, oldest first, in pages: others may write in between."""
        page = self._select(OLDEST, shelf, PAGE)
        while page:
            yield from page
            page = self._select(OLDEST_AFTER, shelf, page[-1].at, page[-1].id, PAGE)

    def prune(self, shelf: str, *, before: float) -> int:
        """Remove what is older than this time; counts what went."""
        removed = 0
        while gone := self._remove(PRUNE, shelf, before, PRUNED_AT_ONCE):
            removed += gone
        return removed

    def shelves(self, prefix: str = "") -> list[str]:
        """The shelves that hold anything and begin so, by name."""
        return [name for (name,) in self._rows(SHELVES, prefix) if name.startswith(prefix)]

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        self._file.close()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def _remove(self, statement: str, *values: Any) -> int:
        with self._writing, self._file.existing() as connection:
            if connection is None or not _is_text(values):
                return 0
            return connection.execute(statement, values).rowcount

    def _select(self, query: str, *values: Any) -> list[Entry]:
        place = str(self._file.path)
        return [read_entry(*row, place=place) for row in self._rows(query, *values)]

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._file.existing() as connection:
            if connection is None or not _is_text(values):
                return []
            return connection.execute(query, values).fetchall()


def _is_text(values: tuple[Any, ...]) -> bool:
    """Whether a record may have these: what cannot be written is not there either."""
    return is_text(*(value for value in values if isinstance(value, str)))
