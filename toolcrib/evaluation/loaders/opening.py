"""The one entry: a folder, a pair of files or a public name becomes a data set."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from toolcrib.errors import SourceError, UnknownFormatError
from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.loaders import folder as folders
from toolcrib.evaluation.loaders.beir import beir
from toolcrib.evaluation.loaders.hub import HUB_SETS, load_from_hub

__all__ = ["SHAPES", "Shape", "load"]


@dataclass(frozen=True, slots=True)
class Shape:
    """A form that a folder can have: the parts it is known by, and who reads it."""

    parts: tuple[str, ...]
    read: Callable[[Path], DataSet]

    def fits(self, folder: Path) -> bool:
        """Whether all parts are there, files also when compressed (`.gz`)."""
        return all(folders.part(folder, name) for name in self.parts)

    def __str__(self) -> str:
        """The parts as a sentence has them."""
        return f"{', '.join(self.parts[:-1])} and {self.parts[-1]}"


SHAPES = (
    Shape(("tools.jsonl", "queries.jsonl"), folders.tools),
    Shape(("intents.jsonl", "queries.jsonl"), folders.intents),
    Shape(("registry/", "queries.jsonl"), folders.registry),
    Shape(("corpus.jsonl", "queries.jsonl", "qrels/"), beir),
)
"""In the order in which they are tried."""


def load(
    source: str = "", *, tools: str | Path | None = None, queries: Path | None = None
) -> DataSet:
    """Load a data set, check it, and say in its `notes` what the checks left out.

    `source` is a folder of one of `SHAPES`, or a public name (`HUB_SETS`); a folder of that
    name goes first. With `tools` (anything that can be indexed from a name) and `queries`
    these two are loaded, and `source`, if given, is what the set is called.

    Raises:
        UnknownFormatError: the source is none of these; the message says what is known.
        SourceError: a file cannot be read, holds nothing that can be used, or the hub is away.
        MissingExtraError: a public name needs the extra `hub`.
    """
    if tools is not None or queries is not None:
        return _pair(source, tools, queries)
    # Unlike pathlib, this says no to names that nothing can have, instead of raising.
    if os.path.isdir(source):  # noqa: PTH112
        return _folder(source)
    if source in HUB_SETS:
        return load_from_hub(source)
    near = get_close_matches(source, HUB_SETS, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownFormatError(
        source, "", f"there is no such folder or public name; {hint}{_known()}"
    )


def _pair(name: str, tools: str | Path | None, queries: Path | None) -> DataSet:
    if tools is None or queries is None:
        given, missing = (queries, "tools") if tools is None else (tools, "queries")
        raise SourceError(str(given), "", f"needs {missing} beside it: give both files")
    return folders.pair(name or queries.name.split(".")[0], tools, queries)


def _folder(source: str) -> DataSet:
    folder = Path(source)
    for shape in SHAPES:
        if shape.fits(folder):
            return shape.read(folder)
    inside = [child.name for child in sorted(folder.iterdir()) if _is_data_set(child)]
    hint = f"name the data sets in it, such as {inside[0]!r}; " if inside else ""
    raise UnknownFormatError(source, "", f"the folder is no data set; {hint}{_known()}")


def _is_data_set(folder: Path) -> bool:
    return any(shape.fits(folder) for shape in SHAPES)


def _known() -> str:
    shapes = "; ".join(map(str, SHAPES))
    return f"a data set is a folder with {shapes}; or one of {', '.join(sorted(HUB_SETS))}"
