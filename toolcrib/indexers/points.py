"""A specification as a stored point: its payload, and the texts that the encoders see."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, cast

from pydantic import Field

from toolcrib.encoders.lexical import LexicalEncoder, split_identifier
from toolcrib.encoders.protocols import FloatArray
from toolcrib.errors import SpecError
from toolcrib.records import Passage, ToolSpec
from toolcrib.store.payload import passage_payload, tool_payload
from toolcrib.store.protocol import Layout, Point, point_id

__all__ = [
    "Draft",
    "FieldWeights",
    "PassageDraft",
    "clean",
    "dense_text",
    "digest_of",
    "draft",
    "draft_passage",
    "layout",
    "lexical_counts",
    "passage_counts",
    "passage_layout",
    "shared_prefix",
]

# -- texts -----------------------------------------------------------------------------------------

RENDER_VERSION = 2
"""Raise it when a text below changes: indexes of another version are refused."""

MAX_CHARS = 4_000
"""No encoder reads further (256 tokens); the lexical leg reads as far, so that one tool's
manual does not outgrow the index."""

_SPACES = re.compile(r"\s+")


Weight: TypeAlias = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class FieldWeights:
    """How many times a term counts in each field of the lexical leg."""

    name: Weight = 3.0
    server: Weight = 1.0
    description: Weight = 1.0
    parameters: Weight = 0.5
    category: Weight = 1.0
    examples: Weight = 0.3


def clean(text: str) -> str:
    """Drop control, zero-width and direction characters, and squeeze white space.

    What takes no width leaves no gap: a word with a soft hyphen within stays one. Control
    characters part words, as a line's end does.
    """
    if not text.isascii() or not text.isprintable():
        text = "".join(map(_cleaned, text))
    return _SPACES.sub(" ", text).strip()


def _cleaned(letter: str) -> str:
    kind = unicodedata.category(letter)
    if kind == "Cc":
        return " "
    return "" if kind in ("Cf", "Cs") else letter


def dense_text(spec: ToolSpec) -> str:
    """What the dense encoder reads of a tool."""
    words = " ".join(split_identifier(spec.name)) or spec.name
    head = f"{spec.server} {words}" if spec.server else words
    return clean(f"{head}: {spec.description[:MAX_CHARS]}")


def lexical_counts(
    spec: ToolSpec,
    encoder: LexicalEncoder,
    weights: FieldWeights,
    prefix: Sequence[str] = (),
) -> Mapping[str, float]:
    """Field-weighted term frequencies; `prefix` are name terms that all its siblings share."""
    counts: Counter[str] = Counter()
    name = encoder.terms(spec.name)
    if prefix and tuple(name[: len(prefix)]) == tuple(prefix) and len(name) > len(prefix):
        name = name[len(prefix) :]
    for terms, weight in (
        (name, weights.name),
        (encoder.terms(spec.server), weights.server),
        (encoder.terms(clean(spec.description[:MAX_CHARS])), weights.description),
        (encoder.terms(clean(_parameters(spec.input_schema)[:MAX_CHARS])), weights.parameters),
        (encoder.terms(" ".join((spec.category, *spec.tags))), weights.category),
        (encoder.terms(clean(" ".join(spec.success_examples)[:MAX_CHARS])), weights.examples),
    ):
        # A field of no weight must not count as containing its words: IDF would see them.
        for term in terms if weight > 0 else ():
            counts[term] += weight  # pyright: ignore[reportArgumentType] Counter of floats
    return counts


def shared_prefix(names: Sequence[Sequence[str]], at_least: int = 4) -> tuple[str, ...]:
    """The first terms that nine in ten of a server's tool names begin with.

    Such a prefix says which server it is, not what the tool does; were it counted as name,
    every tool of the server would match a query that holds the word. Servers with fewer than
    `at_least` tools have none.
    """
    prefix: tuple[str, ...] = ()
    while len(names) >= at_least:
        heads = Counter(
            tuple(name[: len(prefix) + 1]) for name in names if len(name) > len(prefix) + 1
        )
        head, count = heads.most_common(1)[0] if heads else ((), 0)
        if count < 0.9 * len(names) or head[: len(prefix)] != prefix:
            break
        prefix = head
    return prefix


def _parameters(schema: Mapping[str, Any]) -> str:
    return " ".join(_walk(schema, depth=3))


def _walk(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Names and descriptions of a JSON Schema's properties, a few levels down."""
    properties = schema.get("properties")
    if depth == 0 or not isinstance(properties, dict):
        return
    for name, inner in cast("dict[str, Any]", properties).items():
        yield name
        if not isinstance(inner, dict):
            continue
        described = cast("dict[str, Any]", inner)
        if isinstance(described.get("description"), str):
            yield described["description"]
        yield from _walk(described, depth - 1)


