"""Spelling: misspelt words of a query, read as words of the tools in reach or as common words.

A word that neither the encoder's vocabulary nor any tool has is misspelt if a tool has a word one
slip away (Damerau 1964): a letter too few, too many or exchanged, or two neighbours in each other's
place. The first letter counts as right. If no tool has one, a common word may be meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase

from toolcrib.encoders.base import SpellingBound
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.wordpiece import TYPED_WORD
from toolcrib.store.base import LegQuery, ScoredPoint, Store
from toolcrib.store.filters import EMPTY_CORPUS, Filter
from toolcrib.text import singular, split_identifier

MIN_SPELT_CHARS = 4
"""Shorter stems, and shorter words of tools, are too near to others."""

MAX_SPELT_WORDS = 4

MAX_SPELLING_TOOLS = 5
"""Tools in which the right spelling of a word is looked up."""


class Speller:
    """Reads misspelt words of a query."""

    def __init__(self, store: Store, lexical: LexicalEncoder, dense: SpellingBound) -> None:
        self._store = store
        self._lexical = lexical
        self._dense = dense

    def corrections(self, unknown: Sequence[str], vocabulary: Filter | None) -> dict[str, str]:
        """The misspelt among a text's unknown words, and the words that they stand for.

        `vocabulary`: tools whose words may be meant; None for common words alone.

        Raises:
            EncoderError: the encoder cannot be loaded.
            StoreError: the tools cannot be searched.
        """
        found = dict.fromkeys(unknown[:MAX_SPELT_WORDS], "")
        if found and vocabulary is not None:
            found = self._tool_words(list(found), vocabulary)
        found = {word: right or self._dense.common_word(word) for word, right in found.items()}
        return {word: right for word, right in found.items() if right}

    def _tool_words(self, unknown: Sequence[str], vocabulary: Filter) -> dict[str, str]:
        """Words that no tool has, each with the tools' word one slip away, empty without one.

        A remote store takes three requests, however many words there are.
        """
        terms = {word: self._lexical.terms(word)[0] for word in unknown}
        known = self._search([{term} for term in terms.values()], vocabulary, 1)
        right = {word: "" for word, hits in zip(terms, known, strict=True) if not hits}
        # Letters are left out and swapped more often than others are typed in their place.
        tried = [
            (word, terms_near, set(map(singular, words_near)))
            for word in right
            if len(terms[word]) >= MIN_SPELT_CHARS
            for terms_near, words_near in zip(_near(terms[word]), _near(word), strict=True)
        ]
        if not tried:
            return right
        found = self._search([near for _, near, _ in tried], vocabulary, MAX_SPELLING_TOOLS)
        records = self._store.retrieve(list({hit.id for hits in found for hit in hits}))
        words = {each.id: split_identifier(each.payload["spec"]) for each in records}
        for (word, _, near), hits in zip(tried, found, strict=True):
            counts = Counter(each.lower() for hit in hits for each in words.get(hit.id, ()))
            # Terms alone are too alike: `infusion` would be read as `infisical`.
            likely = (e for e in counts if len(e) >= MIN_SPELT_CHARS and singular(e) in near)
            right[word] = right[word] or min(likely, key=lambda e: (-counts[e], e), default="")
        return right

    def _search(
        self, queries: Iterable[Iterable[str]], vocabulary: Filter, limit: int
    ) -> list[list[ScoredPoint]]:
        """Tools with any of the terms of each query."""
        vectors = map(self._lexical.encode_terms, queries)
        # Frequencies would tell of other tools, and counting them takes ten times the search.
        return self._store.search(
            [LegQuery("lexical", each, limit, vocabulary, EMPTY_CORPUS) for each in vectors]
        )


def correct(text: str, corrections: Mapping[str, str]) -> str:
    """A text with its misspelt words replaced."""
    if not corrections:
        return text
    return TYPED_WORD.sub(lambda found: corrections.get(found[0].lower(), found[0]), text)


def _near(word: str) -> tuple[set[str], set[str]]:
    """Words with a letter more or less or two neighbours exchanged, and with another letter."""
    cuts = [(word[:at], word[at:]) for at in range(1, len(word) + 1)]
    slips = {f"{head}{tail[1:]}" for head, tail in cuts if tail}
    slips |= {f"{head}{tail[1::-1]}{tail[2:]}" for head, tail in cuts if tail[1:]}
    slips |= {f"{head}{more}{tail}" for head, tail in cuts for more in ascii_lowercase}
    others = {f"{head}{more}{tail[1:]}" for head, tail in cuts if tail for more in ascii_lowercase}
    return slips - {word}, others - {word}
