"""Registry of readers: whatever a caller names or hands in becomes tools and refusals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast

from toolcrib.errors import MissingExtraError, SourceError
from toolcrib.indexers.readers.base import (
    DATA_SUFFIXES,
    Reader,
    Reading,
    Source,
    entries,
    is_object,
    kind_of,
    other_kind,
)
from toolcrib.indexers.readers.skills import SKILL_FILE
from toolcrib.indexers.sync import Entry, ReadSources
from toolcrib.records import Refusal, ToolSpec

ToolSource: TypeAlias = str | Path | ToolSpec | Callable[..., Any] | Iterable[Any] | ReadSources
"""A file, a folder, `module:attribute` or a server's URL by name; a specification, a function
or a LangChain tool as an object; several of these; or what was read of them before."""

COLLECTION_TYPES = (list, tuple, set, frozenset, Iterator)
"""Types that hold several sources; a LangChain tool iterates too, over its fields."""

MAX_SHOWN_KEYS = 5
"""Keys of an unknown object that a message names."""

MAX_SHOWN_FOLDERS = 10
"""Folders that were passed over and are named."""

INSTALLED_FOLDERS = frozenset({"node_modules", "site-packages", "__pycache__"})
"""Folders of other people's files, passed over as hidden ones are."""

CACHE_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".cache", ".idea", "__pycache__"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache"}
)
"""Folders that hold no tools, and are passed over without a word."""

MAX_REFUSALS_IN_A_ROW = 10_000
"""Refused entries in a row after which a source counts as no list of tools."""


@cache
def readers() -> tuple[Reader, ...]:
    """Every reader, in the order in which they are asked: the first that recognises a source.

    They import parsers of every format; a search needs none of them.
    """
    from toolcrib.indexers.readers.functions import FunctionsReader
    from toolcrib.indexers.readers.mcp import McpListReader, McpLiveReader, McpServersReader
    from toolcrib.indexers.readers.mcp_skills import McpSkillsReader
    from toolcrib.indexers.readers.openapi import OpenApiReader
    from toolcrib.indexers.readers.python import PythonReader
    from toolcrib.indexers.readers.skills import SkillsReader
    from toolcrib.indexers.readers.toolspec import ToolSpecReader

    return (
        SkillsReader(),
        McpServersReader(),
        McpListReader(),
        OpenApiReader(),
        FunctionsReader(),
        ToolSpecReader(),
        PythonReader(),
        McpLiveReader(),
        McpSkillsReader(),
    )


def formats(*, sent: bool = False) -> tuple[str, ...]:
    """Give the names that `--format` takes; if `sent`, those of data that a request may hold."""
    return tuple(reader.format for reader in readers() if not (sent and reader.reaches_out))


def tool_entries(source: ToolSource, server: str | None, format: str | None) -> Iterator[Entry]:
    """Yield what a source holds, each with the source's name.

    Wrong input is yielded as a refusal. `server` overrides, `format` forces the reader.
    """
    if isinstance(source, str | Path):
        name = str(source)
        for item in read_source(name, format=format, server=server):
            yield name, item
    elif isinstance(source, ReadSources):
        yield from cast("Iterable[Entry]", source.entries)
    elif isinstance(source, COLLECTION_TYPES):
        for each in cast("Iterable[Any]", source):
            yield from tool_entries(each, server, format)
    else:
        yield from _object_entries(source, server, format)


def _object_entries(source: Any, server: str | None, format: str | None) -> Iterator[Entry]:
    """Entries of an object; its kind has one reader, so that a format is only checked."""
    name = "a ToolSpec" if isinstance(source, ToolSpec) else "a Python object"
    if format is not None and format not in formats():
        yield name, Refusal(name, "", _unknown_format(format))
    elif isinstance(source, ToolSpec):
        yield name, source if server is None else source.on_server(server)
    else:
        from toolcrib.indexers.readers.python import read_objects

        for item in read_objects(name, source, server):
            yield name, item


def read_data(
    content: Any, name: str, *, format: str | None = None, server: str | None = None
) -> Reading:
    """Yield the tools of a parsed document or list of definitions, as of a file called `name`.

    Nothing that it names is imported, connected to or started. `format` names the reader
    instead of letting the content decide; `server` overrides every tool's.
    """
    if content == []:
        return
    names = ", ".join(formats(sent=True))
    known = [reader for reader in readers() if not reader.reaches_out]
    yield from _read(
        Source.of_document(name, content),
        known,
        format,
        server,
        lambda _: f"not a shape that is known; say which `format`: {names}",
    )


def is_known_data(content: Any) -> bool:
    """Tell whether a parsed value is an object of definitions that a reader knows."""
    if not is_object(content):
        return False
    source = Source.of_document("", content)
    return any(reader.recognises(source) for reader in readers() if not reader.reaches_out)


def read_source(name: str, *, format: str | None = None, server: str | None = None) -> Reading:
    """Yield the tools of a file, a folder, `module:attribute` or a server, and every refusal.

    `format` names the reader instead of letting the content decide; `server` overrides the
    server of every tool. Bad input is never raised, and never silent: a source that cannot
    be read, or that holds no tools, yields a refusal that says so.
    """
    if format is not None and format not in formats():
        yield Refusal(name, "", _unknown_format(format))
        return
    # Unlike pathlib, this says no to names that nothing can have, instead of raising.
    if os.path.isdir(name):  # noqa: PTH112
        yield from _read_folder(Path(name), format, server)
    else:
        yield from _read(Source.by_name(name), readers(), format, server, _unknown_format_reason)


