"""A specification as a stored point: its payload, and the texts that the encoders see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.render import FieldWeights, clean, dense_text, lexical_counts
from toolcrib.records import ToolSpec
from toolcrib.store.base import Layout, Point, point_id
from toolcrib.store.payload import tool_payload

__all__ = ["Draft", "draft", "layout"]


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
