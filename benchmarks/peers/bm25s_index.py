"""BM25 of `bm25s`, the fastest library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.peers.names import spaced
from toolcrib.encoders.base import DenseEncoder
from toolcrib.evaluation.systems.base import Baseline
from toolcrib.evaluation.systems.bm25 import documents
from toolcrib.records import ToolSpec


class Bm25s(Baseline):
    """`bm25s` as in its README: its tokeniser, English stop words, PyStemmer's English stemmer.

    Identifiers reach it as words: its tokeniser would keep each in one piece.
    """

    name = "bm25s"
    package = "bm25s"
    modules = ("bm25s",)

    def __init__(self, encoder: DenseEncoder) -> None:
        super().__init__(encoder)
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
