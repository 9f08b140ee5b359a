"""The second look: a reranker over the first candidates, within a budget of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from toolcrib.clock import Clock
from toolcrib.encoders.protocols import Reranker
from toolcrib.errors import EncoderError
from toolcrib.records import ToolHit
from toolcrib.retrieval.odds import logistic

__all__ = ["MAX_CHARS", "RerankSettings", "Reranked", "rerank", "scores_within"]

MAX_CHARS = 4_000
"""No cross-encoder reads further."""


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """How much a reranker looks at and how much its word counts.

    `depth`: candidates looked at. `budget_ms`: after how long it stops, checked between batches
    of `batch` texts. `weight` in [0, 1]: its share of the final score. Where the first candidate
    leads the second by `lead` or more of the first score, nothing is looked at: the first stage
    is sure (docs/explanation/models.md has what that saves and costs).
    """

    depth: Annotated[int, Field(ge=1)] = 20
    budget_ms: Annotated[float, Field(gt=0)] = 250.0
    batch: Annotated[int, Field(ge=1)] = 8
    weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    lead: Annotated[float, Field(gt=0)] = 0.15


@dataclass(frozen=True, slots=True)
class Reranked:
    """The hits in their new order, and whether time ran out before all were looked at.

    `looked` is False where the first stage was sure, and its scores stand.
    """

    hits: list[ToolHit]
    late: bool
    looked: bool = True


def rerank(
    reranker: Reranker,
    query: str,
    hits: Sequence[ToolHit],
    settings: RerankSettings,
    clock: Clock,
) -> Reranked:
    """Blend the reranker's word into the scores of the first hits and sort anew.

    The new score is `(1 - weight) * first + weight * logistic(second)`, where what was not
    looked at has a second score of nothing, so that it cannot overtake. A hit of score 1 was
    called by its exact name and stays.

    Raises:
        EncoderError: a score is missing or not finite.
    """
    exact = [hit for hit in hits if hit.score >= 1.0]
    others = [hit for hit in hits if hit.score < 1.0]
    if _is_sure(others, settings.lead):
        return Reranked(list(hits), late=False, looked=False)
    texts = [_text(hit) for hit in others[: settings.depth]]
    seconds, late = scores_within(reranker, query, texts, settings, clock)
    blended = [
        replace(
            hit,
            score=(1 - settings.weight) * hit.score + settings.weight * logistic(second),
            legs=hit.legs | {"rerank": second},
        )
        for hit, second in zip(others, seconds, strict=False)
    ]
    blended.sort(key=lambda hit: (-hit.score, hit.id))
    rest = [replace(hit, score=(1 - settings.weight) * hit.score) for hit in others[len(seconds) :]]
    return Reranked([*exact, *blended, *rest], late)


def _is_sure(hits: Sequence[ToolHit], lead: float) -> bool:
    return len(hits) > 1 and hits[0].score - hits[1].score >= lead


def scores_within(
    reranker: Reranker,
    query: str,
    texts: Sequence[str],
    settings: RerankSettings,
    clock: Clock,
) -> tuple[list[float], bool]:
    """The scores of as many texts as the budget allows, in their order, and if it ran out.

    Raises:
        EncoderError: a score is missing or not finite.
    """
    deadline = clock() + settings.budget_ms / 1000
    scores: list[float] = []
    for start in range(0, len(texts), settings.batch):
        if start and clock() > deadline:
            return scores, True
        batch = texts[start : start + settings.batch]
        scored = [float(score) for score in reranker.score(query, batch)]
        if len(scored) != len(batch) or not all(map(math.isfinite, scored)):
            raise EncoderError(
                f"{reranker.name} gave {len(scored)} scores for {len(batch)} texts, or one that "
                "is not finite",
            )
        scores += scored
    return scores, False


def _text(hit: ToolHit) -> str:
    return f"{hit.name}: {hit.tool.description[:MAX_CHARS]}"
