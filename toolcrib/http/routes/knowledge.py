"""Knowledge over HTTP: collections, documents and searches in them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, Self, TypeAlias, TypeVar, cast

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from toolcrib.crib import Crib
from toolcrib.documents.chunking import require_docs
from toolcrib.documents.loading import BINARY_KINDS, DOCUMENT_ENDINGS, kind_of_name
from toolcrib.documents.sources import RawDocument, refused_document
from toolcrib.errors import ForbiddenError, MissingExtraError, UnknownCollectionError, nearest
from toolcrib.http.context import RequestContext
from toolcrib.http.routing import (
    AS_WHOLE,
    Body,
    Count,
    Endpoint,
    QueryText,
    TokenBudget,
    Words,
    answer,
    strict_config,
)
from toolcrib.http.uploads import Line, UploadWork, read_upload, respond, split_into_parts
from toolcrib.indexers.sync import PassageEntry
from toolcrib.indexers.writer import Listener, ignore
from toolcrib.records import (
    Collection,
    Context,
    IndexReport,
    KnowledgeResult,
    Passage,
    Refusal,
    Scope,
    Sensitivity,
)
from toolcrib.records.codec import in_words
from toolcrib.records.knowledge import CollectionList, CollectionName, CountedCollection
from toolcrib.records.reports import Removed
from toolcrib.router.collections import preset

DocumentName = Annotated[QueryText, Field(max_length=1000)]
_Place = Annotated[int, Field(ge=0, le=2**53), AS_WHOLE]

BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def _require_base64(text: str) -> str:
    # For 6 MB the pattern holds the interpreter for 0.6 s, decoding for 0.05 s.
    base64.b64decode(text, validate=True)
    return text


Base64 = Annotated[
    str,
    AfterValidator(_require_base64),
    WithJsonSchema({"type": "string", "contentEncoding": "base64", "pattern": BASE64}),
]

EXAMPLE_COLLECTION: dict[str, Any] = {
    "name": "handbook",
    "description": "How we work: holidays, expenses, equipment.",
    "examples": ["how many days off do I have"],
    "answers": [],
    "sensitivity": "internal",
    "priority": 0.0,
    "fallback": False,
}

# -- collections -----------------------------------------------------------------------------


class CollectionBody(Body):
    """A collection: its subject, examples and sensitivity."""

    name: CollectionName
    description: str = ""
    examples: list[str] = Field(default=[])
    answers: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(default=[])
    sensitivity: Sensitivity = "public"
    priority: float = 0.0
    fallback: bool = False


class CollectionsBody(Body):
    """Collections to add, or to replace."""

    model_config = strict_config(examples=[{"collections": [EXAMPLE_COLLECTION]}])

    collections: list[CollectionBody]


async def list_collections(context: RequestContext) -> CollectionList:
    """List the collections in scope, with their numbers of passages."""
    return await context.read(lambda crib: _collections(crib, context.scope()))


def _collections(crib: Crib, scope: Scope) -> CollectionList:
    return CollectionList(
        tuple(
            CountedCollection(**each.model_dump(), passages=count)
            for each, count in crib.list_collections(scope=scope)
        )
    )


async def put_collections(context: RequestContext, body: CollectionsBody) -> CollectionList:
    """Add collections, or replace them; all or none."""
    scope = context.scope()

    def work(crib: Crib) -> CollectionList:
        given = [Collection.model_validate(each.model_dump()) for each in body.collections]
        known = {each.name: each for each, _ in crib.list_collections()}
        for each in given:
            # A collection in scope must not replace one out of scope.
            _require_in_scope(scope, each)
            _require_in_scope(scope, known.get(each.name, each))
        crib.add_collections(*given)
        return _collections(crib, scope)

    return await context.write(work)


async def delete_collection(
    context: RequestContext, name: Annotated[str, Field(max_length=200)]
) -> None:
    """Remove a collection with all its passages."""
    await context.write(lambda crib: _remove(crib, name, (), context.scope()))


def _remove(crib: Crib, name: str, documents: Iterable[str], scope: Scope) -> int:
    """Remove documents; without any, the whole collection. Returns the number of passages."""
    names = [each.name for each, _ in crib.list_collections(scope=scope)]
    if name not in names:
        raise UnknownCollectionError(name, nearest(name, names))
    return crib.remove_docs(name, *documents)


def _require_in_scope(scope: Scope, collection: Collection) -> None:
    """Require a collection in scope; the error does not reveal whether it exists."""
    if not scope.allows_collection(collection.name, collection.sensitivity):
        raise ForbiddenError(f"this key's scope does not allow to write {collection.name!r}")


# -- documents -------------------------------------------------------------------------------

_Body = TypeVar("_Body", bound=Body)
_Entry = TypeVar("_Entry")


def _with_one_of(body: _Body, first: str, second: str) -> _Body:
    if len(body.model_fields_set & {first, second}) != 1:
        raise ValueError(f"give one of {first} and {second}")
    return body


def _entry_or_refusal(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validate(value)
    except ValidationError as error:
        return Refusal("the request", "", in_words(error, ""))


OrRefusal: TypeAlias = Annotated[_Entry, WrapValidator(_entry_or_refusal)] | SkipJsonSchema[Refusal]
"""Entry of a list; an invalid entry becomes a refusal, and the valid ones are kept."""


class DocumentBody(Body):
    """A document: its text, or the bytes of its file as base64.

    The suffix of `name` gives the kind of document (`.md`, `.pdf`); citations contain `name`.
    """

    model_config = strict_config(oneOf=[{"required": ["text"]}, {"required": ["base64"]}])

    name: DocumentName
    text: str = ""
    base64: Base64 = ""

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        return _with_one_of(self, "text", "base64")

    def document(self) -> RawDocument | Refusal:
        """Document to convert; paths and links in it are not opened."""
        kind = kind_of_name(self.name)
        if "text" in self.model_fields_set:
            content = self.text.encode()
            kind = "text" if kind is None or kind in BINARY_KINDS else kind
        else:
            content = base64.b64decode(self.base64)
        if kind is None:
            known = f"documents end in {DOCUMENT_ENDINGS}"
            return refused_document(self.name, f"a file of no known kind; {known}")
        return RawDocument(self.name, self.name, self.name, content, kind, "utf-8")


class PassageBody(Body):
    """A passage that the client split; `position` is its number within the document."""

    document: DocumentName
    text: str
    title: list[str] = Field(default=[])
    position: _Place = 0
    start: _Place = 0

    def as_passage(self, collection: str) -> Passage:
        """Passage in a collection."""
        title = tuple(self.title)
        return Passage(collection, self.document, self.text, title, self.position, self.start)


class UploadedPassage(PassageBody):
    """A passage of an upload, with its collection."""

    collection: CollectionName


_as_passage = AfterValidator(lambda each: each.as_passage(each.collection))
UploadedEntry: TypeAlias = tuple[str, Annotated[UploadedPassage, _as_passage] | Refusal]


class DocumentsBody(Body):
    """Documents or passages to write into a collection, which is created if it is new.

    Unchanged ones are skipped, and invalid ones refused. `prune` removes the collection's other
    documents, unless one is refused.
    """

    model_config = strict_config(
        oneOf=[{"required": ["documents"]}, {"required": ["passages"]}],
        examples=[
            {
                "collection": "handbook",
                "documents": [{"name": "holidays.md", "text": "# Holidays\n\n30 days."}],
            }
        ],
    )

    collection: CollectionName
    documents: list[OrRefusal[DocumentBody]] = Field(default=[])
    passages: list[OrRefusal[PassageBody]] = Field(default=[])
    prune: bool = False

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        return _with_one_of(self, "documents", "passages")


_SAME_NAME = "an earlier document of the request has this name; give each document its own name"


async def put_documents(
    context: RequestContext, body: DocumentsBody
) -> Annotated[Response, IndexReport]:
    """Write documents into a collection; the report lists refused ones."""
    scope, name = context.scope(), body.collection
    await context.read(lambda crib: _require_writable(crib, [name], scope))
    passages = (
        each if isinstance(each, Refusal) else each.as_passage(name)
        for each in _with_places(body.passages)
    )
    lines = await context.run(lambda: list(map(_line, passages)))
    if body.documents:
        require_docs()
    given: dict[str, DocumentBody] = {}
    for each in _with_places(body.documents):
        # Parts of two documents with one name would become one document.
        if isinstance(each, Refusal) or given.setdefault(each.name, each) == each:
            lines += await _convert(context, each, name)
        else:
            lines.append(_line(Refusal(each.name, "", _SAME_NAME)))
    pruned = name if body.prune else None
    work = await context.run(lambda: _work(context, lines, pruned))
    return answer(await work.run(context, ignore), full=True)


def _with_places(entries: Iterable[_Entry | Refusal]) -> Iterator[_Entry | Refusal]:
    """Entries of a list; a refusal gets its position in the list."""
    for place, each in enumerate(entries):
        yield replace(each, place=f"[{place}]") if isinstance(each, Refusal) else each


async def _convert(
    context: RequestContext, entry: DocumentBody | Refusal, collection: str
) -> list[Line]:
    document = entry if isinstance(entry, Refusal) else await context.run(entry.document)
    if isinstance(document, Refusal):
        return [_line(document)]
    items = await context.convert(document, collection)
    return await context.run(lambda: list(map(_line, items)))


def _line(item: Passage | Refusal) -> Line:
    if isinstance(item, Refusal):
        return Line.of((item.source, item), None, PassageEntry)
    return Line.of((item.document, item), (item.collection, item.document), PassageEntry)


def _work(context: RequestContext, lines: list[Line], prune: str | None) -> UploadWork[Passage]:
    """Work that writes passages, and may prune a collection."""
    names = {cast("tuple[str, str]", line.name)[0] for line in lines if line.name is not None}
    names |= set() if prune is None else {prune}
    scope = context.scope()

    def write(crib: Crib, part: list[PassageEntry], listener: Listener) -> IndexReport:
        _require_writable(crib, sorted(names), scope)
        return crib.knowledge.put(part, prune=prune, progress=listener)

    # Pruning needs all names, so the whole upload is one part.
    return UploadWork([lines] if prune is not None else split_into_parts(lines), write)


@dataclass(frozen=True, slots=True)
class DocumentUpload:
    """Query of an upload; `prune` names a collection, whose other documents are removed."""

    prune: Annotated[str, Field(max_length=200)] | None = None


async def upload_documents(
    context: RequestContext, query: DocumentUpload, request: Request
) -> Response:
    """Write passages from JSON Lines.

    A line is an array: the source of a passage, and the passage with its `collection`, or a
    refusal (`source`, `place`, `reason`). Lines of the answer have the `progress`; the last has
    the `report`, or the `problem`.
    """
    name = attrgetter("collection", "document")
    lines = await read_upload(context, request, UploadedEntry, name, prune=query.prune is not None)
    work = await context.run(lambda: _work(context, lines, query.prune))
    return await respond(context, work)


def _require_writable(crib: Crib, names: Iterable[str], scope: Scope) -> None:
    """Require that collections, which may be new, are in scope, with valid names."""
    known = {each.name: each for each, _ in crib.list_collections()}
    for name in names:
        _require_in_scope(scope, known.get(name) or preset(name))


class RemoveBody(Body):
    """Documents to remove from a collection, by name."""

    model_config = strict_config(
        examples=[{"collection": "handbook", "documents": ["holidays.md"]}]
    )

    collection: CollectionName
    documents: list[str] = Field(min_length=1)


async def delete_documents(context: RequestContext, body: RemoveBody) -> Removed:
    """Remove documents from a collection; unknown names are ignored."""
    scope = context.scope()
    removed = await context.write(
        lambda crib: _remove(crib, body.collection, body.documents, scope)
    )
    return Removed(removed)


# -- search ----------------------------------------------------------------------------------


class KnowledgeBody(Body):
    """A search for at most `k` passages, of `token_budget` tokens, in `collections` by name."""

    model_config = strict_config(examples=[{"query": "how many days off do I have", "k": 3}])

    query: Words
    k: Count | None = None
    collections: list[str] | None = Field(default=None, max_length=1_000)
    token_budget: TokenBudget | None = None
    scope: Scope | None = None
    context: Context | None = None


async def find_knowledge(context: RequestContext, body: KnowledgeBody) -> KnowledgeResult:
    """Find the passages that answer a question, in the collections that fit."""
    scope = context.scope(body.scope)
    options = body.model_dump(include={"query", "k", "collections", "token_budget"})
    found = await context.read(
        lambda crib: crib.find_knowledge(**options, scope=scope, context=body.context)
    )
    context.record_answer({}, verdict=found.verdict, degraded=found.degraded, text=body.query)
    return found


UNKNOWN = (UnknownCollectionError,)
COLLECTIONS, DOCUMENTS = "/v1/collections", "/v1/documents"

ENDPOINTS = (
    Endpoint("GET", COLLECTIONS, list_collections, "knowledge"),
    Endpoint("POST", COLLECTIONS, put_collections, "knowledge", writes=True),
    Endpoint(
        "DELETE", COLLECTIONS + "/{name}", delete_collection, "knowledge", UNKNOWN, writes=True
    ),
    Endpoint(
        *("POST", DOCUMENTS, put_documents, "knowledge", (MissingExtraError,)),
        writes=True,
        upload=upload_documents,
    ),
    Endpoint("DELETE", DOCUMENTS, delete_documents, "knowledge", UNKNOWN, writes=True),
    Endpoint("POST", "/v1/knowledge/search", find_knowledge, "knowledge"),
)
