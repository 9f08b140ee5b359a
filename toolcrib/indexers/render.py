"""A specification as what each leg reads: one text for the dense leg, terms for the lexical one."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, cast

from pydantic import Field

from toolcrib.encoders.lexical import LexicalEncoder, split_identifier
from toolcrib.records import ToolSpec

__all__ = [
    "FieldWeights",
    "clean",
    "dense_text",
    "lexical_counts",
    "shared_prefix",
]

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