# -- tools -----------------------------------------------------------------------------------------


def layout(dimensions: int) -> Layout:
    """The named vectors of a tool: its text, its examples and anti-patterns, its words."""
    return Layout(
        dense={"dense": dimensions},
        multi={"examples": dimensions, "anti_patterns": dimensions},
        sparse=("lexical",),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A specification on its way into the store, before its texts are encoded."""

    spec: ToolSpec
    payload: Mapping[str, Any]
    counts: Mapping[str, float]
    text: str

    @property
    def id(self) -> str:
        """The tool's id."""
        return self.spec.id

    @property
    def length(self) -> float:
        """Field-weighted number of terms."""
        return self.payload["length"]

    @property
    def rows(self) -> int:
        """How many texts `texts` gives."""
        return 1 + len(self.spec.success_examples) + len(self.spec.anti_patterns)

    def texts(self) -> list[str]:
        """Everything to encode: the tool's own text, then its examples, then anti-patterns."""
        hints = (*self.spec.success_examples, *self.spec.anti_patterns)
        return [self.text, *(clean(hint) for hint in hints)]

    def point(self, vectors: FloatArray, lexical: LexicalEncoder, average: float) -> Point:
        """The finished point; `vectors`: float32 [len(texts()), d]."""
        examples = 1 + len(self.spec.success_examples)
        multi = {"examples": vectors[1:examples], "anti_patterns": vectors[examples:]}
        return Point(
            id=point_id(self.id),
            payload=self.payload,
            dense={"dense": vectors[0]},
            multi={name: rows for name, rows in multi.items() if len(rows)},
            sparse={"lexical": lexical.encode_document(self.counts, average)},
        )


def draft(
    spec: ToolSpec,
    lexical: LexicalEncoder,
    weights: FieldWeights,
    prefix: Sequence[str],
) -> Draft:
    """Prepare a specification.

    Raises:
        SpecError: it holds text that no store can keep.
    """
    counts = lexical_counts(spec, lexical, weights, prefix)
    return Draft(spec, tool_payload(spec, sum(counts.values())), counts, dense_text(spec))


# -- passages --------------------------------------------------------------------------------------

PASSAGE_VERSION = 1
"""Raise it when what is read of a passage changes: indexes of another version are refused."""


def passage_layout(dimensions: int) -> Layout:
    """The named vectors of a passage: its text, its words."""
    return Layout(dense={"dense": dimensions}, multi={}, sparse=("lexical",))


@dataclass(frozen=True, slots=True, eq=False)
class PassageDraft:
    """A passage on its way into the store, before its text is encoded."""

    passage: Passage
    payload: Mapping[str, Any]
    counts: Mapping[str, float]
    text: str
    rows: int = 1

    @property
    def id(self) -> str:
        """The passage's id."""
        return self.passage.id

    @property
    def length(self) -> float:
        """Number of terms."""
        return self.payload["length"]

    def texts(self) -> list[str]:
        """What the dense encoder reads: the headings, then the text."""
        return [self.text]

    def point(self, vectors: FloatArray, lexical: LexicalEncoder, average: float) -> Point:
        """The finished point; `vectors`: float32 [1, d]."""
        return Point(
            id=point_id(self.id),
            payload=self.payload,
            dense={"dense": vectors[0]},
            sparse={"lexical": lexical.encode_document(self.counts, average)},
        )


def draft_passage(passage: Passage, lexical: LexicalEncoder) -> PassageDraft:
    """Prepare a passage.

    Raises:
        SpecError: it holds text that no store can keep.
    """
    for text in (passage.document, passage.text, *passage.title):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SpecError("holds half a character (a lone surrogate); mend the text") from error
    counts = passage_counts(passage, lexical)
    payload = passage_payload(passage, sum(counts.values()), digest_of(passage))
    return PassageDraft(passage, payload, counts, _passage_text(passage))


def passage_counts(passage: Passage, lexical: LexicalEncoder) -> Mapping[str, float]:
    """Term frequencies of headings and text."""
    counts: Counter[str] = Counter(lexical.terms(clean(" ".join(passage.title))))
    counts.update(lexical.terms(clean(passage.text[:MAX_CHARS])))
    return counts


def digest_of(passage: Passage) -> str:
    """Hex digest of everything in a passage; equal means "left alone"."""
    parts = [passage.id, passage.title, passage.text, passage.start]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _passage_text(passage: Passage) -> str:
    headings, text = " › ".join(passage.title), passage.text[:MAX_CHARS]
    return clean(f"{headings}: {text}" if headings else text)
