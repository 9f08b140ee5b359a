"""Answerability: how likely it is that any tool in reach answers a query.

It is judged apart from which tool that is, by a logistic regression over features of the whole
list of candidates. Other features were tried and left out: docs/explanation/confidence.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from toolcrib.numerics import Floats, sigmoid
from toolcrib.retrieval.fusion import Candidates, LegScores

__all__ = ["QUERY_FEATURES", "Answerability", "query_features"]

QUERY_FEATURES = ("top_meaning", "meaning_lead", "fused_lead", "top_lexical", "top_term")

LIST = 20
"""The lead is over the last of so many; what stands lower must not depend on the depth."""

USUAL_MEANING, USUAL_FUSED = 0.24, 0.05
"""In place of what shorter lists lack: what stands there on public sets, and what lets registries
of fewer tools be doubted as often as those of more (benchmarks/small_registries.py)."""

LEXICAL_SCALE, MOST_A_TERM = 100.0, 20.0
"""The BM25 score at which `top_lexical` is 0.63, and what a word of the query adds at most."""


def query_features(found: Candidates) -> Floats:
    """What is known of a query by its candidates: float64 [len(QUERY_FEATURES)].

    The best cosine, and how far it is above the 20th; the same for the fused score; the best
    BM25 score, and that for each of the query's words.
    """
    meaning = [_meaning(scores) for scores in found.scores.values()]
    fused = [-place.deficit for place in found.ranking]
    lexical = max((scores.lexical for scores in found.scores.values()), default=0.0)
    return np.array(
        [
            max(meaning, default=0.0),
            _lead(meaning, USUAL_MEANING),
            _lead(fused, USUAL_FUSED),
            1 - math.exp(-lexical / LEXICAL_SCALE),
            min(MOST_A_TERM, lexical / max(1, found.terms)),
        ]
    )


def _meaning(scores: LegScores) -> float:
    """The cosine of the tool, of its best example, or half of it the query's best clause."""
    clauses = scores.dense if scores.clauses is None else scores.clauses
    examples = scores.dense if scores.examples is None else scores.examples
    return max(scores.dense, examples, (scores.dense + clauses) / 2)


def _lead(scores: Collection[float], usual: float) -> float:
    first = sorted(scores, reverse=True)[:LIST]
    return (first[0] if first else 0.0) - (first[-1] if len(first) == LIST else usual)


class Answerability(BaseModel):
    """A fitted logistic regression over `QUERY_FEATURES`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: tuple[float, ...] = Field(
        min_length=len(QUERY_FEATURES), max_length=len(QUERY_FEATURES)
    )
    offset: float

    def probability(self, known: Floats) -> float:
        """How likely any tool answers, in (0, 1); `known`: float64 [features]."""
        return sigmoid(float(known @ np.asarray(self.weights) + self.offset))
