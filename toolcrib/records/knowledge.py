"""Knowledge: collections of passages, and answers to questions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import Field, FiniteFloat, WithJsonSchema, computed_field

from toolcrib.errors import require_all, require_text, require_texts, require_type
from toolcrib.records.answers import Verdict
from toolcrib.records.codec import UNLESS_EMPTY, FrozenModel, Score, pattern_validator
from toolcrib.records.scope import Sensitivity
from toolcrib.records.tools import Text, Texts, none_as

CollectionName = Annotated[
    str,
    Field(max_length=200),
    pattern_validator(
        re.compile(r"^[\w.-]+\Z"), "a name has letters, digits, `_`, `.` and `-` alone"
    ),
    WithJsonSchema({"type": "string", "maxLength": 200, "pattern": r"^[\p{L}\p{N}_.-]+$"}),
]
"""Name of a collection; the pattern in its schema means the same in ECMAScript."""


class Collection(FrozenModel):
    """Collection of documents that questions are sent to.

    `examples` are questions that the collection answers. `answers` are (domain, intent) pairs that
    always go to this collection. `sensitivity` is the highest of its documents. Of collections
    that fit equally well, the higher `priority` comes first. If no collection fits, the `fallback`
    collections are searched, or all collections if none is a fallback.
    """

    name: CollectionName
    description: Text = ""
    examples: Texts = ()
    answers: Annotated[tuple[tuple[str, str], ...], none_as(tuple)] = ()
    sensitivity: Sensitivity = "public"
    priority: FiniteFloat = 0.0
    fallback: bool = False


class CountedCollection(Collection):
    """Collection with the number of its passages."""

    passages: int


@dataclass(frozen=True, slots=True)
class CollectionList:
    """The collections in scope, by name."""

    collections: tuple[CountedCollection, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document, small enough to be read by an encoder and quoted by an agent.

    `document` is the path or URL, `title` the headings above the passage, outermost first, or the
    page of a PDF, `position` the passage's number within the document, from 0, and `start` its
    first character in the document's text.
    """

    collection: str
    document: str
    text: str
    title: tuple[str, ...] = ()
    position: int = 0
    start: int = 0

    @property
    def id(self) -> str:
        """`collection/document#position`."""
        return f"{self.collection}/{self.document}#{self.position}"

    @property
    def citation(self) -> str:
        """Citation for people: headings, document and part."""
        return self._cite(self.document)

    def _cite(self, document: str) -> str:
        heading = " › ".join(self.title)
        place = f"{document}, part {self.position + 1}"
        return f"{heading} ({place})" if heading else place


def require_passages(values: Iterable[Any]) -> list[Passage]:
    """Require passages whose fields have the right types, and return them as a list.

    Raises:
        QueryError: something is no `Passage`, or a field of one has another type.
    """
    found = require_all(values, Passage, "passages")
    for each in found:
        for name in ("collection", "document", "text"):
            require_text(getattr(each, name), f"{name} of a passage")
        require_texts(each.title, "the title of a passage")
        for name in ("position", "start"):
            require_type(getattr(each, name), int, f"{name} of a passage", "a whole number")
    return found


@dataclass(frozen=True, slots=True)
class PassageHit(Passage):
    """One ranked passage; `score` in [0, 1], comparable within one answer only.

    With `is_shared_name` another collection of the answer has a document of the same name, so the
    citation names the collection too. JSON has the document as `source`.
    """

    document: Annotated[str, Field(alias="source")]
    rank: int = 1
    score: Score = 0.0
    legs: Annotated[dict[str, Score], UNLESS_EMPTY] = field(default_factory=dict[str, float])
    is_shared_name: Annotated[bool, UNLESS_EMPTY] = False

    @classmethod
    def of(
        cls,
        passage: Passage,
        rank: int,
        score: float,
        legs: dict[str, float] | None = None,
        *,
        is_shared_name: bool = False,
    ) -> Self:
        """Hit of a passage, with its place in a ranking."""
        each = passage
        place = (each.collection, each.document, each.text, each.title, each.position, each.start)
        return cls(*place, rank, score, legs or {}, is_shared_name)

    @property
    def passage(self) -> Passage:
        """The passage without rank and score."""
        place = (self.collection, self.document, self.text, self.title, self.position, self.start)
        return Passage(*place)

    @computed_field
    @property
    def id(self) -> str:
        """`collection/document#position`."""
        return self.passage.id

    @computed_field
    @property
    def citation(self) -> str:
        """Citation for people: headings, collection where needed, document and part."""
        named = f"{self.collection}/{self.document}" if self.is_shared_name else self.document
        return self._cite(named)


@dataclass(frozen=True, slots=True)
class CollectionHit:
    """Searched collection, and the probability that it is the right one."""

    id: str
    confidence: Score


@dataclass(frozen=True, slots=True)
class KnowledgeResult:
    """The answer to one question to the collections.

    `collections` and `passages` are best first. `confidence` is the probability that the first
    collection is right, `fit` that any is; None without a search. With the verdict `fallback` the
    passages come from the fallback collections, or from all; with `abstain` there are no passages,
    and `collections` are the likeliest ones.
    """

    collections: tuple[CollectionHit, ...] = ()
    passages: tuple[PassageHit, ...] = ()
    confidence: Score | None = None
    fit: Score | None = None
    verdict: Verdict = "abstain"
    reason: str = ""
    threshold: Score | None = None
    signals: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
