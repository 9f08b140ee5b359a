"""Whatever a caller names as documents becomes passages: a file, a folder, a web address."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from toolcrib.errors import MissingExtraError, SourceError
from toolcrib.indexers.documents.extra import import_docs
from toolcrib.indexers.documents.sources import fetch, is_url
from toolcrib.indexers.documents.loading import (
    Document,
    Kind,
    is_binary,
    kind_of_name,
    kind_of_type,
    load,
)
from toolcrib.indexers.documents.chunking import Counter, Part, approximate_tokens, split
from toolcrib.records import Passage, Refusal

__all__ = ["DocumentEntry", "passages"]

DocumentEntry: TypeAlias = tuple[str, Passage | Refusal]
"""The file or URL that something came from, and what it is."""

MAX_FILE_BYTES = 50_000_000

_READ = "documents (.md .rst .html .txt .pdf .docx .ipynb) and source files are read"

_EMPTY: dict[Kind, str] = {
    "markdown": "holds no text beside its headings",
    "pdf": "holds no text; if it was scanned, run text recognition over it first",
}

_PACKED: frozenset[Kind] = frozenset({"pdf", "docx"})
"""Kinds whose files are binary by nature."""


@dataclass(frozen=True, slots=True)
class _Raw:
    """A document as it came from `source`: `path` tells its title, `document` its identity."""

    source: str
    document: str
    path: str
    content: bytes
    kind: Kind
    charset: str | None = None


def passages(
    source: str | Path,
    collection: str,
    *,
    max_tokens: int = 200,
    count: Counter = approximate_tokens,
) -> Iterator[DocumentEntry]:
    """Yield the passages of a file, a folder or a URL, each with where it came from.

    In a folder, what is hidden, binary or of no known kind is passed over, and so are
    `node_modules` and empty source files; what is named by itself is read or refused. A
    passage's document is the file's path as it was named, or the URL. What cannot be read, or
    holds no text, is yielded as a refusal, and never keeps the others from being read.
    `max_tokens` is the most that `count` finds in a passage.

    Raises:
        MissingExtraError: the extra `docs` is not installed. Where only the library for one
            kind of document is missing, documents of this kind are refused.
        ValueError: `max_tokens` is less than 1.
    """
    import_docs("semantic_text_splitter")

    def cut(document: Document) -> Iterator[Part]:
        return split(document.text, document.kind, max_tokens, title=document.title, count=count)

    for raw in _raw(str(source)):
        for item in [raw] if isinstance(raw, Refusal) else _passages(raw, collection, cut):
            yield raw.source, item


def _passages(
    raw: _Raw,
    collection: str,
    cut: Callable[[Document], Iterator[Part]],
) -> Iterator[Passage | Refusal]:
    try:
        document = load(raw.content, raw.path, raw.kind, raw.charset)
    except SourceError as error:
        yield Refusal(raw.source, "", error.reason)
        return
    except MissingExtraError as error:
        yield Refusal(raw.source, "", str(error))
        return
    empty = True
    for position, part in enumerate(cut(document)):
        empty = False
        yield Passage(collection, raw.document, part.text, part.title, position, part.start)
    if empty:
        yield Refusal(raw.source, "", _EMPTY.get(raw.kind, "holds no text"))


def _raw(name: str) -> Iterator[_Raw | Refusal]:
    """Yield what a name stands for; nothing is raised."""
    if is_url(name):
        yield _fetched(name)
    # Unlike pathlib, this says no to names that nothing can have, instead of raising.
    elif os.path.isdir(name):  # noqa: PTH112
        yield from _walked(Path(name))
    else:
        yield _opened(Path(name))


def _walked(folder: Path) -> Iterator[_Raw | Refusal]:
    """Yield every document below a folder, sorted; links may not lead out of it."""
    inside = os.path.realpath(folder)
    empty = True
    unreadable: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=unreadable.append):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n != "node_modules")
        for name in sorted(files):
            if name.startswith(".") or kind_of_name(name) is None:
                continue
            empty = False
            path = Path(parent, name)
            if Path(os.path.realpath(path)).is_relative_to(inside):
                found = _opened(path)
            else:
                found = _refusal(path, "a link out of the folder; name what it leads to by itself")
            if not _is_passed_over(found):
                yield found
    for error in unreadable:
        yield _refusal(error.filename, f"cannot be read: {error.strerror}")
    if empty and not unreadable:
        yield _refusal(folder, f"the folder holds nothing that is read; {_READ}")


def _is_passed_over(found: _Raw | Refusal) -> bool:
    """Whether a file that nobody named is only named like a text, or is code without a line."""
    if isinstance(found, Refusal) or found.kind in _PACKED:
        return False
    return is_binary(found.content) or (found.kind == "source" and not found.content.strip())


def _opened(path: Path) -> _Raw | Refusal:
    kind = kind_of_name(path.name)
    try:
        # Reading a pipe or a device would wait for ever, or never end.
        if not os.path.isfile(path):  # noqa: PTH113
            there = os.path.lexists(path)
            return _refusal(path, "not a file" if there else "there is no such file or folder")
        if kind is None:
            return _refusal(path, f"a file of no known kind; {_READ}")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return _refusal(path, f"cannot be read: {error.strerror or error}")
    if len(content) > MAX_FILE_BYTES:
        return _refusal(path, f"larger than {MAX_FILE_BYTES:,} bytes, the most that is read")
    document = _spelled(Path(os.path.normpath(path)).as_posix())
    return _Raw(_spelled(path), document, document, content, kind)


def _fetched(url: str) -> _Raw | Refusal:
    try:
        got = fetch(url)
    except SourceError as error:
        return Refusal(url, "", error.reason)
    kind = kind_of_type(got.content_type, got.path)
    if kind is None:
        what = got.content_type or "something of a kind that it does not name"
        return Refusal(url, "", f"the server sent {what}; {_READ}")
    return _Raw(url, url, got.path, got.content, kind, got.charset)


def _refusal(path: str | Path, reason: str) -> Refusal:
    return Refusal(_spelled(path), "", reason)


def _spelled(path: str | Path) -> str:
    """Give a file's name as one that can be written down: its bytes may be no text at all."""
    return os.fsencode(path).decode(errors="replace")
