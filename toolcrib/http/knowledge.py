"""Knowledge: collections and documents, in, out and asked."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from toolcrib.crib import Crib
from toolcrib.errors import MissingExtraError, UnknownCollectionError
from toolcrib.http.collection_access import (
    describe_collections,
    known_collections,
    remove_from_collection,
    require_writable,
)
from toolcrib.http.documents import read_documents
from toolcrib.http.endpoints import Endpoint, answer, nothing
from toolcrib.http.visits import Visit, visit_of
from toolcrib.http.wire.knowledge import (
    CollectionsAnswer,
    CollectionsBody,
    DocumentsBody,
    KnowledgeAnswer,
    KnowledgeBody,
    RemoveBody,
    RemovedAnswer,
)
from toolcrib.http.wire.tools import ReportAnswer
from toolcrib.records import IndexReport

__all__ = ["ENDPOINTS"]


async def list_collections(request: Request) -> Response:
    """List the collections in reach, and how many passages they hold."""
    visit = visit_of(request)
    scope = visit.scope()
    return answer({"collections": await visit.read(lambda crib: known_collections(crib, scope))})


async def put_collections(body: CollectionsBody, request: Request) -> Response:
    """Make collections known, or describe them anew; all of them or none."""
    visit = visit_of(request)
    given = [each.as_collection() for each in body.collections]
    found = await visit.write(lambda crib: describe_collections(crib, given, visit.scope()))
    return answer({"collections": found})


async def delete_collection(
    name: Annotated[str, Path(max_length=200)], request: Request
) -> Response:
    """Remove a collection with all its passages."""
    visit = visit_of(request)
    await visit.write(lambda crib: remove_from_collection(crib, name, (), visit.scope()))
    return nothing()


async def put_documents(body: DocumentsBody, request: Request) -> Response:
    """Put documents into a collection, or bring it up to date; what cannot be read is refused."""
    visit = visit_of(request)
    report = await visit.write(partial(_put, visit, body))
    return answer({**report.as_dict(), "ids": report.ids()})


def _put(visit: Visit, body: DocumentsBody, crib: Crib) -> IndexReport:
    require_writable(crib, body.collection, visit.scope())
    max_tokens = visit.house.settings.documents.max_tokens
    entries = list(read_documents(body, max_tokens))
    report = crib.library.put(entries, prune=body.collection if body.prune else None)
    # Nothing more is made known; the crib hears that its library has changed.
    crib.add_collections()
    return report


async def delete_documents(body: RemoveBody, request: Request) -> Response:
    """Take documents out of a collection; names that it does not hold are passed over."""
    visit = visit_of(request)
    names, documents = body.collection, tuple(body.documents)
    removed = await visit.write(
        lambda crib: remove_from_collection(crib, names, documents, visit.scope())
    )
    return answer({"removed": removed})


async def find_knowledge(body: KnowledgeBody, request: Request) -> Response:
    """Find the passages that answer a question, out of the collections that fit it."""
    visit = visit_of(request)
    scope = visit.scope(body.scope and body.scope.as_scope())
    found = await visit.read(lambda crib: crib.find_knowledge(body.query, scope=scope))
    visit.answered({}, verdict=found.verdict, degraded=found.degraded, text=body.query)
    return answer(found.as_dict())


TAG = "knowledge"
PATH = "/v1/collections"
UNKNOWN = (UnknownCollectionError,)

ENDPOINTS = (
    Endpoint("GET", PATH, list_collections, TAG, CollectionsAnswer),
    Endpoint("POST", PATH, put_collections, TAG, CollectionsAnswer, writes=True),
    Endpoint("DELETE", PATH + "/{name}", delete_collection, TAG, None, UNKNOWN, writes=True),
    Endpoint(
        "POST",
        "/v1/documents",
        put_documents,
        TAG,
        ReportAnswer,
        (MissingExtraError,),
        writes=True,
    ),
    Endpoint("DELETE", "/v1/documents", delete_documents, TAG, RemovedAnswer, UNKNOWN, writes=True),
    Endpoint("POST", "/v1/knowledge/search", find_knowledge, TAG, KnowledgeAnswer),
)
