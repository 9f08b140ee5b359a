"""Points: tools and passages as they are stored, and their texts for the encoders."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import SpecError
from toolcrib.records import Enrichment, Passage, ToolSpec
from toolcrib.records.codec import object_of, settings_section
from toolcrib.store.base import Layout, Point, is_text, point_id
from toolcrib.store.payload import passage_payload, tool_payload
from toolcrib.text import split_identifier

# -- texts -----------------------------------------------------------------------------------------

RENDER_VERSION = 2
"""Version of the texts below; increase it with every change. Other indexes are refused."""

MAX_ENCODED_CHARS = 4_000
"""Characters of a text that are encoded: dense encoders read 256 tokens; for the lexical leg the
limit bounds the index."""

MIN_TOOLS_SHARING_PREFIX = 4
"""Least tools of a group with a shared prefix; fewer share one by chance."""

TOOL_TERMS, PASSAGE_TERMS = 40.0, 100.0
"""Average length of a tool and a passage, in terms, for BM25: constants, as the mean of an index
would reveal tools outside a caller's scope. Chosen on development splits."""

PURPOSE_TERMS = 1.0
"""Weight of the terms of an enrichment's purpose in the lexical leg; 2 is as good."""

_SPACES = re.compile(r"\s+")
_REPLACEMENTS = {"Cc": " ", "Cf": "", "Cs": ""}

_Weight: TypeAlias = Annotated[float, Field(ge=0)]


@settings_section
class FieldWeights:
    """Weight of a term by field in the lexical leg."""

    name: _Weight = 3.0
    server: _Weight = 1.0
    description: _Weight = 1.0
    parameters: _Weight = 0.5
    category: _Weight = 1.0
    examples: _Weight = 0.3


def clean(text: str) -> str:
    """Drop control, zero-width and direction characters, and collapse white space.

    Zero-width characters leave no gap: a word with a soft hyphen stays one word. Control
    characters separate words.
    """
    if not text.isascii() or not text.isprintable():
        text = "".join(_REPLACEMENTS.get(unicodedata.category(letter), letter) for letter in text)
    return _SPACES.sub(" ", text).strip()


def dense_text(spec: ToolSpec) -> str:
    """Text of a tool for the dense encoder."""
    words = " ".join(split_identifier(spec.name)) or spec.name
    head = f"{spec.server} {words}" if spec.server else words
    return clean(f"{head}: {_full_description(spec)[:MAX_ENCODED_CHARS]}")


def _full_description(spec: ToolSpec) -> str:
    return f"{spec.description}\n{spec.skill.body}" if spec.skill else spec.description


def lexical_counts(
    spec: ToolSpec, encoder: LexicalEncoder, weights: FieldWeights, prefix: Sequence[str] = ()
) -> Mapping[str, float]:
    """Field-weighted term frequencies; `prefix` are name terms that the tool's group shares."""
    counts: Counter[str] = Counter()
    written = spec.enrichment or Enrichment()
    requests = spec.success_examples or written.examples
    parameters = " ".join(_schema_words(spec.input_schema))[:MAX_ENCODED_CHARS]
    name = encoder.terms(spec.name)
    if prefix and tuple(name[: len(prefix)]) == tuple(prefix) and len(name) > len(prefix):
        name = name[len(prefix) :]
    for terms, weight in (
        (name, weights.name),
        (encoder.terms(spec.server), weights.server),
        (encoder.terms(clean(_full_description(spec)[:MAX_ENCODED_CHARS])), weights.description),
        (encoder.terms(clean(parameters)), weights.parameters),
        (encoder.terms(" ".join((spec.category, *spec.tags))), weights.category),
        (encoder.terms(clean(" ".join(requests)[:MAX_ENCODED_CHARS])), weights.examples),
        (encoder.terms(clean(written.purpose)), PURPOSE_TERMS),
    ):
        # Terms of a field without weight are left out, as they would count for the IDF.
        for term in terms if weight > 0 else ():
            counts[term] += weight  # pyright: ignore[reportArgumentType] Counter of floats
    return counts


