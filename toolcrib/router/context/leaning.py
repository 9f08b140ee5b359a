"""How much a turn leans on what was said before it."""

from __future__ import annotations

from toolcrib.router.context.cues import CueIndexes
from toolcrib.router.context.phrases import Words

__all__ = ["leaning"]

_OPENER = 0.5
_EARLY, _LATE, _MORE = 0.5, 0.25, 0.15
_SHORT = 0.35

_EARLY_WORDS = 6
"""What a word so near the start refers to is seldom in the same turn."""

_SHORT_WORDS = 3
_ONLY_WORDS = 2
"""Beside what leans, a turn of so few words more says nothing of its own."""


def leaning(words: Words, indexes: CueIndexes) -> float:
    """0 for a turn that stands alone, 1 for one that says nothing without the turns before it.

    An opener (`and`, `what about`), words that refer back (`it`, `the same`) and brevity add up.
    """
    count = sum(word[0].isalnum() for word in words.bare)
    if count == 0:
        return 0.0
    opener = indexes.openers.at(words, 0)
    start = opener.last if opener is not None else 0
    references = [match for match in indexes.references.find(words) if match.first >= start]
    told = start + sum(match.last - match.first for match in references)
    if told and count - told <= _ONLY_WORDS:
        return 1.0
    score = _OPENER if opener is not None else 0.0
    if references:
        score += _EARLY if references[0].first < _EARLY_WORDS else _LATE
        score += _MORE * (len(references) - 1)
    if count <= _SHORT_WORDS:
        score += _SHORT
    return min(score, 1.0)
