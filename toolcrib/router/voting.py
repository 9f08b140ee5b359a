"""How passages vote for their collections, and what that says together with kinship."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from toolcrib.retrieval.odds import logistic, softmax
from toolcrib.retrieval.passages import RankedPassage

__all__ = ["FIRST", "VOTERS", "VOTE_FLOOR", "fit_of", "shares_of", "votes_of"]

VOTERS = 30
VOTE_SCALE = 15.0
VOTE_TEMPERATURE = 0.05
VOTE_FLOOR = 0.01
"""How the best passages vote: softmax of the mean of cosine and `1 - exp(-bm25 / 15)`. The words
weigh more here than in the ranking of passages: a collection is told by its vocabulary."""

SHARE = (1.25, 6.5)
"""Log-odds of a collection: of its log-share of the votes, and of its kinship with the query."""

FIT = (6.2, 4.8, 3.3, 7.2, -7.5)
"""Log-odds that any collection fits: of the score of the first passage, of the mean of the first
five, of the first collection's share of the votes, of its kinship; and the offset. Fitted as if
half of all questions fitted nothing."""

FIRST = 5


def votes_of(probe: Sequence[RankedPassage], names: Sequence[str]) -> dict[str, float]:
    """Each collection's share of the votes of the best passages."""
    strengths = [
        ((each.legs.dense + 1 - math.exp(-each.legs.lexical / VOTE_SCALE)) / 2, each)
        for each in probe
    ]
    strengths.sort(key=lambda pair: -pair[0])
    top = strengths[0][0]
    votes = dict.fromkeys(names, 0.0)
    for strength, each in strengths[:VOTERS]:
        votes[each.passage.collection] += math.exp((strength - top) / VOTE_TEMPERATURE)
    total = sum(votes.values())
    return {name: vote / total for name, vote in votes.items()}


def shares_of(
    votes: Mapping[str, float], kinship: Mapping[str, float], priorities: Mapping[str, float]
) -> dict[str, float]:
    """How likely each collection is the right one, if any is; priorities are log-odds."""
    odds = {
        name: SHARE[0] * math.log(votes[name] + VOTE_FLOOR) + SHARE[1] * kinship[name] + priority
        for name, priority in priorities.items()
    }
    return softmax(odds)


def fit_of(scores: Sequence[float], votes: float, kinship: float) -> float:
    """How likely any collection fits.

    Of the passages' scores, best first, and of the first collection's votes and kinship.
    """
    best = scores[:FIRST]
    known = (best[0], sum(best) / len(best), votes, kinship, 1.0)
    odds = sum(weight * value for weight, value in zip(FIT, known, strict=True))
    return logistic(odds)
