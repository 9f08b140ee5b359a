"""BM25 of `rank-bm25`, the most used library: the built-in baseline."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from toolcrib.evaluation.systems.base import Baseline
from toolcrib.records import ToolSpec
from toolcrib.records.codec import object_of

_WORD = re.compile(r"[^\W_]{2,}")


def parameters(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    """Name and description of each parameter, ignoring the rest of the schema."""
    for name, inner in object_of(spec.input_schema.get("properties")).items():
        description = object_of(inner).get("description")
        yield name, description if isinstance(description, str) else ""


def documents(tools: Iterable[ToolSpec]) -> list[str]:
    """One text for each tool: name, description, parameters with descriptions, examples."""
    return [
        " ".join(
            [
                spec.name,
                spec.description,
                *(part for pair in parameters(spec) for part in pair if part),
                *spec.success_examples,
            ]
        )
        for spec in tools
    ]


def words(text: str) -> list[str]:
    """Words of two letters and more in lower case, identifiers split at underscores.

    `rank-bm25` leaves tokenisation to its user; FastMCP's search uses these words.
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


class RankBm25(Baseline):
    """`BM25Okapi` with its defaults (k1 1.5, b 0.75, epsilon 0.25); every tool gets a score."""

    name = "rank-bm25"
    package = "rank-bm25"
    modules = ("rank_bm25",)
    extra = "eval"
    _index: Any
    _ids: list[str]

    def _build(self, tools: Sequence[ToolSpec]) -> None:
        from rank_bm25 import BM25Okapi  # pyright: ignore[reportMissingTypeStubs]

        self._ids = [spec.id for spec in tools]
        self._index = BM25Okapi([words(text) for text in documents(tools)])

    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        scores = self._index.get_scores(words(query))
        # `get_top_n` gives no scores, and its ties are arbitrary; this order is stable.
        best: list[int] = np.argsort(-scores, kind="stable")[:depth].tolist()
        return ((self._ids[place], scores[place]) for place in best)
