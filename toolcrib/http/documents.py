"""Documents that came in a request become passages; nothing that is named in it is opened."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from toolcrib.errors import SourceError
from toolcrib.http.wire.knowledge import DocumentBody, DocumentsBody
from toolcrib.indexers.documents.loading import Kind, kind_of_name, load
from toolcrib.indexers.documents.splitting import split
from toolcrib.records import Passage, Refusal

__all__ = ["read_documents"]

MAX_TOKENS = 200
"""The most in a passage, as where documents are read from files."""

PACKED: frozenset[Kind | None] = frozenset({"pdf", "docx", None})
"""Kinds that no text is of, whatever it is named."""


def read_documents(body: DocumentsBody) -> Iterator[tuple[str, Passage | Refusal]]:
    """Yield the passages of what was sent, each with its document's name, and every refusal.

    Raises:
        MissingExtraError: the extra `docs` is not installed.
    """
    for passage in body.passages:
        yield passage.document, passage.as_passage(body.collection)
    for document in body.documents:
        for item in _passages(document, body.collection):
            yield document.name, item


def _passages(document: DocumentBody, collection: str) -> Iterator[Passage | Refusal]:
    kind = kind_of_name(document.name)
    if "text" in document.model_fields_set:
        content = document.text.encode()
        kind = "text" if kind in PACKED else kind
    else:
        content = base64.b64decode(document.base64)
    if kind is None:
        reason = "a file of no known kind; documents end in .md .rst .html .txt .pdf .docx .ipynb"
        yield Refusal(document.name, "", reason)
        return
    try:
        loaded = load(content, document.name, kind, "utf-8")
    except SourceError as error:
        yield Refusal(document.name, "", error.reason)
        return
    empty = True
    for position, part in enumerate(
        split(loaded.text, loaded.kind, MAX_TOKENS, title=loaded.title)
    ):
        empty = False
        yield Passage(collection, document.name, part.text, part.title, position, part.start)
    if empty:
        yield Refusal(document.name, "", "holds no text")
