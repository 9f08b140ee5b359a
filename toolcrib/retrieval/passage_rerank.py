"""The second look at passages: a reranker over the first of them, within a budget of time."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from toolcrib.clock import Clock, SystemClock
from toolcrib.encoders.base import Reranker
from toolcrib.retrieval.odds import logistic
from toolcrib.retrieval.passages import RankedPassage
from toolcrib.retrieval.rerank import MAX_CHARS, RerankSettings, scores_within

__all__ = ["PassageReranker"]

logger = logging.getLogger(__name__)


class PassageReranker:
    """Blends a reranker's word into the scores of passages; the settings are those of tools."""

    def __init__(
        self, reranker: Reranker, settings: RerankSettings, clock: Clock | None = None
    ) -> None:
        self._reranker = reranker
        self._settings = settings
        self._clock = clock or SystemClock()

    def rerank(
        self, query: str, found: Sequence[RankedPassage]
    ) -> tuple[list[RankedPassage], tuple[str, ...]]:
        """The passages in their new order, and what was left out.

        The new score is `(1 - weight) * first + weight * logistic(second)`; what was not looked
        at has no second score, and so cannot overtake. A reranker that fails changes nothing.
        """
        looked = list(found[: self._settings.depth])
        texts = [_text(each) for each in looked]
        try:
            scores, late = scores_within(self._reranker, query, texts, self._settings, self._clock)
        except Exception:  # whatever a foreign model raises, the first stage still answers
            logger.warning("the reranker %s failed", self._reranker.name, exc_info=True)
            return list(found), ("rerank",)
        share = self._settings.weight
        seconds = [logistic(score) for score in scores] + [0.0] * (len(found) - len(scores))
        blended = [
            replace(each, score=(1 - share) * each.score + share * second)
            for each, second in zip(found, seconds, strict=True)
        ]
        blended.sort(key=lambda each: (-each.score, each.passage.id))
        return blended, ("rerank-late",) if late else ()


def _text(ranked: RankedPassage) -> str:
    headings = " › ".join(ranked.passage.title)
    return f"{headings}: {ranked.passage.text[:MAX_CHARS]}"
