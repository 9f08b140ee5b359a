"""Registry of readers: reads tools and refusals from any source that a caller names or passes."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, ValuesView
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast

from toolcrib.errors import MissingExtraError, SourceError
from toolcrib.indexers.readers.base import (
    DATA_SUFFIXES,
    MAX_NAMES_CHARS,
    YAML_SUFFIXES,
    Reader,
    Reading,
    Source,
    build_spec,
    entries,
    is_object,
    is_other_file,
    kind_of,
    other_kind,
)
from toolcrib.indexers.readers.skills import SKILL_FILE
from toolcrib.indexers.sync import Entry, ReadSources
from toolcrib.records import Refusal, ToolSpec
from toolcrib.store.folder import LOCK_FILE
from toolcrib.text import shorten

logger = logging.getLogger(__name__)

ToolSource: TypeAlias = str | Path | ToolSpec | Callable[..., Any] | Iterable[Any] | ReadSources
"""Name of a file, a folder, `module:attribute` or a server's URL; or a specification, a function or
a LangChain tool; or several of these; or entries that were read before."""

COLLECTION_TYPES = (list, tuple, set, frozenset, Iterator, ValuesView)
"""Types of collections of sources; not any iterable, as a LangChain tool iterates its fields."""

SPEC_SOURCE, OBJECT_SOURCE = "a ToolSpec", "a Python object"
"""Names of sources that are no files: objects that a caller passes."""

MAX_KEYS_CHARS = 100
"""Most characters of the keys of an unknown object in a message."""

INSTALLED_FOLDERS = frozenset({"node_modules", "site-packages", "__pycache__"})
"""Folders of installed packages, which are skipped as hidden folders are."""

CACHE_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".cache", ".idea", "__pycache__"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache"}
)
"""Folders without tools, which are skipped silently."""

SETTINGS_NAME = "toolcrib.yaml"
"""File of settings, which often stands beside tools and holds none."""

SETTINGS_NAMES = re.compile(r"\A(?:\..*|(package|composer|[jt]sconfig.*)\.json|mkdocs\.ya?ml)")
"""Names of other programs' settings, which often have comments and so cannot be parsed."""

MAX_REFUSALS_IN_A_ROW = 10_000
"""Refused entries in a row after which reading stops: the source is no list of tools."""


