"""Folders of tools or intents with labelled queries, and any tools with any queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from toolcrib.errors import SourceError
from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.loaders.checks import checked
from toolcrib.evaluation.loaders.rows import read_intents, read_queries
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.records import Refusal, ToolSpec

__all__ = ["intents", "pair", "part", "registry", "tools", "with_tools"]


def part(folder: Path, name: str) -> Path | None:
    """Give the file `name` or its compressed form, or the folder where `name` ends in a slash."""
    if name.endswith("/"):
        return folder / name if (folder / name).is_dir() else None
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)


def tools(folder: Path) -> DataSet:
    """Load `tools.jsonl`, in any form that can be indexed, with `queries.jsonl`.

    Raises:
        SourceError: a file cannot be read, or holds nothing that can be used.
    """
    return pair(_name(folder), _file(folder, "tools.jsonl"), _file(folder, "queries.jsonl"))


def intents(folder: Path) -> DataSet:
    """Load `intents.jsonl` (id, name, description, domain) with `queries.jsonl`.

    Raises:
        SourceError: as `tools` does.
    """
    found = read_intents(_file(folder, "intents.jsonl"))
    queries = read_queries(_file(folder, "queries.jsonl"))
    return checked(_name(folder), found, queries, "intents")


def registry(folder: Path) -> DataSet:
    """Load every tool of `registry/` with `queries.jsonl`: the form of the sample data.

    The Python files directly in `registry/` are run, as `FILE.py:TOOLS` runs them when named;
    files that cannot be read are noted, as an index run would.

    Raises:
        SourceError: as `tools` does.
    """
    shelf = folder / "registry"
    sources = [str(shelf), *(f"{path}:TOOLS" for path in sorted(shelf.glob("*.py")))]
    found = (item for _, item in entries(sources, None, None))
    return checked(_name(folder), found, read_queries(_file(folder, "queries.jsonl")))


def pair(name: str, tools: str | Path, queries: Path) -> DataSet:
    """Load a file of tools, in any form that can be indexed, with a file of queries.

    Raises:
        SourceError: as `tools` does.
    """
    found = (item for _, item in entries(str(tools), None, None))
    return checked(name, _whole(found), read_queries(queries))


def with_tools(name: str, tools: Iterable[ToolSpec], queries: Path) -> DataSet:
    """Load a file of queries about tools that are at hand, those of a store for example.

    Raises:
        SourceError: as `tools` does.
    """
    return checked(name, tools, read_queries(queries))


def _whole(found: Iterable[ToolSpec | Refusal]) -> Iterator[ToolSpec | Refusal]:
    """Pass on refusals of single tools; half of a file would be another data set, so raise."""
    for item in found:
        if isinstance(item, Refusal) and not item.place:
            raise SourceError(item.source, "", item.reason)
        yield item


def _file(folder: Path, name: str) -> Path:
    return part(folder, name) or folder / name


def _name(folder: Path) -> str:
    return folder.resolve().name
