"""Records database: small JSON records by table, such as keys and decisions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from toolcrib.errors import StoreDamagedError, StoreError
from toolcrib.store.base import is_text


@dataclass(frozen=True, slots=True)
class DbRow:
    """One record: its id is unique in its table; `at` is Unix time in seconds."""

    id: str
    at: float
    body: Mapping[str, Any]


class RecordsDb(Protocol):
    """Tables of records that several processes read and write at once.

    A table is a name such as `keys` or `decisions/acme`; the first record creates it. Records are
    ordered by `at`, then by id. Every method raises `StoreError` or a subclass when it fails.
    """

    def put(self, table: str, row: DbRow) -> None:
        """Write a record, or replace the record with the same id; durable on return."""
        self.put_all(table, [row])

    def put_all(self, table: str, rows: Sequence[DbRow]) -> None:
        """Write records in about the time of one; durable on return."""
        ...

    def get(self, table: str, row_id: str) -> DbRow | None:
        """The record with this id; None if there is none."""
        ...

    def delete(self, table: str, row_id: str) -> bool:
        """Remove a record; True if it existed. Durable on return."""
        ...

    def newest(
        self, table: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[DbRow]:
        """The last records, newest first; `before` (time, id) leaves out later records."""
        ...

    def read(self, table: str) -> Iterator[DbRow]:
        """Every record of a table, oldest first."""
        ...

    def prune(self, table: str, *, before: float) -> int:
        """Remove records older than this time, and count them."""
        ...

    def tables(self) -> list[str]:
        """Names of the tables that hold records."""
        ...

    def close(self) -> None:
        """Release files and connections; a second call does nothing."""
        ...


def body_text(table: str, row: DbRow) -> str:
    """The body of a record as JSON in ASCII.

    Raises:
        StoreError: the record cannot be kept.
    """
    what = f"the record {row.id!r} of {table!r} cannot be kept"
    if not is_text(table, row.id):
        raise StoreError(f"{what}: its name holds half a character")
    if not math.isfinite(row.at):
        raise StoreError(f"{what}: its time is {row.at}")
    try:
        return json.dumps(dict(row.body), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{what}: {error}") from error


def read_row(row_id: str, at: float, text: str, place: str) -> DbRow:
    """A record as `body_text` wrote it; `place` is the records database as messages name it."""
    try:
        body: Any = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise StoreDamagedError(
            f"the record {row_id!r} in {place} is no JSON object; delete it, or restore a backup"
        )
    return DbRow(row_id, at, cast("dict[str, Any]", body))
