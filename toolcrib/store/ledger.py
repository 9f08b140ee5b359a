"""What is kept beside the points: keys, decisions, what is held back; small JSON, by shelf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Entry", "Ledger"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One record: its id is unique on its shelf, `at` is Unix time in seconds."""

    id: str
    at: float
    body: Mapping[str, Any]


class Ledger(Protocol):
    """Shelves of records that several processes read and write at once.

    A shelf is a name such as `keys` or `decisions/acme`, and needs no making. Records are
    ordered by `at`, then by id. Every method raises `StoreError` or a class below it when it
    cannot do its work.
    """

    def put(self, shelf: str, entry: Entry) -> None:
        """Write a record, or replace the one of the same id; durable when this returns."""
        ...

    def put_all(self, shelf: str, entries: Sequence[Entry]) -> None:
        """Write records, about as fast as one; durable when this returns."""
        ...

    def get(self, shelf: str, entry_id: str) -> Entry | None:
        """The record with this id, None where there is none."""
        ...

    def delete(self, shelf: str, entry_id: str) -> bool:
        """Remove a record; whether there was one. Durable when this returns."""
        ...

    def newest(
        self, shelf: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[Entry]:
        """The last records, newest first; with `before`, only those ordered before that pair."""
        ...

    def read(self, shelf: str) -> Iterator[Entry]:
        """Every record of a shelf, oldest first."""
        ...

    def prune(self, shelf: str, *, before: float) -> int:
        """Remove what is older than this time; counts what went."""
        ...

    def shelves(self, prefix: str = "") -> list[str]:
        """The shelves that hold anything and begin so, by name."""
        ...

    def close(self) -> None:
        """Let go of what is held; a second call does nothing."""
        ...
