"""Small talk: a turn that asks for nothing."""

from __future__ import annotations

from collections import Counter

from toolcrib.router.context.cues import CueIndexes
from toolcrib.router.context.phrases import Words
from toolcrib.router.context.votes import Verdict

__all__ = ["smalltalk_of"]

_SURE, _LEAST_SURE, _A_WORD = 0.95, 0.5, 0.15
_WORDS_AN_ASIDE = 6
"""In that many words one more may be a name or an aside: `thanks, Corinna`."""


def smalltalk_of(words: Words, indexes: CueIndexes) -> Verdict:
    """The kind of small talk where its phrases and fillers are nearly all that the turn says.

    `thanks!` is, `thanks, now deploy it` is not: no word that is left may ask for something.
    """
    found = indexes.smalltalk.find(words)
    if not found:
        return Verdict(None, _SURE)
    covered = {at for match in found for at in range(match.first, match.last)}
    others = [
        at
        for at, word in enumerate(words.bare)
        if at not in covered and word[0].isalnum() and indexes.fillers.at(words, at) is None
    ]
    allowed = 1 + len(words.bare) // _WORDS_AN_ASIDE
    if len(others) > allowed or any(_asks(words, at, indexes) for at in others):
        return Verdict(None, _SURE - _A_WORD)
    votes = Counter[str]()
    for match in found:
        votes[match.labels[0]] += match.last - match.first
    sure = max(_SURE - _A_WORD * len(others), _LEAST_SURE)
    return Verdict(votes.most_common(1)[0][0], sure, (repr(found[0].phrase),))


def _asks(words: Words, at: int, indexes: CueIndexes) -> bool:
    asking = (indexes.leads, indexes.intents, indexes.domains, indexes.need)
    return any(index.at(words, at) for index in asking)
