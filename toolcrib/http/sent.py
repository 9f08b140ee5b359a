"""Tools that came in a request: read as from a file, but nothing named in it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from toolcrib.errors import SourceError
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.indexers.readers.functions import FunctionsReader
from toolcrib.indexers.readers.mcp import McpListReader
from toolcrib.indexers.readers.openapi import OpenApiReader
from toolcrib.indexers.readers.toolspec import ToolSpecReader
from toolcrib.records import Refusal, ToolSpec

__all__ = ["read_sent"]

READERS: tuple[Reader, ...] = (
    McpListReader(),
    OpenApiReader(),
    FunctionsReader(),
    ToolSpecReader(),
)
"""Those of data: none that imports, connects or starts what somebody else names."""

NAME = "the request"


@dataclass(frozen=True)
class _Sent(Source):
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


def read_sent(
    content: Any, format: str | None, server: str | None
) -> Iterator[tuple[str, ToolSpec | Refusal]]:
    """Yield the tools of a parsed document, or of a list of definitions, and every refusal.

    `format` names the reader instead of letting the content decide; `server` overrides every
    tool's.
    """
    if content == []:
        return
    source = _Sent(NAME, content=content)
    reader = _reader(source, format)
    if reader is None:
        known = ", ".join(each.format for each in READERS)
        yield NAME, source.refusal(f"not a shape that is known; say which `format`: {known}")
        return
    silent = True
    try:
        for item in reader.read(source, server):
            silent = False
            yield NAME, item
    except SourceError as error:
        yield NAME, Refusal(error.source, error.place, error.reason)
        return
    if silent:
        yield NAME, source.refusal("holds no tools")


def _reader(source: Source, format: str | None) -> Reader | None:
    for reader in READERS:
        if reader.format == format or (format is None and reader.recognises(source)):
            return reader
    return None
