"""A log of JSON Lines: append-only, rotated, shared by threads and processes without a lock."""

from __future__ import annotations

import errno
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

from filelock import FileLock, Timeout

from toolcrib.errors import StoreDamagedError, StoreWriteError

__all__ = ["JsonLinesLog"]

PATIENCE_S = 1.0
"""How long somebody else's rotation is waited for."""

OWNER_ONLY = 0o600
HOLES = 2
"""While files are being moved up one number may be free; two in a row are the end."""


class JsonLinesLog:
    """One record a line in `path`; what is full becomes `path.1`, `path.2`, up to `path.KEPT`.

    A record is one write to a file opened for appending, so that those of several threads and
    processes never mix. What a killed process left of a line costs that line only. The file can
    be read by its owner alone, and is made with its folder at the first write.
    """

    def __init__(self, path: Path, *, max_bytes: int = 16 * 2**20, kept: int = 5) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record of JSON values.

        Raises:
            StoreWriteError: the disk refuses.
        """
        line = json.dumps(dict(record), separators=(",", ":")).encode("ascii") + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._make_room(len(line))
            self._append(line)
        except OSError as error:
            raise StoreWriteError(
                f"the log {self._path} cannot be written to ({error.strerror}); make room, or name "
                "another file as telemetry.path",
            ) from error

    def read(self) -> Iterator[Mapping[str, Any]]:
        """Every record, oldest first; lines that are no record are passed over.

        Raises:
            StoreDamagedError: a file cannot be opened.
        """
        with ExitStack() as stack:
            for file in reversed(self._open_all(stack)):
                yield from filter(None, map(_record, file))

    def find(self, decision_id: str) -> Mapping[str, Any] | None:
        """The decision of this id, None where there is none.

        Raises:
            StoreDamagedError: a file cannot be opened.
        """
        wanted = json.dumps(decision_id).encode("ascii")
        with ExitStack() as stack:
            for file in self._open_all(stack):
                found = [_record(line) for line in file if wanted in line]
                for record in filter(None, reversed(found)):
                    if record.get("kind") == "decision" and record.get("id") == decision_id:
                        return record
        return None

    def close(self) -> None:
        """Nothing is held between writes."""

    def _append(self, line: bytes) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, OWNER_ONLY)
        try:
            end = os.fstat(descriptor).st_size
            if end and os.pread(descriptor, 1, end - 1) != b"\n":
                line = b"\n" + line
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, "only a part of a record was taken")
        finally:
            os.close(descriptor)

    def _make_room(self, more: int) -> None:
        if not self._is_full(more):
            return
        try:
            with FileLock(f"{self._path}.lock", timeout=PATIENCE_S):
                # Another process may have done it in the meantime.
                if self._is_full(more):
                    self._rotate()
        except Timeout:
            # A file that is too long is better than a decision that is not logged.
            return

    def _is_full(self, more: int) -> bool:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return False
        return size > 0 and size + more > self._max_bytes

    def _rotate(self) -> None:
        free = next(n for n in itertools.count(1) if not self._numbered(n).exists())
        for number in range(self._kept + 1, free):
            self._numbered(number).unlink()
        for number in range(min(free, self._kept), 0, -1):
            self._numbered(number - 1).replace(self._numbered(number))
        if not self._kept:
            self._path.unlink()

    def _open_all(self, stack: ExitStack) -> list[BinaryIO]:
        """The files, newest first: one that is moved up meanwhile is met again under its number."""
        found: dict[int, BinaryIO] = {}
        number = missing = 0
        while missing < HOLES:
            path = self._numbered(number)
            number += 1
            try:
                file = stack.enter_context(path.open("rb"))
            except FileNotFoundError:
                missing += 1
            except OSError as error:
                raise StoreDamagedError(
                    f"the log {path} cannot be read: {error.strerror}",
                ) from error
            else:
                missing = 0
                found.setdefault(os.fstat(file.fileno()).st_ino, file)
        return list(found.values())

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _record(line: bytes) -> Mapping[str, Any] | None:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
