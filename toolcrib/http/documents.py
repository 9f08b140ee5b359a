"""Documents that came in a request become passages; nothing that is named in it is opened."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from toolcrib.http.wire.knowledge import DocumentBody, DocumentsBody
from toolcrib.indexers.documents.chunking import require_docs
from toolcrib.indexers.documents.loading import kind_of_name
from toolcrib.indexers.documents.sources import PACKED, RawDocument
from toolcrib.indexers.sync import PassageEntry
from toolcrib.records import Passage, Refusal

__all__ = ["read_documents"]


def read_documents(body: DocumentsBody, max_tokens: int) -> Iterator[PassageEntry]:
    """Yield the passages of what was sent, each with its document's name, and every refusal.

    Raises:
        MissingExtraError: the extra `docs` is not installed.
    """
    for passage in body.passages:
        yield passage.document, passage.as_passage(body.collection)
    if body.documents:
        require_docs()
    for document in body.documents:
        for item in _passages(document, body.collection, max_tokens):
            yield document.name, item


def _passages(
    document: DocumentBody, collection: str, max_tokens: int
) -> Iterator[Passage | Refusal]:
    name, kind = document.name, kind_of_name(document.name)
    if "text" in document.model_fields_set:
        content = document.text.encode()
        # No text is of a packed kind, whatever it is named.
        kind = "text" if kind is None or kind in PACKED else kind
    else:
        content = base64.b64decode(document.base64)
    if kind is None:
        reason = "a file of no known kind; documents end in .md .rst .html .txt .pdf .docx .ipynb"
        return iter([Refusal(name, "", reason)])
    raw = RawDocument(name, name, name, content, kind, "utf-8")
    return raw.passages(collection, max_tokens=max_tokens)