def _examples(spec: ToolSpec) -> Sequence[str]:
    """The author's examples, else an enrichment's purpose and examples.

    A purpose resembles requests: in the description it gains 0.8 points of nDCG@10 less on five
    public sets. An enrichment's `not_for` is not searched: as anti-patterns its lines cost 0.2
    (benchmarks/enrichment).
    """
    written = spec.enrichment or Enrichment()
    return spec.success_examples or tuple(filter(None, (*written.examples, written.purpose)))


def shared_prefix(names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """First terms of nine in ten of a group's tool names; empty for fewer than four names.

    Such a prefix names the server. Counted as part of the names, it would make every tool of the
    server match a query with the prefix.
    """
    prefix: tuple[str, ...] = ()
    while len(names) >= MIN_TOOLS_SHARING_PREFIX:
        size = len(prefix) + 1
        heads = Counter(tuple(name[:size]) for name in names if len(name) > size)
        head, count = heads.most_common(1)[0] if heads else ((), 0)
        if count < 0.9 * len(names) or head[: len(prefix)] != prefix:
            break
        prefix = head
    return prefix


def _schema_words(schema: Mapping[str, Any], depth: int = 3) -> Iterator[str]:
    """Names and descriptions of a JSON Schema's properties, to a limited depth."""
    if depth == 0:
        return
    for name, inner in object_of(schema.get("properties")).items():
        yield name
        described = object_of(inner)
        if isinstance(text := described.get("description"), str):
            yield text
        yield from _schema_words(described, depth - 1)


# -- tools -----------------------------------------------------------------------------------------


def layout(dimensions: int) -> Layout:
    """Named vectors of a tool: its text, its examples and anti-patterns, its terms."""
    return Layout(
        dense={"dense": dimensions},
        multi={"examples": dimensions, "anti_patterns": dimensions},
        sparse=("lexical",),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A tool or passage to be encoded and stored.

    `texts`: its own text, then a number of `examples`, then anti-patterns.
    """

    id: str
    payload: Mapping[str, Any]
    counts: Mapping[str, float]
    texts: tuple[str, ...]
    examples: int = 0

    def point(self, vectors: FloatArray, lexical: LexicalEncoder, average: float) -> Point:
        """Point with these vectors of its texts, float32 [len(texts), d]."""
        hints = 1 + self.examples
        multi = {"examples": vectors[1:hints], "anti_patterns": vectors[hints:]}
        return Point(
            id=point_id(self.id),
            payload=self.payload,
            dense={"dense": vectors[0]},
            multi={name: rows for name, rows in multi.items() if len(rows)},
            sparse={"lexical": lexical.encode_document(self.counts, average)},
        )


def draft(
    spec: ToolSpec, lexical: LexicalEncoder, weights: FieldWeights, prefix: Sequence[str]
) -> Draft:
    """Prepare a specification."""
    from toolcrib.indexers.links import link_payload

    counts = lexical_counts(spec, lexical, weights, prefix)
    examples = _examples(spec)
    texts = (dense_text(spec), *map(clean, (*examples, *spec.anti_patterns)))
    payload = {**tool_payload(spec), **link_payload(spec)}
    return Draft(spec.id, payload, counts, texts, len(examples))


# -- passages --------------------------------------------------------------------------------------

PASSAGE_VERSION = 1
"""Version of a passage's texts; increase it with every change. Other indexes are refused."""


def passage_layout(dimensions: int) -> Layout:
    """Named vectors of a passage: its text and its terms."""
    return Layout(dense={"dense": dimensions}, multi={}, sparse=("lexical",))


def draft_passage(passage: Passage, lexical: LexicalEncoder) -> Draft:
    """Prepare a passage.

    Raises:
        SpecError: it holds text that no store can keep.
    """
    if not is_text(passage.document, passage.text, *passage.title):
        raise SpecError("holds half a character (a lone surrogate); mend the text")
    counts: Counter[str] = Counter(lexical.terms(clean(" ".join(passage.title))))
    counts.update(lexical.terms(clean(passage.text[:MAX_ENCODED_CHARS])))
    payload = passage_payload(passage, digest_of(passage))
    headings, text = " › ".join(passage.title), passage.text[:MAX_ENCODED_CHARS]
    return Draft(passage.id, payload, counts, (clean(f"{headings}: {text}" if headings else text),))


def digest_of(passage: Passage) -> str:
    """Hex digest of a whole passage; a sync skips passages with equal digests."""
    parts = [passage.id, passage.title, passage.text, passage.start]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
