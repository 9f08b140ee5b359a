"""The end of what a process writes to its stderr: enough to say why it died."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Self, TextIO

__all__ = ["LastWords"]

TAIL_BYTES = 8192
READ_BYTES = 65_536
MAX_QUOTE_CHARS = 200


class LastWords:
    """A file to write to, of which only the end is kept; a context manager in an event loop.

    A server may write for months: a pipe that is read at once fills no disk.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._ends: tuple[int, TextIO] | None = None

    def __enter__(self) -> Self:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        asyncio.get_running_loop().add_reader(reading, self._read)
        self._ends = reading, os.fdopen(writing, "w", encoding="utf-8")
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        assert self._ends is not None
        self._read()
        reading, writing = self._ends
        self._ends = None
        asyncio.get_running_loop().remove_reader(reading)
        writing.close()
        os.close(reading)

    @property
    def file(self) -> TextIO:
        """What a process is given as its stderr."""
        assert self._ends is not None
        return self._ends[1]

    @property
    def line(self) -> str:
        """The last line that is not blank, cut to be quoted; empty when there is none."""
        self._read()
        lines = self._tail.decode("utf-8", "replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "")
        return " ".join(last.split())[:MAX_QUOTE_CHARS]

    def _read(self) -> None:
        if self._ends is None:
            return
        try:
            while read := os.read(self._ends[0], READ_BYTES):
                self._tail = (self._tail + read)[-TAIL_BYTES:]
        except BlockingIOError:
            pass
