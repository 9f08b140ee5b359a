"""Documents into the collections of a service and out of it, and what is said of collections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from toolcrib.client.answers import (
    Written,
    read_collections,
    read_nothing,
    read_removed,
    read_written,
)
from toolcrib.client.calls import DONE, Call, Steps, quoted
from toolcrib.client.parcels import PackedPassages, packed_passages, parts
from toolcrib.client.reports import Told, joined
from toolcrib.errors import UnknownCollectionError
from toolcrib.indexers.sync import prune_refusal
from toolcrib.indexers.writer import Listener
from toolcrib.records import Collection, IndexReport, Scope
from toolcrib.router.collections import preset

__all__ = [
    "add_collections",
    "index_passages",
    "list_collections",
    "read_documents",
    "remove_docs",
]

Listed = list[tuple[Collection, int]]
"""Collections, each with its number of passages."""


def read_documents(sources: Iterable[str | Path], collection: str) -> PackedPassages:
    """The passages of files, folders and URLs, read on this side, and ready to be sent.

    Raises:
        MissingExtraError: the extra `docs` is not installed.
    """
    # The loaders import parsers of every format; a question needs none of them.
    from toolcrib.indexers.documents.sources import passages
    from toolcrib.settings import DocumentSettings

    size = DocumentSettings().max_tokens
    return packed_passages(
        item for source in sources for item in passages(source, collection, max_tokens=size)
    )


def index_passages(
    packed: PackedPassages,
    *,
    prune: str | None = None,
    progress: Listener | None = None,
) -> Steps[IndexReport]:
    """Bring a service up to date.

    `prune` names the collection whose other documents go, unless anything is refused; all that
    stays in it then goes in one request.
    """
    collections, refused = dict(packed[0]), packed[1]
    for name in collections:
        preset(name)
    report = IndexReport(refused=tuple(refused))
    documents = [each for named in collections.values() for each in named.values()]
    told = Told(sum(map(len, documents)), progress)
    if prune is not None and not refused:
        collections.setdefault(prune, {})
    for name, named in collections.items():
        prunes = name == prune and not refused
        together = [[each for group in named.values() for each in group]]
        for part in together if prunes else parts(named.values()):
            passages = [each.body for each in part]
            body = {"collection": name, "passages": passages, "prune": prunes}
            written: Written = yield Call("POST", "/v1/documents", read_written, body, about=name)
            report = joined(report, written.report)
            told.tell(part, written.report.refused)
    if prune is None or not refused:
        return report
    return replace(report, refused=(*report.refused, prune_refusal("passages", len(refused))))


def remove_docs(collection: str, documents: Sequence[str] = ()) -> Steps[int]:
    """Remove documents of a collection; without any, the collection itself. Counts passages.

    Raises:
        UnknownCollectionError: there is no such collection.
    """
    counts = {each.name: count for each, count in (yield from list_collections())}
    if collection not in counts:
        nearest = get_close_matches(collection, counts, n=3)
        raise UnknownCollectionError(collection, tuple(nearest))
    if documents:
        body = {"collection": collection, "documents": list(documents)}
        return (yield Call("DELETE", "/v1/documents", read_removed, body, about=collection))
    try:
        path = f"/v1/collections/{quoted(collection)}"
        yield Call("DELETE", path, read_nothing, about=collection, status=DONE)
    except UnknownCollectionError:
        # Somebody else was faster, or an earlier attempt whose answer was lost.
        return 0
    return counts[collection]


def list_collections(scope: Scope | None = None) -> Steps[Listed]:
    """The collections in reach by name, each with its number of passages."""
    known: Listed = yield Call("GET", "/v1/collections", read_collections)
    if scope is None:
        return known
    return [pair for pair in known if scope.allows_collection(pair[0].name, pair[0].sensitivity)]


def add_collections(collections: Sequence[Collection]) -> Call[Listed]:
    """Make collections known, or describe them anew."""
    body = {"collections": [each.model_dump(mode="json") for each in collections]}
    return Call("POST", "/v1/collections", read_collections, body)
