"""Every reader, and the one way in: a name that a user typed becomes tools and refusals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from toolcrib.errors import MissingExtraError, SourceError, UnknownFormatError
from toolcrib.indexers.readers.functions import FunctionsReader
from toolcrib.indexers.readers.mcp_list import McpListReader
from toolcrib.indexers.readers.mcp_live import McpLiveReader
from toolcrib.indexers.readers.mcp_servers import McpServersReader
from toolcrib.indexers.readers.openapi import OpenApiReader
from toolcrib.indexers.readers.python_tools import PythonReader
from toolcrib.indexers.readers.source import DATA_SUFFIXES, Reader, Reading, Source
from toolcrib.indexers.readers.spec import kind_of
from toolcrib.indexers.readers.toolspec import ToolSpecReader
from toolcrib.records import Refusal

__all__ = ["DATA_FORMATS", "READERS", "formats", "read_data", "read_source"]

STARTS = frozenset({"mcp-servers"})
"""Formats whose files say what to run: a folder from elsewhere must not get that far."""

SHOWN_KEYS = 5
"""How many keys of an unknown object are named."""

READERS: tuple[Reader, ...] = (
    McpServersReader(),
    McpListReader(),
    OpenApiReader(),
    FunctionsReader(),
    ToolSpecReader(),
    PythonReader(),
    McpLiveReader(),
)
"""In the order in which they are asked; no two recognise the same content."""

DATA_FORMATS = tuple(
    reader.format for reader in READERS if reader.format not in {*STARTS, "python", "mcp-live"}
)
"""Formats of data alone: reading them imports, connects to and starts nothing."""


def formats() -> tuple[str, ...]:
    """Give the names that `--format` takes."""
    return tuple(reader.format for reader in READERS)


def read_source(name: str, *, format: str | None = None, server: str | None = None) -> Reading:
    """Yield the tools of a file, a folder, `module:attribute` or a server, and every refusal.

    `format` names the reader instead of letting the content decide; `server` overrides the
    server of every tool. Bad input is never raised, and never silent: a source that cannot
    be read, or that holds no tools, yields a refusal that says so.
    """
    if format is not None and format not in formats():
        yield Refusal(name, "", f"there is no format {format!r}; known are {', '.join(formats())}")
        return
    source = Source.named(name)
    # Unlike pathlib, this says no to names that nothing can have, instead of raising.
    if os.path.isdir(name):  # noqa: PTH112
        yield from _read_folder(Path(name), format, server)
    else:
        yield from _read_one(source, format, server)


def read_data(
    content: Any, name: str, *, format: str | None = None, server: str | None = None
) -> Reading:
    """Yield the tools of a parsed document or list of definitions, as of a file called `name`.

    Only readers of `DATA_FORMATS` are asked, so that nothing named in it is opened.
    """
    if content == []:
        return
    source = _Parsed(name, content=content)
    for reader in (each for each in READERS if each.format in DATA_FORMATS):
        if reader.format == format or (format is None and reader.recognises(source)):
            yield from _read_by(reader, source, server)
            return
    known = ", ".join(DATA_FORMATS)
    yield source.refusal(f"not a shape that is known; say which `format`: {known}")


@dataclass(frozen=True)
class _Parsed(Source):
    """A source that is data already."""

    content: Any = None

    @cached_property
    def data(self) -> Any:
        """The data."""
        return self.content

    @cached_property
    def is_lines(self) -> bool:
        """Never: it is one document."""
        return False


def _read_folder(folder: Path, format_name: str | None, server: str | None) -> Reading:
    empty = True
    for found in _files_in(folder):
        empty = False
        if isinstance(found, Refusal):
            yield found
        else:
            yield from _read_found(Source(str(found), found), format_name, server)
    if empty:
        endings = ", ".join(sorted(DATA_SUFFIXES))
        yield Refusal(str(folder), "", f"the folder holds no file that ends in {endings}")


def _read_found(source: Source, format_name: str | None, server: str | None) -> Reading:
    """Read a file that nobody named; what would start commands is left to be named."""
    if format_name is None and any(r.recognises(source) for r in READERS if r.format in STARTS):
        yield source.refusal("reading it would start the servers in it; name it by itself")
    else:
        yield from _read_one(source, format_name, server)


def _files_in(folder: Path) -> Iterator[Path | Refusal]:
    """Yield every data file below `folder`, sorted; hidden folders are passed over."""
    unreadable: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=unreadable.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if _is_data(Path(name)):
                yield Path(parent, name)
    for error in unreadable:
        yield Refusal(str(error.filename), "", f"cannot be read: {error.strerror}")


def _is_data(path: Path) -> bool:
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return path.suffix.lower() in DATA_SUFFIXES and inner.suffix.lower() in {*DATA_SUFFIXES, ""}


def _read_one(source: Source, format_name: str | None, server: str | None) -> Reading:
    try:
        reader = _reader_for(source, format_name)
    except SourceError as error:
        yield Refusal(error.source, error.place, error.reason)
    else:
        yield from _read_by(reader, source, server)


def _read_by(reader: Reader, source: Source, server: str | None) -> Reading:
    silent = True
    try:
        for item in reader.read(source, server):
            silent = False
            yield item
    except SourceError as error:
        yield Refusal(error.source, error.place, error.reason)
    except MissingExtraError as error:
        yield source.refusal(str(error))
    else:
        if silent:
            yield source.refusal("holds no tools")


def _reader_for(source: Source, format_name: str | None) -> Reader:
    for reader in READERS:
        if reader.format == format_name or (format_name is None and reader.recognises(source)):
            return reader
    raise UnknownFormatError(source.name, "", _unrecognised(source))


def _unrecognised(source: Source) -> str:
    """Say why no reader takes it; raises SourceError when it cannot even be parsed."""
    if source.path is None:
        return "there is no such file or folder, and it is no module:attribute and no server"
    if source.path.suffix == ".py":
        return f"name what to read in it, as {source.name}:ATTRIBUTE"
    data = source.sample if source.is_lines else source.data
    if not data:
        return "holds no tools"
    shape = kind_of(data)
    if isinstance(data, dict):
        keys = sorted(cast("dict[str, object]", data))
        more = ", …" if len(keys) > SHOWN_KEYS else ""
        shape += f" with the keys {', '.join(map(repr, keys[:SHOWN_KEYS]))}{more}"
    return (
        f"{shape} is not a shape that is known; say which of {', '.join(formats())} with --format"
    )
