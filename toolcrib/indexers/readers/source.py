"""What a reader gets and what it gives: a named source in, specifications and refusals out."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol, TypeAlias, cast

from toolcrib.errors import SourceError
from toolcrib.indexers.readers.parsing import decode, parse_json, parse_yaml
from toolcrib.indexers.readers.base import build_spec
from toolcrib.records import Refusal, ToolSpec

__all__ = ["MAX_SOURCE_BYTES", "Reader", "Reading", "Source", "build_spec"]

MAX_SOURCE_BYTES = 32 * 2**20
"""Larger documents are refused unread; JSON Lines have no limit but this one for each line."""

SAMPLE_LINES = 20
"""How many lines of JSON Lines are looked at to recognise the format."""

LINE_SUFFIXES = frozenset({".jsonl", ".ndjson"})
YAML_SUFFIXES = frozenset({".yaml", ".yml"})
DATA_SUFFIXES = LINE_SUFFIXES | YAML_SUFFIXES | {".json", ".gz"}
"""The endings of files that may hold tools; in a folder, others are passed over."""

Reading: TypeAlias = Iterator[ToolSpec | Refusal]
"""What a reader yields: good specifications and, in between, what had to be refused."""


@dataclass(frozen=True)
class Source:
    """One thing to read: a file, or a name that only some readers understand.

    `name` is what the user typed; `path` is set when it names an existing file.
    A gzip-compressed file is read as what it holds.
    """

    name: str
    path: Path | None = None

    @classmethod
    def named(cls, name: str) -> Source:
        """Give the source that `name` stands for, with its path when that is a file."""
        # Unlike pathlib, this says no to names that no file can have, instead of raising.
        return cls(name, Path(name) if os.path.isfile(name) else None)  # noqa: PTH113

    @property
    def stem(self) -> str:
        """The file name before its first dot: the server, when nothing else says it."""
        return self.path.name.lstrip(".").split(".", 1)[0] if self.path else ""

    @cached_property
    def text(self) -> str:
        """The whole file as text.

        Raises:
            SourceError: it is missing, empty, larger than `MAX_SOURCE_BYTES` or not UTF-8.
        """
        with self._opened() as file:
            content = file.read(MAX_SOURCE_BYTES + 1)
        if len(content) > MAX_SOURCE_BYTES:
            raise self.error(
                f"larger than {MAX_SOURCE_BYTES:,} bytes ({self._size_on_disk():,} on disk), which "
                "is the most that is read as one document: split it, or write one tool a line "
                "(.jsonl)",
            )
        try:
            text = decode(content)
        except ValueError as error:
            raise self.error(str(error)) from None
        if not text.strip():
            raise self.error("the file is empty")
        return text

    @cached_property
    def data(self) -> Any:
        """The file parsed as JSON or YAML, by its ending and its first character.

        Raises:
            SourceError: it is neither; the reason has line and column.
        """
        braced = self.text.lstrip()[0] in "[{"
        try:
            if self._suffix not in YAML_SUFFIXES:
                is_json = braced or self._suffix == ".json"
                return parse_json(self.text) if is_json else parse_yaml(self.text)
            return self._braced_yaml() if braced else parse_yaml(self.text)
        except ValueError as error:
            raise self.error(str(error)) from None

    def _braced_yaml(self) -> Any:
        # JSON is YAML, and forty times faster to read as JSON.
        try:
            return parse_json(self.text)
        except ValueError:
            return parse_yaml(self.text)

    @cached_property
    def sample(self) -> Any:
        """What `recognises` looks at: `data`, or the first objects of JSON Lines as a list.

        None when nothing can be parsed; `data` then says why.
        """
        try:
            return list(self._first_objects()) if self.is_lines else self.data
        except SourceError:
            return None

    @cached_property
    def is_lines(self) -> bool:
        """Whether this is JSON Lines: by its ending, or as its first two lines are objects.

        Raises:
            SourceError: the file cannot be read.
        """
        if self.path is None or self._suffix in YAML_SUFFIXES:
            return False
        first, second = ([line for _, line in islice(self.lines(), 2)] + [b"", b""])[:2]
        if self._suffix in LINE_SUFFIXES:
            # Unless it is a document that was only given the wrong ending.
            return not (first.startswith(b"[") or first == b"{")
        return _is_object(first) and _is_object(second)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Stream number, from 1, and stripped bytes of each line that is not blank.

        A line longer than `MAX_SOURCE_BYTES` is cut to one byte more than that.

        Raises:
            SourceError: the file cannot be read (on).
        """
        with self._opened() as file:
            number = 0
            while line := file.readline(MAX_SOURCE_BYTES + 1):
                number += 1
                stripped = line.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").strip()
                if stripped:
                    yield number, stripped
                while len(line) > MAX_SOURCE_BYTES and not line.endswith(b"\n"):
                    line = file.readline(MAX_SOURCE_BYTES + 1)

    def error(self, reason: str, place: str = "") -> SourceError:
        """Make a `SourceError` about this source, to raise."""
        return SourceError(self.name, place, reason)

    def refusal(self, reason: str, place: str = "") -> Refusal:
        """Make a `Refusal` of something in this source, to yield."""
        return Refusal(self.name, place, reason)

    @property
    def _suffix(self) -> str:
        suffixes = [suffix.lower() for suffix in self.path.suffixes] if self.path else []
        if suffixes and suffixes[-1] == ".gz":
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    @contextmanager
    def _opened(self) -> Generator[IO[bytes]]:
        if self.path is None:
            raise self.error("no such file")
        try:
            with self.path.open("rb") as file:
                packed = file.peek(2)[:2] == b"\x1f\x8b"
                with cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file as opened:
                    yield opened
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self.error(f"damaged gzip file: {error}") from None
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror or error}") from None

    def _size_on_disk(self) -> int:
        return self.path.stat().st_size if self.path else 0

    def _first_objects(self) -> Iterator[dict[str, Any]]:
        for _, line in islice(self.lines(), SAMPLE_LINES):
            if len(line) > MAX_SOURCE_BYTES:
                # Who knows how long it is; what came before must do.
                return
            if (value := _object_or_none(line)) is not None:
                yield value


def _object_or_none(line: bytes) -> dict[str, Any] | None:
    try:
        value = parse_json(decode(line))
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _is_object(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}") and _object_or_none(line) is not None


class Reader(Protocol):
    """Reads one format; stateless, one instance is shared."""

    format: ClassVar[str]
    """The name that `--format` takes."""

    def recognises(self, source: Source) -> bool:
        """Whether the content is of this format; never raises for content of another.

        Looks at `source.sample`, which is None for what cannot be parsed.
        """
        ...

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool, and a refusal for each that is wrong; `server` overrides its server.

        Raises:
            SourceError: the source as a whole cannot be read (on).
        """
        ...
