"""Collections and documents over the wire: in, asked, listed."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from toolcrib.http.wire.base import AS_WHOLE, Answer, Body, Text, Words
from toolcrib.http.wire.scope import ScopeBody
from toolcrib.records import Collection, Passage, Sensitivity, Verdict

__all__ = [
    "CollectionBody",
    "CollectionsAnswer",
    "CollectionsBody",
    "DocumentBody",
    "DocumentsBody",
    "KnowledgeAnswer",
    "KnowledgeBody",
    "PassageBody",
    "RemoveBody",
    "RemovedAnswer",
]

CollectionName = Annotated[
    str,
    Field(max_length=200, pattern=r"^[\w.-]+\Z"),
    WithJsonSchema(
        {"type": "string", "maxLength": 200, "pattern": r"^[\p{L}\p{N}_.-]+$"},
    ),
]
DocumentName = Annotated[Text, Field(max_length=1000)]
Place = Annotated[int, Field(ge=0, le=2**53), AS_WHOLE]

BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
Base64 = Annotated[
    str,
    Field(pattern=BASE64 + r"\Z"),
    WithJsonSchema(
        {"type": "string", "contentEncoding": "base64", "pattern": BASE64 + "$"},
    ),
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


class CollectionBody(Body):
    """What a collection is about, and who may be sent there."""

    name: CollectionName
    description: str = ""
    examples: list[str] = Field(default=[])
    answers: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(default=[])
    sensitivity: Sensitivity = "public"
    priority: float = 0.0
    fallback: bool = False

    def as_collection(self) -> Collection:
        """The collection that this describes."""
        return Collection.model_validate(self.model_dump())


class CollectionsBody(Body):
    """Collections to make known, or to describe anew."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"collections": [EXAMPLE_COLLECTION]}]}
    )

    collections: list[CollectionBody]


class CollectionAnswer(Answer):
    """A collection, and how many passages it holds."""

    name: str
    description: str
    examples: list[str]
    answers: list[list[str]]
    sensitivity: Sensitivity
    priority: float
    fallback: bool
    passages: int


class CollectionsAnswer(Answer):
    """The collections in reach, by name."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"collections": [{**EXAMPLE_COLLECTION, "passages": 213}]}]}
    )

    collections: list[CollectionAnswer]


class DocumentBody(Body):
    """A document: its text, or the bytes of its file as base64.

    `name` says what kind of document it is (`.md`, `.pdf`), and is what passages are cited by.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["text"]}, {"required": ["base64"]}]}
    )

    name: DocumentName
    text: str = ""
    base64: Base64 = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if len(self.model_fields_set & {"text", "base64"}) != 1:
            raise ValueError("give one of text and base64")
        return self


class PassageBody(Body):
    """A passage that was split elsewhere; `position` is its number within the document."""

    document: DocumentName
    text: str
    title: list[str] = Field(default=[])
    position: Place = 0
    start: Place = 0

    def as_passage(self, collection: str) -> Passage:
        """The passage that this is."""
        return Passage(
            collection, self.document, self.text, tuple(self.title), self.position, self.start
        )


class DocumentsBody(Body):
    """Documents, or passages, to put into a collection; it becomes known if it is not yet.

    What has not changed is left alone. `prune` removes the collection's documents that are not
    named here.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["documents"]}, {"required": ["passages"]}],
            "examples": [
                {
                    "collection": "handbook",
                    "documents": [{"name": "holidays.md", "text": "# Holidays\n\n30 days."}],
                }
            ],
        }
    )

    collection: CollectionName
    documents: list[DocumentBody] = Field(default=[])
    passages: list[PassageBody] = Field(default=[])
    prune: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if len(self.model_fields_set & {"documents", "passages"}) != 1:
            raise ValueError("give one of documents and passages")
        return self


class RemoveBody(Body):
    """Documents to take out of a collection, by name."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"collection": "handbook", "documents": ["holidays.md"]}]}
    )

    collection: CollectionName
    documents: list[str] = Field(min_length=1)


class RemovedAnswer(Answer):
    """How many passages went."""

    removed: int


class KnowledgeBody(Body):
    """A question to the collections."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "how many days off do I have"}]}
    )

    query: Words
    scope: ScopeBody | None = None


class AskedAnswer(Answer):
    """A collection, and how likely it is the right one."""

    id: str
    confidence: float


class PassageAnswer(Answer):
    """One ranked passage."""

    id: str
    collection: str
    score: float = Field(ge=0, le=1)
    citation: str
    title: list[str]
    source: str
    position: int
    start: int
    text: str
    legs: dict[str, float] = Field(default={})


class KnowledgeAnswer(Answer):
    """The answer to a question: passages, and where they come from."""

    verdict: Verdict
    confidence: float | None
    fit: float | None
    reason: str
    threshold: float | None
    collections: list[AskedAnswer]
    passages: list[PassageAnswer]
    signals: list[str]
    degraded: list[str]
