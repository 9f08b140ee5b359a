"""Whatever a caller hands in as a source of tools becomes entries for the sync."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

from toolcrib.indexers.sync import Entry
from toolcrib.records import ToolSpec

__all__ = ["ToolSource", "entries"]

ToolSource: TypeAlias = str | Path | ToolSpec | Callable[..., Any] | Iterable[Any]
"""A file, a folder, `module:attribute` or a server's URL by name; a specification, a function
or a LangChain tool as an object; or several of these."""


SEVERAL = (list, tuple, set, frozenset, Iterator)
"""What is gone through; not whatever iterates: a LangChain tool iterates over its fields."""


def entries(source: ToolSource, server: str | None, format: str | None) -> Iterator[Entry]:
    """Yield what a source holds, each with the source's name.

    Wrong input is yielded as a refusal. `server` overrides, `format` forces the reader.
    """
    # The readers import parsers of every format; a search needs none of them.
    from toolcrib.indexers.readers.python import read_objects
    from toolcrib.indexers.readers.registry import read_source

    if isinstance(source, str | Path):
        name = str(source)
        for item in read_source(name, format=format, server=server):
            yield name, item
    elif isinstance(source, ToolSpec):
        yield "a ToolSpec", source if server is None else source.on_server(server)
    elif isinstance(source, SEVERAL):
        for each in cast("Iterable[Any]", source):
            yield from entries(each, server, format)
    else:
        for item in read_objects("a Python object", source, server):
            yield "a Python object", item
