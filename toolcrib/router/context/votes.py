"""Labels by the votes of what was found for them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolcrib.router.context.phrases import Match

__all__ = ["Verdict", "phrase_votes", "verdict"]

_UNKNOWN = 0.3
_MAX_SIGNALS = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """A label, how sure it is (0 to 1), and the phrases that spoke for it."""

    label: str | None
    confidence: float
    signals: tuple[str, ...] = ()


def phrase_votes(found: Iterable[Match]) -> dict[str, float]:
    """A phrase votes once, with more weight the more words it has; for several labels, in parts."""
    votes = Counter[str]()
    for match in {match.phrase: match for match in found}.values():
        weight = math.sqrt(match.last - match.first) / len(match.labels)
        votes.update(dict.fromkeys(match.labels, weight))  # pyright: ignore[reportArgumentType]
    return dict(votes)


def verdict(
    votes: Mapping[str, float],
    labels: Iterable[str],
    found: Iterable[Match],
    *,
    sharpness: float = 1.0,
) -> Verdict:
    """The label with the most votes, of equals the first of `labels`; none without any vote.

    The confidence is its part of `exp(sharpness * votes)`: it grows with the lead over the next.
    """
    ranked = sorted(labels, key=lambda label: -votes.get(label, 0.0))
    if not ranked or not votes.get(ranked[0]):
        return Verdict(None, _UNKNOWN)
    most = votes[ranked[0]]
    rest = sum(math.exp(sharpness * (votes.get(label, 0.0) - most)) for label in ranked[1:])
    spoke = dict.fromkeys(match.phrase for match in found if ranked[0] in match.labels)
    return Verdict(ranked[0], 1 / (1 + rest), tuple(map(repr, spoke))[:_MAX_SIGNALS])