@cache
def readers() -> tuple[Reader, ...]:
    """All readers; the first that recognises a source reads it.

    Imported here, as readers import parsers of every format, and a search needs none.
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
    """Names of formats for `--format`; if `sent`, only formats of data in a request."""
    return tuple(reader.format for reader in readers() if not (sent and reader.reaches_out))


def tool_entries(source: ToolSource, server: str | None, format: str | None) -> Iterator[Entry]:
    """Yield the entries of a source, each with the source's name; of a folder, with the file's.

    Wrong input is yielded as a refusal. `server` overrides the tools' servers, `format` forces a
    reader.
    """
    if isinstance(source, str | Path):
        yield from _path_entries(str(source), format, server)
    elif isinstance(source, ReadSources):
        yield from cast("Iterable[Entry]", source.entries)
    elif isinstance(source, COLLECTION_TYPES):
        for index, each in enumerate(cast("Iterable[Any]", source)):
            for name, item in tool_entries(each, server, format):
                yield name, _with_index(index, item)
    else:
        yield from _object_entries(source, server, format)


def _with_index(index: int, item: ToolSpec | Refusal) -> ToolSpec | Refusal:
    """Entry of a list; the refusal of an object has its index, as an object has no other name."""
    if isinstance(item, ToolSpec) or item.source != OBJECT_SOURCE:
        return item
    separator = "." if item.place and not item.place.startswith("[") else ""
    return replace(item, place=f"[{index}]{separator}{item.place}")


def _object_entries(source: Any, server: str | None, format: str | None) -> Iterator[Entry]:
    """Entries of an object; its type determines the reader, so `format` is only checked."""
    name = SPEC_SOURCE if isinstance(source, ToolSpec) else OBJECT_SOURCE
    if format is not None and format not in formats():
        yield name, Refusal(name, "", _unknown_format(format))
    elif isinstance(source, ToolSpec):
        # `model_copy` and `model_construct` check nothing, and an unreadable specification in the
        # index would break every search that finds it.
        spec = build_spec(name, str(source.id), source.model_dump(warnings=False))
        if isinstance(spec, ToolSpec):
            # The given one keeps its digest, which takes as long as the check.
            spec = source if spec == source else spec
            spec = spec if server is None else spec.on_server(server)
        yield name, spec
    else:
        from toolcrib.indexers.readers.python import read_objects

        yield from ((name, item) for item in read_objects(name, source, server))


def read_data(
    content: Any, name: str, *, format: str | None = None, server: str | None = None
) -> Reading:
    """Yield the tools of a parsed document or list of definitions, as of a file called `name`.

    Nothing in it is imported, connected to or started. `format` forces a reader; `server`
    overrides the tools' servers.
    """
    if content != []:
        yield from _read(Source.of_document(name, content), format, server, sent=True)


def is_known_data(content: Any) -> bool:
    """True if a reader recognises a parsed value."""
    return is_object(content) and bool(_reader_of(Source.of_document("", content), sent=True))


def _reader_of(source: Source, *, sent: bool) -> Reader | None:
    """First reader that recognises a source; for a `sent` one, of those that open nothing."""
    fitting = (each for each in readers() if not (sent and each.reaches_out))
    return next((each for each in fitting if each.recognises(source)), None)


def _path_entries(name: str, format: str | None, server: str | None) -> Iterator[Entry]:
    if format is not None and format not in formats():
        yield name, Refusal(name, "", _unknown_format(format))
        return
    # Unlike pathlib, this says no to names that nothing can have, instead of raising.
    if os.path.isdir(name):  # noqa: PTH112
        yield from _read_folder(Path(name), format, server)
    else:
        yield from ((name, item) for item in _read(Source.by_name(name), format, server))


def _unknown_format(name: str) -> str:
    return f"there is no format {name!r}; known are {', '.join(formats())}"


def _read_folder(folder: Path, format_name: str | None, server: str | None) -> Iterator[Entry]:
    from toolcrib.indexers.enrichment import COMPANION_CHECKS

    empty = True
    passed: list[str] = []
    for found in _files_in(folder, passed):
        if isinstance(found, Refusal):
            items: Reading = iter((found,))
            name = found.source
        else:
            name, path = found.name, Path(found.name)
            if COMPANION_CHECKS.get(path.name, lambda _: False)(found):
                continue
            if format_name is None and _is_passed_over(found):
                passed.append(str(path.relative_to(folder)))
                continue
            items = _read(found, format_name, server)
        empty = False
        yield from ((name, item) for item in items)
    if passed:
        names = shorten(", ".join(passed), MAX_NAMES_CHARS)
        # No refusal: it would keep `--prune` from removing anything, at each run.
        logger.warning("%s: passed over: %s; name by itself what to read", folder, names)
    if empty:
        reason = f"the folder holds no {SKILL_FILE}, and no tools in a file that ends in "
        yield str(folder), Refusal(str(folder), "", reason + ", ".join(sorted(DATA_SUFFIXES)))


def _is_passed_over(source: Source) -> bool:
    """True for a file that is read only if it is named: it starts servers, or is no list of tools.

    A file of an unknown shape is no such file: it may be what is left of a list of tools. So may
    hidden JSON that cannot be parsed, which other programs write at most with comments.
    """
    name, reader = Path(source.name).name, _reader_of(source, sent=False)
    if reader is not None:
        return reader.reaches_out and name != SKILL_FILE
    if not SETTINGS_NAMES.fullmatch(name):
        return is_other_file(source.sample)
    # YAML of other programs may have tags, and so cannot be parsed either.
    return not name.startswith(".") or source.suffix in YAML_SUFFIXES or _is_parsed(source)


def _is_parsed(source: Source) -> bool:
    """True for JSON that can be parsed, perhaps without its comments."""
    from toolcrib.indexers.readers.mcp_config import parse_config

    try:
        return parse_config(source) is not None or bool(source.sample)
    except SourceError:
        return False


def _files_in(folder: Path, passed: list[str]) -> Iterator[Source | Refusal]:
    """Yield every data file below `folder`, sorted; `passed` gets the folders passed over."""
    unreadable: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=unreadable.append):
        if SKILL_FILE in files:
            # All other files in the folder of a skill belong to the skill.
            folders.clear()
            yield _file(parent, SKILL_FILE)
            continue
        # Nobody looks for tools in an index, such as the `.toolcrib` of an earlier run.
        stores = {name for name in folders if _is_store(parent, name)}
        left = {n for n in folders if n.startswith(".") or n in INSTALLED_FOLDERS} - stores
        paths = (Path(parent, name).relative_to(folder) for name in sorted(left - CACHE_FOLDERS))
        passed += map(str, paths)
        folders[:] = sorted(set(folders) - left - stores)
        yield from (_file(parent, name) for name in sorted(files) if _is_data(Path(name)))
    for error in unreadable:
        yield Refusal(str(error.filename), "", f"cannot be read: {error.strerror}")


def _file(parent: str, name: str) -> Source | Refusal:
    path = Path(parent, name)
    source = Source(str(path), path)
    # Not pathlib, which raises in a folder that may not be searched.
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        # A pipe or device: to read it may never end.
        return source.refusal("not a file")
    return source


def _is_store(parent: str, name: str) -> bool:
    return os.path.exists(os.path.join(parent, name, LOCK_FILE))  # noqa: PTH110, PTH118


def _is_data(path: Path) -> bool:
    inner = Source(path.name, path).suffix
    known = path.suffix.lower() in DATA_SUFFIXES and inner in {*DATA_SUFFIXES, ""}
    return known and path.name != SETTINGS_NAME


def _read(source: Source, name: str | None, server: str | None, *, sent: bool = False) -> Reading:
    """Read a source by the format `name`; a fault of the source, or no content, is a refusal.

    `sent`: read data of a request, by which nothing is opened.
    """
    silent = True
    try:
        named = {each.format: each for each in readers() if not (sent and each.reaches_out)}
        reader = named.get(name) if name else _reader_of(source, sent=sent)
        if reader is None:
            unknown = f"not a shape that is known; say which `format`: {', '.join(named)}"
            raise source.error(unknown if sent else _unknown_format_reason(source))
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
    """Yield the items; SourceError after `MAX_REFUSALS_IN_A_ROW`."""
    in_a_row = 0
    for item in items:
        yield item
        in_a_row = in_a_row + 1 if isinstance(item, Refusal) else 0
        if in_a_row == MAX_REFUSALS_IN_A_ROW:
            reason = f"{MAX_REFUSALS_IN_A_ROW:,} wrong entries in a row; the rest is not read"
            raise source.error(reason)


def _unknown_format_reason(source: Source) -> str:
    """Reason why no reader recognises a source; SourceError if it cannot be parsed."""
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
        lacking = "give a `server`, an `input_schema` or another field of tools"
        reason = "has a `name` and nothing else that makes it a tool"
        return f"{reason}: {lacking}, or index it with --format toolspec"
    if is_object(data):
        keys = shorten(", ".join(map(repr, sorted(data))), MAX_KEYS_CHARS)
        shape += f" with the keys {keys}"
    names = ", ".join(formats())
    return f"{shape} is not a shape that is known; say which of {names} with --format"