def _unknown_format(name: str) -> str:
    return f"there is no format {name!r}; known are {', '.join(formats())}"


def _read_folder(folder: Path, format_name: str | None, server: str | None) -> Reading:
    from toolcrib.indexers.enrichment import COMPANION_CHECKS

    empty = True
    hidden: list[str] = []
    for found in _files_in(folder, hidden):
        empty = False
        if isinstance(found, Refusal):
            yield found
            continue
        source = Source(str(found), found)
        if (is_beside := COMPANION_CHECKS.get(found.name)) is not None and is_beside(source):
            continue
        # What would start commands is left to be named.
        if (
            format_name is None
            and found.name != SKILL_FILE
            and any(reader.reaches_out and reader.recognises(source) for reader in readers())
        ):
            yield source.refusal("reading it would start the servers in it; name it by itself")
        else:
            yield from _read(source, readers(), format_name, server, _unknown_format_reason)
    if hidden:
        names = ", ".join(hidden[:MAX_SHOWN_FOLDERS])
        more = (
            f" and {len(hidden) - MAX_SHOWN_FOLDERS:,} more" if hidden[MAX_SHOWN_FOLDERS:] else ""
        )
        yield Refusal(str(folder), "", f"passed over: {names}{more}; name by itself what to read")
    if empty:
        endings = ", ".join(sorted(DATA_SUFFIXES))
        yield Refusal(
            str(folder), "", f"the folder holds no file that ends in {endings}, and no {SKILL_FILE}"
        )


def _files_in(folder: Path, hidden: list[str]) -> Iterator[Path | Refusal]:
    """Yield every data file below `folder`, sorted.

    Folders that are hidden, or hold what was installed, are passed over. Those that may hold
    tools are named in `hidden`.
    """
    unreadable: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=unreadable.append):
        if SKILL_FILE in files:
            # What else is in the folder of a skill belongs to it.
            folders.clear()
            yield Path(parent, SKILL_FILE)
            continue
        passed = {name for name in folders if name.startswith(".") or name in INSTALLED_FOLDERS}
        paths = (Path(parent, name).relative_to(folder) for name in sorted(passed - CACHE_FOLDERS))
        hidden += map(str, paths)
        folders[:] = sorted(set(folders) - passed)
        yield from (Path(parent, name) for name in sorted(files) if _is_data(Path(name)))
    for error in unreadable:
        yield Refusal(str(error.filename), "", f"cannot be read: {error.strerror}")


def _is_data(path: Path) -> bool:
    inner = Source(path.name, path).suffix
    return path.suffix.lower() in DATA_SUFFIXES and inner in {*DATA_SUFFIXES, ""}


def _read(
    source: Source,
    known: Sequence[Reader],
    format_name: str | None,
    server: str | None,
    unrecognised: Callable[[Source], str],
) -> Reading:
    """Read a source; what is wrong with it as a whole, and that it is empty, is a refusal."""
    silent = True
    try:
        for reader in known:
            if reader.format == format_name or (format_name is None and reader.recognises(source)):
                break
        else:
            raise source.error(unrecognised(source))
        for item in _stop_endless_refusals(source, reader.read(source, server)):
            silent = False
            yield item
    except SourceError as error:
        yield Refusal(error.source, error.place, error.reason)
    except MissingExtraError as error:
        yield source.refusal(str(error))
    else:
        if silent:
            yield source.refusal("holds no tools")


def _stop_endless_refusals(source: Source, items: Reading) -> Reading:
    """Yield what is read; SourceError after very many refusals in a row."""
    in_a_row = 0
    for item in items:
        yield item
        in_a_row = in_a_row + 1 if isinstance(item, Refusal) else 0
        if in_a_row == MAX_REFUSALS_IN_A_ROW:
            raise source.error(
                f"{MAX_REFUSALS_IN_A_ROW:,} wrong entries in a row; the rest is not read"
            )


def _unknown_format_reason(source: Source) -> str:
    """Say why no reader takes it; raises SourceError when it cannot even be parsed."""
    if source.path is None:
        return "there is no such file or folder, and it is no module:attribute and no server"
    if source.path.suffix == ".py":
        return f"name what to read in it, as {source.name}:ATTRIBUTE"
    data = source.sample if source.is_lines else source.data
    if not data:
        lines = entries(source) if source.is_lines else ()
        broken = (f"{each.place}: {each.reason}" for each in lines if isinstance(each, Refusal))
        return next(broken, "holds no tools")
    if kind := other_kind(data):
        return f"is {kind}, and holds no tools"
    shape = kind_of(data)
    first: object = data[0] if shape == "a list" else data
    if is_object(first) and "name" in first:
        return (
            "has a `name` and nothing else that makes it a tool: give a `server`, an "
            "`input_schema` or another field of tools, or say --format toolspec"
        )
    if is_object(data):
        keys = sorted(data)
        more = ", …" if len(keys) > MAX_SHOWN_KEYS else ""
        shape += f" with the keys {', '.join(map(repr, keys[:MAX_SHOWN_KEYS]))}{more}"
    return (
        f"{shape} is not a shape that is known; say which of {', '.join(formats())} with --format"
    )
