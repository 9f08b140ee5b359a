"""BM25 from two libraries: `rank-bm25`, the most used, and `bm25s`, the fastest."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from toolcrib.evaluation.systems.baseline import Baseline, documents, spaced
from toolcrib.records import ToolSpec

__all__ = ["Bm25s", "RankBm25", "words"]

_WORD = re.compile(r"[^\W_]{2,}")


def words(text: str) -> list[str]:
    """Words of two letters and more in lower case, identifiers split at underscores.

    `rank-bm25` leaves this to its user; these are the words that FastMCP's search sees.
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


class RankBm25(Baseline):
    """`BM25Okapi` with its defaults (k1 1.5, b 0.75, epsilon 0.25); every tool gets a score."""

    name = "rank-bm25"
    package = "rank-bm25"
    modules = ("rank_bm25",)

    def __init__(self) -> None:
        super().__init__()
        self._index: Any = None
        self._ids: list[str] = []

    def _build(self, tools: Sequence[ToolSpec]) -> None:
        from rank_bm25 import BM25Okapi  # pyright: ignore[reportMissingTypeStubs]

        self._ids = [spec.id for spec in tools]
        self._index = BM25Okapi([words(text) for text in documents(tools)])

    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        scores = self._index.get_scores(words(query))
        # `get_top_n` gives no scores; its order of equals is arbitrary, this one is not.
        best: list[int] = np.argsort(-scores, kind="stable")[:depth].tolist()
        return ((self._ids[place], scores[place]) for place in best)

    def close(self) -> None:
        """Drop the index."""
        super().close()
        self._index, self._ids = None, []


class Bm25s(Baseline):
    """`bm25s` as in its README: its tokeniser, English stop words, PyStemmer's English stemmer.

    Identifiers reach it as words: its tokeniser would keep each in one piece.
    """

    name = "bm25s"
    package = "bm25s"
    modules = ("bm25s",)

    def __init__(self) -> None:
        super().__init__()
        self._index: Any = None
        self._stemmer: Any = None
        self._ids: list[str] = []

    def _tokens(self, texts: Sequence[str]) -> Any:
        import bm25s  # pyright: ignore[reportMissingTypeStubs]

        return bm25s.tokenize(  # pyright: ignore[reportUnknownMemberType]
            [spaced(text) for text in texts],
            stopwords="en",
            stemmer=self._stemmer,
            show_progress=False,
        )

    def _build(self, tools: Sequence[ToolSpec]) -> None:
        import bm25s  # pyright: ignore[reportMissingTypeStubs]
        import Stemmer

        self._ids = [spec.id for spec in tools]
        self._stemmer = Stemmer.Stemmer("english")  # pyright: ignore[reportUnknownMemberType]
        self._index = bm25s.BM25()
        self._index.index(self._tokens(documents(tools)), show_progress=False)

    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        found: Any = self._index.retrieve(self._tokens([query]), k=depth, show_progress=False)
        places: list[int] = found.documents[0].tolist()
        scores: list[float] = found.scores[0].tolist()
        return zip((self._ids[place] for place in places), scores, strict=True)

    def close(self) -> None:
        """Drop the index."""
        super().close()
        self._index, self._ids = None, []
