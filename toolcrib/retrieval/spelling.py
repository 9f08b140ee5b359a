"""Spelling: misspelt words of a query, read as words of the tools in reach or as common words.

A word that neither the encoder's vocabulary nor any tool has is misspelt if a tool has a word one
slip away (Damerau 1964): a letter too few, too many or exchanged, or two neighbours in each other's
place. The first letter counts as right. If no tool has one, a common word may be meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from string import ascii_lowercase

from toolcrib.encoders.base import SpellingBound
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.wordpiece import TYPED_WORD
from toolcrib.store.base import LegQuery, Store
from toolcrib.store.filters import Filter
from toolcrib.text import split_identifier

MIN_SPELT_STEM_CHARS = 4
MAX_SPELT_WORDS = 4
MAX_LENGTH_DIFFERENCE_CHARS = 2
"""Stems alone would read `basking` as `base`."""

MAX_SPELLING_TOOLS = 5
"""Tools in which the right spelling of a word is looked up."""


class Speller:
    """Reads misspelt words of a query."""

    def __init__(self, store: Store, lexical: LexicalEncoder, dense: SpellingBound) -> None:
        self._store = store
        self._lexical = lexical
        self._dense = dense

    def common_words(self, text: str) -> dict[str, str]:
        """Misspelt words of a text, and the common words that they stand for.

        Raises:
            EncoderError: the encoder cannot be loaded.
        """
        unknown = self._dense.unknown_words(text)[:MAX_SPELT_WORDS]
        return {word: right for word in unknown if (right := self._dense.common_word(word))}

    def corrections(self, text: str, where: Filter | None) -> dict[str, str]:
        """Misspelt words of a text, and the words of tools or common words that they stand for.

        Raises:
            EncoderError: the encoder cannot be loaded.
        """
        unknown = self._dense.unknown_words(text)[:MAX_SPELT_WORDS]
        if not unknown:
            return {}
        terms = [self._lexical.terms(word)[0] for word in unknown]
        vectors = [self._lexical.encode_terms([term]) for term in terms]
        known = self._store.search([LegQuery("lexical", each, 1, where) for each in vectors])
        found = {
            word: self._tool_word(word, term, where) or self._dense.common_word(word)
            for word, term, hits in zip(unknown, terms, known, strict=True)
            if not hits
        }
        return {word: right for word, right in found.items() if right}

    def _tool_word(self, misspelt: str, term: str, where: Filter | None) -> str:
        """Word for a misspelt one, of the tools that match it best; empty if none has any."""
        if len(term) < MIN_SPELT_STEM_CHARS:
            return ""
        slips = _slips(term)
        # Letters are left out and swapped more often than others are typed in their place.
        for near in (slips, _substitutions(term) - slips):
            query = self._lexical.encode_terms(near)
            (hits,) = self._store.search([LegQuery("lexical", query, MAX_SPELLING_TOOLS, where)])
            words = Counter(
                word.lower()
                for record in self._store.retrieve([hit.id for hit in hits])
                for word in split_identifier(record.payload["spec"])
                if abs(len(word) - len(misspelt)) <= MAX_LENGTH_DIFFERENCE_CHARS
                and near.issuperset(self._lexical.terms(word))
            )
            if words:
                return min(words, key=lambda word: (-words[word], word))
        return ""


def correct(text: str, corrections: Mapping[str, str]) -> str:
    """A text with its misspelt words replaced."""
    if not corrections:
        return text
    return TYPED_WORD.sub(lambda found: corrections.get(found[0].lower(), found[0]), text)


def _slips(term: str) -> set[str]:
    """Terms with a letter more or less, or with two neighbours exchanged."""
    places = range(1, len(term))
    shorter = {term[:at] + term[at + 1 :] for at in places}
    swapped = {term[:at] + term[at + 1] + term[at] + term[at + 2 :] for at in places[:-1]}
    longer = {
        term[:at] + letter + term[at:]
        for at in range(1, len(term) + 1)
        for letter in ascii_lowercase
    }
    return (shorter | swapped | longer) - {term}


def _substitutions(term: str) -> set[str]:
    """Terms with another letter in one place."""
    return {
        term[:at] + letter + term[at + 1 :]
        for at in range(1, len(term))
        for letter in ascii_lowercase
    } - {term}
